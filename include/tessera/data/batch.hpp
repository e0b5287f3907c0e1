#pragma once

#include <tessera/core/error.hpp>
#include <tessera/core/partition.hpp>
#include <tessera/core/tensor.hpp>
#include <tessera/data/dataset.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

/// Fills this rank's block of a global batch: of the images of the rows `rows[mine[0].begin, mine[0].end())` the
/// channels, rows and columns of pixels that `mine` names, and all labels of these rows.
///
/// `rows` are the dataset's rows of the whole batch (see `sampler`), `mine` this rank's part of the batch (see
/// `local_box`). A pixel p becomes `(p / 255 - mean) / deviation`, computed in `T`. `x` gets the extents of `mine` and
/// new memory where it has others or where another handle still shares its block. Nothing is communicated.
template <class T, class Memory, storage_order Order>
void load_batch(image_dataset const& data, std::span<index_t const> rows, box<4> const& mine, float mean,
                float deviation, tensor<T, 4, Memory, Order>& x, std::vector<std::int64_t>& labels) {
  if (!(deviation > 0))
    throw error("a standard deviation of " + std::to_string(deviation), "a positive number",
                "give the deviation of the pixels, or 1");
  const index_t whole[4] = {static_cast<index_t>(rows.size()), data.extents[1], data.extents[2], data.extents[3]};
  constexpr char const* names[4] = {"rows", "channels", "rows of pixels", "columns of pixels"};
  for (int d = 0; d < 4; ++d)
    if (mine[d].begin < 0 || mine[d].size < 0 || mine[d].end() > whole[d])
      throw error(std::string(names[d]) + " " + std::to_string(mine[d].begin) + " to " + std::to_string(mine[d].end()) +
                      " of a batch of " + std::to_string(whole[d]) + " " + names[d],
                  "a part of the batch", "cut the batch's own extents");

  if (static_cast<index_t>(data.labels.size()) < data.size() ||
      static_cast<index_t>(data.pixels.size()) < data.extents.size())
    throw error("a dataset of " + to_string(data.extents) + " with " + std::to_string(data.pixels.size()) +
                    " pixels and " + std::to_string(data.labels.size()) + " labels",
                "the pixels of its extents and a label an image", "fill both, or give its true extents");
  for (const index_t row : rows)
    if (row < 0 || row >= data.size())
      throw error("row " + std::to_string(row) + " of a dataset of " + std::to_string(data.size()),
                  "rows of the dataset", "make the sampler for this dataset");

  std::array<T, 256> normalised{};
  for (std::size_t p = 0; p < 256; ++p)
    normalised[p] = (static_cast<T>(p) / T{255} - static_cast<T>(mean)) / static_cast<T>(deviation);

  const shape<4> extents = mine.extents();
  if (x.extents() != extents || !x.unique()) x = tensor<T, 4, Memory, Order>(extents);
  labels.resize(static_cast<std::size_t>(mine[0].size));

  const auto step = strides_of<Order>(extents);
  for (index_t n = 0; n < mine[0].size; ++n) {
    const index_t row = rows[static_cast<std::size_t>(mine[0].begin + n)];
    labels[static_cast<std::size_t>(n)] = data.labels[static_cast<std::size_t>(row)];
    for (index_t c = 0; c < extents[1]; ++c)
      for (index_t h = 0; h < extents[2]; ++h) {
        const index_t line = (row * whole[1] + mine[1].begin + c) * whole[2] + mine[2].begin + h;
        std::uint8_t const* from = data.pixels.data() + line * whole[3] + mine[3].begin;
        T* to = x.data() + n * step[0] + c * step[1] + h * step[2];
        for (index_t w = 0; w < extents[3]; ++w) to[w * step[3]] = normalised[from[w]];
      }
  }
}

}  // namespace tessera
