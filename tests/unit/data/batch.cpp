#include <tessera/data/batch.hpp>

#include "files.hpp"

#include <array>

namespace ts = tessera;
using data_test::error_of;
using ts::image_dataset;
using ts::load_batch;
using ts::shape;
using ts::storage_order;
using ts::tensor;

namespace {

constexpr shape<4> extents{5, 2, 3, 4};

std::uint8_t pixel(ts::index_t n, ts::index_t c, ts::index_t h, ts::index_t w) {
  return static_cast<std::uint8_t>(n * 50 + c * 12 + h * 4 + w);
}

image_dataset images() {
  image_dataset data{extents, {}, {4, 3, 2, 1, 0}, 5};
  for (ts::index_t n = 0; n < 5; ++n)
    for (ts::index_t c = 0; c < 2; ++c)
      for (ts::index_t h = 0; h < 3; ++h)
        for (ts::index_t w = 0; w < 4; ++w) data.pixels.push_back(pixel(n, c, h, w));
  return data;
}

ts::box<4> of_whole_images(ts::interval rows) { return {{rows, {0, 2}, {0, 3}, {0, 4}}}; }

}  // namespace

TEST_CASE_TEMPLATE("a rank's block holds its rows of the batch, normalised", Tensor, tensor<float, 4>,
                   tensor<double, 4, ts::host_memory, storage_order::row_major>) {
  using T = typename Tensor::value_type;
  const image_dataset data = images();
  const std::array<ts::index_t, 4> rows{4, 0, 3, 1};
  Tensor x;
  std::vector<std::int64_t> labels;
  load_batch(data, rows, of_whole_images({1, 2}), 0.25f, 0.5f, x, labels);

  CHECK(labels == std::vector<std::int64_t>{4, 1});
  REQUIRE(x.extents() == shape<4>{2, 2, 3, 4});
  for (ts::index_t n = 0; n < 2; ++n)
    for (ts::index_t c = 0; c < 2; ++c)
      for (ts::index_t h = 0; h < 3; ++h)
        for (ts::index_t w = 0; w < 4; ++w) {
          const T p = pixel(rows[static_cast<std::size_t>(n + 1)], c, h, w);
          CHECK(x(n, c, h, w) == (p / T{255} - T(0.25)) / T(0.5));
        }
}

TEST_CASE_TEMPLATE("a block may be a part of the images", Tensor, tensor<float, 4>,
                   tensor<double, 4, ts::host_memory, storage_order::row_major>) {
  using T = typename Tensor::value_type;
  const std::array<ts::index_t, 4> rows{4, 0, 3, 1};
  Tensor x;
  std::vector<std::int64_t> labels;
  load_batch(images(), rows, {{ts::interval{2, 2}, {1, 1}, {1, 2}, {0, 3}}}, 0.25f, 0.5f, x, labels);

  CHECK(labels == std::vector<std::int64_t>{1, 3});
  REQUIRE(x.extents() == shape<4>{2, 1, 2, 3});
  for (ts::index_t n = 0; n < 2; ++n)
    for (ts::index_t h = 0; h < 2; ++h)
      for (ts::index_t w = 0; w < 3; ++w) {
        const T p = pixel(rows[static_cast<std::size_t>(n + 2)], 1, h + 1, w);
        CHECK(x(n, 0, h, w) == (p / T{255} - T(0.25)) / T(0.5));
      }
}

TEST_CASE("the blocks of all ranks are the batch") {
  const image_dataset data = images();
  const std::array<ts::index_t, 5> rows{2, 4, 1, 0, 3};
  tensor<float, 4> whole;
  std::vector<std::int64_t> answers;
  load_batch(data, rows, of_whole_images({0, 5}), 0.0f, 1.0f, whole, answers);
  for (int rank = 0; rank < 3; ++rank) {
    const ts::interval mine = ts::cut({0, 5}, 3, rank);
    tensor<float, 4> x;
    std::vector<std::int64_t> labels;
    load_batch(data, rows, of_whole_images(mine), 0.0f, 1.0f, x, labels);
    CHECK(std::equal(x.view().begin(), x.view().end(), whole.data() + mine.begin * 24));
    CHECK(std::equal(labels.begin(), labels.end(), answers.begin() + mine.begin));
  }
}

TEST_CASE("a rank may have no rows") {
  tensor<float, 4> x;
  std::vector<std::int64_t> labels{1, 2, 3};
  load_batch(images(), std::array<ts::index_t, 1>{0}, of_whole_images({1, 0}), 0.0f, 1.0f, x, labels);
  CHECK(x.extents() == shape<4>{0, 2, 3, 4});
  CHECK(labels.empty());
}

TEST_CASE("memory is used again, unless someone still holds the last batch") {
  const image_dataset data = images();
  tensor<float, 4> x;
  std::vector<std::int64_t> labels;
  load_batch(data, std::array<ts::index_t, 2>{0, 1}, of_whole_images({0, 2}), 0.0f, 1.0f, x, labels);
  float const* first = x.data();
  load_batch(data, std::array<ts::index_t, 2>{2, 3}, of_whole_images({0, 2}), 0.0f, 1.0f, x, labels);
  CHECK(x.data() == first);

  const tensor<float, 4> kept = x;
  const float before = kept(0, 0, 0, 0);
  load_batch(data, std::array<ts::index_t, 2>{1, 0}, of_whole_images({0, 2}), 0.0f, 1.0f, x, labels);
  CHECK(kept(0, 0, 0, 0) == before);
  CHECK(x(0, 0, 0, 0) != before);
}

TEST_CASE("requests that make no sense are refused") {
  const image_dataset data = images();
  tensor<float, 4> x;
  std::vector<std::int64_t> labels;
  const auto refusal = [&](std::array<ts::index_t, 2> rows, ts::interval mine, float deviation) {
    return error_of([&] { load_batch(data, rows, of_whole_images(mine), 0.0f, deviation, x, labels); });
  };
  CHECK(refusal({0, 5}, {0, 2}, 1.0f) ==
        "tessera: row 5 of a dataset of 5; wanted rows of the dataset; make the sampler for this dataset");
  CHECK(refusal({0, -1}, {0, 2}, 1.0f) != "no error");
  CHECK(refusal({0, 1}, {1, 2}, 1.0f) ==
        "tessera: rows 1 to 3 of a batch of 2 rows; wanted a part of the batch; cut the batch's own extents");
  CHECK(refusal({0, 5}, {0, 1}, 1.0f) != "no error");  // a row of another rank
  image_dataset few = images();
  few.labels.pop_back();
  CHECK(error_of([&] {
          load_batch(few, std::array<ts::index_t, 1>{0}, of_whole_images({0, 1}), 0.0f, 1.0f, x, labels);
        }).find("and 4 labels") != std::string::npos);
  few = images();
  few.pixels.pop_back();
  CHECK(error_of([&] {
          load_batch(few, std::array<ts::index_t, 1>{0}, of_whole_images({0, 1}), 0.0f, 1.0f, x, labels);
        }).find("with 119 pixels") != std::string::npos);
  CHECK(refusal({0, 1}, {0, 2}, 0.0f) ==
        "tessera: a standard deviation of 0.000000; wanted a positive number; give "
        "the deviation of the pixels, or 1");
}
