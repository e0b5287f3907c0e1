#pragma once

#include <tessera/plan/search/front.hpp>

namespace tessera::detail {

/// The front after the sum of a residual, and where each of its values comes from: in which way the input is made for
/// branch and shortcut, and the values at their ends. `origin` is the input, and
/// `choice` the way in which the sum is taken.
template <int Made>
struct sum_front : edge_front<Made> {
  using places = std::int16_t[static_cast<std::size_t>(Made)];
  places branch_start = {};
  places branch_end = {};
  places shortcut_start = {};
  places shortcut_end = {};
};

/// The sides of a residual meet: what is the same for all values of the sum.
///
/// `In` and `Out` are the numbers of ways of making input and output, `Taken` those of taking the output.
template <int Axes, int In, int Out, int Taken>
struct meeting {
  mesh_sizes<Axes> mesh{};
  mesh_costs<Axes> costs{};
  int input_rank = 0;
  double input_bytes = 0;
  bool wants_input = false;
  edge_list inputs{};  ///< ways of making the input
  edge_list taken{};   ///< ways of taking the sum
  edge_list outputs{};
  /// The input's front, and its times where the gradient may be handed back partial along fewer axes.
  edge_front<In> input{};
  search_times<In> soonest{};
  /// Of adding branch and shortcut, by the way in which the sum is taken; of adding both parts of the input's gradient.
  search_times<Taken> adding{};
  search_times<In> adding_gradients{};

  /// The input's time, when the sides hand its gradient back in these ways: partial where both do.
  constexpr search_time input_time(int branch, int shortcut, int& start) const {
    const edge_code one = inputs[branch];
    const edge_code two = inputs[shortcut];
    edge_code both = one;
    for (int a = 0; a < Axes; ++a)
      if (edge::at(one, a) != edge::at(two, a)) both = edge::with(both, a, edge::whole);
    start = inputs.place(both);
    if (!input.reaches(start)) return unreachable_time;
    search_time time = input.time[start];
    if (!wants_input) return time;
    time += adding_gradients.at[start];
    for (const edge_code side : {one, two})
      if (side != both)
        time += picoseconds(seconds_of(
            cost_of_route(mesh, costs,
                          find_route(mesh, gradient_of_edge<Axes>(side), gradient_of_edge<Axes>(both), input_rank)),
            input_bytes));
    return time;
  }

  /// Whether two ways of making the input have one value.
  constexpr bool alike(int a, int b) const { return value_of_edge<Axes>(inputs[a]) == value_of_edge<Axes>(inputs[b]); }

  constexpr void offer(sum_front<Out>& out, int k, search_time time, int start, int branch_start, int branch_end,
                       int shortcut_start, int shortcut_end) const {
    const int made = outputs.place(taken[k]);
    if (time >= out.time[made]) return;
    // The part begins with what the input was before a word.
    out.offer(made, time, start, k, input.origin[start]);
    out.branch_start[made] = static_cast<std::int16_t>(branch_start);
    out.branch_end[made] = static_cast<std::int16_t>(branch_end);
    out.shortcut_start[made] = static_cast<std::int16_t>(shortcut_start);
    out.shortcut_end[made] = static_cast<std::int16_t>(shortcut_end);
  }
};

/// The least over gradients that are whole along more axes: what the input costs a side that hands its gradient back
/// so, the other side doing its best; -1 where it is not reached.
template <class Places>
constexpr search_times<Places::makes> soonest_inputs(edge_front<Places::makes> const& input) {
  auto out = search_times<Places::makes>::all(-1);
  for (int other = 0; other < Places::makes; ++other) {
    const search_time t = input.time[other];
    if (t >= unreachable_time) continue;
    for (int set = 0; set < Places::sets; ++set) {
      const int m = Places::of_value.made_at[Places::of_way.value_of[other]][set];
      if (m < 0 || (Places::of_way.set_of[other] & ~set) != 0) continue;
      search_time& best = out.at[m];
      if (best < 0 || t < best) best = t;
    }
  }
  return out;
}

}  // namespace tessera::detail
