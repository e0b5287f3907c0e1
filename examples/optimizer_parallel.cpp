// What four data-parallel ranks keep when they divide optimizer state, gradients and parameters among them.
//
// run: 4

#include "tutorial.hpp"

// [model]
namespace ts = tessera;

struct dp : ts::axis<4> {};
using world = ts::mesh<dp>;

struct hidden : ts::chain<ts::linear<128, 128>, ts::relu> {};
struct mlp : ts::chain<ts::linear<16, 128>, ts::relu, hidden, hidden, hidden, hidden, ts::linear<128, 10>> {};
template <int Level>
using sharded =
    ts::parallel<mlp, ts::data_parallel<dp>, ts::fuse::at<2, 4, 6, 8, 10>, ts::optimizer_parallel<dp, Level>>;
// [model]
using plain = ts::parallel<mlp, ts::data_parallel<dp>, ts::fuse::at<2, 4, 6, 8, 10>>;

// [memory]
constexpr ts::training_bytes whole = ts::training_memory<plain, world>(ts::adam{});
constexpr ts::training_bytes one = ts::training_memory<sharded<1>, world>(ts::adam{});
constexpr ts::training_bytes three = ts::training_memory<sharded<3>, world>(ts::adam{});
static_assert(whole.parameters == whole.gradients && whole.optimizer == 2 * whole.gradients);
static_assert(one.parameters == whole.parameters && one.gradients == whole.gradients);
static_assert(3 * one.optimizer < whole.optimizer);  // a quarter, rounded up
static_assert(2 * three.total() < whole.total());
// [memory]

// [calls]
static_assert(ts::collectives<sharded<2>, world>.count(ts::collective::all_reduce) == 0);
static_assert(ts::collectives<sharded<2>, world>.count(ts::collective::reduce_scatter) == 6);
static_assert(ts::collectives<sharded<2>, world>.count(ts::phase::parameter) == 6);  // gathers
static_assert(ts::collectives<sharded<3>, world>.count(ts::phase::parameter) == 10);
// [calls]

namespace {

template <class Model, class Team>
tutorial::outcome run(Team& team, char const* name) {
  const std::size_t before = ts::host_memory::used().live;
  auto model = team.template make<Model>(ts::seed{1});
  const auto made = static_cast<long long>(ts::host_memory::used().live - before);
  const auto bytes = ts::training_memory<Model, world>(ts::momentum{}, team.coordinates());
  if (team.rank() == 0)
    std::printf("%-8s %lld bytes with momentum, %lld of them before the first step\n", name,
                static_cast<long long>(bytes.total()), made);
  return tutorial::train<Model>(team);
}

}  // namespace

int main(int argc, char** argv) {
  ts::session<world> session{argc, argv, {.mpi = {.shared_memory = false}}};
  const auto wanted = run<plain>(session, "plain");
  bool same = run<sharded<1>>(session, "level 1").parameters == wanted.parameters;
  same = tutorial::equal(wanted, run<sharded<2>>(session, "level 2"), session.rank()) && same;
  same = tutorial::equal(wanted, run<sharded<3>>(session, "level 3"), session.rank()) && same;
  return same ? 0 : 1;
}
