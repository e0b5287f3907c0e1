#include "listed_calls.hpp"

#include <tessera/layer/embedding.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/train/trainer.hpp>

namespace {

using namespace against_serial;

/// Indices below 11, many of them repeated, the same on every rank.
template <int Rank>
tensor<std::int64_t, Rank> indices(shape<Rank> const& extents) {
  tensor<std::int64_t, Rank> out(extents);
  const auto drawn = worlds::labels(extents.size(), 11, 3);
  std::copy(drawn.begin(), drawn.end(), out.data());
  return out;
}

// 11 rows over 2 or 4 ranks; a partial sum is reduced once, before layer norm.
template <class A, class B>
using by_rows = parallel<chain<embedding<11, 6, split_vocabulary<B>, padding_of<2>>, layer_norm<6>, linear<6, 5>>,
                         input<dynamic, 7>, data_parallel<A>>;
template <class A, class B>
using by_features = parallel<chain<embedding<11, 6, split_features<B>>, linear<6, 5, split_input<B>>>, input<dynamic>,
                             data_parallel<A>>;
template <class A, class B>
using by_sequence = parallel<chain<shard<1, B>, embedding<11, 6>, layer_norm<6, split_sequence<B>>>, input<dynamic, 7>,
                             data_parallel<A>>;

template <class Model, class Team, int Rank>
outcome<double> pass_indices(Team& team, shape<Rank> const& extents) {
  auto net = team.template make<Model, double>(seed{5});
  using net_type = decltype(net);
  const auto y = net.forward(distribute<typename net_type::input_type::layout_type>(team, indices(extents)));
  net.backward(distribute<typename net_type::output_type::layout_type>(team, worlds::values<double>(y.extents(), 2)));
  for (auto const& p : net.parameters()) std::copy(p.gradient.begin(), p.gradient.end(), p.value.begin());
  outcome<double> result{list<double>(gather(y)), {}};
  net.for_each_parameter(
      [&](std::string const& name, auto const& value) { result.parameters[name] = list<double>(gather(value)); });
  return result;
}

template <template <class, class> class Model, int A, int B, int Rank>
void on_mesh_of_indices(shape<Rank> const& extents) {
  if (worlds::size() != A * B) return;
  CAPTURE(A);
  CAPTURE(B);
  worlds::serial_team<mesh<first<1>, second<1>>> alone{serial_comm{}};
  const recording<mpi_comm> all{mpi_comm{}};
  worlds::recorded_team<mesh<first<A>, second<B>>> team{all};
  compare(pass_indices<Model<first<A>, second<B>>>(team, extents),
          pass_indices<Model<first<1>, second<1>>>(alone, extents), 1e-12);
}

template <template <class, class> class Model, int Rank>
void check(shape<Rank> const& extents) {
  on_mesh_of_indices<Model, 2, 1>(extents);
  on_mesh_of_indices<Model, 1, 2>(extents);
  on_mesh_of_indices<Model, 1, 4>(extents);
  on_mesh_of_indices<Model, 2, 2>(extents);
  check_all_calls<Model>(extents, [](auto const& whole) { return indices(whole); });
}

/// A loss whose gradient is not the same for all features.
struct weighted_sum {
  template <class Y>
  struct result {
    Y y;
    double loss() const { return 0; }
    Y backward(double) const {
      Y dy(y.where(), y.extents());
      for (index_t i = 0; i < dy.local().size(); ++i) dy.local().data()[i] = static_cast<float>(i % 5);
      return dy;
    }
  };
  template <class Y>
  result<Y> operator()(Y const& y, int) const {
    return {y};
  }
};

}  // namespace

TEST_CASE("an embedding cut by its rows equals the serial one") { check<by_rows>(shape<2>{3, 7}); }
TEST_CASE("an embedding cut by features equals the serial one") { check<by_features>(shape<1>{13}); }
TEST_CASE("an embedding of cut sequences equals the serial one") { check<by_sequence>(shape<2>{5, 7}); }

TEST_CASE("padding starts at zero and does not learn; other rows do") {
  worlds::serial_team<mesh<>> alone{serial_comm{}};
  auto net = alone.make<chain<embedding<11, 6, padding_of<2>>, layer_norm<6>>>(seed{1});
  trainer trainer{net, weighted_sum{}, momentum{.learning_rate = 0.5f}};
  auto const& weight = net.parameters()[0];
  const auto before = std::vector<float>(weight.value.begin(), weight.value.end());
  trainer.step(distribute<replicated>(alone, tensor<std::int64_t, 2>({2, 3}, 2)), 0);
  trainer.step(distribute<replicated>(alone, tensor<std::int64_t, 2>({2, 3}, 4)), 0);
  for (index_t i = 0; i < 66; ++i) {
    CAPTURE(i);
    const float now = weight.value.data[i];
    if (i / 6 == 2) CHECK(now == 0);
    CHECK((now != before[static_cast<std::size_t>(i)]) == (i / 6 == 4));
  }
}
