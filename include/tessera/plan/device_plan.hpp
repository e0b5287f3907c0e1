#pragma once

#include <tessera/core/shape.hpp>

#include <array>
#include <string>
#include <vector>

namespace tessera {

/// What `plan_devices` is asked for.
struct device_request {
  int devices = 1;
  /// Samples of a step, all devices together; 0: as many as the extents of the input say. Where these leave the batch
  /// to run time (`input<dynamic, 3, 224, 224>`), it is asked for here.
  index_t batch = 0;
  index_t memory = 0;         ///< bytes of a device; 0: what the machine says
  index_t element_bytes = 4;  ///< of values, gradients and what the optimizer remembers
  index_t remembered = 1;     ///< values that the optimizer keeps for each element
  /// Split plans whose step is simulated, for each combination: so many of the best where reductions of gradients count
  /// in full, and so many of the best where they do not count.
  int plans = 4;
  /// Combinations that cannot be better than the best one by more than this share are not searched, and under a limit
  /// of memory no plan that is better than another one by less. 0 or more, less than 1.
  double tolerance = 0.01;
  int most_stages = 64;                                ///< of a pipeline; 1: none
  int most_parts = 64;                                 ///< micro-batches of a step; 1: none
  std::array<bool, 4> levels{true, true, true, true};  ///< of `optimizer_parallel` that may be chosen; 0: without
  bool recompute = true;                               ///< whether blocks may run forward twice to keep less
  // What is not to be chosen:
  int stages = 0;           ///< of the pipeline; 0: chosen
  int parts = 0;            ///< micro-batches; 0: chosen
  std::vector<int> mesh{};  ///< the axes inside a stage, their product the devices of a stage; none: chosen
  bool overlap = true;      ///< whether reductions of gradients run beside backward
};

/// An axis of a planned mesh. Ranks are devices in order, the last axis fastest.
struct planned_axis {
  int size = 1;
  std::string level{};  ///< of the machine: the outermost that its groups cross
};

/// A layer of a planned model.
struct planned_cut {
  std::string path{};                ///< as parameters are named: `2.branch.0`
  std::string layer{};               ///< its type
  std::vector<std::string> words{};  ///< by axis of the mesh: what it cuts (`batch`, `output`, ...), or nothing
  int stage = 0;
  double seconds = 0;  ///< forward and backward of all parts of the batch, with all messages but reductions
};

/// Bytes of the device that needs most.
struct device_memory {
  index_t parameters = 0;   ///< and states
  index_t gradients = 0;    ///< and sums of them where the batch comes in parts
  index_t optimizer = 0;    ///< what it remembers
  index_t activations = 0;  ///< what is kept for backward, of all passes that are under way at one time
  index_t workspace = 0;    ///< what one pass has at one time beside these, or a little more
  index_t buckets = 0;      ///< whole gradients and parameters that take turns (levels 2 and 3)

  constexpr index_t total() const { return parameters + gradients + optimizer + activations + workspace + buckets; }
};

/// Seconds of a simulated step, of the device that has most to do: see `step_price`.
struct device_step {
  double compute = 0;        ///< kernels of both passes, all parts; with forward passes that run again
  double communication = 0;  ///< collectives that passes wait for
  double exposed = 0;        ///< reductions after backward, and gathers of parameters that passes wait for
  double bubble = 0;         ///< what the busiest device of a pipeline waits for others
  double update = 0;
  constexpr double total() const { return compute + communication + exposed + bubble + update; }
};

/// The plan of a model on so many devices: what `plan_devices` finds.
struct device_plan {
  int devices = 1;
  index_t batch = 0;
  int stages = 1;                    ///< of the pipeline: the outermost axis
  std::vector<planned_axis> mesh{};  ///< the axes inside a stage; none where a stage is one device
  int parts = 1;                     ///< micro-batches
  int level = 0;                     ///< of `optimizer_parallel` along all axes of the mesh
  bool recompute = false;            ///< whether each block runs forward twice and keeps its input only
  std::vector<int> begins{};         ///< by stage: its first layer in the outermost chain
  std::vector<planned_cut> layers{};
  int buckets = 0;       ///< in which gradients are reduced
  std::string fusion{};  ///< the policy of `fuse` that makes them
  device_step step{};
  device_memory memory{};
  double one_device = 0;  ///< seconds of this batch on one device, were its memory no limit

  int combinations = 0;  ///< that there are
  int searched = 0;      ///< of these, those whose split plans were searched; the others cannot be better
  int simulated = 0;     ///< steps

  constexpr double samples_per_second() const { return static_cast<double>(batch) / step.total(); }
  constexpr double efficiency() const { return one_device / (devices * step.total()); }
};

}  // namespace tessera
