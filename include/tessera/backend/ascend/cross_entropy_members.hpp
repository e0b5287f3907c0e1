#pragma once

#include <tessera/backend/ascend/index_members.hpp>
#include <tessera/backend/eigen/cross_entropy.hpp>

#include <aclnnop/aclnn_arange.h>
#include <aclnnop/aclnn_eq_tensor.h>
#include <aclnnop/aclnn_gather_v2.h>

namespace tessera::detail::ascend_kernels {

/// Cross-entropy of logits [rows, local classes], composed of smaller operators: aclnn's own wants whole rows. What is
/// a few numbers a row, the loss from its sums, is computed on the host in double.
class cross_entropy_members : public index_members {
 public:
  using index_members::index_members;
  using matrix = block<float const, 2>;
  using part_of_classes = cross_entropy_part<float>;

  index_t first_bad_label(indices labels, index_t classes, std::int64_t ignore_index) {
    const auto values = on_host(labels.data, labels.size());
    return eigen_kernels::first_bad_label({values.data(), labels.extents}, classes, ignore_index);
  }
  /// This rank's part of `sums` [part.sums(), rows].
  void cross_entropy_sums(matrix logits, indices labels, in maximum, part_of_classes const& part, rows sums) {
    const auto [count, local] = logits.extents.extents;
    if (sums.empty()) return;
    if (local == 0) return fill_with(sums.data, sums.size(), 0);
    const auto row = [&, n = count](index_t i) { return view(sums.data + i * n, {n}); };
    const auto differences = less_maximum(logits, maximum);
    const auto d = view(differences.data, {count, local});
    const auto mine = indices_within(labels, part.class_offset, local);
    const auto elsewhere = view(mine.elsewhere.data, {count});
    const auto at = view(mine.rows.data, {count});
    if (part.sums() > 2) {
      if (part.class_weights == nullptr)
        fill_with(sums.data + 2 * count, count, 1);
      else
        run<TESSERA_ACLNN(GatherV2)>(view(part.class_weights, {local}), index_t{0}, at, row(2));
      fill_where(row(2), elsewhere, 0);
    }
    if (part.sums() > 3) sum_smoothed(differences.data, {count, local}, part, row(3), row(4));
    // The element of a row is one of all elements.
    const auto begins = scratch<std::int64_t>(count);
    const auto begin = view(begins.data, {count});
    run<TESSERA_ACLNN(Arange)>(number(index_t{0}), number(count * local), number(local), begin);
    run<TESSERA_ACLNN(InplaceAdd)>(at, begin, number(index_t{1}));
    run<TESSERA_ACLNN(GatherV2)>(view(differences.data, {count * local}), index_t{0}, at, row(1));
    fill_where(row(1), elsewhere, 0);
    const auto ignored = equal_to(labels, part.ignore_index);
    fill_where(view(sums.data + count, {part.sums() - 1, count}), view(ignored.data, {1, count}), 0);
    run<TESSERA_ACLNN(InplaceExp)>(d);
    run<TESSERA_ACLNN(ReduceSum)>(d, integers({1}), false, ACL_FLOAT, row(0));
  }
  /// Loss and weight summed over rows; the loss of each row too where `row_loss` [rows] is not empty.
  cross_entropy_totals cross_entropy_loss(matrix sums, indices labels, part_of_classes const& part, out row_loss) {
    const auto by_row = on_host(sums.data, sums.size());
    const auto label = on_host(labels.data, labels.size());
    std::vector<float> losses(static_cast<std::size_t>(row_loss.size()));
    const auto totals =
        eigen_kernels::cross_entropy_loss<float>({by_row.data(), sums.extents}, {label.data(), labels.extents}, part,
                                                 block<float, 1>{losses.data(), row_loss.extents});
    upload(losses.data(), row_loss.data, row_loss.size());
    return totals;
  }
  /// dlogits = scale * row_scale[row] (1 where empty) * gradient of the row's loss; ignored rows get 0 for any scale.
  void cross_entropy_gradient(matrix logits, indices labels, in maximum, matrix sums, part_of_classes const& part,
                              double scale_by, in row_scale, rows dlogits) {
    const auto [count, local] = logits.extents.extents;
    if (dlogits.empty()) return;
    const auto factors = scratch(3 * count);
    // Of each row: the scale, (1 - smoothing) * weight of the target class, and all that exponentials are scaled by.
    const out factor = scales(row_scale, scale_by, factors.data, count);
    const out target{factors.data + count, {{count}}};
    const out whole{factors.data + 2 * count, {{count}}};
    if (part.sums() > 2)
      scale({sums.data + 2 * count, {{count}}}, static_cast<float>(1 - part.label_smoothing), target);
    else
      fill(target, static_cast<float>(1 - part.label_smoothing));
    copy(target, whole);
    const double each = part.label_smoothing / static_cast<double>(part.classes);
    if (part.label_smoothing > 0) axpy(static_cast<float>(each), {sums.data + 4 * count, {{count}}}, whole);
    scale_exponentials(logits, maximum, sums, factor, whole, dlogits);
    const auto gradient = view(dlogits);
    mul(target, factor, target);
    if (part.label_smoothing > 0) {
      const auto smoothed = scratch(local);
      const out weights{smoothed.data, {{local}}};
      if (part.class_weights == nullptr)
        fill(weights, static_cast<float>(each));
      else
        scale({part.class_weights, {{local}}}, static_cast<float>(each), weights);
      subtract_products(gradient, view(factor.data, {count, 1}), view(weights.data, {1, local}));
    }
    // One in the column of the label.
    const auto columns = scratch<std::int64_t>(local);
    const auto is_label = scratch<bool>(count * local);
    const auto ones = scratch(count * local);
    const auto number_of = view(columns.data, {1, local});
    run<TESSERA_ACLNN(Arange)>(number(part.class_offset), number(part.class_offset + local), number(index_t{1}),
                               view(columns.data, {local}));
    run<TESSERA_ACLNN(EqTensor)>(view(labels.data, {count, 1}), number_of, view(is_label.data, {count, local}));
    run<TESSERA_ACLNN(Cast)>(view(is_label.data, {count, local}), ACL_FLOAT, view(ones.data, {count, local}));
    subtract_products(gradient, view(target.data, {count, 1}), view(ones.data, {count, local}));
    const auto ignored = equal_to(labels, part.ignore_index);
    fill_where(gradient, view(ignored.data, {count, 1}), 0);
  }

  // The same for targets that are probabilities; `sums` is [part.probability_sums(), rows].

  void cross_entropy_probability_sums(matrix logits, matrix targets, in maximum, part_of_classes const& part,
                                      rows sums) {
    const auto [count, local] = logits.extents.extents;
    if (sums.empty()) return;
    if (local == 0) return fill_with(sums.data, sums.size(), 0);
    const auto row = [&, n = count](index_t i) { return view(sums.data + i * n, {n}); };
    const auto differences = less_maximum(logits, maximum);
    const auto weighted = weighted_targets(targets, part);
    const auto d = view(differences.data, {count, local});
    const auto t = view(weighted.data, {count, local});
    run<TESSERA_ACLNN(ReduceSum)>(t, integers({1}), false, ACL_FLOAT, row(2));
    run<TESSERA_ACLNN(InplaceMul)>(t, d);
    run<TESSERA_ACLNN(ReduceSum)>(t, integers({1}), false, ACL_FLOAT, row(1));
    run<TESSERA_ACLNN(InplaceExp)>(d);
    run<TESSERA_ACLNN(ReduceSum)>(d, integers({1}), false, ACL_FLOAT, row(0));
  }
  cross_entropy_totals cross_entropy_probability_loss(matrix sums, out row_loss) {
    const auto by_row = on_host(sums.data, sums.size());
    std::vector<float> losses(static_cast<std::size_t>(row_loss.size()));
    const auto totals = eigen_kernels::cross_entropy_probability_loss<float>(
        {by_row.data(), sums.extents}, block<float, 1>{losses.data(), row_loss.extents});
    upload(losses.data(), row_loss.data, row_loss.size());
    return totals;
  }
  void cross_entropy_probability_gradient(matrix logits, matrix targets, in maximum, matrix sums,
                                          part_of_classes const& part, double scale_by, in row_scale, rows dlogits) {
    const auto [count, local] = logits.extents.extents;
    if (dlogits.empty()) return;
    const auto factors = scratch(2 * count);
    const out factor = scales(row_scale, scale_by, factors.data, count);
    const out whole{factors.data + count, {{count}}};
    copy(in{sums.data + 2 * count, {{count}}}, whole);
    scale_exponentials(logits, maximum, sums, factor, whole, dlogits);
    const auto weighted = weighted_targets(targets, part);
    subtract_products(view(dlogits), view(factor.data, {count, 1}), view(weighted.data, {count, local}));
  }

 private:
  /// Logits less the largest of their row: exact where logits are huge.
  temporary<float> less_maximum(matrix logits, in maximum) {
    auto made = scratch(logits.size());
    run<TESSERA_ACLNN(Sub)>(view(logits), view(maximum.data, {logits.extents[0], 1}), number(1.0f),
                            view(made.data, {logits.extents[0], logits.extents[1]}));
    return made;
  }
  /// Sums over classes of weight * difference, and of weights.
  void sum_smoothed(float const* differences, shape<2> const& of, part_of_classes const& part,
                    tensor_handle const& weighted, tensor_handle const& weights) {
    const auto [count, local] = of.extents;
    if (part.class_weights == nullptr) {
      run<TESSERA_ACLNN(ReduceSum)>(view(differences, {count, local}), integers({1}), false, ACL_FLOAT, weighted);
      run<TESSERA_ACLNN(InplaceFillScalar)>(weights, number(static_cast<float>(local)));
      return;
    }
    const auto products = scratch(count * local);
    const auto sum = scratch(1);
    run<TESSERA_ACLNN(Mul)>(view(differences, {count, local}), view(part.class_weights, {1, local}),
                            view(products.data, {count, local}));
    run<TESSERA_ACLNN(ReduceSum)>(view(products.data, {count, local}), integers({1}), false, ACL_FLOAT, weighted);
    run<TESSERA_ACLNN(ReduceSum)>(view(part.class_weights, {local}), integers({0}), true, ACL_FLOAT,
                                  view(sum.data, {1}));
    run<TESSERA_ACLNN(InplaceCopy)>(weights, view(sum.data, {1}));
  }
  out scales(in row_scale, double by, float* data, index_t count) {
    const out factor{data, {{count}}};
    if (row_scale.empty())
      fill(factor, static_cast<float>(by));
    else
      scale(row_scale, static_cast<float>(by), factor);
    return factor;
  }
  /// dlogits = exp(logits - maximum) * (factor * whole / sum of exponentials). `whole` is changed.
  void scale_exponentials(matrix logits, in maximum, matrix sums, in factor, out whole, rows dlogits) {
    const index_t count = logits.extents[0];
    mul(whole, factor, whole);
    div(whole, {sums.data, {{count}}}, whole);
    run<TESSERA_ACLNN(Sub)>(view(logits), view(maximum.data, {count, 1}), number(1.0f), view(dlogits));
    run<TESSERA_ACLNN(InplaceExp)>(view(dlogits));
    run<TESSERA_ACLNN(InplaceMul)>(view(dlogits), view(whole.data, {count, 1}));
  }
  void subtract_products(tensor_handle const& y, tensor_handle const& a, tensor_handle const& b) {
    run<TESSERA_ACLNN(InplaceAddcmul)>(y, a, b, number(-1.0f));
  }
  /// ((1 - smoothing) * targets + smoothing / classes) * weights.
  temporary<float> weighted_targets(matrix targets, part_of_classes const& part) {
    auto made = scratch(targets.size());
    const auto [count, local] = targets.extents.extents;
    const auto weighted = view(made.data, {count, local});
    run<TESSERA_ACLNN(Muls)>(view(targets), number(static_cast<float>(1 - part.label_smoothing)), weighted);
    const double each = part.label_smoothing / static_cast<double>(part.classes);
    if (each != 0) run<TESSERA_ACLNN(InplaceAdds)>(weighted, number(static_cast<float>(each)), number(1.0f));
    if (part.class_weights != nullptr) run<TESSERA_ACLNN(InplaceMul)>(weighted, view(part.class_weights, {1, local}));
    return made;
  }
};

}  // namespace tessera::detail::ascend_kernels
