#pragma once

#include <tessera/core/placement.hpp>

#include <string>
#include <vector>

namespace layouts {

/// All layouts of a tensor of `rank` dimensions: each axis replicates, is a partial sum, or cuts a dimension, and axes
/// that cut the same dimension do so in every order.
template <int Axes>
std::vector<tessera::placements<Axes>> all(int rank, std::vector<tessera::reduction> const& reductions = {
                                                         tessera::reduction::sum}) {
  std::vector<tessera::placements<Axes>> found;
  tessera::placements<Axes> value;
  const auto orders = [&](auto&& self, int a) -> void {
    if (a == Axes) {
      for (int i = 0; i < Axes; ++i)
        if (value[i].is_shard() && value.axis_cutting(value[i].dim, value[i].order) != i) return;
      for (int d = 0; d < rank; ++d)
        for (int order = 0; order < value.cuts(d); ++order)
          if (value.axis_cutting(d, order) < 0) return;
      found.push_back(value);
      return;
    }
    value[a] = tessera::replicated_placement();
    self(self, a + 1);
    for (const tessera::reduction op : reductions) {
      value[a] = tessera::partial_placement(op);
      self(self, a + 1);
    }
    for (int d = 0; d < rank; ++d)
      for (int order = 0; order < Axes; ++order) {
        value[a] = tessera::shard_placement(d, order);
        self(self, a + 1);
      }
  };
  orders(orders, 0);
  return found;
}

/// A layout for messages: what each axis does, `-` for replicated, `+` for a partial sum, else dimension.order.
template <int Axes>
std::string text(tessera::placements<Axes> const& p) {
  std::string all;
  for (int a = 0; a < Axes; ++a) {
    all += ' ';
    if (p[a].is_replicated()) all += '-';
    if (p[a].is_partial()) all += p[a].op == tessera::reduction::sum ? "+" : "max";
    if (p[a].is_shard()) {
      all += std::to_string(p[a].dim);
      all += '.';
      all += std::to_string(p[a].order);
    }
  }
  return all;
}

}  // namespace layouts
