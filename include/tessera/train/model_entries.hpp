#pragma once

#include <tessera/train/checkpoint_entry.hpp>
#include <tessera/train/network.hpp>

#include <type_traits>
#include <vector>

namespace tessera::detail {

/// Begins the names of what optimizers remember, which no parameter has.
inline constexpr char const* state_prefix = "optimizer/";

/// A parameter, state or what goes with it, in a checkpoint.
template <storage_order Order, class T>
checkpoint_entry entry_of(parameter_view<T> const& p) {
  checkpoint_entry entry{p.name, safetensors_type_of<T>, p.extents, {p.part, {}, p.range}, p.value.data};
  constexpr auto stored = stored_dims<4, Order>();
  if (p.extents.size() == stored.size()) entry.part.order.assign(stored.begin(), stored.end());
  return entry;
}

/// The parameters and states of a model.
template <class Network>
std::vector<checkpoint_entry> model_entries(Network const& model) {
  constexpr auto order = std::remove_reference_t<decltype(model.where())>::backend::order;
  std::vector<checkpoint_entry> entries;
  for (auto const& p : model.parameters()) entries.push_back(entry_of<order>(p));
  return entries;
}

}  // namespace tessera::detail
