// Batch norm of 8x256x56x56 images in training, cut by batch (statistics of the whole batch) and by channels (no
// messages). By hand it is sums and sums of squares in one pass and one all-reduce, forward and backward.

#include "support/program.hpp"

#include <tessera/op/batch_norm.hpp>

#include <cmath>

namespace {

using namespace comparison;

constexpr ts::shape<4> extents{{8, 256, 56, 56}};
constexpr double count = 8 * 56 * 56;
constexpr double epsilon = 1e-5;

using sums_type = Eigen::Array<double, 1, Eigen::Dynamic>;
using row_type = Eigen::Array<float, 1, Eigen::Dynamic>;

/// Sums over rows of a(row) and of a(row) * b(row), in float for some rows and then in double.
template <class A, class B>
void add_columns(ts::index_t rows, sums_type& sums, A a, B b) {
  const ts::index_t columns = sums.size() / 2;
  row_type first(columns);
  row_type second(columns);
  sums.setZero();
  for (ts::index_t begin = 0; begin < rows; begin += 32) {
    first.setZero();
    second.setZero();
    for (ts::index_t r = begin; r < std::min(rows, begin + 32); ++r) {
      first += a(r);
      second += a(r) * b(r);
    }
    sums.head(columns) += first.template cast<double>();
    sums.tail(columns) += second.template cast<double>();
  }
}

template <class Layout, class ChannelLayout, int Ranks>
void add_split(std::string const& name, team<Ranks>& where) {
  constexpr bool cut_batch = ts::placements_of<ts::mesh<ranks<Ranks>>, Layout>.shard_axes(0) != 0;
  using statistics = ts::channel_statistics<ts::host_memory>;
  const auto total = [](sums_type& sums) {
    if (cut_batch && Ranks > 1)
      MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  };
  struct images {
    decltype(numbers<Layout>(where, extents, 1)) x, dy, y, dx, y_by_hand, dx_by_hand;
    ts::tensor<float, 1> gamma, beta;
    decltype(numbers<ChannelLayout>(where, ts::shape<1>{}, 1)) running_mean, running_variance;
    statistics s;
    row_type scale, shift, inverse, centre, gradient_sums;
    ts::tensor<float, 1> sums;
  };
  const auto prepare = [&where] {
    const auto i = std::make_shared<images>();
    i->x = numbers<Layout>(where, extents, 1);
    i->dy = numbers<Layout>(where, extents, 2);
    const ts::index_t columns = i->x.local().extent(1);
    i->gamma = ts::tensor<float, 1>(ts::shape<1>{{columns}}, 1.5f);
    i->beta = ts::tensor<float, 1>(ts::shape<1>{{columns}}, 0.5f);
    i->running_mean = numbers<ChannelLayout>(where, ts::shape<1>{{extents[1]}}, 3);
    i->running_variance = numbers<ChannelLayout>(where, ts::shape<1>{{extents[1]}}, 4);
    // In memory of the same kind, so that where it lies makes no difference.
    i->y_by_hand = numbers<Layout>(where, extents, 1);
    i->dx_by_hand = numbers<Layout>(where, extents, 1);
    i->gradient_sums.resize(2 * columns);
    return i;
  };
  const auto forward = [](images& i) {
    i.s = ts::op::batch_norm_statistics(i.x, 0.1, epsilon, i.running_mean, i.running_variance);
    i.y = {};
    i.y = ts::op::batch_norm(i.x, i.s, i.gamma.read(), i.beta.read());
  };
  const auto forward_by_hand = [total](images& i) {
    const const_matrix_map x = map(i.x);
    matrix_map y(i.y_by_hand.write().data, x.rows(), x.cols());
    const ts::index_t columns = x.cols();
    sums_type sums(2 * columns);
    add_columns(
        x.rows(), sums, [&](ts::index_t r) { return x.row(r).array(); },
        [&](ts::index_t r) { return x.row(r).array(); });
    total(sums);
    const sums_type mean = sums.head(columns) / count;
    const sums_type variance = (sums.tail(columns) / count - mean.square()).max(0.0);
    i.centre = mean.cast<float>();
    i.inverse = (variance + epsilon).rsqrt().template cast<float>();
    Eigen::Map<row_type> running_mean(i.running_mean.local().data(), columns);
    Eigen::Map<row_type> running_variance(i.running_variance.local().data(), columns);
    running_mean = 0.9f * running_mean + 0.1f * i.centre;
    running_variance = 0.9f * running_variance + (0.1 * count / (count - 1) * variance).template cast<float>();
    i.scale = i.inverse * Eigen::Map<row_type const>(i.gamma.data(), columns);
    i.shift = Eigen::Map<row_type const>(i.beta.data(), columns) - i.centre * i.scale;
    for (ts::index_t r = 0; r < x.rows(); ++r) y.row(r).array() = x.row(r).array() * i.scale + i.shift;
  };

  add(name + "_forward", [=] {
    const auto i = prepare();
    return std::vector<way>{{"ours",
                             [=] {
                               forward(*i);
                               return results{values(i->y)};
                             }},
                            {"by_hand", [=] {
                               forward_by_hand(*i);
                               return results{values(i->y_by_hand)};
                             }}};
  });

  add(name + "_backward", [=] {
    const auto i = prepare();
    forward(*i);
    forward_by_hand(*i);
    return std::vector<way>{
        {"ours",
         [=] {
           i->sums = ts::op::batch_norm_backward_sums(i->x, i->dy, i->s);
           i->dx = {};
           i->dx = ts::op::batch_norm_backward_input(i->x, i->dy, i->s, i->gamma.read(), i->sums);
           return results{values(i->dx), {i->sums.data(), static_cast<std::size_t>(i->sums.size())}};
         }},
        {"by_hand", [=] {
           const const_matrix_map x = map(i->x);
           const const_matrix_map dy = map(i->dy);
           matrix_map dx(i->dx_by_hand.write().data, x.rows(), x.cols());
           const ts::index_t columns = x.cols();
           sums_type sums(2 * columns);
           add_columns(
               x.rows(), sums, [&](ts::index_t r) { return dy.row(r).array(); },
               [&](ts::index_t r) { return x.row(r).array() - i->centre; });
           sums.tail(columns) *= i->inverse.template cast<double>();
           total(sums);
           i->gradient_sums = sums.cast<float>();
           // dx = a dy + b x + c, a channel.
           const row_type b = -i->scale * i->inverse * (sums.tail(columns) / count).template cast<float>();
           const row_type c = -i->scale * (sums.head(columns) / count).template cast<float>() - b * i->centre;
           for (ts::index_t r = 0; r < x.rows(); ++r)
             dx.row(r).array() = dy.row(r).array() * i->scale + (x.row(r).array() * b + c);
           return results{values(i->dx_by_hand),
                          {i->gradient_sums.data(), static_cast<std::size_t>(i->gradient_sums.size())}};
         }}};
  });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    using axis = ranks<Ranks>;
    add_split<ts::row<axis>, ts::replicated>("batch_norm/batch", where);
    add_split<ts::column<axis>, ts::row<axis>>("batch_norm/channels", where);
  });
}
