#pragma once

#include <tessera/plan/search/loss_time.hpp>
#include <tessera/plan/search/plan_labels.hpp>

namespace tessera::detail {

struct by_time {
  static constexpr rest_weight weight{1, 0};
};
struct by_bytes {
  static constexpr rest_weight weight{0, 1};
};

/// The steps of a model and their rests by weight.
template <class Problem, class Model, class Input, index_t Copies, edge_code Tie>
struct limited_model {
  using problem = Problem;
  using maker = steps_of<Problem, Copies>;
  static constexpr int axes = Problem::mesh::axes;
  static constexpr edge_code tie = Tie;
  static constexpr int loss = step_count<bare<Model>>;
  static constexpr auto extents = Input::extents;
  static constexpr auto output = after_node<bare<Model>, extents>::extents;

  static constexpr auto times = [] {
    using edge = edge_of_extents<Problem, output>;
    search_times<edge::takes> out;
    for (int k = 0; k < edge::takes; ++k) out.at[k] = loss_time<Problem, output>(edge::taken[k]);
    return out;
  }();
  struct step_list {
    search_step at[static_cast<std::size_t>(loss + 1)] = {};
  };
  static constexpr step_list steps = [] {
    step_list out;
    maker::template fill<bare<Model>, extents, false, 1, 0>(out.at);
    out.at[loss] = maker::template step<output, 1, true>(search_step_kind::loss);
    out.at[loss].times = times.at;
    return out;
  }();

  /// A constant each, so that none takes long to evaluate.
  template <class By, int I>
  static constexpr auto compute() {
    constexpr rest_search search(steps.at, By::weight, Tie);
    constexpr search_step const& s = steps.at[I];
    constexpr int made = s.in.makes;
    if constexpr (s.kind == search_step_kind::loss || s.kind == search_step_kind::join)
      return search.template before<made>(I, nullptr);
    else if constexpr (s.kind == search_step_kind::fork)
      return search.template before<made>(I, nullptr, rest<By, I + 1>.at, rest<By, s.shortcut>.at);
    else if constexpr (s.kind == search_step_kind::end && I == s.join - 1)
      return search.template before<made>(I, nullptr);
    else if constexpr (s.kind == search_step_kind::end)
      return search.template before<made>(I, rest<By, s.join + 1>.at);
    else
      return search.template before<made>(I, rest<By, I + 1>.at);
  }
  template <class By, int I>
  static constexpr rest_list<steps.at[I].in.makes> rest = compute<By, I>();
  template <class By>
  static constexpr auto rests = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<plan_rest const*, sizeof...(I)>{rest<By, static_cast<int>(I)>.at...};
  }
  (std::make_index_sequence<static_cast<std::size_t>(loss + 1)>{});

  /// How a model begins: its input may come in any layout. Of those that serve as well, the one that cuts by most axes
  /// is found.
  static constexpr plan_label_list beginnings() {
    plan_label_list all;
    step_links const& in = steps.at[0].in;
    for (int k = 0; k < in.takes; ++k) {
      if (partial_gradients_of<axes>(in.taken[k]) != 0) continue;
      plan_label label;
      for (int a = 0; a < axes; ++a) label.time += edge::at(in.taken[k], a) == edge::whole;
      label.made = in.made_of[k];
      all.push_back(label);
    }
    return all;
  }
  /// The least of the whole model.
  template <class By>
  static constexpr plan_rest least = [] {
    plan_rest out;
    for (plan_label const& begin : beginnings()) {
      plan_rest const& left = rest<By, 0>.at[begin.made];
      const double cost = By::weight.of(begin.time, 0) + left.cost;
      if (out.less(cost, begin.time + left.time, left.bytes)) out = {cost, begin.time + left.time, left.bytes};
    }
    return out;
  }();

  /// The steps of the outermost line.
  static constexpr int line_count = [] {
    int n = 0;
    for (int i = 0; i < loss; i = steps.at[i].kind == search_step_kind::fork ? steps.at[i].join + 1 : i + 1) ++n;
    return n;
  }();
  static constexpr auto line = [] {
    std::array<int, static_cast<std::size_t>(line_count + 1)> out{};
    int n = 0;
    for (int i = 0; i < loss; i = steps.at[i].kind == search_step_kind::fork ? steps.at[i].join + 1 : i + 1)
      out[static_cast<std::size_t>(n++)] = i;
    out.back() = loss;
    return out;
  }();
};

/// Labels as a constant.
template <int Count>
struct stored_labels {
  int count = 0;  ///< there are more than are here where it is larger
  plan_label at[static_cast<std::size_t>(Count == 0 ? 1 : Count)] = {};

  constexpr stored_labels() = default;
  explicit constexpr stored_labels(plan_label_view labels) : count(labels.count) {
    for (int i = 0; i < Count && i < labels.count; ++i) at[i] = labels.first[i];
  }
  constexpr plan_label_view view() const { return {at, count}; }
};
/// Those that `Make::labels()` makes, all of them: `value`. It runs again where there is no room for them.
///
/// (Not a constant of a function: clang evaluates those again whenever the function is called.)
template <class Make, int Room = 96>
struct label_store {
  static constexpr stored_labels<Room> some{Make::labels()};
  static constexpr auto value = [] {
    if constexpr (some.count <= Room)
      return stored_labels<some.count>(plan_label_view(some.at, some.count));
    else
      return label_store<Make, some.count>::value;
  }();
};

/// All plans of a model within some room. `Aim` has `bounds` and `room`.
template <class Steps, class Aim>
struct limited_labels {
  static constexpr auto& steps = Steps::steps;
  static constexpr plan_labels<Steps::axes> search() { return {steps.at, Aim::bounds, Steps::tie}; }

  template <int P>
  struct begin {
    static constexpr plan_label_list labels() {
      plan_label_list out = Steps::beginnings();
      std::erase_if(out, [](plan_label const& label) { return !search().fits(label, 0, Aim::room); });
      return out;
    }
  };
  template <int P>
  struct after_step {
    static constexpr plan_label_list labels() {
      return search().after(Steps::line[P - 1], before<P - 1>.view(), Aim::room);
    }
  };
  template <int P, int V>
  struct one_row {
    static constexpr plan_label_list labels() {
      return search().row(Steps::line[P], V, before<P>.view(), Aim::room).labels;
    }
  };
  template <int P, int V>
  static constexpr auto row = label_store<one_row<P, V>>::value;
  template <int P>
  static constexpr auto rows_before = []<int... V>(std::integer_sequence<int, V...>) {
    return std::array<plan_label_view, sizeof...(V)>{row<P, V>.view()...};
  }
  (std::make_integer_sequence<int, steps.at[Steps::line[P]].in.values>{});
  template <int P>
  struct after_fork {
    static constexpr plan_label_list labels() {
      return search().after_rows(Steps::line[P - 1], before<P - 1>.view(), rows_before<P - 1>.data(), Aim::room);
    }
  };
  template <int P>
  static constexpr auto compute() {
    if constexpr (P == 0)
      return label_store<begin<P>>::value;
    else if constexpr (steps.at[Steps::line[P - 1]].kind == search_step_kind::fork)
      return label_store<after_fork<P>>::value;
    else
      return label_store<after_step<P>>::value;
  }
  /// Before the steps of the outermost line.
  template <int P>
  static constexpr auto before = compute<P>();

  static constexpr int last = Steps::line_count;
  struct ending {
    static constexpr plan_label_list labels() { return search().ends(Steps::loss, before<last>.view(), Aim::room); }
  };
  static constexpr auto ends = label_store<ending>::value;
  static constexpr bool found = ends.count > 0;
  /// The soonest. Only where any was found.
  static constexpr plan_label best = ends.at[0];

  /// Which label of each place is on the way to the best.
  template <int P>
  static constexpr int chosen() {
    if constexpr (P == last)
      return best.from;
    else
      return before<P + 1>.at[chosen<P + 1>()].from;
  }
  struct plan_type {
    plan_choice at[static_cast<std::size_t>(Steps::loss + 1)] = {};
  };
  template <int P>
  static constexpr plan_type piece = [] {
    plan_type out;
    search().trace_step(out.at, Steps::line[P], before<P>.view(), before<P + 1>.at[chosen<P + 1>()], Aim::room);
    return out;
  }();
  static constexpr plan_type plan = []<int... P>(std::integer_sequence<int, P...>) {
    plan_type out;
    const auto add = [&](plan_type const& one, int first, int end) {
      for (int i = first; i < end; ++i) out.at[i] = one.at[i];
    };
    (add(piece<P>, Steps::line[P], Steps::line[P + 1]), ...);
    out.at[Steps::loss] = {before<last>.at[chosen<last>()].made, best.choice};
    return out;
  }
  (std::make_integer_sequence<int, last>{});
};

/// The price of bytes that gives the largest lower bound of the time under a limit (the Lagrangian dual: M. Fisher,
/// Management Science 27, 1981), by secants.
template <class Steps, index_t Limit>
struct limit_dual {
  static constexpr double limit = static_cast<double>(Limit);
  struct state {
    plan_rest fast{};   ///< exceeds the limit
    plan_rest small{};  ///< does not
    double price = 0;

    constexpr void meet() {
      price = static_cast<double>(small.time - fast.time) / static_cast<double>(fast.bytes - small.bytes);
    }
    constexpr double cost() const { return static_cast<double>(fast.time) + price * static_cast<double>(fast.bytes); }
  };
  static constexpr plan_rest fastest = Steps::template least<by_time>;
  static constexpr plan_rest smallest = Steps::template least<by_bytes>;
  /// Whether bytes need a price.
  static constexpr bool needed = fastest.bytes > Limit&& smallest.bytes <= Limit&& smallest.bytes < fastest.bytes;

  template <int Round>
  struct round;
  template <int Round>
  static constexpr state state_of() {
    state s;
    if constexpr (Round == 0) {
      s = {fastest, smallest};
    } else {
      s = round<Round - 1>::before;
      (round<Round - 1>::found.bytes <= Limit ? s.small : s.fast) = round<Round - 1>::found;
    }
    s.meet();
    return s;
  }
  template <int Round>
  struct round {
    static constexpr state before = state_of<Round>();
    static constexpr rest_weight weight{1, before.price};
    static constexpr plan_rest found = Steps::template least<round>;
    static constexpr bool last = found.cost >= before.cost() * (1 - 1e-12) - 0.5 || Round == 40;
    /// No plan within the limit takes less.
    static constexpr double bound = found.cost - before.price * limit;
  };
  struct no_price : by_time {
    static constexpr double bound = static_cast<double>(fastest.time);
  };
  template <int Round>
  static constexpr auto find() {
    if constexpr (!needed)
      return std::type_identity<no_price>{};
    else if constexpr (round<Round>::last)
      return std::type_identity<round<Round>>{};
    else
      return find<Round + 1>();
  }
  using type = typename decltype(find<0>())::type;
};

/// What rounding may add to a weight of a plan.
constexpr double with_slack(double most) { return most + 1 + (most > 0 ? most : -most) * 1e-12; }

/// Bytes first, then time: a byte weighs as much as a thousand of the times that the least bytes take.
template <class Steps>
struct by_bytes_first {
  static constexpr plan_rest fewest = Steps::template least<by_bytes>;
  static constexpr rest_weight weight{1, 1024.0 * static_cast<double>(fewest.time + 1)};
};
/// Plans of few bytes: `More` picoseconds beyond the bound.
template <class Steps, search_time More>
struct aim_of_bytes {
  using by = by_bytes_first<Steps>;
  static constexpr plan_bounds bounds{{by::weight}, {Steps::template rests<by>.data()}};
  static constexpr plan_room room{{with_slack(Steps::template least<by>.cost + static_cast<double>(More))}};
};
/// A thousandth above a bound, then four of them, and so on.
constexpr std::int64_t above(std::int64_t bound, int step) {
  double more = static_cast<double>(bound) / 1024;
  for (int i = 0; i < step; ++i) more *= 4;
  return bound + 1 + (more < 1e17 ? static_cast<std::int64_t>(more) : std::int64_t{100'000'000'000'000'000});
}
/// A plan of the fewest bytes, and of the least time among these.
template <class Steps, int Step>
constexpr auto find_smallest() {
  constexpr search_time least = Steps::template least<by_bytes>.time;
  using found = limited_labels<Steps, aim_of_bytes<Steps, above(least, Step) - least>>;
  if constexpr (found::found)
    return std::type_identity<found>{};
  else
    return find_smallest<Steps, Step + 1>();
}

/// Plans that take no more than so many picoseconds and keep no more than so many bytes.
template <class Steps, index_t Limit, search_time Most>
struct aim_of_time {
  using dual = typename limit_dual<Steps, Limit>::type;
  static constexpr rest_weight priced = dual::weight;
  static constexpr plan_bounds bounds{{priced, by_time::weight, by_bytes::weight},
                                      {Steps::template rests<dual>.data(), Steps::template rests<by_time>.data(),
                                       Steps::template rests<by_bytes>.data()}};
  static constexpr plan_room room{
      {with_slack(priced.of(Most, Limit)), static_cast<double>(Most), static_cast<double>(Limit)}};
};
/// The plans of least time within a limit that some plan fits: what they may take grows from the bound until there is
/// one. All plans that take no more have been looked at then.
template <class Steps, index_t Limit, search_time Bound, int Step>
constexpr auto find_soonest() {
  using found = limited_labels<Steps, aim_of_time<Steps, Limit, above(Bound, Step)>>;
  if constexpr (found::found)
    return std::type_identity<found>{};
  else
    return find_soonest<Steps, Limit, Bound, Step + 1>();
}

}  // namespace tessera::detail
