#pragma once

#include <tessera/data/idx.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Labelled images, all of one size, in host memory as bytes.
struct image_dataset {
  /// N, C, H, W.
  shape<4> extents;
  /// The pixels, row-major N, C, H, W.
  std::vector<std::uint8_t> pixels;
  /// One label an image, from 0 to `classes - 1`.
  std::vector<std::int64_t> labels;
  index_t classes = 0;

  /// Number of images.
  index_t size() const { return extents[0]; }
};

/// Reads grey images (N x H x W) and their labels (N) from two IDX files, gzipped or not.
///
/// Throws `error` where a file is at fault, the counts disagree or a label is not below `classes`.
inline image_dataset load_idx_images(std::filesystem::path const& images, std::filesystem::path const& labels,
                                     index_t classes) {
  idx_file pixels = read_idx(images);
  const idx_file answers = read_idx(labels);
  const auto want_rank = [](idx_file const& file, std::filesystem::path const& path, std::size_t rank,
                            std::string const& meaning) {
    if (file.extents.size() != rank)
      throw error(path.string() + " has " + std::to_string(file.extents.size()) + " dimensions",
                  std::to_string(rank) + " (" + meaning + ")", "give the files of images and labels in this order");
  };
  want_rank(pixels, images, 3, "images, rows, columns");
  want_rank(answers, labels, 1, "labels");

  const shape<4> extents{pixels.extents[0], 1, pixels.extents[1], pixels.extents[2]};
  if (extents.size() == 0)
    throw error(images.string() + " holds no pixels: its images are " + to_string(extents),
                "at least one image of one pixel", "fetch the file again");
  if (answers.extents[0] != extents[0])
    throw error(labels.string() + " holds " + std::to_string(answers.extents[0]) + " labels",
                std::to_string(extents[0]) + ", the number of images in " + images.string(),
                "give two files of the same part");
  for (std::size_t row = 0; row < answers.bytes.size(); ++row)
    if (answers.bytes[row] >= classes)
      throw error(
          labels.string() + " has the label " + std::to_string(answers.bytes[row]) + " in row " + std::to_string(row),
          "labels from 0 to " + std::to_string(classes - 1), "correct the file or give the right number of classes");
  return {extents, std::move(pixels.bytes), {answers.bytes.begin(), answers.bytes.end()}, classes};
}

/// The two parts that the MNIST family of data sets comes in.
enum class dataset_part : std::uint8_t { train, test };

/// Mean and standard deviation of the pixels of Fashion-MNIST's training part, for pixels between 0 and 1.
inline constexpr float fashion_mnist_mean = 0.28604f;
inline constexpr float fashion_mnist_deviation = 0.35302f;

/// Reads one part of Fashion-MNIST (H. Xiao, K. Rasul and R. Vollgraf, 2017) from a folder that holds it under its
/// standard names (`train-images-idx3-ubyte`, `t10k-labels-idx1-ubyte` and so on), each as it is or with `.gz`.
///
/// MNIST and other sets of ten classes with the same names load too.
inline image_dataset load_fashion_mnist(std::filesystem::path const& folder, dataset_part part) {
  const auto find = [&](std::string const& name) {
    for (char const* suffix : {"", ".gz"})
      if (const auto path = folder / (name + suffix); std::filesystem::is_regular_file(path)) return path;
    throw error("neither " + name + " nor " + name + ".gz is in the folder " + folder.string(),
                "the files of Fashion-MNIST under their standard names",
                "name the folder that holds them (on Debian, the package dataset-fashion-mnist installs them)");
  };
  const std::string stem = part == dataset_part::train ? "train" : "t10k";
  return load_idx_images(find(stem + "-images-idx3-ubyte"), find(stem + "-labels-idx1-ubyte"), 10);
}

}  // namespace tessera
