#pragma once

#include <tessera/plan/parallel.hpp>

#include <array>

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

  static constexpr int moving_count = static_cast<int>(moving().size());
  static constexpr int bucket_count = static_cast<int>(Plan::buckets(ElementBytes).size());
  static constexpr int parameter_count = static_cast<int>(Plan::trainable().size());

  static constexpr auto calls = [] {
    std::array<collective_call<mesh::axes>, static_cast<std::size_t>(moving_count + bucket_count)> out{};
    std::size_t i = 0;
    for (auto const& call : moving()) out[i++] = call;
    for (auto const& bucket : Plan::buckets(ElementBytes))
      out[i++] = collective_call<mesh::axes>{
          phase::gradient, collective::all_reduce, bucket.axes, reduction::sum, 0, {}, {}, {}, 1};
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

/// All collectives of a training step of a model on a mesh, in order: forward, backward, and one for each gradient
/// bucket (which runs as soon as its last gradient exists). The loss adds its own. Everything is `constexpr`:
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
    if (call.when != phase::gradient) return call.template elements<Mesh>(batch, at);
    index_t sum = 0;
    for (std::size_t p = 0; p < listed::trainable.size(); ++p) {
      if (listed::bucket_of[p] != i - listed::moving_count) continue;
      sum += listed::trainable[p].template local_size<Mesh>(at);
    }
    return sum;
  }
  /// Bytes of call `i` on the device that holds most. Moments of batch norm travel in double.
  constexpr index_t bytes(int i, index_t batch) const {
    const index_t element = (*this)[i].kind == collective::all_reduce_moments ? 8 : static_cast<index_t>(sizeof(T));
    index_t most = 0;
    for (int rank = 0; rank < Mesh::devices; ++rank) {
      const index_t here = elements(i, batch, Mesh::coordinates(rank));
      if (here > most) most = here;
    }
    return most * element;
  }
};

template <class Model, device_mesh Mesh, class T = float>
inline constexpr collective_list<Model, Mesh, T> collectives{};

}  // namespace tessera
