#pragma once

#include <tessera/layer/saved_pass.hpp>
#include <tessera/plan/pipeline.hpp>
#include <tessera/train/network_memory.hpp>
#include <tessera/train/pipeline_messages.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::detail {

/// One stage of a pipelined network on the ranks that hold it.
template <class Stage, context Context, class T>
struct stage_network {
  using bound = typename Stage::bound_type;
  using input = typename Stage::input;
  using output = typename Stage::output;
  using input_type = edge_tensor<T, Context, input::rank, input::layout>;
  using gradient_type = edge_tensor<T, Context, output::rank, Stage::arriving>;

  stage_network(Context& context, seed start) : memory(context) {
    memory.allocate_buckets(Stage::trainable(), Stage::buckets(sizeof(T)), Stage::sharing(sizeof(T)));
    root.number(0, memory.gate());
    typename network_memory<Context, T>::allocator allocate{memory, start};
    visit(allocate);
  }
  template <class X>
  auto forward(X const& x, bool training) {
    memory.begin_forward();
    return root.forward(x, training);
  }
  template <class F>
  void visit(F& f) {
    std::string path;
    root.visit(path, f, Stage::place);
  }

  tessera::node_of<bound, T, Context> root;
  network_memory<Context, T> memory;
  /// By part of the batch that has gone forward and not yet backward: what the layers keep, and the output's extents.
  std::vector<saved_pass> saved{};
  std::vector<shape<output::rank>> extents{};
};

/// What comes to a stage in a step.
template <class Stage, class Plan, context Context, class T>
struct stage_inboxes {
  using stage = stage_network<Stage, Context, T>;
  explicit stage_inboxes(Context& where)
      : activations(where, Plan::axes, Plan::device_of(Stage::number - 1), activation_tag(Stage::number)),
        gradients(where, Plan::axes, Plan::device_of(Stage::number + 1), gradient_tag(Stage::number)) {}

  void progress() {
    activations.progress();
    gradients.progress();
  }

  inbox<typename stage::input_type, Stage::input::extents> activations;
  inbox<typename stage::gradient_type, Stage::output::extents> gradients;
};

/// Something of its own for each stage that a rank holds.
template <template <int> class Item, class Sequence>
struct by_stage;
template <template <int> class Item, int... S>
struct by_stage<Item, std::integer_sequence<int, S...>> {
  template <int I>
  auto& at() {
    return static_cast<leaf<I>&>(leaves_).item;
  }

 private:
  template <int I>
  struct leaf {
    std::optional<Item<I>> item{};
  };
  struct all : leaf<S>... {};
  all leaves_{};
};

}  // namespace tessera::detail
