#pragma once

#include <tessera/core/error.hpp>
#include <tessera/core/random.hpp>
#include <tessera/core/shape.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// How a `sampler` walks the rows.
struct sampler_options {
  /// The order of an epoch is a function of this seed and the epoch's number only.
  std::uint64_t seed = 0;
  /// Off: rows come in their stored order.
  bool shuffle = true;
  /// On: the rows that do not fill a last batch are left out of the epoch. Off: they form a smaller batch.
  bool drop_last = true;
};

/// Deals the rows of a dataset out in global batches: each row at most once an epoch, in an order that is the same
/// on every rank, whatever the mesh. Nothing is communicated.
class sampler {
 public:
  /// For `rows` rows in global batches of `batch`; starts at epoch 0.
  sampler(index_t rows, index_t batch, sampler_options choice = {}) : batch_(batch), choice_(choice) {
    if (batch < 1)
      throw error("a batch of " + std::to_string(batch) + " rows", "at least one row", "give a positive batch size");
    if (rows < (choice.drop_last ? batch : 1))
      throw error("a dataset of " + std::to_string(rows) + " rows for batches of " + std::to_string(batch),
                  "rows for at least one batch", "give a smaller batch, or more data");
    order_.resize(static_cast<std::size_t>(rows));
    begin_epoch(0);
  }

  /// Deals the rows anew for an epoch; a resumed run continues at any epoch.
  ///
  /// The shuffle is that of R. Fisher and F. Yates in the form of R. Durstenfeld (1964).
  void begin_epoch(index_t epoch) {
    std::iota(order_.begin(), order_.end(), index_t{0});
    if (!choice_.shuffle) return;
    const philox random(choice_.seed, stream | static_cast<std::uint64_t>(epoch));
    for (std::size_t i = order_.size() - 1; i > 0; --i) {
      const auto j = static_cast<std::size_t>(random.uniform(i) * static_cast<double>(i + 1));
      std::swap(order_[i], order_[j]);
    }
  }

  /// Number of batches an epoch.
  index_t batches() const {
    const auto rows = static_cast<index_t>(order_.size());
    return choice_.drop_last ? rows / batch_ : (rows + batch_ - 1) / batch_;
  }

  /// The rows of global batch `i` of the epoch, valid until the next `begin_epoch`.
  std::span<index_t const> rows_of(index_t i) const {
    if (i < 0 || i >= batches())
      throw error("batch " + std::to_string(i), "one of the " + std::to_string(batches()) + " batches of the epoch",
                  "begin the next epoch");
    const auto all = std::span<index_t const>(order_).subspan(static_cast<std::size_t>(i * batch_));
    return all.first(std::min(all.size(), static_cast<std::size_t>(batch_)));
  }

 private:
  /// Keeps the stream of shuffles apart from the streams of parameters and dropout under the same seed.
  static constexpr std::uint64_t stream = std::uint64_t{0x73616D70} << 32;

  index_t batch_;
  sampler_options choice_;
  std::vector<index_t> order_;
};

}  // namespace tessera
