#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tessera {

/// What the layers of a network keep of one forward pass, taken out of them so that they can begin another one.
class saved_pass {
 public:
  /// Takes what the layers below a node have kept of their last forward pass.
  template <class Node>
  void take_from(Node& node) {
    items_.clear();
    auto one = [&]<class Saved>(Saved& saved) {
      items_.push_back(std::make_unique<held<Saved>>(std::exchange(saved, {})));
    };
    node.visit_saved(one);
  }
  /// Gives it back, for the backward of that pass. `node` is the one that it was taken from.
  template <class Node>
  void return_to(Node& node) {
    std::size_t next = 0;
    auto one = [&]<class Saved>(Saved& saved) { saved = std::move(static_cast<held<Saved>&>(*items_[next++]).value); };
    node.visit_saved(one);
    items_.clear();
  }

 private:
  struct item {
    virtual ~item() = default;
  };
  template <class Saved>
  struct held : item {
    explicit held(Saved taken) : value(std::move(taken)) {}
    Saved value;
  };
  std::vector<std::unique_ptr<item>> items_{};
};

}  // namespace tessera
