#include "against_serial.hpp"

#include <tessera/comm/checked.hpp>
#include <tessera/comm/recording.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/collectives.hpp>
#include <tessera/train/trainer.hpp>

// Faults of models that were found in other libraries.

namespace {

using namespace against_serial;
using against_serial::index_t;

/// A product over a cut dimension that leaves the typed world with its partial result and comes back.
template <class Axis>
struct detour {
  using words = split_words<split_input<Axis>>;
  struct weight : parameter<xavier_uniform, 3, 8> {
    static constexpr std::string_view name = "weight";
  };
  using parameters = parameter_list<weight>;
  static constexpr shape<2> input_extents{{dynamic, 8}};
  template <auto Extents>
  static constexpr index_rules rules() {
    return {"nk,ok->no", {{'n', "batch"}, {'k', "input", false}}};
  }
  template <auto Extents>
  static constexpr auto output() {
    return shape<2>{{Extents[0], 3}};
  }
  template <class X>
  struct saved {
    X x;
  };
  template <class Env, class Saved, class X, class W>
  static auto forward(Env const&, Saved& saved, X const& x, W const& w) {
    saved.x = x;
    const auto y = op::linear_product(x, w);
    static_assert(decltype(y)::placements.partial_axes() != 0);
    return std::remove_const_t<decltype(y)>(y.where(), y.extents(), y.local().clone());
  }
  template <class Env, class Saved, class Dy, class Gradients, class W>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients& gradients, W const& w) {
    static_assert(Dy::placements.partial_axes() == 0);
    op::linear_product_backward_weight(dy, saved.x, std::get<0>(gradients));
    return op::linear_product_backward_input(dy, w);
  }
};

template <class A, class B>
using with_detour = parallel<chain<linear<8, 8>, relu, detour<B>, linear<3, 5>>, data_parallel<A>>;

TEST_CASE("C16: a layer that takes the block of a partial sum and wraps it again has the right gradients") {
  on_meshes<with_detour>(shape<2>{{7, 8}});
}

/// 100, 200, 300.
struct hundreds {
  static double value(philox const&, index_t i, fans) { return 100.0 * static_cast<double>(i + 1); }
};
template <class A, class B>
using biased = parallel<linear<6, 3, split_input<B>, weight_init<zeros>, bias_init<hundreds>>, data_parallel<A>>;
template <class A, class B>
using biased_product = parallel<linear<6, 3, split_input<B>, bias_init<hundreds>>, data_parallel<A>>;

TEST_CASE("C18: the bias of a product over a cut dimension is added once") {
  on_meshes<biased_product>(shape<2>{{5, 6}});
  const auto exact = [](auto& team, auto model) {
    for (const double value : pass<typename decltype(model)::type, double>(team, shape<2>{{1, 6}}).output)
      CHECK((value == 100 || value == 200 || value == 300));
  };
  if (worlds::size() != 4) return;
  worlds::parallel_team<mesh<first<1>, second<4>>> line{mpi_comm{}};
  exact(line, std::type_identity<biased<first<1>, second<4>>>{});
  worlds::parallel_team<mesh<first<2>, second<2>>> square{mpi_comm{}};
  exact(square, std::type_identity<biased<first<2>, second<2>>>{});
}

template <class A, class B>
using two_sizes =
    parallel<chain<linear<6, 10, split_output<B>>, relu, linear<10, 4, split_input<B>>, relu, linear<4, 3>>,
             data_parallel<A>, fuse::at<2, 4>>;

template <int A, int B>
void check_buckets() {
  if (worlds::size() != A * B) return;
  using world = mesh<first<A>, second<B>>;
  using model = two_sizes<first<A>, second<B>>;
  recording whole{checked{mpi_comm{}}};
  team<world, decltype(whole)> recorded{whole};
  auto net = recorded.template make<model>();
  trainer fit(net, cross_entropy{}, momentum{});
  const auto x = distribute<shard<0, first<A>>>(recorded, worlds::values<float>(shape<2>{{5, 6}}, 1));
  const auto labels = worlds::rows_of(worlds::labels(5, 3, 2), x.part()[0]);
  for (int step = 0; step < 3; ++step) CHECK_NOTHROW(fit.step(x, labels));

  // The order is that of the type, on every rank.
  constexpr auto planned = collectives<model, world>;
  std::vector<index_t> sizes;
  for (int i = 0; i < planned.size(); ++i)
    if (planned[i].when == phase::gradient) sizes.push_back(planned.elements(i, 5, recorded.coordinates()));
  std::vector<index_t> made;
  for (auto const& call : recorded.group(0).calls())
    if (call.group == 1 && call.kind == collective::all_reduce && call.element_bytes == sizeof(float) &&
        call.elements > 1)  // the loss is one
      made.push_back(call.elements);
  std::vector<index_t> wanted;
  for (int step = 0; step < 3; ++step) wanted.insert(wanted.end(), sizes.begin(), sizes.end());
  CHECK(made == wanted);
  if (A > 1) CHECK(sizes.size() >= 3);
}

TEST_CASE("C53: gradient buckets are reduced in the order of the model's type on all ranks") {
  check_buckets<2, 1>();
  check_buckets<2, 2>();
  check_buckets<4, 1>();
}

TEST_CASE("C50: ranks that disagree in a layer are told apart, and none waits for ever") {
  const auto disagree = []<int Size>(std::integral_constant<int, Size>) {
    if (worlds::size() != Size) return;
    using world = mesh<first<1>, second<Size>>;
    team<world, checked<mpi_comm>> watched{checked{mpi_comm{}}};
    auto net = watched.template make<linear<8, 3, split_input<second<Size>>>>();
    const index_t rows = watched.rank() == 1 ? 4 : 5;
    const auto x = distribute<replicated>(watched, worlds::values<float>(shape<2>{{rows, 8}}, 1));
    CHECK_THROWS_WITH_AS(
        net.forward(x),
        "tessera: rank 0 calls collective 1, all_reduce of 15 x float by sum, rank 1 calls collective 1, "
        "all_reduce of 12 x float by sum; wanted the same call on all ranks of the group; look for a "
        "branch or an extent before this call that differs between the two ranks",
        error);
  };
  disagree(std::integral_constant<int, 2>{});
  disagree(std::integral_constant<int, 4>{});
}

TEST_CASE("a batch that has fewer rows than parts is refused on all ranks") {
  const auto refuse = []<int Size>(std::integral_constant<int, Size>) {
    if (worlds::size() != Size) return;
    worlds::parallel_team<mesh<first<Size>>> team{mpi_comm{}};
    auto net = team.template make<parallel<linear<8, 3>, data_parallel<first<Size>>>>();
    trainer fit(net, cross_entropy{}, momentum{});
    const auto x = distribute<row<first<Size>>>(team, worlds::values<float>(shape<2>{{Size - 1, 8}}, 1));
    const std::string text =
        "tessera: a batch of " + std::to_string(Size - 1) + " rows cut into " + std::to_string(Size) +
        " parts; wanted at least one row a part; enlarge the batch, leave out a smaller last one "
        "(sampler_options::drop_last), or use fewer data-parallel ranks";
    CHECK_THROWS_WITH_AS(fit.step(x, worlds::rows_of(worlds::labels(Size - 1, 3, 1), x.part()[0])), text.c_str(),
                         error);
  };
  refuse(std::integral_constant<int, 2>{});
  refuse(std::integral_constant<int, 4>{});
}

}  // namespace
