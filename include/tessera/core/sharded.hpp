#pragma once

#include <tessera/core/context.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/strided.hpp>
#include <tessera/core/tensor.hpp>

#include <string>
#include <type_traits>
#include <utility>

namespace tessera {

template <class T, int Rank, class Layout, class Context>
class basic_sharded;

/// A tensor over the mesh of a context: this rank's block, the global extents, and the layout in the type.
///
/// All spellings of a layout give the same type. Copies share the block.
template <class T, int Rank, layout_word Layout, class Context>
using sharded = basic_sharded<T, Rank, canonical<typename Context::mesh, Layout>, typename Context::context_type>;

template <class T, int Rank, class Layout, class Context>
class basic_sharded {
 public:
  using value_type = T;
  using layout_type = Layout;
  using context_type = Context;
  using mesh = typename Context::mesh;
  using local_type = tensor<T, Rank, typename Context::backend::memory, Context::backend::order>;
  static constexpr int rank = Rank;
  /// The layout as a value.
  static constexpr tessera::placements<mesh::axes> placements = placements_of<mesh, Layout>;
  static_assert(placements.last_cut_dim() < Rank,
                "tessera: this layout cuts a dimension that the tensor does not have; name a dimension below its rank");

  basic_sharded() = default;
  /// Memory for this rank's block of a tensor with these global extents; contents arbitrary.
  basic_sharded(Context& context, shape<Rank> const& global)
      : context_(&context), global_(global), local_(part_of(context, global).extents()) {}
  /// Takes this rank's block.
  ///
  /// Throws `error` where its extents are not those that the split rule gives this rank.
  basic_sharded(Context& context, shape<Rank> const& global, local_type local)
      : context_(&context), global_(global), local_(std::move(local)) {
    const shape<Rank> wanted = part_of(context, global).extents();
    if (!(wanted == local_.extents()))
      throw error("rank " + std::to_string(mesh::group_rank(mesh::all, context.coordinates())) + " has a block of " +
                      to_string(local_.extents()) + " of a tensor of " + to_string(global),
                  to_string(wanted) + " (floor/ceil blocks, larger ones first)",
                  "cut the tensor with tessera::distribute, or pass the extents that tessera::local_box gives");
  }

  /// The context it lives in. Throws `error` for a tensor made without one.
  Context& where() const {
    if (context_ == nullptr)
      throw error("a sharded tensor that was made without a context and never assigned", "a tensor in a context",
                  "make it with its context and extents, or assign the result of an operator first");
    return *context_;
  }
  /// Extents of the whole tensor, the same on every rank.
  shape<Rank> const& extents() const { return global_; }
  index_t extent(int dim) const { return global_[dim]; }
  /// The part of the whole tensor that this rank holds.
  box<Rank> part() const { return part_of(*context_, global_); }
  /// This rank's block.
  local_type const& local() const { return local_; }
  local_type& local() { return local_; }
  auto read() const { return local_.read(); }
  auto write() { return local_.view(); }

 private:
  static box<Rank> part_of(Context& context, shape<Rank> const& global) {
    return local_box<mesh>(placements, global, context.coordinates());
  }

  Context* context_ = nullptr;
  shape<Rank> global_{};
  local_type local_;
};

namespace detail {
template <class X>
inline constexpr bool is_sharded = false;
template <class T, int Rank, class Layout, class Context>
inline constexpr bool is_sharded<basic_sharded<T, Rank, Layout, Context>> = true;
}  // namespace detail

/// Satisfied by every `sharded<...>`.
template <class X>
concept sharded_tensor = detail::is_sharded<std::remove_cv_t<X>>;

/// The same kind of tensor with another rank and layout value.
template <sharded_tensor X, int Rank, auto Value>
using relaid =
    basic_sharded<typename X::value_type, Rank, layout_of<typename X::mesh, Value>, typename X::context_type>;

/// This rank's block of a whole tensor that every rank has, in host memory or the backend's. No communication.
template <layout_word Layout, class T, int Rank, class Memory, storage_order Order, class Context>
auto distribute(Context& context, tensor<T, Rank, Memory, Order> const& whole) {
  using memory = typename Context::backend::memory;
  sharded<T, Rank, Layout, Context> out(context, whole.extents());
  static_assert(out.placements.partial_axes() == 0,
                "tessera: a whole tensor cannot be distributed as a partial value; name shards only");
  if constexpr (out.placements.partial_axes() != 0) {
    return out;
  } else if constexpr (std::is_same_v<Memory, host_memory> && (!memory::on_host || Order != Context::backend::order)) {
    tensor<T, Rank, host_memory, Context::backend::order> part(out.local().extents());
    copy_box<T>(whole.read(), out.part(), part.view(), {});
    context.kernels().upload(std::as_const(part).data(), out.local().data(), part.size());
    return out;
  } else {
    copy_box(context.kernels(), whole.read(), out.part(), out.write(), {});
    return out;
  }
}

}  // namespace tessera
