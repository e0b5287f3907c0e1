#pragma once

#include <tessera/core/tensor.hpp>
#include <tessera/plan/pipeline.hpp>
#include <tessera/train/network_memory.hpp>
#include <tessera/train/pipeline_messages.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace tessera::detail {

/// The parameters that layers of different stages share. The first of these stages owns such a parameter: optimizers
/// and checkpoints see it there alone. The others have a copy, which they get before each pass, and send their part of
/// its gradient after each step. With `optimizer_parallel` ranks of each stage have slices of both, which are cut
/// differently; between stages they travel whole.
template <class Plan, context Context, class T>
class pipeline_ties {
 public:
  pipeline_ties() {
    for (stage_tie const& tie : Plan::ties()) links_.push_back({tie, {}, {}, {}});
  }

  /// Finds the memory of the shared parameters of stage `number`.
  template <class Stage>
  void find(Stage& stage, int number) {
    int position = 0;  // among the trainable parameters of the stage
    auto one = [&]<class Kind, class Value>(std::string const& name, Kind, auto const&, Value& value, auto&) {
      if constexpr (Kind::trainable) {
        if constexpr (!std::is_void_v<typename Kind::tie>) {
          for (link& l : links_) {
            if (l.which.tie != tie_of<typename Kind::tie>) continue;
            const held mine{&stage.memory, position, {value.local().data(), {{value.local().size()}}}};
            // The first layer of a stage collects the gradients of those after it.
            if (l.which.owner == number && l.owner.memory == nullptr) l.owner = mine;
            if (l.which.sharer == number) {
              if (l.sharer.memory == nullptr) l.sharer = mine;
              l.copies.push_back(name);
            }
          }
        }
        ++position;
      }
    };
    stage.visit(one);
  }

  /// Whether this is the name of a copy.
  bool is_copy(std::string const& name) const {
    return std::any_of(links_.begin(), links_.end(), [&](link const& l) {
      return std::find(l.copies.begin(), l.copies.end(), name) != l.copies.end();
    });
  }

  /// The values of the owners to all copies. With `optimizer_parallel` the ranks of the owner's stage gather them
  /// first, and those of the others keep their slices.
  void share_values(Context& where) {
    for_links(where, [](auto& along, link& l, int tag) {
      requests under_way;
      if (l.owner.memory != nullptr) {
        l.owner.memory->bring(l.owner.position);
        under_way.push_back(
            along.start_send(l.owner.value.data, l.owner.value.size(), Plan::device_of(l.which.sharer), tag));
      }
      if (l.sharer.memory != nullptr) {
        l.sharer.memory->open(l.sharer.position);
        under_way.push_back(
            along.start_receive(l.sharer.value.data, l.sharer.value.size(), Plan::device_of(l.which.owner), tag));
      }
      for (auto& request : under_way) request.wait();
      if (l.sharer.memory != nullptr) l.sharer.memory->close(l.sharer.position);
    });
  }
  /// The gradients of all copies to their owners, which add them to their own.
  void join_gradients(Context& where) {
    for_links(where, [](auto& along, link& l, int tag) {
      memory_type gathered;
      memory_type arrived;
      requests under_way;
      if (l.sharer.memory != nullptr) {
        const block<T const, 1> part = l.sharer.memory->whole_gradient(l.sharer.position, gathered);
        under_way.push_back(along.start_send(part.data, part.size(), Plan::device_of(l.which.owner), tag));
      }
      if (l.owner.memory != nullptr) {
        arrived = memory_type(l.owner.value.extents);
        under_way.push_back(along.start_receive(arrived.data(), arrived.size(), Plan::device_of(l.which.sharer), tag));
      }
      for (auto& request : under_way) request.wait();
      if (l.owner.memory != nullptr) l.owner.memory->add_to_reduced(l.owner.position, arrived.read());
    });
  }

 private:
  using stage_memory = network_memory<Context, T>;
  using memory_type = typename stage_memory::memory_type;
  using requests = std::vector<typename Context::communicator::request>;

  /// A parameter of a stage that this rank holds; no memory: of another rank's.
  struct held {
    stage_memory* memory = nullptr;
    int position = 0;
    block<T, 1> value{};  ///< where its layer finds it
  };
  struct link {
    stage_tie which;
    held owner;
    held sharer;
    std::vector<std::string> copies;
  };

  /// One after the other: values of several links may take turns in one place.
  template <class F>
  void for_links(Context& where, F f) {
    auto& along = where.group(Plan::axes);
    int tag = gradient_tag(Plan::stages);
    for (link& l : links_) f(along, l, ++tag);
  }

  std::vector<link> links_{};
};

}  // namespace tessera::detail
