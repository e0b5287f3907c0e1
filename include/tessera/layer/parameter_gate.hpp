#pragma once

namespace tessera {

/// Whom layers ask before they run, in a network that does not keep all parameters in their memory all the time.
class parameter_gate {
 public:
  /// Returns when the values of the `count` trainable parameters from `first` on are there and, with `backward`, their
  /// gradients may be written.
  virtual void acquire(int first, int count, bool backward) = 0;

 protected:
  ~parameter_gate() = default;
};

}  // namespace tessera
