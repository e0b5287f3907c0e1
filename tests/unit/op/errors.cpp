#include "support/worlds.hpp"

#include <tessera/op/batch_norm.hpp>
#include <tessera/op/conv2d.hpp>
#include <tessera/op/cross_entropy.hpp>
#include <tessera/op/elementwise.hpp>
#include <tessera/op/flatten.hpp>
#include <tessera/op/matmul.hpp>
#include <tessera/op/pool2d.hpp>

namespace {

using namespace tessera;
using tessera::index_t;

struct one : axis<1> {};
using alone = worlds::serial_team<mesh<one>>;
template <int Rank>
using array = sharded<float, Rank, replicated, alone>;

/// The operands of all cases: one rank, and tensors whose contents do not matter.
struct operands {
  alone team{serial_comm{}};
  template <class... Extents>
  auto zeros(Extents... extents) {
    constexpr int rank = static_cast<int>(sizeof...(Extents));
    return array<rank>(team, {{extents...}}, typename array<rank>::local_type(shape<rank>{{extents...}}, 0.0f));
  }
};

TEST_CASE_FIXTURE(operands, "operands of other extents than the operator needs are refused") {
  CHECK_THROWS_WITH_AS(op::matmul(zeros(2, 3), zeros(4, 5)),
                       "tessera: inner extent of b in matmul is 4; wanted 3; check the extents of the operands", error);
  CHECK_THROWS_WITH_AS((op::matmul<true, true>(zeros(2, 3), zeros(4, 5))),
                       "tessera: inner extent of b in matmul is 5; wanted 2; check the extents of the operands", error);
  CHECK_THROWS_WITH_AS(op::linear_product(zeros(2, 3), zeros(5, 4)),
                       "tessera: last extent of the input of linear is 3; wanted 4; check the extents of the operands",
                       error);
  CHECK_THROWS_WITH_AS(
      zeros(2, 3) + zeros(3, 2),
      "tessera: add of tensors of [2, 3] and [3, 2]; wanted equal extents; reshape or broadcast one of "
      "them first",
      error);
  CHECK_THROWS_WITH_AS(
      zeros(2, 3) * zeros(2, 1),
      "tessera: mul of tensors of [2, 3] and [2, 1]; wanted equal extents; reshape or broadcast one of "
      "them first",
      error);
  auto rows = zeros(2, 3);
  auto images = zeros(2, 3, 4, 4);
  CHECK_THROWS_WITH_AS(op::add_bias(rows, zeros(2)),
                       "tessera: extent of the bias is 2; wanted 3; check the extents of the operands", error);
  CHECK_THROWS_WITH_AS(op::add_bias_once(images, zeros(4)),
                       "tessera: extent of the bias is 4; wanted 3; check the extents of the operands", error);
}

TEST_CASE_FIXTURE(operands, "convolutions and poolings that do not fit their images are refused") {
  CHECK_THROWS_WITH_AS(op::conv2d(zeros(1, 3, 8, 8), zeros(4, 2, 1, 1), {}),
                       "tessera: number of input channels of conv2d is 3; wanted 2; check the extents of the operands",
                       error);
  CHECK_THROWS_WITH_AS(op::conv2d<2>(zeros(1, 4, 8, 8), zeros(4, 2, 1, 1), {}),
                       "tessera: number of groups in the geometry of conv2d is 1; wanted 2; check the extents of the "
                       "operands",
                       error);
  conv2d_geometry wide;
  wide.kernel = {5, 5};
  wide.padding_before = {1, 0};
  CHECK_THROWS_WITH_AS(op::conv2d(zeros(1, 3, 5, 4), zeros(4, 3, 5, 5), wide),
                       "tessera: a window larger than padded images of [1, 3, 5, 4]; wanted at least one window an "
                       "image; make the window smaller, or the images or their padding larger",
                       error);
  pool2d_geometry window;
  window.kernel = {3, 3};
  CHECK_THROWS_AS(op::max_pool2d(zeros(1, 3, 2, 8), window), error);
  CHECK_THROWS_AS(op::avg_pool2d(zeros(1, 3, 8, 2), window), error);
}

TEST_CASE_FIXTURE(operands, "C32: batch_norm needs two values a channel over the whole batch, in training only") {
  auto mean = zeros(3);
  auto variance = zeros(3);
  CHECK_THROWS_WITH_AS(
      op::batch_norm_statistics(zeros(1, 3, 1, 1), 0.1, 1e-5, mean, variance),
      "tessera: batch_norm in training has 1 values a channel over the whole batch; wanted at least 2, "
      "for a variance; enlarge the batch or the image, or evaluate with running statistics",
      error);
  CHECK_NOTHROW(op::batch_norm_statistics(zeros(1, 3, 1, 2), 0.1, 1e-5, mean, variance));
  CHECK_NOTHROW(op::batch_norm_running(1e-5, mean, variance));
}

TEST_CASE_FIXTURE(operands, "cross_entropy refuses labels that are no class, with their row") {
  using loss = op::cross_entropy<array<2>>;
  const auto logits = zeros(3, 4);
  const auto with = [&](std::vector<std::int64_t> labels) { return loss(logits, labels); };
  CHECK_NOTHROW(with({0, 3, -100}));
  CHECK_THROWS_WITH_AS(
      with({0, 4, 1}),
      "tessera: label 4 in row 1 of the batch; wanted 0 to 3, or -100 to ignore the row; mend the data, "
      "or give the model as many outputs as there are classes",
      error);
  CHECK_THROWS_WITH_AS(
      with({0, 3, -1}),
      "tessera: label -1 in row 2 of the batch; wanted 0 to 3, or -100 to ignore the row; mend the data, "
      "or give the model as many outputs as there are classes",
      error);
  CHECK_THROWS_WITH_AS(with({0, 3}),
                       "tessera: 2 labels for the 3 rows that a rank has from row 0 of the batch on; wanted one label a "
                       "row; give each rank the labels of its own rows: cut them like the rows of the logits",
                       error);
}

TEST_CASE_FIXTURE(operands, "cross_entropy refuses options and targets that do not fit") {
  using loss = op::cross_entropy<array<2>>;
  const std::vector<std::int64_t> labels{0, 1, 2};
  cross_entropy_options options;
  options.class_weights = {1, 2, 3};
  CHECK_THROWS_WITH_AS(loss(zeros(3, 4), labels, options),
                       "tessera: 3 class weights for 4 classes; wanted one weight a class; pass the weights of all "
                       "classes on every rank",
                       error);
  options.class_weights.clear();
  for (const double share : {-0.1, 1.5, static_cast<double>(NAN)}) {
    CAPTURE(share);
    options.label_smoothing = share;
    CHECK_THROWS_AS(loss(zeros(3, 4), labels, options), error);
  }
  options.label_smoothing = 1.5;
  CHECK_THROWS_WITH_AS(loss(zeros(3, 4), labels, options),
                       "tessera: label smoothing of 1.500000; wanted a share from 0 to 1; mend "
                       "cross_entropy_options::label_smoothing",
                       error);
  CHECK_THROWS_WITH_AS(loss(zeros(3, 4), zeros(3, 5)),
                       "tessera: targets of [3, 5] for logits of [3, 4]; wanted one probability for each logit; pass "
                       "targets of the logits' extents, or one label a row",
                       error);
  options = {};
  options.reduce = loss_reduction::none;
  CHECK_THROWS_AS(loss(zeros(3, 4), labels, options).backward(), error);
}

TEST_CASE_FIXTURE(operands, "the gradient of flatten has as many elements as its input") {
  CHECK_THROWS_WITH_AS(op::flatten_backward<array<4>>(zeros(2, 11), {{2, 3, 2, 2}}),
                       "tessera: size of this rank's block of the input of flatten is 24; wanted 22; check the extents "
                       "of the operands",
                       error);
}

}  // namespace
