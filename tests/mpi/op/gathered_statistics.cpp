#include "support/worlds.hpp"

#include <tessera/op/batch_norm.hpp>
#include <tessera/redistribute/to.hpp>

// Batch norm on a backend whose ranks gather means and deviations, against sums on one rank.

namespace {

using namespace tessera;
using tessera::index_t;

/// Eigen, with the statistics of each rank as a device has them.
class gathering : public eigen {
 public:
  static constexpr bool gathers_statistics = true;

  template <class T>
  void batch_norm_local(block<T const, 2> x, double epsilon, block<double, 2> own) {
    const index_t channels = x.extents[1];
    tensor<double, 2> moments(shape<2>{{channels, 3}});
    batch_norm_moments(x, moments.view());
    batch_norm_finish(moments.read(), epsilon, block<double, 1>{own.data, {{channels}}},
                      block<double, 1>{own.data + channels, {{channels}}});
  }
  template <class T>
  void batch_norm_gathered(block<double const, 3> all, std::span<index_t const> counts, double momentum, double epsilon,
                           block<T, 1> running_mean, block<T, 1> running_variance, block<double, 1> mean,
                           block<double, 1> inv_std) {
    const index_t channels = mean.size();
    tensor<double, 2> moments(shape<2>{{channels, 3}}, 0.0);
    for (index_t c = 0; c < channels; ++c)
      for (std::size_t r = 0; r < counts.size(); ++r) {
        if (counts[r] == 0) continue;
        const double* const of_rank = all.data + static_cast<index_t>(r) * 2 * channels;
        const auto count = static_cast<double>(counts[r]);
        const double variance = 1 / (of_rank[channels + c] * of_rank[channels + c]) - epsilon;
        const double added[3] = {count, of_rank[c], count * variance};
        detail::eigen_kernels::merge_moments(moments.data() + 3 * c, added);
      }
    batch_norm_finish(moments.read(), epsilon, mean, inv_std);
    batch_norm_update_running(moments.read(), momentum, running_mean, running_variance);
  }
};
static_assert(backend<gathering> && gathers_statistics<gathering> && !gathers_statistics<eigen>);

template <int Size>
struct rows_axis : axis<Size> {};
template <int Size>
struct columns_axis : axis<Size> {};

struct outcome {
  tensor<double, 4> y, dx;
  tensor<double, 1> mean, variance;
};

template <class Images, class Channels, class Team>
outcome normalize(Team& team, shape<4> const& extents) {
  const auto x = distribute<Images>(team, worlds::values<double>(extents, 1));
  const auto dy = distribute<Images>(team, worlds::values<double>(extents, 2));
  auto mean = distribute<Channels>(team, worlds::values<double>(shape<1>{{extents[1]}}, 3));
  auto variance = op::exp(distribute<Channels>(team, worlds::values<double>(shape<1>{{extents[1]}}, 4)));
  const auto s = op::batch_norm_statistics(x, 0.1, 1e-5, mean, variance);
  block<double const, 1> none;
  const auto sums = op::batch_norm_backward_sums(x, dy, s);
  return {gather(op::batch_norm(x, s, none, none)), gather(op::batch_norm_backward_input(x, dy, s, none, sums)),
          gather(mean), gather(variance)};
}

template <int R, int C, class Images, class Channels = replicated>
void check(shape<4> const& extents) {
  if (worlds::size() != R * C) return;
  CAPTURE(to_string(extents));
  worlds::serial_team<mesh<>> alone{serial_comm{}};
  const auto wanted = normalize<replicated, replicated>(alone, extents);
  team<mesh<rows_axis<R>, columns_axis<C>>, mpi_comm, gathering> together{mpi_comm{}};
  const auto found = normalize<Images, Channels>(together, extents);
  CHECK(worlds::difference(found.y, wanted.y) <= 1e-11);
  CHECK(worlds::difference(found.dx, wanted.dx) <= 1e-11);
  CHECK(worlds::difference(found.mean, wanted.mean) <= 1e-13);
  CHECK(worlds::difference(found.variance, wanted.variance) <= 1e-13);
}

}  // namespace

TEST_CASE("gathered statistics are those of the whole batch, wherever it is cut") {
  check<1, 1, replicated>(shape<4>{{3, 5, 2, 2}});
  check<2, 1, layout<shard<0, rows_axis<2>>>>(shape<4>{{5, 3, 2, 3}});
  check<2, 1, layout<shard<2, rows_axis<2>>>>(shape<4>{{2, 3, 5, 3}});
  check<4, 1, layout<shard<0, rows_axis<4>>>>(shape<4>{{6, 3, 2, 3}});
  check<2, 2, layout<shard<0, rows_axis<2>>, shard<3, columns_axis<2>>>>(shape<4>{{3, 4, 2, 3}});
  check<2, 2, layout<shard<0, rows_axis<2>>, shard<1, columns_axis<2>>>, layout<shard<0, columns_axis<2>>>>(
      shape<4>{{3, 5, 2, 3}});
}

TEST_CASE("ranks that hold nothing of the batch gather nothing") {
  check<4, 1, layout<shard<0, rows_axis<4>>>>(shape<4>{{3, 4, 2, 2}});
  check<4, 1, layout<shard<2, rows_axis<4>>>>(shape<4>{{2, 4, 1, 3}});
}
