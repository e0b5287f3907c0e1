#pragma once

#include <tessera/plan/search/search_steps.hpp>

namespace tessera::detail {

/// Time and bytes in one number.
struct rest_weight {
  double time = 1;
  double bytes = 0;
  constexpr double of(search_time t, index_t b) const {
    return time * static_cast<double>(t) + bytes * static_cast<double>(b);
  }
};

/// What is left of a plan, by a weight no more than of any: see `rest_before_step`.
struct plan_rest {
  static constexpr double never = 1e300;
  double cost = never;
  search_time time = 0;
  index_t bytes = 0;

  constexpr bool reaches() const { return cost < never; }
  constexpr bool less(double c, search_time t, index_t b) const {
    return c < cost || (c == cost && (t < time || (t == time && b < bytes)));
  }
};
template <int Made>
struct rest_list {
  plan_rest at[static_cast<std::size_t>(Made)] = {};
};

/// The least rests from one edge of a model to its end, under a weight. In a chain this is exact. The sides of a
/// residual are taken for independent, so that with residuals it is a bound from below.
class rest_search {
 public:
  constexpr rest_search(search_step const* steps, rest_weight weight, edge_code tie)
      : steps_(steps), weight_(weight), tie_(tie) {}

  /// The rests before step `i`, given those after it: of a fork and an end, those after the join, and of a fork those
  /// before the first steps of its sides. Those of a shortcut go to the sum, all others to the end of the model.
  template <int Made>
  constexpr rest_list<Made> before(int i, plan_rest const* after, plan_rest const* branch = nullptr,
                                   plan_rest const* shortcut = nullptr) const {
    rest_list<Made> out;
    search_step const& s = steps_[i];
    switch (s.kind) {
      case search_step_kind::layer: layer(out.at, s, after); break;
      case search_step_kind::word: word(out.at, s, after); break;
      case search_step_kind::keep:
        for (int m = 0; m < s.in.makes; ++m) offer(out.at[m], after[m], 0, s.bytes[s.in.value_of[m]]);
        break;
      case search_step_kind::settle: settle(out.at, s, after); break;
      case search_step_kind::fork: fork(out.at, s, branch, shortcut); break;
      case search_step_kind::end: end(out.at, s, after); break;
      case search_step_kind::join: break;
      case search_step_kind::loss: loss(out.at, s); break;
    }
    return out;
  }

 private:
  constexpr void offer(plan_rest& best, plan_rest const& after, search_time time, index_t bytes) const {
    if (!after.reaches()) return;
    const double cost = after.cost + weight_.of(time, bytes);
    if (best.less(cost, after.time + time, after.bytes + bytes)) best = {cost, after.time + time, after.bytes + bytes};
  }
  /// From the ways of taking a value to those of making it.
  constexpr void link(plan_rest* out, step_links const& in, plan_rest const* taken) const {
    // Most of the time of a search is spent here: few steps a link.
    for (int v = 0; v < in.values; ++v) {
      timed_link const* row = in.rows[v];
      for (int k = 0; k < in.takes; ++k)
        if (taken[k].cost + weight_.time * static_cast<double>(row[k].time) <= out[row[k].made].cost)
          offer(out[row[k].made], taken[k], row[k].time, 0);
    }
  }

  constexpr void layer(plan_rest* out, search_step const& s, plan_rest const* after) const {
    std::vector<plan_rest> taken(static_cast<std::size_t>(s.in.takes));
    for (int w = 0; w < s.way_count; ++w) {
      layer_way const& way = s.ways[w];
      if (tie_ != 0 && way.tie != 0 && way.tie != tie_) continue;
      offer(taken.data()[way.taken], after[way.made], way.time, s.bytes[way.cut]);
    }
    link(out, s.in, taken.data());
  }
  constexpr void word(plan_rest* out, search_step const& s, plan_rest const* after) const {
    for (int m = 0; m < s.in.makes; ++m) {
      const int v = s.in.value_of[m];
      for (int k = 0; k < s.in.takes; ++k)
        if (timed_link const& one = s.in.rows[v][k]; one.made == m && s.in.value_of[s.in.made_of[k]] == s.targets[v])
          offer(out[m], after[s.in.made_of[k]], one.time, 0);
    }
  }
  constexpr void settle(plan_rest* out, search_step const& s, plan_rest const* after) const {
    std::vector<plan_rest> taken(static_cast<std::size_t>(s.in.takes));
    for (int k = 0; k < s.in.takes; ++k) taken.data()[k] = after[s.in.made_of[k]];
    for (int m = 0; m < s.in.makes; ++m) out[m] = after[m];
    link(out, s.in, taken.data());
  }
  // (Before its use: clang 14 does not instantiate it else.)
  template <class F>
  static constexpr void each_made(search_step const& s, int value, F f) {
    for (int set = 0; set < s.fork.sets; ++set)
      if (const int m = s.fork.made_at[value * s.fork.sets + set]; m >= 0 && (set == 0 || s.fork.wants_input)) f(m);
  }
  constexpr void fork(plan_rest* out, search_step const& s, plan_rest const* branch, plan_rest const* shortcut) const {
    // Along whichever axes either side leaves the gradient partial.
    for (int v = 0; v < s.in.values; ++v) {
      plan_rest one;
      plan_rest two;
      each_made(s, v, [&](int m) {
        offer(one, branch[m], s.fork.wants_input ? s.fork.adding[v] : 0, 0);
        offer(two, shortcut[m], 0, 0);
      });
      if (!one.reaches() || !two.reaches()) continue;
      one = {one.cost + two.cost, one.time + two.time, one.bytes + two.bytes};
      each_made(s, v, [&](int m) { out[m] = one; });
    }
  }
  /// From the end of a side. The branch pays for the sum and what follows it, the shortcut for its way there alone.
  constexpr void end(plan_rest* out, search_step const& s, plan_rest const* after) const {
    std::vector<plan_rest> taken(static_cast<std::size_t>(s.in.takes));
    for (int k = 0; k < s.in.takes; ++k) {
      if (after == nullptr)
        taken.data()[k] = {0, 0, 0};
      else
        offer(taken.data()[k], after[s.in.made_of[k]], steps_[s.join].times[k], 0);
    }
    link(out, s.in, taken.data());
  }
  constexpr void loss(plan_rest* out, search_step const& s) const {
    std::vector<plan_rest> taken(static_cast<std::size_t>(s.in.takes));
    for (int k = 0; k < s.in.takes; ++k)
      if (s.times[k] < unreachable_time) taken.data()[k] = {weight_.of(s.times[k], 0), s.times[k], 0};
    link(out, s.in, taken.data());
  }

  search_step const* steps_;
  rest_weight weight_;
  edge_code tie_;
};

}  // namespace tessera::detail
