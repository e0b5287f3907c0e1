#include "optimizer_case.hpp"

#include <tessera/train/clip.hpp>

namespace {

using namespace tessera;

/// All gradients of a case are clipped together, whatever each is cut by.
struct clip_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    std::vector<parameter_view<T>> parameters;
    std::vector<std::function<void()>> compare;
    optimizer_case::for_each<Cuts>(t, "input", [&]<class Layout, int Rank>(std::string const& name) {
      const auto gradient = golden::put<T, Rank, Layout>(team, t[name]);
      parameter_view<T> view{name, {}, {}, {}};
      view.gradient = {const_cast<T*>(gradient.read().data), {{gradient.read().size()}}};
      view.cut_by = decltype(gradient)::placements.axes_of(placement_kind::shard);
      parameters.push_back(view);
      compare.push_back([&t, name, gradient] { golden::expect(t, "clipped_" + name, gradient); });
    });
    const double norm = clip_by_global_norm(team, parameters, t.what().given.number("max_norm"));
    t.expect("total_norm", {}, {norm});
    for (auto const& one : compare) one();
  }
};

const golden::built here("clip_grad_norm");

}  // namespace

TEST_CASE("clipping by the global norm equals its reference cases") {
  golden::run("clip_grad_norm", golden::run_cuts<clip_case, 'a', 'b'>);
}
