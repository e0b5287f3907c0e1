#pragma once

#include "support/errors.hpp"
#include "support/worlds.hpp"

#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/dropout.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/train/checkpoint.hpp>
#include <tessera/train/trainer.hpp>

#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

/// What tests of checkpoints share: a model with all that is saved, its data, and folders.
namespace checkpoints {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct dp : axis<Size> {};
template <int Size>
struct tp : axis<Size> {};

/// Channels and classes that no axis divides; with three classes on four ranks one holds none.
template <class Dp, class Tp>
using by_output = parallel<chain<conv2d<1, 6, window<3, 1, 1>, split_output<Tp>>, batch_norm2d<6>, relu,
                                 conv2d<6, 5, window<3, 1, 1>, split_input<Tp>>, flatten<>,
                                 dropout<keep_of<std::ratio<3, 4>>>, linear<80, 3, split_output<Tp>>>,
                           input<dynamic, 1, 4, 4>, data_parallel<Dp>>;
/// The same model in another split.
template <class Dp, class Tp>
using by_input = parallel<
    chain<conv2d<1, 6, window<3, 1, 1>>, batch_norm2d<6>, relu, conv2d<6, 5, window<3, 1, 1>, split_output<Tp>>,
          flatten<>, dropout<keep_of<std::ratio<3, 4>>>, linear<80, 3, split_input<Tp>>>,
    input<dynamic, 1, 4, 4>, data_parallel<Dp>>;

/// 37 images of 4 x 4 pixels in three classes.
inline image_dataset const& images() {
  static const image_dataset all = [] {
    image_dataset data{{{37, 1, 4, 4}}, {}, {}, 3};
    for (int i = 0; i < 37 * 16; ++i) data.pixels.push_back(static_cast<std::uint8_t>((i * i * 37 + i) % 256));
    for (int i = 0; i < 37; ++i) data.labels.push_back((i * 5) % 3);
    return data;
  }();
  return all;
}
/// Four batches an epoch.
inline image_batches batches() { return {images(), 9, 0.5f, 1, {.seed = 3}}; }

/// A folder that all ranks of the test see, removed at its end.
class shared_folder {
 public:
  shared_folder() {
    auto id = static_cast<std::int64_t>(getpid());
    world_.broadcast(&id, 1, 0);
    path_ = std::filesystem::temp_directory_path() /
            ("tessera-checkpoint-" + std::to_string(id) + "-" + std::to_string(count++));
  }
  shared_folder(shared_folder const&) = delete;
  shared_folder& operator=(shared_folder const&) = delete;
  ~shared_folder() {
    world_.barrier();
    std::error_code ignored;
    if (world_.rank() == 0) std::filesystem::remove_all(path_, ignored);
    world_.barrier();
  }
  std::filesystem::path const& path() const { return path_; }

 private:
  static inline int count = 0;
  mpi_comm world_;
  std::filesystem::path path_;
};

using errors::error_of;

inline bool says(std::string const& text, std::string const& words) {
  INFO(text);
  INFO(words);
  const bool found = text.find(words) != std::string::npos;
  CHECK(found);
  return found;
}

/// All parameters and states, whole.
template <class Net>
std::map<std::string, std::vector<double>> whole(Net& net) {
  std::map<std::string, std::vector<double>> all;
  net.for_each_parameter([&](std::string const& name, auto const& value) {
    const auto gathered = gather(value);
    // Logical order, whatever the order in memory.
    auto& list = all[name];
    const auto block = gathered.read();
    const auto strides = strides_of<std::remove_cvref_t<decltype(block)>::order>(block.extents);
    constexpr int rank = std::remove_cvref_t<decltype(block)>::rank;
    for (index_t i = 0; i < block.size(); ++i) {
      index_t at = 0;
      index_t rest = i;
      for (int d = rank - 1; d >= 0; --d) {
        at += rest % block.extents[d] * strides[static_cast<std::size_t>(d)];
        rest /= block.extents[d];
      }
      list.push_back(static_cast<double>(block.data[at]));
    }
  });
  return all;
}

/// What this rank holds: parameters, states, and what the optimizer remembers.
template <class Trainer>
std::map<std::string, std::vector<float>> held(Trainer& trainer) {
  std::map<std::string, std::vector<float>> all;
  for (auto const& p : trainer.model().parameters()) all[p.name].assign(p.value.begin(), p.value.end());
  trainer.optimizer().visit_state(trainer.optimizer_state(), [&](char const* name, auto& blocks) {
    std::size_t i = 0;
    for (auto& block : blocks)
      all[std::string(name) + std::to_string(i++)].assign(block.data(), block.data() + block.size());
  });
  return all;
}

}  // namespace checkpoints
