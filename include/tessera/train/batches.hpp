#pragma once

#include <tessera/core/sharded.hpp>
#include <tessera/data/sampler.hpp>

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// A batch as a model and its loss take it on this rank.
template <class Input>
struct loaded_batch {
  Input input;
  /// Of this rank's rows of the output.
  std::vector<std::int64_t> targets;
};

/// Rows of data in global batches, for `trainer::fit` and `evaluate`: how many rows there are, how many a batch has on
/// all ranks together, the order in which they come, and `load(model, rows)`, which makes a `loaded_batch` of the named
/// rows without communication. See train/image_batches.hpp and train/token_batches.hpp.
template <class B, class Network>
concept batches_for = requires(B const& b, Network& model, std::span<index_t const> rows) {
  { b.rows() } -> std::convertible_to<index_t>;
  { b.batch } -> std::convertible_to<index_t>;
  { b.sampling } -> std::convertible_to<sampler_options>;
  { b.load(model, rows) } -> std::same_as<loaded_batch<typename Network::input_type>>;
};

/// This rank's rows of a model's output of so many, whose targets `load` gives: a layer may have cut them in another
/// way than the input's.
template <class Network>
interval output_rows(Network& model, index_t rows) {
  using output_type = typename Network::output_type;
  shape<output_type::rank> extents;
  extents[0] = rows;
  return local_box<typename output_type::mesh>(output_type::placements, extents, model.where().coordinates())[0];
}

}  // namespace tessera
