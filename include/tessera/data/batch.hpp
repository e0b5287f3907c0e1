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

/// Fills this rank's block of a global batch: the images and labels of the rows `rows[mine.begin, mine.end)`.
///
/// `rows` are the dataset's rows of the whole batch (see `sampler`), `mine` this rank's part of them (see `cut`). A
/// pixel p becomes `(p / 255 - mean) / deviation`, computed in `T`. `x` gets the extents `mine.size`, C, H, W and new
/// memory where it has others or where another handle still shares its block. Nothing is communicated.
template <class T, class Memory, storage_order Order>
void load_batch(image_dataset const& data, std::span<index_t const> rows, interval mine, float mean, float deviation,
                tensor<T, 4, Memory, Order>& x, std::vector<std::int64_t>& labels) {
  if (!(deviation > 0))
    throw error("a standard deviation of " + std::to_string(deviation), "a positive number",
                "give the deviation of the pixels, or 1");
  if (mine.begin < 0 || mine.size < 0 || mine.end() > static_cast<index_t>(rows.size()))
    throw error("rows " + std::to_string(mine.begin) + " to " + std::to_string(mine.end()) + " of a batch of " +
                    std::to_string(rows.size()),
                "a part of the batch", "cut the batch's own size");

  std::array<T, 256> normalised{};
  for (std::size_t p = 0; p < 256; ++p)
    normalised[p] = (static_cast<T>(p) / T{255} - static_cast<T>(mean)) / static_cast<T>(deviation);

  const shape<4> extents{mine.size, data.extents[1], data.extents[2], data.extents[3]};
  if (x.extents() != extents || !x.unique()) x = tensor<T, 4, Memory, Order>(extents);
  labels.resize(static_cast<std::size_t>(mine.size));

  const auto step = strides_of<Order>(extents);
  const index_t plane = extents[2] * extents[3];
  for (index_t n = 0; n < mine.size; ++n) {
    const index_t row = rows[static_cast<std::size_t>(mine.begin + n)];
    if (row < 0 || row >= data.size())
      throw error("row " + std::to_string(row) + " of a dataset of " + std::to_string(data.size()),
                  "rows of the dataset", "make the sampler for this dataset");
    labels[static_cast<std::size_t>(n)] = data.labels[static_cast<std::size_t>(row)];
    std::uint8_t const* from = data.pixels.data() + row * extents[1] * plane;
    for (index_t c = 0; c < extents[1]; ++c) {
      T* to = x.data() + n * step[0] + c * step[1];
      // Rows and columns lie one after the other in both storage orders, `step[3]` apart.
      for (index_t p = 0; p < plane; ++p) to[p * step[3]] = normalised[*from++];
    }
  }
}

}  // namespace tessera
