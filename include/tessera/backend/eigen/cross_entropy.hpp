#pragma once

#include <tessera/backend/eigen/exponential.hpp>
#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>
#include <cmath>

namespace tessera::detail::eigen_kernels {

using label_block = block<std::int64_t const, 1>;

/// First row whose label is neither a class nor `ignore_index`; -1 where all are right.
inline index_t first_bad_label(label_block labels, index_t classes, std::int64_t ignore_index) {
  for (index_t r = 0; r < labels.size(); ++r) {
    const std::int64_t label = labels.data[r];
    if (label != ignore_index && (label < 0 || label >= classes)) return r;
  }
  return -1;
}

// Logits are always taken less the row's global maximum: the differences stay exact where logits are huge.

/// What this rank's classes add to the sums of each row; one buffer [part.sums(), rows], to be summed over ranks.
template <class T>
void cross_entropy_sums(operand<T, 2> logits, label_block labels, operand<T, 1> maximum,
                        cross_entropy_part<std::type_identity_t<T>> part, block<T, 2> sums, workspace& scratch) {
  const index_t rows = logits.extents[0];
  const index_t local = logits.extents[1];
  const index_t fields = part.sums();
  std::fill(sums.begin(), sums.end(), T{0});
  if (local == 0) return;
  T all_weights = static_cast<T>(local);
  if (part.class_weights != nullptr) all_weights = array(part.class_weights, local).sum();
  scratch.split(rows, 8 * local, [&](index_t begin, index_t end, workspace&) {
    for (index_t r = begin; r < end; ++r) {
      T const* row = logits.data + r * local;
      const T most = maximum.data[r];
      T* out = sums.data + r;
      out[0] = (array(row, local) - most).exp().sum();
      if (labels.data[r] == part.ignore_index) continue;
      const index_t label = labels.data[r] - part.class_offset;
      if (label >= 0 && label < local) {
        out[rows] = row[label] - most;
        if (fields > 2) out[2 * rows] = part.class_weights == nullptr ? T{1} : part.class_weights[label];
      }
      if (fields > 3) {
        out[3 * rows] = part.class_weights == nullptr
                            ? (array(row, local) - most).sum()
                            : ((array(row, local) - most) * array(part.class_weights, local)).sum();
        out[4 * rows] = all_weights;
      }
    }
  });
}

/// The factors of one row, from sums over all ranks: loss = target * (log sum - logit) + each * (...).
template <class T>
struct row_weights {
  double target;  ///< (1 - smoothing) * weight of the target class
  double each;    ///< smoothing / classes
  double weight;  ///< weight of the target class

  row_weights(T const* sums, index_t rows, cross_entropy_part<T> const& part)
      : weight(part.sums() > 2 ? static_cast<double>(sums[2 * rows]) : 1.0) {
    target = (1 - part.label_smoothing) * weight;
    each = part.label_smoothing / static_cast<double>(part.classes);
  }
};

/// Loss of each row (if `row_loss` is not empty) and the sums over rows, from sums over all ranks.
template <class T>
cross_entropy_totals cross_entropy_loss(operand<T, 2> sums, label_block labels,
                                        cross_entropy_part<std::type_identity_t<T>> part, block<T, 1> row_loss) {
  const index_t rows = labels.size();
  cross_entropy_totals totals;
  for (index_t r = 0; r < rows; ++r) {
    double loss = 0;
    if (labels.data[r] != part.ignore_index) {
      T const* at = sums.data + r;
      const row_weights<T> w(at, rows, part);
      const double log_sum = std::log(static_cast<double>(at[0]));
      loss = w.target * (log_sum - static_cast<double>(at[rows]));
      if (part.label_smoothing > 0)
        loss += w.each * (static_cast<double>(at[4 * rows]) * log_sum - static_cast<double>(at[3 * rows]));
      totals.loss += loss;
      totals.weight += w.weight;
    }
    if (row_loss.size() != 0) row_loss.data[r] = static_cast<T>(loss);
  }
  return totals;
}

/// Gradient for the local classes: `scale` (times `row_scale` of the row where that is not empty) times the row's.
template <class T>
void cross_entropy_gradient(operand<T, 2> logits, label_block labels, operand<T, 1> maximum, operand<T, 2> sums,
                            cross_entropy_part<std::type_identity_t<T>> part, double scale, operand<T, 1> row_scale,
                            block<T, 2> dlogits, workspace& scratch) {
  const index_t rows = logits.extents[0];
  const index_t local = logits.extents[1];
  scratch.split(rows, 8 * local, [&](index_t begin, index_t end, workspace&) {
    for (index_t r = begin; r < end; ++r) {
      auto out = array(dlogits.data + r * local, local);
      if (labels.data[r] == part.ignore_index) {
        out.setZero();
        continue;
      }
      T const* at = sums.data + r;
      const row_weights<T> w(at, rows, part);
      const double factor = row_scale.size() == 0 ? scale : scale * static_cast<double>(row_scale.data[r]);
      double whole = w.target;
      if (part.label_smoothing > 0) whole += w.each * static_cast<double>(at[4 * rows]);
      out = (array(logits.data + r * local, local) - maximum.data[r]).unaryExpr(exponential<T>{}) *
            static_cast<T>(factor * whole / static_cast<double>(at[0]));
      if (part.label_smoothing > 0) {
        const T each = static_cast<T>(factor * w.each);
        if (part.class_weights == nullptr)
          out -= each;
        else
          out -= array(part.class_weights, local) * each;
      }
      const index_t label = labels.data[r] - part.class_offset;
      if (label >= 0 && label < local) out[label] -= static_cast<T>(factor * w.target);
    }
  });
}

// Probability targets: t' = (1 - smoothing) t + smoothing / classes; the loss is -sum_c w_c t'_c log p_c.

/// The weighted, smoothed targets of the local classes of one row.
template <class T>
void weighted_targets(T const* targets, index_t local, cross_entropy_part<T> const& part, T* out) {
  const T keep = static_cast<T>(1 - part.label_smoothing);
  const T each = static_cast<T>(part.label_smoothing / static_cast<double>(part.classes));
  array(out, local) = array(targets, local) * keep + each;
  if (part.class_weights != nullptr) array(out, local) *= array(part.class_weights, local);
}

/// Sums of each row over this rank's classes: exponentials, weighted target logits, weighted targets.
template <class T>
void cross_entropy_probability_sums(operand<T, 2> logits, operand<T, 2> targets, operand<T, 1> maximum,
                                    cross_entropy_part<std::type_identity_t<T>> part, block<T, 2> sums,
                                    workspace& scratch) {
  const index_t rows = logits.extents[0];
  const index_t local = logits.extents[1];
  scratch.split(rows, 8 * local, [&](index_t begin, index_t end, workspace& own) {
    T* weighted = own.get<T>(0, local);
    for (index_t r = begin; r < end; ++r) {
      const auto row = array(logits.data + r * local, local) - maximum.data[r];
      weighted_targets<T>(targets.data + r * local, local, part, weighted);
      sums.data[r] = row.exp().sum();
      sums.data[rows + r] = (row * array(weighted, local)).sum();
      sums.data[2 * rows + r] = array(weighted, local).sum();
    }
  });
}

/// Loss of each row (if `row_loss` is not empty) and its sum over rows; the weight is the number of rows.
template <class T>
cross_entropy_totals cross_entropy_probability_loss(operand<T, 2> sums, block<T, 1> row_loss) {
  const index_t rows = sums.extents[1];
  cross_entropy_totals totals{0, static_cast<double>(rows)};
  for (index_t r = 0; r < rows; ++r) {
    const double loss = static_cast<double>(sums.data[2 * rows + r]) * std::log(static_cast<double>(sums.data[r])) -
                        static_cast<double>(sums.data[rows + r]);
    totals.loss += loss;
    if (row_loss.size() != 0) row_loss.data[r] = static_cast<T>(loss);
  }
  return totals;
}

template <class T>
void cross_entropy_probability_gradient(operand<T, 2> logits, operand<T, 2> targets, operand<T, 1> maximum,
                                        operand<T, 2> sums, cross_entropy_part<std::type_identity_t<T>> part,
                                        double scale, operand<T, 1> row_scale, block<T, 2> dlogits,
                                        workspace& scratch) {
  const index_t rows = logits.extents[0];
  const index_t local = logits.extents[1];
  scratch.split(rows, 8 * local, [&](index_t begin, index_t end, workspace& own) {
    T* weighted = own.get<T>(0, local);
    for (index_t r = begin; r < end; ++r) {
      weighted_targets<T>(targets.data + r * local, local, part, weighted);
      const double factor = row_scale.size() == 0 ? scale : scale * static_cast<double>(row_scale.data[r]);
      const double whole = static_cast<double>(sums.data[2 * rows + r]) / static_cast<double>(sums.data[r]);
      array(dlogits.data + r * local, local) =
          (array(logits.data + r * local, local) - maximum.data[r]).unaryExpr(exponential<T>{}) *
              static_cast<T>(factor * whole) -
          array(weighted, local) * static_cast<T>(factor);
    }
  });
}

}  // namespace tessera::detail::eigen_kernels
