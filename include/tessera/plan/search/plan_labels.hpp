#pragma once

#include <tessera/plan/search/plan_label.hpp>
#include <tessera/plan/search/search_rest.hpp>

namespace tessera::detail {

/// What a plan is at a step: how the value before it is made, and what is chosen (of a layer its way, of the loss how
/// it takes the output).
struct plan_choice {
  std::int16_t before = -1;
  std::int32_t choice = -1;
};

/// What plans must not exceed, under some weights, and the least rests under each by step and way of making. The first
/// weight is that which leaves out most; there may be fewer of the others.
struct plan_bounds {
  static constexpr int count = 3;
  rest_weight weight[count] = {};
  plan_rest const* const* rest[count] = {};
};
/// What is left to a part of a model, under each weight.
struct plan_room {
  double most[plan_bounds::count] = {};
};

/// A search forward through the steps of a model for plans of least time among those that keep few enough bytes.
///
/// All labels are kept that no other beats in time and bytes, unless a bound says that nothing of use comes of them. In
/// this it differs from `label_search`: its rests are those of `rest_search`, and it runs while compiling.
template <int Axes>
class plan_labels {
 public:
  using list = plan_label_list;
  using view = plan_label_view;

  constexpr plan_labels(search_step const* steps, plan_bounds const& bounds, edge_code tie)
      : steps_(steps), bounds_(bounds), tie_(tie) {}

  /// Labels before each of the steps of a line that were visited, and after the last.
  struct run {
    std::vector<int> steps{};
    std::vector<list> labels{};
    plan_room room{};
  };

  constexpr bool fits(plan_label const& label, int step, plan_room const& room) const {
    for (int b = 0; b < plan_bounds::count; ++b)
      if (bounds_.rest[b] != nullptr &&
          bounds_.weight[b].of(label.time, label.bytes) + bounds_.rest[b][step][label.made].cost > room.most[b])
        return false;
    return true;
  }

  /// From a step to the end of its side, or of the model.
  constexpr run follow(int first, list start, plan_room const& room) const {
    run out;
    out.room = room;
    out.labels.push_back(std::move(start));
    for (int i = first; steps_[i].kind != search_step_kind::end && steps_[i].kind != search_step_kind::loss;
         i = next(i)) {
      out.steps.push_back(i);
      out.labels.push_back(after(i, out.labels.back(), room));
    }
    return out;
  }
  constexpr int next(int i) const { return steps_[i].kind == search_step_kind::fork ? steps_[i].join + 1 : i + 1; }

  /// The labels after a step; after a residual where it is a fork.
  constexpr list after(int i, view before, plan_room const& room) const {
    search_step const& s = steps_[i];
    if (s.kind == search_step_kind::fork) {
      std::vector<list> rows;
      std::vector<view> views;
      for (int v = 0; v < s.in.values; ++v) rows.push_back(row(i, v, before, room).labels);
      for (list const& one : rows) views.push_back(one);
      return after_rows(i, before, views.data(), room);
    }
    plan_label_slots out(steps_[i + 1].in.makes);
    const auto offer = [&](plan_label const& label) {
      if (fits(label, i + 1, room)) out.offer(label.made, label);
    };
    if (s.kind == search_step_kind::layer) {
      std::vector<double> to_go(static_cast<std::size_t>(s.in.takes), plan_rest::never);
      each_way(s, [&](layer_way const& way, int) {
        double& least = to_go.data()[way.taken];
        least =
            std::min(least, bounds_.weight[0].of(way.time, s.bytes[way.cut]) + bounds_.rest[0][i + 1][way.made].cost);
      });
      const plan_label_slots reached = arrivals(s.in, before, to_go.data(), room.most[0]);
      each_way(s, [&](layer_way const& way, int place) {
        reached.each(way.taken, [&](plan_label const& label) {
          plan_label one = passed(label, label.from, way.time, s.bytes[way.cut]);
          one.choice = place;
          one.made = way.made;
          offer(one);
        });
      });
    } else if (s.kind == search_step_kind::keep) {
      int from = 0;
      for (plan_label const& label : before) offer(passed(label, from++, 0, s.bytes[s.in.value_of[label.made]]));
    } else {
      const std::vector<double> to_go = rests_of_taken(s.in, bounds_.rest[0][i + 1]);
      const bool settles = s.kind == search_step_kind::settle;
      int from = 0;
      for (plan_label const& label : before) {
        if (settles) offer(passed(label, from, 0, 0));
        const int v = s.in.value_of[label.made];
        each_link(s.in, label, to_go.data(), room.most[0], [&](int k, search_time time) {
          plan_label one = passed(label, from, time, 0);
          one.made = s.in.made_of[k];
          const int value = s.in.value_of[one.made];
          if (settles ? value != v : value == s.targets[v]) offer(one);
        });
        ++from;
      }
    }
    return out.list();
  }

  /// A residual from one value: labels of its sum, and how its sides came there.
  struct row_type {
    list labels{};
    std::vector<run> branch{};  ///< by where the side leaves the gradient partial
    std::vector<run> shortcut{};
  };
  /// `before` are the labels of the input, those of other values among them.
  constexpr row_type row(int fork, int value, view before, plan_room const& room) const {
    search_step const& s = steps_[fork];
    const int sets = s.fork.sets;
    const auto made_at = [&](int set) {
      return set == 0 || s.fork.wants_input ? int{s.fork.made_at[value * sets + set]} : -1;
    };
    row_type out;
    // The least of the input's labels under each weight, by where its gradient is partial.
    std::vector<plan_room> least(static_cast<std::size_t>(sets), plan_room{{1e300, 1e300, 1e300}});
    bool any = false;
    for (plan_label const& label : before) {
      if (s.in.value_of[label.made] != value) continue;
      any = true;
      plan_room& here = least[static_cast<std::size_t>(s.fork.set_of[label.made])];
      for (int b = 0; b < plan_bounds::count; ++b)
        here.most[b] = std::min(here.most[b], bounds_.weight[b].of(label.time, label.bytes));
    }
    if (!any) return out;

    const search_time adding = s.fork.wants_input ? s.fork.adding[value] : 0;
    const int first[] = {fork + 1, s.shortcut};
    // From the end of the branch.
    search_step const& sum = steps_[s.join];
    std::vector<double> to_go = rests_of_taken(sum.in, bounds_.rest[0][s.join + 1]);
    for (int k = 0; k < sum.in.takes; ++k) to_go.data()[k] += bounds_.weight[0].of(sum.times[k], 0);
    std::vector<plan_label_slots> arrived[2];
    for (int side = 0; side < 2; ++side)
      for (int set = 0; set < sets; ++set) {
        run one;
        const int made = made_at(set);
        if (made >= 0) {
          plan_room left;
          for (int b = 0; b < plan_bounds::count; ++b) {
            double soonest = 1e300;
            double other = 1e300;
            for (int joint = 0; joint < sets; ++joint) {
              if ((joint & ~set) == 0) soonest = std::min(soonest, least[static_cast<std::size_t>(joint)].most[b]);
              if (made_at(joint) >= 0 && bounds_.rest[b] != nullptr)
                other = std::min(other, bounds_.rest[b][first[1 - side]][made_at(joint)].cost);
            }
            left.most[b] = room.most[b] - soonest - other - bounds_.weight[b].of(adding, 0);
          }
          plan_label start;
          start.made = static_cast<std::int16_t>(made);
          if (fits(start, first[side], left)) one = follow(first[side], {start}, left);
        }
        search_step const& end = steps_[side == 0 ? s.shortcut - 1 : s.join - 1];
        const view last = one.labels.empty() ? view() : view(one.labels.back());
        arrived[side].push_back(
            arrivals(end.in, last, side == 0 ? to_go.data() : nullptr, one.room.most[0], !end.any_layout));
        (side == 0 ? out.branch : out.shortcut).push_back(std::move(one));
      }

    plan_label_slots sums(sets * sum.in.makes);
    for (int b = 0; b < sets; ++b)
      for (int c = 0; c < sets; ++c) {
        const int joint = b & c;
        plan_room const& input = least[static_cast<std::size_t>(joint)];
        if (input.most[0] >= 1e300 || out.branch[static_cast<std::size_t>(b)].labels.empty() ||
            out.shortcut[static_cast<std::size_t>(c)].labels.empty())
          continue;
        search_time together = adding;
        if (s.fork.wants_input)
          together += s.fork.bring[made_at(b) * sets + joint] + s.fork.bring[made_at(c) * sets + joint];
        for (int k = 0; k < sum.in.takes; ++k) {
          const int made = sum.in.made_of[k];
          const search_time at_sum = together + sum.times[k];
          arrived[0][static_cast<std::size_t>(b)].each(k, [&](plan_label const& one) {
            arrived[1][static_cast<std::size_t>(c)].each(k, [&](plan_label const& two) {
              plan_label label = one;
              label.time += two.time + at_sum;
              label.bytes += two.bytes;
              label.other = two.from;
              label.choice = b * sets + c;
              label.made = static_cast<std::int16_t>(made);
              plan_room left = room;
              for (int i = 0; i < plan_bounds::count; ++i) left.most[i] -= input.most[i];
              if (fits(label, s.join + 1, left)) sums.offer(joint * sum.in.makes + made, label);
            });
          });
        }
      }
    out.labels = sums.list();
    for (plan_label& label : out.labels) {
      label.set = static_cast<std::int16_t>(label.made / sum.in.makes);
      label.made = static_cast<std::int16_t>(label.made % sum.in.makes);
    }
    return out;
  }
  /// The labels after a residual, from the rows of all values of its input.
  constexpr list after_rows(int fork, view before, view const* rows, plan_room const& room) const {
    search_step const& s = steps_[fork];
    plan_label_slots out(steps_[s.join].in.makes);
    int from = 0;
    for (plan_label const& label : before) {
      int other = 0;
      for (plan_label const& sum : rows[s.in.value_of[label.made]]) {
        if (sum.set == s.fork.set_of[label.made]) {
          plan_label one = label;
          one.time += sum.time;
          one.bytes += sum.bytes;
          one.from = from;
          one.other = other;
          one.made = sum.made;
          if (fits(one, s.join + 1, room)) out.offer(one.made, one);
        }
        ++other;
      }
      ++from;
    }
    return out.list();
  }

  /// The labels of plans that end: `choice` is how the loss takes the output.
  constexpr list ends(int loss, view before, plan_room const& room) const {
    search_step const& s = steps_[loss];
    plan_label_slots out(1);
    const plan_label_slots reached = arrivals(s.in, before, nullptr, 0);
    for (int k = 0; k < s.in.takes; ++k)
      if (s.times[k] < unreachable_time)
        reached.each(k, [&](plan_label const& label) {
          plan_label one = passed(label, label.from, s.times[k], 0);
          one.choice = k;
          for (int b = 0; b < plan_bounds::count; ++b)
            if (bounds_.rest[b] != nullptr && bounds_.weight[b].of(one.time, one.bytes) > room.most[b]) return;
          out.offer(0, one);
        });
    return out.list();
  }

  /// Writes what leads to a label at the end of a run.
  constexpr void trace(plan_choice* plan, run const& line, int last) const {
    for (std::size_t at = line.steps.size(); at-- > 0;)
      last = trace_step(plan, line.steps[at], line.labels[at], line.labels[at + 1][static_cast<std::size_t>(last)],
                        line.room);
  }
  /// The same of one step and its label; returns the place of the label before.
  constexpr int trace_step(plan_choice* plan, int i, view before, plan_label const& label,
                           plan_room const& room) const {
    const int made = before.first[label.from].made;
    plan[i] = {static_cast<std::int16_t>(made), label.choice};
    plan[next(i)].before = label.made;
    if (steps_[i].kind == search_step_kind::fork) trace_row(plan, i, before, label, made, room);
    return label.from;
  }

 private:
  constexpr void trace_row(plan_choice* plan, int fork, view before, plan_label const& label, int made,
                           plan_room const& room) const {
    search_step const& s = steps_[fork];
    // The runs are not kept: they are followed again, to the same labels.
    const row_type found = row(fork, s.in.value_of[made], before, room);
    plan_label const& sum = found.labels[static_cast<std::size_t>(label.other)];
    const int sets = s.fork.sets;
    plan[s.join] = {sum.made, -1};
    const int set[] = {sum.choice / sets, sum.choice % sets};
    const int first[] = {fork + 1, s.shortcut};
    const int last[] = {sum.from, sum.other};
    for (int side = 0; side < 2; ++side) {
      run const& line = (side == 0 ? found.branch : found.shortcut)[static_cast<std::size_t>(set[side])];
      plan[first[side]].before = s.fork.made_at[s.in.value_of[made] * sets + set[side]];
      trace(plan, line, last[side]);
    }
  }

  constexpr plan_label passed(plan_label label, int from, search_time time, index_t bytes) const {
    label.time += time;
    label.bytes += bytes;
    label.from = static_cast<std::int32_t>(from);
    return label;
  }
  template <class F>
  constexpr void each_way(search_step const& s, F f) const {
    for (int w = 0; w < s.way_count; ++w)
      if (const edge_code tie = s.ways[w].tie; tie_ == 0 || tie == 0 || tie == tie_) f(s.ways[w], w);
  }
  /// What is left under the first weight from each way of taking a value, from that of making it so.
  constexpr std::vector<double> rests_of_taken(step_links const& in, plan_rest const* made) const {
    std::vector<double> out(static_cast<std::size_t>(in.takes), 0.0);
    for (int k = 0; k < in.takes; ++k) out.data()[k] = made[in.made_of[k]].cost;
    return out;
  }
  /// Calls `f(k, time)` for the links from a label on after which there is not too much `to_go`.
  template <class F>
  constexpr void each_link(step_links const& in, plan_label const& label, double const* to_go, double most, F f) const {
    timed_link const* row = in.rows[in.value_of[label.made]];
    const double left = most - bounds_.weight[0].of(label.time, label.bytes);
    const double weight = bounds_.weight[0].time;
    for (int k = 0; k < in.takes; ++k)
      if (row[k].made == label.made &&
          (to_go == nullptr || weight * static_cast<double>(row[k].time) + to_go[k] <= left))
        f(k, row[k].time);
  }
  /// The best labels for each way of taking a value; with `same_layout`, those that keep its layout.
  constexpr plan_label_slots arrivals(step_links const& in, view before, double const* to_go, double most,
                                      bool same_layout = false) const {
    plan_label_slots out(in.takes);
    int from = 0;
    for (plan_label const& label : before) {
      each_link(in, label, to_go, most, [&](int k, search_time time) {
        if (!same_layout || keeps_layout<Axes>(in.made[label.made], in.taken[k]))
          out.offer(k, passed(label, from, time, 0));
      });
      ++from;
    }
    return out;
  }

  search_step const* steps_;
  plan_bounds bounds_;
  edge_code tie_;
};

}  // namespace tessera::detail
