#pragma once

#include <tessera/core/tensor.hpp>
#include <tessera/plan/pipeline.hpp>
#include <tessera/train/pipeline_messages.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace tessera::detail {

/// The parameters that layers of different stages share. The first of these stages owns such a parameter: optimizers
/// and checkpoints see it there alone. The others have a copy, which they get before each pass, and send their part of
/// its gradient after each step.
template <class Plan, context Context, class T>
class pipeline_ties {
 public:
  pipeline_ties() {
    for (stage_tie const& tie : Plan::ties()) links_.push_back({tie, {}, {}, {}});
  }

  /// Calls back of a visitor of stage `number`: finds the memory of its shared parameters.
  template <class Stage>
  void find(Stage& stage, int number) {
    auto one = [&]<class Kind, class Value, class Gradient>(std::string const& name, Kind, auto const&, Value& value,
                                                            Gradient& gradient) {
      if constexpr (Kind::trainable && !std::is_void_v<typename Kind::tie>) {
        for (link& l : links_) {
          if (l.which.tie != tie_of<typename Kind::tie>) continue;
          const shape<1> size{{value.local().size()}};
          const held mine{{value.local().data(), size}, {gradient.local().data(), size}, true};
          // The first layer of a stage collects the gradients of those after it.
          if (l.which.owner == number && !l.owner.here) l.owner = mine;
          if (l.which.sharer == number) {
            if (!l.sharer.here) l.sharer = mine;
            l.copies.push_back(name);
          }
        }
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

  /// The values of the owners to all copies.
  void share_values(Context& where) {
    exchange(where, [&](auto& along, link& l, int tag, auto& requests) {
      if (l.owner.here)
        requests.push_back(
            along.start_send(l.owner.value.data, l.owner.value.size(), Plan::device_of(l.which.sharer), tag));
      if (l.sharer.here)
        requests.push_back(
            along.start_receive(l.sharer.value.data, l.sharer.value.size(), Plan::device_of(l.which.owner), tag));
    });
  }
  /// The gradients of all copies to their owners, which add them to their own.
  void join_gradients(Context& where) {
    std::vector<tensor<T, 1, typename Context::backend::memory, Context::backend::order>> parts(links_.size());
    std::size_t next = 0;
    exchange(where, [&](auto& along, link& l, int tag, auto& requests) {
      auto& part = parts[next++];
      if (l.sharer.here)
        requests.push_back(
            along.start_send(l.sharer.gradient.data, l.sharer.gradient.size(), Plan::device_of(l.which.owner), tag));
      if (!l.owner.here) return;
      part = typename decltype(parts)::value_type(l.owner.gradient.extents);
      requests.push_back(along.start_receive(part.data(), part.size(), Plan::device_of(l.which.sharer), tag));
    });
    for (std::size_t i = 0; i < links_.size(); ++i)
      if (links_[i].owner.here) where.kernels().axpy(T{1}, parts[i].read(), links_[i].owner.gradient);
  }

 private:
  struct held {
    block<T, 1> value{};
    block<T, 1> gradient{};
    bool here = false;
  };
  struct link {
    stage_tie which;
    held owner;
    held sharer;
    std::vector<std::string> copies;
  };

  template <class F>
  void exchange(Context& where, F f) {
    auto& along = where.group(Plan::axes);
    std::vector<typename Context::communicator::request> requests;
    int tag = gradient_tag(Plan::stages);
    for (link& l : links_) f(along, l, ++tag, requests);
    for (auto& request : requests) request.wait();
  }

  std::vector<link> links_{};
};

}  // namespace tessera::detail
