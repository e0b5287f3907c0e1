// A whole layer of multi-head self-attention, 8 heads over 512 features, 4 sequences of 256 positions: forward, and the
// gradients of its weights, cut by heads (one all-reduce of the result). By hand they are products of matrices, and the
// heads' attention with all scores in memory.

#include "support/heads.hpp"

#include <tessera/layer/multi_head_attention.hpp>

#include <cmath>

namespace {

using namespace comparison;

constexpr int features = 512;
constexpr int heads = 8;
constexpr ts::index_t width = features / heads;
constexpr ts::index_t positions = 256;
constexpr ts::shape<3> extents{{4, positions, features}};

/// The layer by hand with this rank's heads.
struct by_hand {
  const_matrix_map in, out;  // weights [3 * heads * D, features] and [features, heads * D]
  ts::index_t own_heads = out.cols() / width;
  std::vector<matrix> probabilities{};
  matrix qkv{}, attended{}, y{}, d_qkv{}, d_attended{}, d_in{}, d_out{};

  template <class F>
  void for_each_head(ts::index_t samples, F f) {
    probabilities.resize(static_cast<std::size_t>(samples * own_heads));
    for (ts::index_t i = 0; i < samples * own_heads; ++i) {
      const ts::index_t b = i / own_heads * positions;
      const ts::index_t h = i % own_heads * width;
      f(probabilities[static_cast<std::size_t>(i)], [=, this](matrix& m, ts::index_t projection) {
        return head(m.data() + b * m.cols() + projection * own_heads * width + h, positions, width,
                    head_stride(m.cols()));
      });
    }
  }

  void forward(const_matrix_map const& x) {
    qkv.noalias() = x * in.transpose();
    attended.resize(x.rows(), own_heads * width);
    for_each_head(x.rows() / positions,
                  [&](matrix& p, auto at) { attend(at(qkv, 0), at(qkv, 1), at(qkv, 2), p, at(attended, 0)); });
    y.noalias() = attended * out.transpose();
    sum_over_ranks(y.data(), y.size());
  }
  void backward(const_matrix_map const& x, const_matrix_map const& dy) {
    d_out.noalias() = dy.transpose() * attended;
    d_attended.noalias() = dy * out;
    d_qkv.resize(qkv.rows(), qkv.cols());
    for_each_head(x.rows() / positions, [&](matrix& p, auto at) {
      attend_backward(at(qkv, 0), at(qkv, 1), at(qkv, 2), p, at(d_attended, 0), at(d_qkv, 0), at(d_qkv, 1),
                      at(d_qkv, 2));
    });
    d_in.noalias() = d_qkv.transpose() * x;
  }
};

template <int Ranks>
void add_layer(team<Ranks>& where) {
  using model = ts::multi_head_attention<features, heads, ts::no_bias, ts::split_heads<ranks<Ranks>>>;
  add("multi_head_attention/heads", [&where] {
    const auto net = std::make_shared<ts::network<model, team<Ranks>>>(where, ts::seed{1});
    const auto x = numbers<ts::replicated>(where, extents, 1);
    const auto dy = numbers<ts::replicated>(where, extents, 2);
    const auto y = std::make_shared<std::remove_const_t<decltype(dy)>>();
    auto const& parameters = net->parameters();
    const auto weight = [&](std::size_t i, ts::index_t columns) {
      auto const& value = parameters[i].value;
      return const_matrix_map(value.data, value.size() / columns, columns);
    };
    const auto hand =
        std::make_shared<by_hand>(by_hand{weight(0, features), weight(1, parameters[1].value.size() / features)});
    return std::vector<way>{{"ours",
                             [=] {
                               *y = {};
                               *y = net->forward(x);
                               net->backward(dy);
                               results all{values(*y)};
                               for (auto const& p : net->parameters())
                                 all.emplace_back(p.gradient.data, static_cast<std::size_t>(p.gradient.size()));
                               return all;
                             }},
                            {"by_hand", [=] {
                               hand->forward(map(x));
                               hand->backward(map(x), map(dy));
                               return results{values(hand->y), values(hand->d_in), values(hand->d_out)};
                             }}};
  });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) { add_layer(where); });
}
