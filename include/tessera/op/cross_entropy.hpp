#pragma once

#include <tessera/backend/concept.hpp>
#include <tessera/backend/settings.hpp>
#include <tessera/backend/transfer.hpp>
#include <tessera/comm/concept.hpp>
#include <tessera/op/rules.hpp>

#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tessera {

/// How the losses of the rows become one number.
enum class loss_reduction : std::uint8_t { mean, sum, none };

/// Options of `cross_entropy`.
struct cross_entropy_options {
  loss_reduction reduce = loss_reduction::mean;
  /// Rows with this label count nowhere.
  std::int64_t ignore_index = -100;
  /// Share of the target spread over all classes, 0 to 1.
  double label_smoothing = 0;
  /// A weight for each class, of all classes on every rank; empty: all one.
  std::vector<double> class_weights{};
};

namespace detail {
struct cross_entropy_op {
  static constexpr index_rules rules{"nc->n", {{'n', "batch"}, {'c', "classes"}}};
};
}  // namespace detail

namespace op {

/// A cross-entropy after its forward pass: the loss, and what backward needs.
///
/// With labels, the mean divides by the sum of the class weights of the rows that count (their number without weights),
/// also under label smoothing; where no row counts it is NaN with gradient 0. With probabilities it divides by the
/// batch size. Losses are relative to the row's maximum, so logits of any size are safe (P. Blanchard, D. Higham and
/// N. Higham, "Accurately computing the log-sum-exp and softmax functions", 2021).
///
/// Splits: batch, classes (never a gather of logits). Collectives of construction: where classes are cut, one
/// all_reduce of the row maxima and one of the row sums; where the batch is cut, one all_reduce of a number T; where
/// rows are ignored, a label is bad, there are class weights, or T does not hold the loss, one of three doubles. Of
/// `backward`: none.
template <sharded_tensor Logits>
class cross_entropy {
  static_assert(Logits::rank == 2,
                "tessera: cross_entropy takes logits [rows, classes]; flatten others first: flatten<0, 1> as the last "
                "layer makes rows of [N, S, classes]");
  using T = typename Logits::value_type;
  using context_type = typename Logits::context_type;
  using mesh = typename Logits::mesh;
  using memory = typename context_type::backend::memory;
  // Each rank has the whole loss of its rows, also where the classes are cut.
  using rows_type = relaid<Logits, 1, dual(result_of<detail::cross_entropy_op, 1, Logits>::placements)>;
  static constexpr axis_set batch_axes = Logits::placements.shard_axes(0);
  static constexpr axis_set class_axes = Logits::placements.shard_axes(1);

 public:
  /// `labels` are those of this rank's rows. Throws on every rank of the axes that cut the batch where one of them has
  /// more or fewer labels than rows, or a label that is no class and not `ignore_index`.
  cross_entropy(Logits const& logits, std::span<std::int64_t const> labels, cross_entropy_options const& options = {})
      : cross_entropy(logits, options) {
    const auto count = static_cast<index_t>(labels.size());
    // A rank with other labels than rows does its part of the messages, so that all learn of it in the last one.
    labels_ = tensor<std::int64_t, 1, memory>(shape<1>{{rows_}});
    if (count == rows_)
      kernels().upload(labels.data(), labels_.data(), count);
    else
      kernels().fill(labels_.view(), options.ignore_index);
    const index_t bad = kernels().first_bad_label(labels_.read(), part_.classes, part_.ignore_index);
    sums_ = tensor<T, 2, memory>(shape<2>{{part_.sums(), rows_}});
    reduce_maxima();
    kernels().cross_entropy_sums(logits_.read(), labels_.read(), maxima_.read(), part_, sums_.view());
    reduce_sums();
    finish(kernels().cross_entropy_loss(sums_.read(), labels_.read(), part_, row_loss_.write()), bad, count);
  }

  /// Targets are probabilities, cut like the logits.
  cross_entropy(Logits const& logits, Logits const& targets, cross_entropy_options const& options = {})
      : cross_entropy(logits, options) {
    if (!(logits.extents() == targets.extents()))
      throw error("targets of " + to_string(targets.extents()) + " for logits of " + to_string(logits.extents()),
                  "one probability for each logit", "pass targets of the logits' extents, or one label a row");
    targets_ = targets;
    by_probability_ = true;
    sums_ = tensor<T, 2, memory>(shape<2>{{part_.probability_sums(), rows_}});
    reduce_maxima();
    kernels().cross_entropy_probability_sums(logits_.read(), targets.read(), maxima_.read(), part_, sums_.view());
    reduce_sums();
    finish(kernels().cross_entropy_probability_loss(sums_.read(), row_loss_.write()), -1, rows_);
  }

  /// The loss over the whole batch, the same on all ranks (0 with `loss_reduction::none`).
  double loss() const { return loss_; }
  /// What a mean loss was divided by, the same on all ranks; none where the loss is no mean.
  std::optional<double> divisor() const {
    return reduce_ == loss_reduction::mean ? std::optional(divisor_) : std::nullopt;
  }
  /// The loss of each row.
  rows_type const& row_losses() const { return row_loss_; }

  /// Gradient of `factor * loss` with respect to the logits. No collectives.
  Logits backward(double factor = 1) const {
    switch (reduce_) {
      case loss_reduction::mean: return gradient(divisor_ > 0 ? factor / divisor_ : 0, {});
      case loss_reduction::sum: return gradient(factor, {});
      case loss_reduction::none: break;
    }
    throw error("backward of a cross_entropy without reduction was not given the gradient of each row",
                "one factor a row", "call backward(row_gradients), or use mean or sum");
  }
  /// Gradient of `sum of row_gradients * row_losses`.
  Logits backward(rows_type const& row_gradients) const {
    detail::require_shape(row_gradients.extents(), row_loss_.extents(), "the gradient of the row losses");
    return gradient(1, row_gradients.read());
  }

 private:
  cross_entropy(Logits const& logits, cross_entropy_options const& options)
      : logits_(logits),
        row_loss_(logits.where(), {{logits.extent(0)}}),
        maxima_(shape<1>{{logits.local().extent(0)}}),
        reduce_(options.reduce),
        rows_(logits.local().extent(0)) {
    const interval classes = logits.part()[1];
    part_.classes = logits.extent(1);
    part_.class_offset = classes.begin;
    part_.ignore_index = options.ignore_index;
    part_.label_smoothing = options.label_smoothing;
    if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
      throw error("label smoothing of " + std::to_string(options.label_smoothing), "a share from 0 to 1",
                  "mend cross_entropy_options::label_smoothing");
    if (!options.class_weights.empty()) {
      if (static_cast<index_t>(options.class_weights.size()) != part_.classes)
        throw error(std::to_string(options.class_weights.size()) + " class weights for " +
                        std::to_string(part_.classes) + " classes",
                    "one weight a class", "pass the weights of all classes on every rank");
      // One element more, so that a rank without classes still knows that there are weights.
      weights_ = tensor<T, 1, memory>(shape<1>{{classes.size + 1}});
      detail::write_on_host(kernels(), weights_, [&](auto to) {
        for (index_t c = 0; c < classes.size; ++c)
          to(c) = static_cast<T>(options.class_weights[static_cast<std::size_t>(classes.begin + c)]);
        to(classes.size) = T{0};
      });
      part_.class_weights = std::as_const(weights_).data();
    }
  }

  auto& kernels() const { return logits_.where().kernels(); }
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min();
  std::int64_t largest_of_batch(std::int64_t value) const {
    if (mesh::group_size(batch_axes) > 1)
      detail::host_group(logits_.where(), batch_axes).all_reduce(&value, 1, reduction::maximum);
    return value;
  }

  /// Throws the same on all ranks: the first part of the batch with another number of labels than rows.
  [[noreturn]] void refuse_count(index_t count) const {
    const std::int64_t mine = count == rows_ ? none : -logits_.part()[0].begin;
    const std::int64_t first = largest_of_batch(mine);
    const bool told = mine == first && count != rows_;
    const std::int64_t labels = largest_of_batch(told ? count : none);
    const std::int64_t rows = largest_of_batch(told ? rows_ : none);
    throw error(std::to_string(labels) + " labels for the " + std::to_string(rows) + " rows that a rank has from row " +
                    std::to_string(-first) + " of the batch on",
                "one label a row", "give each rank the labels of its own rows: cut them like the rows of the logits");
  }
  /// Throws the same on all ranks: the first bad label of the whole batch.
  [[noreturn]] void refuse_label(index_t bad) const {
    const std::int64_t mine = bad < 0 ? none : -(logits_.part()[0].begin + bad);
    const std::int64_t first = largest_of_batch(mine);
    const bool told = bad >= 0 && mine == first;
    const std::int64_t label =
        largest_of_batch(told ? detail::element_on_host(kernels(), labels_.read().data + bad) : none);
    throw error("label " + std::to_string(label) + " in row " + std::to_string(-first) + " of the batch",
                "0 to " + std::to_string(part_.classes - 1) + ", or " + std::to_string(part_.ignore_index) +
                    " to ignore the row",
                "mend the data, or give the model as many outputs as there are classes");
  }

  void reduce_maxima() {
    const block<T const, 2> x = logits_.read();
    kernels().row_max(block<T const, 3>{x.data, {{x.extents[0], x.extents[1], 1}}},
                      block<T, 2>{maxima_.data(), {{rows_, 1}}});
    if (mesh::group_size(class_axes) > 1)
      logits_.where().group(class_axes).all_reduce(maxima_.data(), rows_, reduction::maximum);
  }
  void reduce_sums() {
    if (mesh::group_size(class_axes) > 1)
      logits_.where().group(class_axes).all_reduce(sums_.data(), sums_.size(), reduction::sum);
  }
  /// Sums over the batch; `bad` is this rank's first row with a label that is none, or -1, and `count` how many targets
  /// it was given. Ranks whose own targets are good learn of bad ones here, so that all throw and none waits for
  /// another.
  void finish(cross_entropy_totals totals, index_t bad, index_t count) {
    constexpr bool in_double = deterministic_backend<typename context_type::backend>;  // as on one rank
    if (mesh::group_size(batch_axes) > 1 && part_.class_weights == nullptr && !in_double) {
      // As a rule all rows count, so that all ranks know the divisor. Losses are not negative: an infinite one tells of
      // a rank where it is not so.
      const bool whole = count == rows_ && bad < 0 && totals.weight == static_cast<double>(rows_);
      T loss = whole ? static_cast<T>(totals.loss) : -std::numeric_limits<T>::infinity();
      detail::host_group(logits_.where(), batch_axes).all_reduce(&loss, 1, reduction::sum);
      if (loss >= 0 && std::isfinite(loss)) {
        set_loss(static_cast<double>(loss), static_cast<double>(logits_.extent(0)));
        return;
      }
    }
    // A sum of whole numbers below 2^53 is exact: more than all ranks together have bad labels.
    constexpr double miscounted = 1 << 24;
    double all[3] = {totals.loss, totals.weight, count != rows_ ? miscounted : bad < 0 ? 0.0 : 1.0};
    if (mesh::group_size(batch_axes) > 1)
      detail::host_group(logits_.where(), batch_axes).all_reduce(all, 3, reduction::sum);
    if (all[2] >= miscounted) refuse_count(count);
    if (all[2] > 0) refuse_label(bad);
    set_loss(all[0], all[1]);
  }
  void set_loss(double sum, double divisor) {
    if (reduce_ == loss_reduction::none) return;
    divisor_ = divisor;
    loss_ = reduce_ == loss_reduction::mean ? sum / divisor : sum;
  }

  Logits gradient(double scale, block<T const, 1> row_scale) const {
    Logits dx(logits_.where(), logits_.extents());
    if (by_probability_)
      kernels().cross_entropy_probability_gradient(logits_.read(), targets_.read(), maxima_.read(), sums_.read(), part_,
                                                   scale, row_scale, dx.write());
    else
      kernels().cross_entropy_gradient(logits_.read(), labels_.read(), maxima_.read(), sums_.read(), part_, scale,
                                       row_scale, dx.write());
    return dx;
  }

  Logits logits_;
  Logits targets_{};
  rows_type row_loss_;
  tensor<T, 1, memory> maxima_;
  tensor<T, 2, memory> sums_{};
  tensor<T, 1, memory> weights_{};
  tensor<std::int64_t, 1, memory> labels_{};
  cross_entropy_part<T> part_{};
  loss_reduction reduce_;
  index_t rows_;
  bool by_probability_ = false;
  double divisor_ = 0;
  double loss_ = 0;
};

}  // namespace op

}  // namespace tessera
