#pragma once

#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace tessera {

namespace detail {
/// The largest whole number that is not above a / b, for b > 0.
constexpr index_t floor_division(index_t a, index_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
}  // namespace detail

/// How a convolution or pooling walks one dimension of its input. Positions along that dimension are called rows.
///
/// A transposed one walks the gradient of a convolution's output, and what it makes is that of the input: row o is read
/// by the outputs o * stride - padding_before + k * dilation.
struct halo_window {
  index_t kernel = 1;
  index_t stride = 1;
  index_t padding_before = 0;
  index_t padding_after = 0;
  index_t dilation = 1;
  index_t transposed_outputs = 0;  ///< of a transposed one: how many outputs it makes
  friend constexpr bool operator==(halo_window const&, halo_window const&) = default;

  constexpr bool is_transposed() const { return transposed_outputs > 0; }
  /// Rows from the first to the last that one output reads; of a transposed one, outputs that one row is read by.
  constexpr index_t reach() const { return dilation * (kernel - 1) + 1; }

  /// Number of outputs over `extent` rows; 0 where the window does not fit.
  constexpr index_t output_extent(index_t extent) const {
    if (is_transposed()) return transposed_outputs;
    const index_t room = extent + padding_before + padding_after - reach();
    return room < 0 ? 0 : room / stride + 1;
  }

  /// The rows from the first to the last that these outputs read. Rows below 0 and beyond the extent are padding.
  constexpr interval covered(interval outputs) const {
    if (is_transposed()) {
      const index_t begin = detail::floor_division(outputs.begin + padding_before - reach(), stride) + 1;
      const index_t end = detail::floor_division(outputs.end() - 1 + padding_before, stride) + 1;
      return {begin, outputs.size == 0 ? 0 : std::max(index_t{0}, end - begin)};
    }
    return {outputs.begin * stride - padding_before, outputs.size == 0 ? 0 : (outputs.size - 1) * stride + reach()};
  }

  /// Those of the covered rows that are no padding.
  constexpr interval read(interval outputs, index_t extent) const {
    const interval all = covered(outputs);
    const index_t begin = std::clamp(index_t{0}, all.begin, all.end());
    return {begin, std::clamp(extent, begin, all.end()) - begin};
  }

  /// Those of the outputs that read no other row than `rows`, which are some of `extent`.
  constexpr interval computable(interval outputs, interval rows, index_t extent) const {
    if (is_transposed()) {
      const index_t first = rows.begin == 0 ? 0 : (rows.begin - 1) * stride + reach() - padding_before;
      const index_t last = rows.end() == extent ? outputs.end() : rows.end() * stride - padding_before;
      return intersect(outputs, {first, std::max(index_t{0}, last - first)});
    }
    const index_t room = rows.end() + padding_before - reach();
    const index_t begin = rows.begin == 0 ? 0 : (rows.begin + padding_before + stride - 1) / stride;
    const index_t end = rows.end() == extent ? outputs.end() : room < 0 ? 0 : room / stride + 1;
    return intersect(outputs, {begin, std::max(index_t{0}, end - begin)});
  }

  /// The padding before `rows` of a kernel that gets these rows and computes these outputs. Negative where it skips
  /// rows.
  constexpr index_t before(interval outputs, interval rows) const {
    return is_transposed() ? outputs.begin + padding_before - rows.begin * stride : rows.begin - covered(outputs).begin;
  }
  /// The same after `rows`.
  constexpr index_t after(interval outputs, interval rows) const {
    return is_transposed() ? (rows.end() - 1) * stride + reach() - padding_before - outputs.end()
                           : covered(outputs).end() - rows.end();
  }
};

/// What a rank sends or receives.
struct halo_traffic {
  index_t elements = 0;
  int messages = 0;
  friend constexpr bool operator==(halo_traffic const&, halo_traffic const&) = default;
};

namespace detail {

inline std::string along(int dim) { return " along dimension " + std::to_string(dim); }

/// Throws where a window cannot walk `extent` rows.
constexpr void require_window(halo_window const& w, int dim, index_t extent) {
  if (w.kernel < 1 || w.stride < 1 || w.dilation < 1)
    throw error("a window of kernel " + std::to_string(w.kernel) + ", stride " + std::to_string(w.stride) +
                    " and dilation " + std::to_string(w.dilation) + along(dim),
                "1 or more of each", "correct the window");
  if (w.padding_before < 0 || w.padding_after < 0)
    throw error("a window with padding " + std::to_string(w.padding_before) + " before and " +
                    std::to_string(w.padding_after) + " after" + along(dim),
                "0 or more of each", "cut the tensor instead, or correct the window");
  if (w.output_extent(extent) == 0)
    throw error("a window that reaches over " + std::to_string(w.reach()) + " of " +
                    std::to_string(extent + w.padding_before + w.padding_after) + " padded elements" + along(dim),
                "room for at least one window", "make the window smaller, or the tensor or its padding larger");
}

/// Whether these are different dimensions of a tensor of that rank, one at least.
template <std::size_t Count>
constexpr bool distinct_dims(std::array<int, Count> const& dims, int rank) {
  unsigned named = 0;
  for (const int d : dims) {
    if (d < 0 || d >= rank || (named >> d & 1u) != 0) return false;
    named |= 1u << d;
  }
  return named != 0;
}

}  // namespace detail

/// What one rank has, needs and exchanges when a windowed operator walks the dimensions `Dims` of a tensor: pure
/// arithmetic, the same in plans, in tests and at run time.
///
/// The operator's result is cut by the layout of the tensor. Each dimension is a phase, in the order of `Dims`, in
/// which a rank exchanges rows with the ranks along the axes that cut this dimension. Later phases pass on what earlier
/// ones brought, so corners take no messages of their own. Nothing is sent that its receiver neither reads nor passes
/// on.
template <device_mesh Mesh, int Rank, int... Dims>
class halo_plan {
 public:
  static constexpr int phases = sizeof...(Dims);
  static constexpr std::array<int, sizeof...(Dims)> dims{Dims...};
  using coordinates_type = std::array<int, static_cast<std::size_t>(Mesh::axes)>;
  using windows_type = std::array<halo_window, sizeof...(Dims)>;
  static_assert(detail::distinct_dims(dims, Rank),
                "tessera: a halo is exchanged along dimensions that the tensor has; name one or more, each once and "
                "below its rank");

  /// The plan of the rank at `at`, for a tensor of extents `global`.
  ///
  /// Throws `error` where a kernel, stride or dilation is below 1, a padding is negative, or a window does not fit.
  constexpr halo_plan(placements<Mesh::axes> const& layout, shape<Rank> const& global, windows_type const& windows,
                      coordinates_type const& at)
      : layout_(layout), global_(global), output_extents_(global), windows_(windows), at_(at) {
    for (int p = 0; p < phases; ++p) {
      detail::require_window(window(p), dim(p), global[dim(p)]);
      output_extents_[dim(p)] = window(p).output_extent(global[dim(p)]);
    }
    own_ = needed_ = passed_ = local_box<Mesh>(layout, global, at);
    outputs_ = interior_ = local_box<Mesh>(layout, output_extents_, at);
    for (int p = 0; p < phases; ++p) {
      const int d = dim(p);
      needed_[d] = window(p).read(outputs_[d], global[d]);
      interior_[d] = window(p).computable(outputs_[d], own_[d], global[d]);
      passed_[d] = {own_[d].begin, 0};
      for (int r = 0; r < members(p); ++r) {
        const interval wanted = intersect(needed_by(p, member(p, r)), own_[d]);
        if (wanted.size > 0) passed_[d] = passed_[d].size > 0 ? hull(passed_[d], wanted) : wanted;
      }
    }
  }

  /// The rank's block of the tensor.
  constexpr box<Rank> const& own() const { return own_; }
  /// The rank's block of the result, in the windowed dimensions; in the others that of the tensor.
  constexpr box<Rank> const& outputs() const { return outputs_; }
  /// The part of the tensor that the outputs read. An empty side may lie outside the tensor.
  constexpr box<Rank> const& needed() const { return needed_; }
  /// The part of the outputs that `own` suffices for.
  constexpr box<Rank> const& interior() const { return interior_; }

  /// The padding that a kernel over `needed` still has to assume in the dimension of a phase: above 0 at the borders of
  /// the whole only, negative where it skips rows.
  constexpr index_t padding_before(int phase) const {
    return window(phase).before(outputs_[dim(phase)], needed_[dim(phase)]);
  }
  constexpr index_t padding_after(int phase) const {
    return window(phase).after(outputs_[dim(phase)], needed_[dim(phase)]);
  }

  constexpr int dim(int phase) const { return dims[static_cast<std::size_t>(phase)]; }
  constexpr halo_window const& window(int phase) const { return windows_[static_cast<std::size_t>(phase)]; }
  /// The axes along which a phase sends.
  constexpr axis_set group(int phase) const { return layout_.shard_axes(dim(phase)); }
  /// Number of ranks in the group of a phase, this one included.
  constexpr int members(int phase) const { return Mesh::group_size(group(phase)); }

  /// What this rank sends to a member of the phase's group; empty for itself.
  constexpr box<Rank> sent(int phase, int to) const {
    const int d = dim(phase);
    return message(phase, to, intersect(needed_by(phase, member(phase, to)), own_[d]));
  }
  /// What it receives from a member; empty from itself.
  constexpr box<Rank> received(int phase, int from) const {
    const int d = dim(phase);
    return message(phase, from, intersect(needed_[d], local_box<Mesh>(layout_, global_, member(phase, from))[d]));
  }

  /// All that this rank receives. A backward exchange sends as much.
  constexpr halo_traffic received() const {
    return total([this](int phase, int r) { return received(phase, r); });
  }
  /// All that this rank sends. A backward exchange receives as much.
  constexpr halo_traffic sent() const {
    return total([this](int phase, int r) { return sent(phase, r); });
  }

 private:
  constexpr coordinates_type member(int phase, int r) const { return Mesh::group_member(group(phase), at_, r); }

  /// The rows of a phase's dimension that the rank at `at` needs.
  constexpr interval needed_by(int phase, coordinates_type const& at) const {
    const int d = dim(phase);
    return window(phase).read(local_box<Mesh>(layout_, output_extents_, at)[d], global_[d]);
  }

  static constexpr interval hull(interval a, interval b) {
    const index_t begin = std::min(a.begin, b.begin);
    return {begin, std::max(a.end(), b.end()) - begin};
  }

  /// A message of these rows: as far as earlier phases have come, and all that later ones will pass on.
  constexpr box<Rank> message(int phase, int other, interval rows) const {
    if (other == Mesh::group_rank(group(phase), at_)) return {};
    box<Rank> part = needed_;
    for (int p = phase + 1; p < phases; ++p) part[dim(p)] = passed_[dim(p)];
    part[dim(phase)] = rows;
    return part;
  }

  template <class Message>
  constexpr halo_traffic total(Message message) const {
    halo_traffic sum;
    for (int p = 0; p < phases; ++p)
      for (int r = 0; r < members(p); ++r)
        if (const index_t n = message(p, r).size(); n > 0) {
          sum.elements += n;
          ++sum.messages;
        }
    return sum;
  }

  placements<Mesh::axes> layout_;
  shape<Rank> global_;
  shape<Rank> output_extents_;
  windows_type windows_;
  coordinates_type at_;
  box<Rank> own_;
  box<Rank> outputs_;
  box<Rank> needed_;
  box<Rank> interior_;
  box<Rank> passed_;  // rows of its own that some member of the phase's group needs
};

}  // namespace tessera
