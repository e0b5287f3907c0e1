#pragma once

#include <tessera/core/error.hpp>
#include <tessera/core/mesh.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// One thing that a device of a pipeline does: the forward or the backward pass of one part of the batch (a
/// micro-batch) through one of its chunks. Chunk c of device p is stage c * devices + p of the model.
struct pipeline_action {
  enum class pass : std::uint8_t { forward, backward };
  pass kind = pass::forward;
  int chunk = 0;
  int part = 0;
  friend constexpr bool operator==(pipeline_action const&, pipeline_action const&) = default;
};

/// The order of the passes on each device. `actions(devices, device, parts)` has each pass of each part through each of
/// the `chunks` chunks once; the parts go through a chunk in order, forward and backward.
template <class S>
concept pipeline_schedule = requires {
  { S::chunks } -> std::convertible_to<int>;
  { S::actions(1, 0, 1) } -> std::same_as<std::vector<pipeline_action>>;
};

/// All forward passes, then all backward passes (Y. Huang and others, GPipe, NeurIPS 2019). The bubble is
/// (P - 1) / (M + P - 1) of the step for P devices and M parts; M passes are live.
struct gpipe {
  static constexpr int chunks = 1;
  static constexpr std::vector<pipeline_action> actions(int, int, int parts) {
    std::vector<pipeline_action> list;
    for (const auto kind : {pipeline_action::pass::forward, pipeline_action::pass::backward})
      for (int part = 0; part < parts; ++part) list.push_back({kind, 0, part});
    return list;
  }
};

namespace detail {
/// The first `warm_up` forward passes, then one backward pass after each, then the rest of these.
constexpr std::vector<pipeline_action> in_turns(std::vector<pipeline_action> const& forward,
                                                std::vector<pipeline_action> const& backward, std::size_t warm_up) {
  std::vector<pipeline_action> list;
  std::size_t next = 0;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    list.push_back(forward[i]);
    if (i >= warm_up) list.push_back(backward[next++]);
  }
  while (next < backward.size()) list.push_back(backward[next++]);
  return list;
}
}  // namespace detail

/// As soon as a device has filled the pipeline behind it, one backward pass follows each forward pass (D. Narayanan and
/// others, PipeDream-Flush, ICML 2021). The bubble is that of `gpipe`, but device p has at most P - p passes live,
/// however many parts there are.
struct one_forward_one_backward {
  static constexpr int chunks = 1;
  static constexpr std::vector<pipeline_action> actions(int devices, int device, int parts) {
    std::vector<pipeline_action> forward;
    std::vector<pipeline_action> backward;
    for (int part = 0; part < parts; ++part) {
      forward.push_back({pipeline_action::pass::forward, 0, part});
      backward.push_back({pipeline_action::pass::backward, 0, part});
    }
    return detail::in_turns(forward, backward, static_cast<std::size_t>(devices - device - 1));
  }
};

/// The same with `Chunks` stages on each device, which take turns every P parts (D. Narayanan and others, SC 2021). The
/// bubble is (P - 1) / (Chunks * M + P - 1) where P divides M; more passes are live, and more messages are sent.
///
/// Where P does not divide M the order is that of the next larger M which it divides, without the parts that are not
/// there.
template <int Chunks>
struct interleaved {
  static_assert(Chunks > 1,
                "tessera: an interleaved schedule has two chunks or more on each device; for one, name "
                "one_forward_one_backward");
  static constexpr int chunks = Chunks;
  static constexpr std::vector<pipeline_action> actions(int devices, int device, int parts) {
    std::vector<pipeline_action> forward;
    std::vector<pipeline_action> backward;
    for (int group = 0; group < parts; group += devices)
      for (int chunk = 0; chunk < Chunks; ++chunk)
        for (int part = group; part < group + devices; ++part) {
          forward.push_back({pipeline_action::pass::forward, chunk, part});
          backward.push_back({pipeline_action::pass::backward, Chunks - 1 - chunk, part});
        }
    const int warm_up = 2 * (devices - device - 1) + (Chunks - 1) * devices;
    auto list = detail::in_turns(forward, backward, static_cast<std::size_t>(warm_up));
    std::erase_if(list, [&](pipeline_action const& a) { return a.part >= parts; });
    return list;
  }
};

/// A policy of `parallel`: the layers of the model's outermost chain are cut into stages, which the devices along
/// `Axis` hold. `stage<N>` marks in the chain say where; without marks the most expensive stage is as cheap as can be
/// (plan/pipeline.hpp).
///
/// A batch goes through in the parts that `options::micro_batches` says, or in which `trainer::step` gets it.
template <mesh_axis Axis, class Schedule = one_forward_one_backward>
struct pipeline {
  static_assert(
      pipeline_schedule<Schedule>,
      "tessera: this is no schedule of a pipeline; name gpipe, one_forward_one_backward or interleaved<Chunks>, "
      "or give a type of your own the members chunks and actions");
  using axis = Axis;
  using schedule = Schedule;
};

/// How long a step of a pipeline takes, and how long its busiest device computes in it.
struct pipeline_time {
  std::int64_t span = 0;
  std::int64_t busy = 0;
  /// The share of the step in which a device waits.
  constexpr double bubble() const { return 1 - static_cast<double>(busy) / static_cast<double>(span); }
};

/// Runs on paper what each device of a pipeline does; a pass of a stage takes `duration(pass, stage)` units of time,
/// messages none. `busy` is that of the device that computes longest.
///
/// Throws (in a constant expression: does not compile) where devices would wait for each other for ever.
template <std::invocable<pipeline_action::pass, int> Duration>
constexpr pipeline_time simulate(std::vector<std::vector<pipeline_action>> const& lists, Duration duration) {
  using pass = pipeline_action::pass;
  const int devices = static_cast<int>(lists.size());
  int stages = 0;
  int parts = 0;
  std::size_t left = 0;
  for (auto const& list : lists) {
    left += list.size();
    for (pipeline_action const& a : list) {
      stages = std::max(stages, (a.chunk + 1) * devices);
      parts = std::max(parts, a.part + 1);
    }
  }
  // When a pass of a stage is done, -1 before.
  std::vector<std::int64_t> done(static_cast<std::size_t>(2 * stages * parts), -1);
  const auto place = [&](pass kind, int stage, int part) {
    return static_cast<std::size_t>((kind == pass::forward ? stage : stages + stage) * parts + part);
  };
  std::vector<std::size_t> next(lists.size(), 0);
  std::vector<std::int64_t> now(lists.size(), 0);
  std::vector<std::int64_t> busy(lists.size(), 0);
  while (left > 0) {
    const std::size_t before = left;
    for (std::size_t device = 0; device < lists.size(); ++device) {
      for (; next[device] < lists[device].size(); ++next[device], --left) {
        const pipeline_action a = lists[device][next[device]];
        const int stage = a.chunk * devices + static_cast<int>(device);
        std::int64_t start = now[device];
        const auto after = [&](pass kind, int other) {
          const std::int64_t when = done[place(kind, other, a.part)];
          start = when < 0 || start < 0 ? -1 : std::max(start, when);
        };
        if (a.kind == pass::forward) {
          if (stage > 0) after(pass::forward, stage - 1);
        } else {
          after(pass::forward, stage);
          if (stage + 1 < stages) after(pass::backward, stage + 1);
        }
        if (start < 0) break;
        const std::int64_t takes = duration(a.kind, stage);
        now[device] = start + takes;
        busy[device] += takes;
        done[place(a.kind, stage, a.part)] = now[device];
      }
    }
    if (left == before)
      throw error("a pipeline schedule whose devices wait for each other: " + std::to_string(left) + " passes are left",
                  "a pass whose input exists", "order the passes of the schedule so that one can always run");
  }
  return {*std::max_element(now.begin(), now.end()), *std::max_element(busy.begin(), busy.end())};
}
/// The same with stages that are all alike.
constexpr pipeline_time simulate(std::vector<std::vector<pipeline_action>> const& lists, int forward = 1,
                                 int backward = 2) {
  return simulate(lists, [&](pipeline_action::pass kind, int) {
    return std::int64_t{kind == pipeline_action::pass::forward ? forward : backward};
  });
}

/// The lists of all devices of a schedule.
template <pipeline_schedule Schedule>
constexpr std::vector<std::vector<pipeline_action>> all_actions(int devices, int parts) {
  std::vector<std::vector<pipeline_action>> lists;
  for (int device = 0; device < devices; ++device) lists.push_back(Schedule::actions(devices, device, parts));
  return lists;
}

/// The share of a step in which a device of a pipeline waits, a backward pass taking twice as long as a forward pass.
template <pipeline_schedule Schedule>
constexpr double bubble(int devices, int parts) {
  return simulate(all_actions<Schedule>(devices, parts)).bubble();
}

/// The most passes of which a device keeps activations at one time: forward, and not yet backward. A pass goes through
/// one chunk.
template <pipeline_schedule Schedule>
constexpr int peak_live(int devices, int device, int parts) {
  int live = 0;
  int peak = 0;
  for (auto const& action : Schedule::actions(devices, device, parts)) {
    live += action.kind == pipeline_action::pass::forward ? 1 : -1;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace tessera
