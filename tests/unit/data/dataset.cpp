#include <tessera/data/dataset.hpp>

#include "files.hpp"

#include <cmath>

using data_test::bytes;
using data_test::error_of;
using data_test::idx;
using tessera::dataset_part;
using tessera::load_fashion_mnist;

namespace {

/// Three 2 x 2 images and their labels.
const bytes images = idx({3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
const bytes labels = idx({3}, {9, 0, 4});

std::string refusal(data_test::folder const& folder) {
  return error_of([&] { load_fashion_mnist(folder.path(), dataset_part::train); });
}

}  // namespace

TEST_CASE("each part comes from its own two files, each gzipped or not") {
  const data_test::folder folder;
  folder.write_gzip("train-images-idx3-ubyte.gz", images);
  folder.write("train-labels-idx1-ubyte", labels);
  folder.write("t10k-images-idx3-ubyte", idx({1, 1, 2}, {20, 21}));
  folder.write_gzip("t10k-labels-idx1-ubyte.gz", idx({1}, {5}));

  const tessera::image_dataset train = load_fashion_mnist(folder.path(), dataset_part::train);
  CHECK(train.extents == tessera::shape<4>{3, 1, 2, 2});
  CHECK(train.size() == 3);
  CHECK(train.pixels == bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(train.labels == std::vector<std::int64_t>{9, 0, 4});
  CHECK(train.classes == 10);

  const tessera::image_dataset test = load_fashion_mnist(folder.path(), dataset_part::test);
  CHECK(test.extents == tessera::shape<4>{1, 1, 1, 2});
  CHECK(test.labels == std::vector<std::int64_t>{5});
}

TEST_CASE("a missing file is named with its folder") {
  const data_test::folder folder;
  folder.write("train-images-idx3-ubyte", images);
  CHECK(refusal(folder) ==
        "tessera: neither train-labels-idx1-ubyte nor train-labels-idx1-ubyte.gz is in the folder " +
            folder.path().string() +
            "; wanted the files of Fashion-MNIST under their standard names; name the folder that holds them (on "
            "Debian, the package dataset-fashion-mnist installs them)");
}

TEST_CASE("files that do not belong together are refused") {
  const data_test::folder folder;
  const auto image_path = folder.write("train-images-idx3-ubyte", images).string();

  SUBCASE("another number of labels") {
    const auto path = folder.write("train-labels-idx1-ubyte", idx({2}, {1, 2})).string();
    CHECK(refusal(folder) == "tessera: " + path + " holds 2 labels; wanted 3, the number of images in " + image_path +
                                 "; give two files of the same part");
  }
  SUBCASE("a label out of range") {
    const auto path = folder.write("train-labels-idx1-ubyte", idx({3}, {9, 10, 4})).string();
    CHECK(refusal(folder) == "tessera: " + path +
                                 " has the label 10 in row 1; wanted labels from 0 to 9; correct the "
                                 "file or give the right number of classes");
  }
  SUBCASE("labels where images belong") {
    folder.write("train-images-idx3-ubyte", labels);
    folder.write("train-labels-idx1-ubyte", labels);
    CHECK(refusal(folder) == "tessera: " + image_path +
                                 " has 1 dimensions; wanted 3 (images, rows, columns); give the files of images and "
                                 "labels in this order");
  }
  SUBCASE("images where labels belong") {
    const auto path = folder.write("train-labels-idx1-ubyte", images).string();
    CHECK(refusal(folder) == "tessera: " + path +
                                 " has 3 dimensions; wanted 1 (labels); give the files of images and "
                                 "labels in this order");
  }
  SUBCASE("no images") {
    folder.write("train-images-idx3-ubyte", idx({0, 28, 28}, {}));
    folder.write("train-labels-idx1-ubyte", idx({0}, {}));
    CHECK(refusal(folder) == "tessera: " + image_path +
                                 " holds no pixels: its images are [0, 1, 28, 28]; wanted at least one image of one "
                                 "pixel; fetch the file again");
  }
}

TEST_CASE("Fashion-MNIST has the extents, labels and statistics that are published") {
  const std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) {
    MESSAGE("skipped: the package dataset-fashion-mnist is not installed");
    return;
  }
  const tessera::image_dataset train = load_fashion_mnist(folder, dataset_part::train);
  CHECK(train.extents == tessera::shape<4>{60000, 1, 28, 28});
  std::vector<int> count(10);
  for (const std::int64_t label : train.labels) ++count[static_cast<std::size_t>(label)];
  CHECK(count == std::vector<int>(10, 6000));

  double sum = 0;
  double squares = 0;
  for (const std::uint8_t p : train.pixels) {
    sum += p / 255.0;
    squares += p / 255.0 * (p / 255.0);
  }
  const double mean = sum / static_cast<double>(train.pixels.size());
  const double deviation = std::sqrt(squares / static_cast<double>(train.pixels.size()) - mean * mean);
  CHECK(std::abs(mean - tessera::fashion_mnist_mean) < 1e-5);
  CHECK(std::abs(deviation - tessera::fashion_mnist_deviation) < 1e-5);
  CHECK(load_fashion_mnist(folder, dataset_part::test).size() == 10000);
}
