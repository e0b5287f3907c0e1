// The two linear layers of a Megatron MLP with relu between them, forward and backward: the first cut by outputs, the
// second by inputs. `operators` also makes the gradient of the input, with one all-reduce each way; `layers` is a whole
// network, with biases, whose first layer needs no gradient of its input.

#include "support/program.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/op/elementwise.hpp>
#include <tessera/op/matmul.hpp>
#include <tessera/redistribute/to.hpp>

namespace {

using namespace comparison;

constexpr ts::index_t rows = 128;
constexpr int width = 256;
constexpr int hidden = 1024;

/// The pair by hand, on this rank's parts of the weights.
struct by_hand {
  by_hand(const_matrix_map x_, const_matrix_map dy_, const_matrix_map up_, const_matrix_map down_,
          const_matrix_map up_bias_ = {nullptr, 1, 0}, const_matrix_map down_bias_ = {nullptr, 1, 0})
      : x(x_), dy(dy_), up(up_), down(down_), up_bias(up_bias_), down_bias(down_bias_) {}

  const_matrix_map x, dy, up, down, up_bias, down_bias;
  matrix h, y, dh, dx, d_up, d_down, d_up_bias, d_down_bias;

  bool has_bias() const { return up_bias.cols() > 0; }

  void forward(bool first_rank) {
    h.noalias() = x * up.transpose();
    if (has_bias()) h.rowwise() += up_bias.row(0);
    h = h.cwiseMax(0.0f);
    y.noalias() = h * down.transpose();
    if (has_bias() && first_rank) y.rowwise() += down_bias.row(0);
    sum_over_ranks(y.data(), y.size());
  }
  void backward(bool wants_input) {
    d_down.noalias() = dy.transpose() * h;
    dh.noalias() = dy * down;
    dh = (h.array() > 0).select(dh, 0.0f);
    d_up.noalias() = dh.transpose() * x;
    if (has_bias()) {
      d_down_bias = dy.colwise().sum();
      d_up_bias = dh.colwise().sum();
    }
    if (!wants_input) return;
    dx.noalias() = dh * up;
    sum_over_ranks(dx.data(), dx.size());
  }
};

template <int Ranks>
void add_operators(team<Ranks>& where) {
  using axis = ranks<Ranks>;
  add("linear_pair/operators", [&where] {
    const auto x = numbers<ts::replicated>(where, ts::shape<2>{{rows, width}}, 1);
    const auto dy = numbers<ts::replicated>(where, ts::shape<2>{{rows, width}}, 2);
    const auto up = numbers<ts::row<axis>>(where, ts::shape<2>{{hidden, width}}, 3);
    const auto down = numbers<ts::column<axis>>(where, ts::shape<2>{{width, hidden}}, 4);
    struct made {
      decltype(numbers<ts::replicated>(where, ts::shape<2>{}, 0)) y, dx;
      decltype(numbers<ts::row<axis>>(where, ts::shape<2>{}, 0)) d_up;
      decltype(numbers<ts::column<axis>>(where, ts::shape<2>{}, 0)) d_down;
    };
    const auto m = std::make_shared<made>();
    m->d_up = {where, up.extents()};
    m->d_down = {where, down.extents()};
    const auto hand = std::make_shared<by_hand>(map(x), map(dy), map(up), map(down));
    return std::vector<way>{
        {"ours",
         [=] {
           m->y = m->dx = {};
           const auto h = ts::op::relu(ts::op::linear_product(x, up));
           m->y = ts::op::linear_product(h, down) | ts::to<ts::replicated>;
           ts::op::linear_product_backward_weight(dy, h, m->d_down);
           const auto dh = ts::op::relu_backward(h, ts::op::linear_product_backward_input(dy, down));
           ts::op::linear_product_backward_weight(dh, x, m->d_up);
           m->dx = ts::op::linear_product_backward_input(dh, up) | ts::to<ts::replicated>;
           return results{values(m->y), values(m->dx), values(m->d_up), values(m->d_down)};
         }},
        {"by_hand", [=] {
           hand->forward(false);
           hand->backward(true);
           return results{values(hand->y), values(hand->dx), values(hand->d_up), values(hand->d_down)};
         }}};
  });
}

template <int Ranks>
void add_layers(team<Ranks>& where) {
  using axis = ranks<Ranks>;
  using pair = ts::chain<ts::linear<width, hidden, ts::split_output<axis>>, ts::relu,
                         ts::linear<hidden, width, ts::split_input<axis>>>;
  add("linear_pair/layers", [&where] {
    const auto x = numbers<ts::replicated>(where, ts::shape<2>{{rows, width}}, 1);
    const auto dy = numbers<ts::replicated>(where, ts::shape<2>{{rows, width}}, 2);
    const auto network = std::make_shared<ts::network<pair, team<Ranks>>>(where, ts::seed{1});
    const auto y = std::make_shared<std::remove_const_t<decltype(x)>>();
    const auto parameters = network->parameters();
    const auto weight = [&](std::size_t i, ts::index_t local_rows) {
      auto const& value = parameters[i].value;
      return const_matrix_map(value.data, local_rows, value.size() / local_rows);
    };
    const auto hand = std::make_shared<by_hand>(map(x), map(dy), weight(0, parameters[1].value.size()),
                                                weight(2, width), weight(1, 1), weight(3, 1));
    const bool first_rank = where.rank() == 0;
    return std::vector<way>{{"ours",
                             [=] {
                               *y = {};
                               *y = network->forward(x);
                               network->backward(dy);
                               results all{values(*y)};
                               for (auto const& p : parameters)
                                 all.push_back({p.gradient.data, static_cast<std::size_t>(p.gradient.size())});
                               return all;
                             }},
                            {"by_hand", [=] {
                               hand->forward(first_rank);
                               hand->backward(false);
                               return results{values(hand->y), values(hand->d_up), values(hand->d_up_bias),
                                              values(hand->d_down), values(hand->d_down_bias)};
                             }}};
  });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    add_operators(where);
    add_layers(where);
  });
}
