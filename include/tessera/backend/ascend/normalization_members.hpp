#pragma once

#include <tessera/backend/ascend/image_members.hpp>
#include <tessera/backend/eigen/moments.hpp>

#include <aclnnop/aclnn_layer_norm.h>
#include <aclnnop/aclnn_layer_norm_backward.h>
#include <aclnnop/aclnn_mean.h>

#include <vector>

namespace tessera::detail::ascend_kernels {

/// Layer norm, root-mean-square norm and group norm. Layer norm of whole rows has operators of its own; everything else
/// is composed. Empty gamma means 1, empty beta 0; an empty block of means says root-mean-square norm.
class normalization_members : public image_members {
 public:
  using image_members::image_members;
  using matrix_out = block<float, 2>;

  // Moments [rows, 3]: count, mean, sum of squared deviations. What ranks exchange of them is computed on the host.

  void moments_to_sums(matrix moments, out origin, double count, matrix_out sums) {
    const auto m = in_double(moments.data, moments.size());
    auto o = in_double(origin.data, origin.size());
    std::vector<float> result(static_cast<std::size_t>(sums.size()));
    eigen_kernels::moments_to_sums<float>({m.data(), moments.extents}, {o.data(), origin.extents}, count,
                                          block<float, 2>{result.data(), sums.extents});
    upload(result.data(), sums.data, sums.size());
    from_double(o, origin.data);
  }
  bool moments_from_sums(matrix sums, out origin, double count, double epsilon, matrix_out moments) {
    const auto s = on_host(sums.data, sums.size());
    auto o = in_double(origin.data, origin.size());
    std::vector<double> result(static_cast<std::size_t>(moments.size()));
    const bool kept = eigen_kernels::moments_from_sums<float>({s.data(), sums.extents}, {o.data(), origin.extents},
                                                              count, epsilon, {result.data(), moments.extents});
    from_double(o, origin.data);
    from_double(result, moments.data);
    return kept;
  }
  /// Mean and 1 / sqrt(biased variance + epsilon) from moments.
  void batch_norm_finish(matrix moments, double epsilon, out mean, out inv_std) {
    const index_t count = mean.size();
    if (count == 0) return;
    const auto field = [&](index_t i) { return view(moments.data + i, {count}, {3}); };
    run<TESSERA_ACLNN(InplaceCopy)>(view(mean), field(1));
    run<TESSERA_ACLNN(Div)>(field(2), field(0), view(inv_std));
    inverse_root(inv_std, epsilon);
  }

  // Rows of [rows, extent].

  void layer_norm_forward(matrix x, double epsilon, in gamma, in beta, out mean, out inv_std, matrix_out y) {
    if (y.empty()) return;
    const index_t count = x.extents[0];
    apart(x.data == y.data, y, [&](tensor_handle const& to) {
      run<TESSERA_ACLNN(LayerNorm)>(view(x), integers({x.extents[1]}), view_or_null(gamma), view_or_null(beta), epsilon,
                                    to, view(mean.data, {count, 1}), view(inv_std.data, {count, 1}));
    });
  }
  void rms_norm_forward(matrix x, double epsilon, in gamma, out inv_std, matrix_out y) {
    if (y.empty()) return;
    row_squares(x, inv_std);
    scale(inv_std, 1 / static_cast<float>(x.extents[1]), inv_std);
    inverse_root(inv_std, epsilon);
    row_normalize(x, {}, inv_std, gamma, {}, y);
  }
  void row_normalize_backward(matrix x, matrix dy, in mean, in inv_std, in gamma, matrix_out dx, out dgamma,
                              out dbeta) {
    const index_t count = x.extents[0];
    if (x.empty() || mean.empty()) {
      const auto sums = scratch(2 * count);
      const out of_rows{sums.data, {{2 * count}}};
      row_normalize_backward_sums(x, dy, mean, inv_std, gamma, of_rows, dgamma, dbeta);
      return row_normalize_backward_input(x, dy, mean, inv_std, gamma, of_rows, static_cast<double>(x.extents[1]), dx);
    }
    apart(dx.data == dy.data || dx.data == x.data, dx, [&](tensor_handle const& to) {
      run<TESSERA_ACLNN(LayerNormBackward)>(view(dy), view(x), integers({x.extents[1]}), view(mean.data, {count, 1}),
                                            view(inv_std.data, {count, 1}), view_or_null(gamma), nullptr,
                                            flags({true, !dgamma.empty(), !dbeta.empty()}), to, view_or_null(dgamma),
                                            view_or_null(dbeta));
    });
  }
  void row_moments(matrix x, matrix_out moments) { moments_of_rows(x, moments); }
  /// squares [rows]: sum of squares.
  void row_squares(matrix x, out squares) {
    if (squares.empty()) return;
    if (x.empty()) return fill(squares, 0);
    const auto products = scratch(x.size());
    const in flat{x.data, {{x.size()}}};
    mul(flat, flat, {products.data, flat.extents});
    run<TESSERA_ACLNN(ReduceSum)>(view(products.data, {x.extents[0], x.extents[1]}), integers({1}), false, ACL_FLOAT,
                                  view(squares));
  }
  /// inv_std = 1 / sqrt(squares / count + epsilon). Says that all is kept: the backend has no statistics that would
  /// keep more.
  bool rms_norm_finish(in squares, double count, double epsilon, out inv_std) {
    scale(squares, static_cast<float>(1 / count), inv_std);
    inverse_root(inv_std, epsilon);
    return true;
  }
  /// y = (x - mean) * inv_std * gamma + beta.
  void row_normalize(matrix x, in mean, in inv_std, in gamma, in beta, matrix_out y) {
    normalize(x.data, of_rows(x), mean, inv_std, gamma, beta, y.data);
  }
  /// sums: of gamma * dy * xhat for each row, then with means of gamma * dy; and the gradients of gamma and beta.
  void row_normalize_backward_sums(matrix x, matrix dy, in mean, in inv_std, in gamma, out sums, out dgamma,
                                   out dbeta) {
    backward_sums(x.data, dy.data, of_rows(x), mean, inv_std, gamma, sums, dgamma, dbeta);
  }
  /// dx from `sums` and `count` of whole rows.
  void row_normalize_backward_input(matrix x, matrix dy, in mean, in inv_std, in gamma, in sums, double count,
                                    matrix_out dx) {
    backward_input(x.data, dy.data, of_rows(x), mean, inv_std, gamma, sums, count, dx.data);
  }

  // Groups of channels of images; statistics are [samples * groups].

  void group_norm_moments(read_images x, index_t groups, matrix_out moments) {
    const grouped all = of_groups(x, groups);
    moments_of_rows({x.data, {{all.rows, all.extent}}}, moments);
  }
  void group_norm_normalize(read_images x, index_t groups, in mean, in inv_std, in gamma, in beta, images y) {
    normalize(x.data, of_groups(x, groups), mean, inv_std, gamma, beta, y.data);
  }
  void group_norm_backward_sums(read_images x, read_images dy, index_t groups, in mean, in inv_std, in gamma, out sums,
                                out dgamma, out dbeta) {
    backward_sums(x.data, dy.data, of_groups(x, groups), mean, inv_std, gamma, sums, dgamma, dbeta);
  }
  void group_norm_backward_input(read_images x, read_images dy, index_t groups, in mean, in inv_std, in gamma, in sums,
                                 double count, images dx) {
    backward_input(x.data, dy.data, of_groups(x, groups), mean, inv_std, gamma, sums, count, dx.data);
  }

 private:
  /// The same elements twice: as rows that are normalised, and as [outer, channels, inner], gamma being of channels.
  struct grouped {
    index_t rows;
    index_t extent;
    index_t outer;
    index_t channels;
    index_t inner;

    index_t size() const { return rows * extent; }
    template <class T>
    tensor_handle by_row(T* data) const {
      return view(data, {rows, extent});
    }
    template <class T>
    tensor_handle by_channel(T* data) const {
      return view(data, {outer, channels, inner});
    }
    tensor_handle of_channels(in numbers) const { return view(numbers.data, {1, channels, 1}); }
  };
  static grouped of_rows(matrix x) { return {x.extents[0], x.extents[1], x.extents[0], x.extents[1], 1}; }
  static grouped of_groups(read_images x, index_t groups) {
    const index_t rows = x.extents[0] * groups;
    const index_t inner = x.extents[2] * x.extents[3];
    return {rows, groups == 0 ? 0 : x.extents[1] / groups * inner, x.extents[0], x.extents[1], inner};
  }
  static tensor_handle each_row(float const* numbers, grouped const& all) { return view(numbers, {all.rows, 1}); }

  void moments_of_rows(matrix x, matrix_out moments) {
    const auto [count, extent] = x.extents.extents;
    if (moments.empty()) return;
    if (extent == 0) return fill_with(moments.data, moments.size(), 0);
    const auto field = [&, n = count](index_t i) { return view(moments.data + i, {n, 1}, {3, 3}); };
    const auto deviations = scratch(x.size());
    const auto d = view(deviations.data, {count, extent});
    run<TESSERA_ACLNN(InplaceFillScalar)>(field(0), number(static_cast<float>(extent)));
    run<TESSERA_ACLNN(Mean)>(view(x), integers({1}), true, ACL_FLOAT, field(1));
    run<TESSERA_ACLNN(Sub)>(view(x), field(1), number(1.0f), d);
    run<TESSERA_ACLNN(InplaceMul)>(d, d);
    run<TESSERA_ACLNN(ReduceSum)>(d, integers({1}), true, ACL_FLOAT, field(2));
  }
  /// y = (x - mean) * inv_std.
  void standardize(float const* x, grouped const& all, in mean, in inv_std, float* y) {
    const auto to = all.by_row(y);
    if (mean.empty()) return run<TESSERA_ACLNN(Mul)>(all.by_row(x), each_row(inv_std.data, all), to);
    run<TESSERA_ACLNN(Sub)>(all.by_row(x), each_row(mean.data, all), number(1.0f), to);
    run<TESSERA_ACLNN(InplaceMul)>(to, each_row(inv_std.data, all));
  }
  void normalize(float const* x, grouped const& all, in mean, in inv_std, in gamma, in beta, float* y) {
    if (all.size() == 0) return;
    standardize(x, all, mean, inv_std, y);
    if (!gamma.empty()) run<TESSERA_ACLNN(InplaceMul)>(all.by_channel(y), all.of_channels(gamma));
    if (!beta.empty()) run<TESSERA_ACLNN(InplaceAdd)>(all.by_channel(y), all.of_channels(beta), number(1.0f));
  }
  void backward_sums(float const* x, float const* dy, grouped const& all, in mean, in inv_std, in gamma, out sums,
                     out dgamma, out dbeta) {
    if (all.size() == 0) {
      for (const out of_nothing : {sums, dgamma, dbeta}) fill(of_nothing, 0);
      return;
    }
    const auto products = scratch(all.size());
    const auto sum_of_rows = [&](index_t at) {
      run<TESSERA_ACLNN(ReduceSum)>(all.by_row(products.data), integers({1}), false, ACL_FLOAT,
                                    view(sums.data + at, {all.rows}));
    };
    standardize(x, all, mean, inv_std, products.data);
    run<TESSERA_ACLNN(InplaceMul)>(all.by_row(products.data), all.by_row(dy));
    if (!dgamma.empty())
      run<TESSERA_ACLNN(ReduceSum)>(all.by_channel(products.data), integers({0, 2}), false, ACL_FLOAT, view(dgamma));
    if (!dbeta.empty())
      run<TESSERA_ACLNN(ReduceSum)>(all.by_channel(dy), integers({0, 2}), false, ACL_FLOAT, view(dbeta));
    if (!gamma.empty()) run<TESSERA_ACLNN(InplaceMul)>(all.by_channel(products.data), all.of_channels(gamma));
    sum_of_rows(0);
    if (mean.empty()) return;
    scaled_by_gamma(dy, all, gamma, products.data);
    sum_of_rows(all.rows);
  }
  void backward_input(float const* x, float const* dy, grouped const& all, in mean, in inv_std, in gamma, in sums,
                      double count, float* dx) {
    if (all.size() == 0) return;
    const auto part = number(static_cast<float>(-1 / count));
    const auto correction = scratch(all.size());
    standardize(x, all, mean, inv_std, correction.data);
    run<TESSERA_ACLNN(InplaceMul)>(all.by_row(correction.data), each_row(sums.data, all));
    const auto to = all.by_row(dx);
    scaled_by_gamma(dy, all, gamma, dx);
    run<TESSERA_ACLNN(InplaceAdd)>(to, all.by_row(correction.data), part);
    if (!mean.empty()) run<TESSERA_ACLNN(InplaceAdd)>(to, each_row(sums.data + all.rows, all), part);
    run<TESSERA_ACLNN(InplaceMul)>(to, each_row(inv_std.data, all));
  }
  void scaled_by_gamma(float const* dy, grouped const& all, in gamma, float* y) {
    if (!gamma.empty()) return run<TESSERA_ACLNN(Mul)>(all.by_channel(dy), all.of_channels(gamma), all.by_channel(y));
    if (dy != y) copy(in{dy, {{all.size()}}}, out{y, {{all.size()}}});
  }

  std::vector<double> in_double(float const* data, index_t count) {
    const auto values = on_host(data, count);
    return {values.begin(), values.end()};
  }
  void from_double(std::vector<double> const& values, float* data) {
    std::vector<float> rounded(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) rounded[i] = static_cast<float>(values[i]);
    upload(rounded.data(), data, static_cast<index_t>(rounded.size()));
  }
};

}  // namespace tessera::detail::ascend_kernels
