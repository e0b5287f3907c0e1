#pragma once

#include <tessera/comm/plan_hash.hpp>
#include <tessera/plan/parallel.hpp>

#include <array>
#include <cstdint>

namespace tessera {

namespace detail {

/// A plan's calls with the members of its buckets, of sizes found by a first evaluation.
template <class Plan, index_t ElementBytes>
struct listed_calls {
  using mesh = typename Plan::mesh_type;

  static constexpr call_list<mesh::axes> moving() {
    call_list<mesh::axes> list;
    Plan::bound::append_forward(list);
    append_route<mesh>(list, phase::forward, Plan::output::extents, Plan::output::layout, Plan::loss_layout);
    Plan::bound::append_backward(list, Plan::loss_layout, false);
    return list;
  }

  /// A call of all elements of a bucket, or of the slice that its ranks own.
  struct bucket_call {
    phase when{};
    collective kind{};
    axis_set group = 0;
    int bucket = 0;
    axis_set owners = 0;  ///< of slices; 0: all elements
  };
  static constexpr std::vector<bucket_call> of_buckets() {
    std::vector<bucket_call> list;
    const auto buckets = Plan::buckets(ElementBytes);
    const auto sharing = Plan::sharing(ElementBytes);
    for (int b = 0; b < static_cast<int>(buckets.size()); ++b) {
      const axis_set axes = buckets[static_cast<std::size_t>(b)].axes;
      if (!sharing.scatters(b)) {
        list.push_back({phase::gradient, collective::all_reduce, axes, b});
        continue;
      }
      const axis_set owners = sharing.axes[static_cast<std::size_t>(b)];
      list.push_back({phase::gradient, collective::reduce_scatter, owners, b});
      if (const auto others = static_cast<axis_set>(axes & ~owners); others != 0)
        list.push_back({phase::gradient, collective::all_reduce, others, b, owners});
    }
    for (const int b : sharing.gathered())
      list.push_back({phase::parameter, collective::all_gather, sharing.axes[static_cast<std::size_t>(b)], b});
    return list;
  }

  static constexpr int moving_count = static_cast<int>(moving().size());
  static constexpr int bucket_call_count = static_cast<int>(of_buckets().size());
  static constexpr int parameter_count = static_cast<int>(Plan::trainable().size());

  static constexpr auto calls = [] {
    std::array<collective_call<mesh::axes>, static_cast<std::size_t>(moving_count + bucket_call_count)> out{};
    std::size_t i = 0;
    for (auto const& call : moving()) out[i++] = call;
    for (auto const& call : of_buckets())
      out[i++] = collective_call<mesh::axes>{call.when, call.kind, call.group, reduction::sum, 0, {}, {}, {}, 1};
    return out;
  }();
  static constexpr auto bucket_calls = [] {
    std::array<bucket_call, static_cast<std::size_t>(bucket_call_count)> out{};
    std::size_t i = 0;
    for (auto const& call : of_buckets()) out[i++] = call;
    return out;
  }();
  /// The bucket of each trainable parameter, -1 for none.
  static constexpr auto bucket_of = [] {
    std::array<int, static_cast<std::size_t>(parameter_count)> out{};
    out.fill(-1);
    int b = 0;
    for (auto const& bucket : Plan::buckets(ElementBytes)) {
      for (const int member : bucket.members) out[static_cast<std::size_t>(member)] = b;
      ++b;
    }
    return out;
  }();
  static constexpr auto trainable = [] {
    std::array<parameter_info<mesh::axes>, static_cast<std::size_t>(parameter_count)> out{};
    std::size_t i = 0;
    for (auto const& p : Plan::trainable()) out[i++] = p;
    return out;
  }();
};

}  // namespace detail

/// All collectives of a training step of a model on a mesh, in order: forward, backward, those of the gradient buckets
/// (which run as soon as the last gradient of a bucket exists), and with `optimizer_parallel` the gathers of parameters
/// (which run beside both passes). The loss adds its own. Everything is `constexpr`:
///
///     static_assert(tessera::collectives<mlp, world>.count(tessera::phase::forward) == 1);
template <class Model, device_mesh Mesh, class T = float>
struct collective_list {
 private:
  using listed = detail::listed_calls<plan<Model, Mesh>, sizeof(T)>;

 public:
  constexpr int size() const { return static_cast<int>(listed::calls.size()); }
  constexpr auto const& operator[](int i) const { return listed::calls[static_cast<std::size_t>(i)]; }
  constexpr auto begin() const { return listed::calls.begin(); }
  constexpr auto end() const { return listed::calls.end(); }

  /// Number of calls in a phase.
  constexpr int count(phase when) const {
    int n = 0;
    for (auto const& call : listed::calls) n += call.when == when;
    return n;
  }
  /// Number of calls of a kind.
  constexpr int count(collective kind) const {
    int n = 0;
    for (auto const& call : listed::calls) n += call.kind == kind;
    return n;
  }

  /// Elements of call `i` on the device at `at` for a batch of `batch` rows.
  constexpr index_t elements(int i, index_t batch, decltype(Mesh::sizes) const& at) const {
    auto const& call = (*this)[i];
    if (i < listed::moving_count) return call.template elements<Mesh>(batch, at);
    auto const& of = listed::bucket_calls[static_cast<std::size_t>(i - listed::moving_count)];
    index_t sum = 0;
    for (std::size_t p = 0; p < listed::trainable.size(); ++p)
      if (listed::bucket_of[p] == of.bucket) sum += listed::trainable[p].template local_size<Mesh>(at);
    return cut({0, sum}, Mesh::group_size(of.owners), Mesh::group_rank(of.owners, at)).size;
  }
  /// Bytes of call `i` on the device that holds most.
  constexpr index_t bytes(int i, index_t batch) const {
    index_t most = 0;
    for (int rank = 0; rank < Mesh::devices; ++rank) {
      const index_t here = elements(i, batch, Mesh::coordinates(rank));
      if (here > most) most = here;
    }
    return most * static_cast<index_t>(sizeof(T));
  }
};

template <class Model, device_mesh Mesh, class T = float>
inline constexpr collective_list<Model, Mesh, T> collectives{};

/// A hash of the mesh and of all that a list says of its calls: equal programs have equal ones. See
/// `check_equal_everywhere`.
template <class Model, device_mesh Mesh, class T>
constexpr std::uint64_t hash_of(collective_list<Model, Mesh, T> const& list) {
  number_hash hash;
  hash.add(sizeof(T));
  for (const int devices : Mesh::sizes) hash.add(devices);
  for (int i = 0; i < list.size(); ++i) {
    auto const& call = list[i];
    hash.add(static_cast<int>(call.when)).add(static_cast<int>(call.kind)).add(call.group);
    hash.add(static_cast<int>(call.op)).add(call.rank).add(call.factor).add(call.causal);
    for (const index_t extent : call.extents) hash.add(extent);
    for (auto const* layout : {&call.from, &call.to})
      for (placement const& p : layout->axis)
        hash.add(static_cast<int>(p.kind)).add(p.dim).add(p.order).add(static_cast<int>(p.op));
    for (halo_window const& w : call.windows)
      for (const index_t n : {w.kernel, w.stride, w.padding_before, w.padding_after, w.dilation, w.transposed_outputs})
        hash.add(n);
    if (call.when == phase::gradient || call.when == phase::parameter) hash.add(list.elements(i, 1, {}));
  }
  return hash.value();
}

}  // namespace tessera
