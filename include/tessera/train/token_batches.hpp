#pragma once

#include <tessera/backend/transfer.hpp>
#include <tessera/core/error.hpp>
#include <tessera/train/batches.hpp>

#include <string>

namespace tessera {

/// A text, as indices of its words or letters, in global batches of sequences [batch, length]: row i begins at index
/// `i * length`. The targets are the indices one place further on, sequence after sequence, so that a model whose
/// output is [batch * length, vocabulary] learns to tell the next one. Each rank reads its own sequences and positions.
///
/// `rows` and `load` throw where the text is too short for one sequence, `load` also where it has no such row.
struct token_batches {
  std::vector<std::int64_t> const& text;
  index_t length = 128;
  index_t batch = 32;
  sampler_options sampling{};

  /// Sequences in the text; the last index is only a target.
  index_t rows() const {
    if (length < 1 || static_cast<index_t>(text.size()) <= length)
      throw error("a text of " + std::to_string(text.size()) + " indices in sequences of " + std::to_string(length),
                  "at least one sequence and the index after it", "give a longer text, or shorter sequences");
    return (static_cast<index_t>(text.size()) - 1) / length;
  }

  template <class Network>
  loaded_batch<typename Network::input_type> load(Network& model, std::span<index_t const> chosen) const {
    using input_type = typename Network::input_type;
    using mesh = typename input_type::mesh;
    static_assert(std::is_same_v<typename input_type::value_type, std::int64_t> && input_type::rank == 2,
                  "tessera: token_batches are indices [batch, length]; give the model an embedding as its first layer");
    const index_t all = rows();
    for (const index_t row : chosen)
      if (row < 0 || row >= all)
        throw error("row " + std::to_string(row) + " of a text of " + std::to_string(all) + " sequences",
                    "rows of the text", "make the sampler for this text");
    const shape<2> extents{{static_cast<index_t>(chosen.size()), length}};
    const auto at = [&](index_t row, index_t position) {
      return text[static_cast<std::size_t>(chosen[static_cast<std::size_t>(row)] * length + position)];
    };
    const box<2> mine = local_box<mesh>(input_type::placements, extents, model.where().coordinates());
    tensor<std::int64_t, 2> read(mine.extents());
    for (index_t n = 0; n < mine[0].size; ++n)
      for (index_t s = 0; s < mine[1].size; ++s) read(n, s) = at(mine[0].begin + n, mine[1].begin + s);
    const interval out = output_rows(model, extents.size());
    std::vector<std::int64_t> next;
    next.reserve(static_cast<std::size_t>(out.size));
    for (index_t i = out.begin; i < out.end(); ++i) next.push_back(at(i / length, i % length + 1));
    return {input_type(model.where(), extents, from_host(model.where().kernels(), std::move(read))), std::move(next)};
  }
};

}  // namespace tessera
