#pragma once

#include <tessera/plan/search/labels.hpp>

#include <map>

namespace tessera::detail {

/// A residual of a graph, and which of its layers has a cut that is not wanted (-1: none).
struct residual_key {
  int node = 0;
  int banned = -1;
  friend constexpr auto operator<=>(residual_key const&, residual_key const&) = default;
};

/// The least weight of the rest of any plan from each state of a search on: what is left to go to the end of the model.
///
/// A plan through a label weighs at least the label's weight and what is left to go. One that takes less time than U
/// and keeps at most B bytes weighs less than U and the weight of B: labels beyond that need not be kept (the bound of
/// branch and bound, with a price on bytes: M. Fisher, Management Science 27, 1981). In the sides of a residual, and
/// for its sum, what is left to go includes the rest of the model around it, wherever it comes.
class label_bounds {
 public:
  static constexpr search_time never = std::numeric_limits<search_time>::max() / 4;
  /// By the way in which a value is made.
  using weights = std::vector<search_time>;
  /// Before each part of a line but the first, and after the last.
  using line_weights = std::vector<weights>;
  /// Of a residual whose input is one value: by where the gradient of the input is partial, for the sum, and as each
  /// side leaves it.
  struct row {
    std::vector<weights> sum{};
    std::vector<line_weights> branch{};
    std::vector<line_weights> shortcut{};
  };

  label_weight weight{};
  double most = 0;  ///< what plans weigh that are of no use
  line_weights model{};
  std::map<residual_key, std::vector<row>> residuals{};

  row const& of(residual_key const& key, std::int16_t value) const {
    return residuals.find(key)->second[static_cast<std::size_t>(value)];
  }
  /// Removes labels of no use.
  void cut(label_list& labels, weights const& to_go) const {
    std::erase_if(labels, [&](search_label const& label) {
      const search_time left = to_go[static_cast<std::size_t>(label.made)];
      return left >= never || weight.time * static_cast<double>(label.time) +
                                      weight.bytes * static_cast<double>(label.bytes) + static_cast<double>(left) >=
                                  most;
    });
  }
};

}  // namespace tessera::detail
