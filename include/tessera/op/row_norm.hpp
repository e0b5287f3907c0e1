#pragma once

#include <tessera/op/moments.hpp>
#include <tessera/op/rules.hpp>

#include <array>
#include <tuple>

namespace tessera {

/// What a normalisation leaves for its gradient: mean (none for a root-mean-square norm) and reciprocal deviation of
/// each local row or group, and how many values one has on all ranks together.
template <class Memory, class Number = double>
struct row_statistics {
  tensor<Number, 1, Memory> mean{};
  tensor<Number, 1, Memory> inv_std{};
  double count = 0;
};

/// The result of a normalisation.
template <sharded_tensor Y>
struct normalized {
  Y y;
  using backend = typename Y::context_type::backend;
  row_statistics<typename backend::memory, typename backend::statistic> statistics;
};

namespace detail {

/// Rules of a normalisation over the last `Dims` of `Rank` dimensions, with as many parameters along these.
constexpr index_rules row_norm_rules(int rank, int dims, int parameters) {
  constexpr std::string_view letters = "nchwde";
  index_rules r = elementwise_rules(rank, 1);
  r.length = 0;
  const auto write = [&](std::string_view text) {
    for (const char c : text) r.text[r.length++] = c;
  };
  const auto last = static_cast<std::size_t>(rank - dims);
  write(letters.substr(0, static_cast<std::size_t>(rank)));
  for (int p = 0; p < parameters; ++p) {
    write(",");
    write(letters.substr(last, static_cast<std::size_t>(dims)));
  }
  write("->");
  write(letters.substr(0, static_cast<std::size_t>(rank)));
  return r;
}
/// Those of the gradient of a parameter, from x and dy.
constexpr index_rules row_norm_gradient_rules(int rank, int dims) {
  index_rules r = elementwise_rules(rank, 2);
  for (int d = 0; d < dims; ++d) r.text[r.length - rank + d] = r.text[r.length - dims + d];
  r.length -= rank - dims;
  return r;
}
template <int Rank, int Dims, int Parameters>
struct row_norm_op {
  static_assert(1 <= Dims && Dims <= Rank && Dims <= 3,
                "tessera: a normalisation runs over the last one to three dimensions of its input; reshape the input, "
                "or name fewer");
  static constexpr index_rules rules = row_norm_rules(Rank, Dims, Parameters);
};
template <int Rank, int Dims>
struct row_norm_gradient_op {
  static constexpr index_rules rules = row_norm_gradient_rules(Rank, Dims);
};

/// The axes that cut the last `Dims` dimensions.
template <class X, int Dims>
constexpr axis_set row_axes() {
  unsigned set = 0;
  for (int d = X::rank - Dims; d < X::rank; ++d) set |= X::placements.shard_axes(d);
  return static_cast<axis_set>(set);
}

/// The last `Dims` dimensions as rows of a matrix. Images that have their channels last are brought into logical order
/// and back where the rows are not together in memory; where they are, in another order, the parameters are.
template <int Dims, sharded_tensor X>
struct row_view {
  using T = typename X::value_type;
  using backend = typename X::context_type::backend;
  static constexpr bool images = X::rank == 4 && backend::order == storage_order::channels_last;
  static constexpr bool moves_rows = images && Dims < 3;
  static constexpr bool moves_parameters = images && Dims == 3;
  template <class E, int Rank>
  using block_of = block<E, Rank>;
  using flat_tensor = tensor<T, 2, typename backend::memory>;
  using image_tensor = tensor<T, 4, typename backend::memory, backend::order>;

  explicit row_view(X const& x) : x_(x), local_(x.local().extents()) {
    extents[0] = 1;
    extents[1] = 1;
    for (int d = 0; d < X::rank; ++d) extents[d < X::rank - Dims ? 0 : 1] *= local_[d];
  }

  shape<2> extents{};  ///< of this rank's matrix

  /// The values of a tensor like x; `copy` lives as long as the result.
  block_of<T const, 2> read(X const& x, flat_tensor& copy) const {
    if constexpr (moves_rows) {
      copy = flat_tensor(shape<2>{{local_[0], local_.size() / std::max<index_t>(local_[0], 1)}});
      kernels().flatten(x.read(), copy.view());
      return {copy.data(), extents};
    } else {
      return {x.read().data, extents};
    }
  }
  /// Calls `compute(rows)` and brings what it writes to `y`.
  template <class Compute>
  void write(X& y, Compute compute) const {
    if constexpr (moves_rows) {
      flat_tensor rows(shape<2>{{local_[0], local_.size() / std::max<index_t>(local_[0], 1)}});
      compute(block_of<T, 2>{rows.data(), extents});
      kernels().unflatten(rows.read(), y.write());
    } else {
      compute(block_of<T, 2>{y.write().data, extents});
    }
  }
  /// A parameter in the order of a row.
  template <class W>
  block_of<T const, 1> parameter(W const& w, image_tensor& copy) const {
    if constexpr (moves_parameters) {
      copy = image_tensor(image());
      kernels().unflatten(block_of<T const, 2>{w.read().data, {1, extents[1]}}, copy.view());
      return {copy.data(), {extents[1]}};
    } else {
      return {w.read().data, {extents[1]}};
    }
  }
  /// Calls `compute(dw...)` with memory in the order of a row and brings it to the gradients of parameters.
  template <class Compute, class... Dw>
  void write_gradients(Compute compute, Dw&... dw) const {
    if constexpr (moves_parameters) {
      std::array<image_tensor, sizeof...(Dw)> rows{((void)dw, image_tensor(image()))...};
      std::size_t next = 0;
      std::apply(compute, std::array{((void)dw, block_of<T, 1>{rows[next++].data(), {extents[1]}})...});
      next = 0;
      (kernels().flatten(rows[next++].read(), block_of<T, 2>{dw.write().data, {1, extents[1]}}), ...);
    } else {
      compute(block_of<T, 1>{dw.write().data, {extents[1]}}...);
    }
  }

 private:
  auto& kernels() const { return x_.where().kernels(); }
  shape<4> image() const { return {{1, local_[1], local_[2], local_[3]}}; }

  X const& x_;
  shape<X::rank> local_;
};

/// Checks a parameter's extents against the last dimensions of x.
template <sharded_tensor X, sharded_tensor W>
void require_row_extents(X const& x, W const& w, char const* what) {
  for (int d = 0; d < W::rank; ++d) require_extent(w.extent(d), x.extent(X::rank - W::rank + d), what);
}

template <int Dims, sharded_tensor X>
double row_count(X const& x) {
  double count = 1;
  for (int d = X::rank - Dims; d < X::rank; ++d) count *= static_cast<double>(x.extent(d));
  return count;
}

/// Forward of layer norm, or of a root-mean-square norm where `Centred` is off. Empty gamma and beta are 1 and 0. Sums
/// of squares outside the range of the message are sent again as statistics.
template <int Dims, bool Centred, sharded_tensor X, class Gamma>
normalized<X> normalize_rows(X const& x, row_view<Dims, X> const& rows, double epsilon, Gamma gamma, Gamma beta) {
  using view = row_view<Dims, X>;
  using memory = typename view::backend::memory;
  using statistic = typename view::backend::statistic;
  auto& context = x.where();
  auto& kernels = context.kernels();
  const shape<1> number{{rows.extents[0]}};
  normalized<X> out{X(context, x.extents()), {{}, tensor<statistic, 1, memory>(number), row_count<Dims>(x)}};
  auto& s = out.statistics;
  if constexpr (Centred) s.mean = tensor<statistic, 1, memory>(number);
  typename view::flat_tensor copy;
  const auto from = rows.read(x, copy);
  constexpr axis_set axes = row_axes<X, Dims>();
  if constexpr (X::mesh::group_size(axes) == 1) {
    rows.write(out.y, [&](auto y) {
      if constexpr (Centred)
        kernels.layer_norm_forward(from, epsilon, gamma, beta, s.mean.view(), s.inv_std.view(), y);
      else
        kernels.rms_norm_forward(from, epsilon, gamma, s.inv_std.view(), y);
    });
  } else {
    if constexpr (Centred) {
      tensor<statistic, 2, memory> moments(shape<2>{{number[0], 3}});
      kernels.row_moments(from, moments.view());
      kernels.fill(s.mean.view(), 0);
      reduce_moments<typename X::value_type>(context, axes, s.count, epsilon, s.mean, moments);
      kernels.batch_norm_finish(moments.read(), epsilon, s.mean.view(), s.inv_std.view());
    } else {
      const auto reduced_as = [&](auto zero) {
        tensor<decltype(zero), 1, memory> squares(number);
        kernels.row_squares(from, squares.view());
        context.group(axes).all_reduce(squares.data(), squares.size(), reduction::sum);
        return kernels.rms_norm_finish(squares.read(), s.count, epsilon, s.inv_std.view());
      };
      if (!reduced_as(typename X::value_type{})) reduced_as(statistic{});
    }
    rows.write(out.y, [&](auto y) { kernels.row_normalize(from, s.mean.read(), s.inv_std.read(), gamma, beta, y); });
  }
  return out;
}

/// The gradients of the parameters alone. No collectives.
template <int Dims, bool Centred, sharded_tensor X, class Memory, class Number, class Gradient>
void normalize_rows_parameter_gradients(X const& x, X const& dy, row_view<Dims, X> const& rows,
                                        row_statistics<Memory, Number> const& s, Gradient dgamma, Gradient dbeta) {
  using view = row_view<Dims, X>;
  typename view::flat_tensor copy_x;
  typename view::flat_tensor copy_dy;
  typename view::template block_of<typename X::value_type const, 1> none;
  tensor<typename X::value_type, 1, Memory> sums(shape<1>{{(Centred ? 2 : 1) * rows.extents[0]}});
  x.where().kernels().row_normalize_backward_sums(rows.read(x, copy_x), rows.read(dy, copy_dy), s.mean.read(),
                                                  s.inv_std.read(), none, sums.view(), dgamma, dbeta);
}

/// Backward of both; gradients of parameters are written where they are not empty.
template <int Dims, bool Centred, sharded_tensor X, class Memory, class Number, class Gamma, class Gradient>
X normalize_rows_backward(X const& x, X const& dy, row_view<Dims, X> const& rows,
                          row_statistics<Memory, Number> const& s, Gamma gamma, Gradient dgamma, Gradient dbeta) {
  using view = row_view<Dims, X>;
  auto& context = x.where();
  auto& kernels = context.kernels();
  X dx(context, x.extents());
  typename view::flat_tensor copy_x;
  typename view::flat_tensor copy_dy;
  const auto value = rows.read(x, copy_x);
  const auto upstream = rows.read(dy, copy_dy);
  constexpr axis_set axes = row_axes<X, Dims>();
  if constexpr (X::mesh::group_size(axes) == 1) {
    rows.write(dx, [&](auto to) {
      kernels.row_normalize_backward(value, upstream, s.mean.read(), s.inv_std.read(), gamma, to, dgamma, dbeta);
    });
  } else {
    tensor<typename X::value_type, 1, Memory> sums(shape<1>{{(Centred ? 2 : 1) * rows.extents[0]}});
    kernels.row_normalize_backward_sums(value, upstream, s.mean.read(), s.inv_std.read(), gamma, sums.view(), dgamma,
                                        dbeta);
    context.group(axes).all_reduce(sums.data(), sums.size(), reduction::sum);
    rows.write(dx, [&](auto to) {
      kernels.row_normalize_backward_input(value, upstream, s.mean.read(), s.inv_std.read(), gamma, sums.read(),
                                           s.count, to);
    });
  }
  return dx;
}

template <int Dims, sharded_tensor X, sharded_tensor Dy, class Memory, class Number>
void check_row_gradient(X const& x, Dy const& dy, row_statistics<Memory, Number> const& s) {
  static_assert(std::is_same_v<X, Dy>,
                "tessera: a normalisation needs the gradient in the layout of its output; redistribute it first");
  require_shape(dy.extents(), x.extents(), "the gradient of a normalisation");
  require_extent(s.inv_std.extent(0), row_view<Dims, X>(x).extents[0], "number of statistics of a normalisation");
}
/// The type that the gradient of a parameter `W` has: partial over each axis that cuts the rows but not the parameter.
template <class X, class W>
using row_parameter_gradient = tessera::result_of<row_norm_gradient_op<X::rank, W::rank>, W::rank, X, X>;

}  // namespace detail

}  // namespace tessera
