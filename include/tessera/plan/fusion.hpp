#pragma once

#include <tessera/layer/parameter.hpp>
#include <tessera/plan/backward_times.hpp>
#include <tessera/plan/earliest_buckets.hpp>
#include <tessera/plan/machines/shared_memory.hpp>
#include <tessera/plan/mesh_costs.hpp>

#include <cstddef>
#include <vector>

/// How gradients are put together for their all-reduces. Gradients are counted in the order in which backward produces
/// them: 0 is the last parameter of the model.
namespace tessera::fuse {

/// Buckets of gradients up to the given numbers: `at<8, 16>` makes 0 to 7, 8 to 15, and the rest.
template <int... Cuts>
struct at {
  static constexpr bool cuts_before(int gradient, index_t, index_t) { return ((gradient == Cuts) || ...); }
};

/// Buckets of at most this many bytes, or of one gradient that is larger.
template <index_t Bytes>
struct bytes {
  static_assert(Bytes > 0, "tessera: fuse::bytes needs a positive size; use fuse::each for no fusion");
  static constexpr bool cuts_before(int, index_t held, index_t next) { return held + next > Bytes; }
};

/// One bucket for all.
struct all {
  static constexpr bool cuts_before(int, index_t, index_t) { return false; }
};

/// A bucket for each gradient.
struct each {
  static constexpr bool cuts_before(int, index_t, index_t) { return true; }
};

/// The buckets with which the last reduction of backward is done earliest (`earliest_buckets`), after the links of
/// `Machine` and the time that its devices take for the layers (`gradient_times`). Extents that only run time knows, as
/// that of the batch, count as `Unknown`.
///
/// `Machine` is a `described_machine`, or has `along<Axis>` (`machine_along`), `operations_per_second` and
/// `bytes_per_second`.
template <class Machine, index_t Unknown = 32>
struct automatic_on {
  static_assert(computing_machine<Machine>,
                "tessera: fuse::automatic_on needs a machine that says how fast it computes; give it a "
                "machine_description `about`, or static members operations_per_second and bytes_per_second, both "
                "positive, beside along<Axis>");
  static_assert(Unknown > 0,
                "tessera: fuse::automatic_on counts extents that only run time knows as a positive number; name the "
                "usual size of the batch");
  using machine = Machine;
  static constexpr index_t unknown = Unknown;
};

/// The same for ranks that share the memory of a host.
using automatic = automatic_on<tessera::machine::shared_memory>;

}  // namespace tessera::fuse

namespace tessera {

namespace detail {

/// The first of the parameters that share the memory of parameter `i`: `i` itself, where it is not tied.
template <int Axes>
constexpr int first_of_tie(std::vector<parameter_info<Axes>> const& list, int i) {
  void const* const tie = list[static_cast<std::size_t>(i)].tie;
  for (int first = 0; tie != nullptr && first < i; ++first)
    if (list[static_cast<std::size_t>(first)].tie == tie) return first;
  return i;
}

/// Whether parameters of a bound model that share their memory have the same extents and layouts.
template <class Bound>
constexpr bool ties_agree() {
  std::vector<parameter_info<Bound::mesh::axes>> list;
  Bound::append_parameters(list);
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    auto const& one = list[static_cast<std::size_t>(i)];
    if (one.tie == nullptr) continue;
    auto const& first = list[static_cast<std::size_t>(first_of_tie(list, i))];
    for (int d = 0; d < max_rank; ++d)
      if (one.extents[d] != first.extents[d]) return false;
    if (one.rank != first.rank || !(one.layout == first.layout) || !(one.gradient == first.gradient)) return false;
  }
  return true;
}

}  // namespace detail

/// Gradients that are reduced together, over the same axes, from one contiguous buffer.
struct gradient_bucket {
  axis_set axes{};
  int last = 0;                ///< the parameter whose gradient exists last: the first one of the model in the bucket
  std::vector<int> members{};  ///< positions among the trainable parameters, in the order of the buffer
};

namespace detail {

/// The axes over which the gradient is a sum that somebody has to make: none where it comes out whole, and for a
/// parameter that others own.
template <device_mesh Mesh>
constexpr axis_set reduced_axes(std::vector<parameter_info<Mesh::axes>> const& trainable, int position) {
  if (first_of_tie(trainable, position) != position) return 0;
  auto const& p = trainable[static_cast<std::size_t>(position)];
  unsigned axes = 0;
  for (int a = 0; a < Mesh::axes; ++a)
    if (p.gradient[a].is_partial() && Mesh::sizes[static_cast<std::size_t>(a)] > 1) axes |= 1u << a;
  return static_cast<axis_set>(axes);
}

/// The axes that cut a parameter into blocks of different sizes.
template <device_mesh Mesh>
constexpr axis_set uneven_axes(parameter_info<Mesh::axes> const& p) {
  unsigned axes = 0;
  for (int d = 0; d < p.rank; ++d)
    if (const axis_set cuts = p.layout.shard_axes(d); p.extents[d] % Mesh::group_size(cuts) != 0) axes |= cuts;
  return static_cast<axis_set>(axes);
}

/// Buckets of the gradients of each kind; `cuts(kind, gradient, size)` says whether one begins before a gradient,
/// sizes are in bytes. A kind is partial over the same axes. Where ranks get slices of buckets (`in_slices`), those that
/// hold the same parameter need equal ones, so blocks of different sizes are a kind of their own.
template <device_mesh Mesh, class Cuts>
constexpr std::vector<gradient_bucket> cut_gradients(std::vector<parameter_info<Mesh::axes>> const& trainable,
                                                     index_t element_bytes, bool in_slices, Cuts cuts) {
  struct kind {
    axis_set axes;
    axis_set uneven;
    int open = -1;  // its last bucket
  };
  std::vector<gradient_bucket> buckets;
  std::vector<kind> kinds;
  const int n = static_cast<int>(trainable.size());
  for (int gradient = 0; gradient < n; ++gradient) {
    const int position = n - 1 - gradient;
    const axis_set axes = reduced_axes<Mesh>(trainable, position);
    const index_t size = trainable[static_cast<std::size_t>(position)].template local_size<Mesh>({}) * element_bytes;
    const axis_set uneven =
        in_slices ? uneven_axes<Mesh>(trainable[static_cast<std::size_t>(position)]) : axis_set{0};
    std::size_t k = 0;
    while (k < kinds.size() && (kinds[k].axes != axes || kinds[k].uneven != uneven)) ++k;
    if (k == kinds.size()) kinds.push_back({axes, uneven});
    const bool begins = cuts(k, gradient, size);
    if (axes == 0) continue;
    if (kinds[k].open < 0 || begins) {
      kinds[k].open = static_cast<int>(buckets.size());
      buckets.push_back({axes, 0, {}});
    }
    gradient_bucket& bucket = buckets[static_cast<std::size_t>(kinds[k].open)];
    bucket.members.push_back(position);
    bucket.last = position;
  }
  return buckets;
}

}  // namespace detail

/// A static partition of the gradients of a model's trainable parameters. A bucket holds gradients that are partial
/// over the same axes; gradients that come out whole are in none, and those of tied parameters are in that of the first
/// of these. `Policy` is one of `fuse::at`, `fuse::bytes`, `fuse::all` and `fuse::each`.
///
/// Sizes are those of the rank at coordinates 0, which holds the largest blocks, so the partition is the same on all
/// ranks by construction. With `in_slices` each bucket has one size on all ranks that hold one of its parameters alike.
template <device_mesh Mesh, class Policy>
constexpr std::vector<gradient_bucket> fuse_gradients(std::vector<parameter_info<Mesh::axes>> const& trainable,
                                                      index_t element_bytes, bool in_slices = false) {
  std::vector<index_t> held;  // by kind: bytes in the open bucket
  std::vector<char> closed;
  return detail::cut_gradients<Mesh>(
      trainable, element_bytes, in_slices, [&](std::size_t kind, int gradient, index_t size) {
        if (kind == held.size()) {
          held.push_back(0);
          closed.push_back(1);
        }
        if (Policy::cuts_before(gradient, 0, 0)) closed.assign(closed.size(), 1);
        const bool begins = closed[kind] != 0 || Policy::cuts_before(gradient, held[kind], size);
        held[kind] = (begins ? 0 : held[kind]) + size;
        closed[kind] = 0;
        return begins;
      });
}

/// The partition that is reduced earliest on a machine when the gradients exist at these times (`gradient_times`), by
/// position. The reductions over each set of axes are taken to have links of their own.
template <device_mesh Mesh>
constexpr std::vector<gradient_bucket> fuse_gradients(std::vector<parameter_info<Mesh::axes>> const& trainable,
                                                      index_t element_bytes, std::vector<index_t> const& times,
                                                      bool in_slices, mesh_costs<Mesh::axes> const& costs) {
  const std::size_t n = trainable.size();
  std::vector<char> begins(n, 0);  // by gradient
  for (unsigned set = 1; set <= Mesh::all; ++set) {
    const auto axes = static_cast<axis_set>(set);
    if (axes != Mesh::cutting(axes)) continue;
    // An all-reduce, in picoseconds.
    const link_cost& half = in_slices ? costs.gather[axes] : costs.bucket[axes];
    std::vector<timed_gradient> timed;
    std::vector<std::size_t> which;
    for (std::size_t gradient = 0; gradient < n; ++gradient) {
      const std::size_t position = n - 1 - gradient;
      if (detail::reduced_axes<Mesh>(trainable, static_cast<int>(position)) != axes) continue;
      const index_t bytes = trainable[position].template local_size<Mesh>({}) * element_bytes;
      const double transfer = 2 * half.seconds_per_byte * static_cast<double>(bytes);
      timed.push_back({times[position], static_cast<index_t>(transfer * 1e12)});
      which.push_back(gradient);
    }
    int begin = 0;
    for (const int end : earliest_buckets(timed, static_cast<index_t>(2 * half.latency * 1e12))) {
      begins[which[static_cast<std::size_t>(begin)]] = 1;
      begin = end;
    }
  }
  return detail::cut_gradients<Mesh>(trainable, element_bytes, in_slices, [&](std::size_t, int gradient, index_t) {
    return begins[static_cast<std::size_t>(gradient)] != 0;
  });
}

template <device_mesh Mesh, class Machine>
constexpr std::vector<gradient_bucket> fuse_gradients(std::vector<parameter_info<Mesh::axes>> const& trainable,
                                                      index_t element_bytes, std::vector<index_t> const& times,
                                                      bool in_slices = false) {
  return fuse_gradients<Mesh>(trainable, element_bytes, times, in_slices, costs_of<Mesh, Machine>);
}

/// The buckets of a bound model by any policy.
template <class Bound, class Policy>
constexpr std::vector<gradient_bucket> fuse_gradients_of(
    std::vector<parameter_info<Bound::mesh::axes>> const& trainable, index_t element_bytes, bool in_slices) {
  if constexpr (requires { typename Policy::machine; })
    return fuse_gradients<typename Bound::mesh, typename Policy::machine>(
        trainable, element_bytes, gradient_times<Bound, typename Policy::machine>(element_bytes, Policy::unknown),
        in_slices);
  else
    return fuse_gradients<typename Bound::mesh, Policy>(trainable, element_bytes, in_slices);
}

}  // namespace tessera
