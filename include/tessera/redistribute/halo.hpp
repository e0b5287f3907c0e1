#pragma once

#include <tessera/redistribute/halo_messages.hpp>
#include <tessera/redistribute/halo_plan.hpp>

#include <memory>

namespace tessera {

/// What a rank's share of a windowed operator reads.
template <class Local, int Windows>
struct padded_block {
  Local block;             ///< the elements, in the layout of a tensor's block
  box<Local::rank> where;  ///< which part of the whole tensor they are
  /// The padding that a kernel over this block still has to assume, for each windowed dimension: above 0 at the borders
  /// of the image only.
  std::array<index_t, static_cast<std::size_t>(Windows)> padding_before{};
  std::array<index_t, static_cast<std::size_t>(Windows)> padding_after{};
};

/// A halo exchange under way; `start_halo` makes one. One that is dropped completes its messages first.
template <sharded_tensor X, int... Dims>
class halo_exchange {
 public:
  using plan_type = halo_plan<typename X::mesh, X::rank, Dims...>;
  using result_type = padded_block<typename X::local_type, plan_type::phases>;
  static_assert(X::placements.partial_axes() == 0,
                "tessera: a halo exchange gives kernels true values, so it cannot take a partial value: reduce it "
                "first, as in x | tessera::to<tessera::replicated>");

  halo_exchange(X const& x, typename plan_type::windows_type const& windows, int tag = 0)
      : plan_(X::placements, x.extents(), windows, x.where().coordinates()),
        messages_(std::make_unique<messages>(x.where(), plan_, x.local(), tag)) {}

  /// What this rank has, needs and exchanges; `plan().interior()` are the outputs that `x` suffices for.
  plan_type const& plan() const { return plan_; }

  /// Lets the messages progress; true when `finish` will not wait. Call it now and then beside long computations.
  bool test() { return messages_->test(); }

  /// The padded block, when all messages are here; it shares the memory of `x` where it is all of its block. Called
  /// once.
  result_type finish() {
    result_type padded{messages_->finish(), plan_.needed(), {}, {}};
    for (int p = 0; p < plan_type::phases; ++p) {
      const auto i = static_cast<std::size_t>(p);
      padded.padding_before[i] = plan_.padding_before(p);
      padded.padding_after[i] = plan_.padding_after(p);
    }
    return padded;
  }

 private:
  using messages = detail::halo_messages<typename X::context_type, plan_type, typename X::local_type, false>;
  plan_type plan_;
  std::unique_ptr<messages> messages_;
};

/// Starts to fetch what this rank's share of a windowed operator reads: `start_halo<2, 3>(x, {height, width})`.
///
/// Collective over the axes that cut the dimensions `Dims`. Messages: those of `halo_plan`. `x` is not written before
/// `finish`. Exchanges that are under way at the same time have different tags, from 0 to 32766, and all ranks finish
/// them in the same order. Throws `error` as `halo_plan` does.
template <int... Dims, sharded_tensor X>
halo_exchange<X, Dims...> start_halo(X const& x, std::array<halo_window, sizeof...(Dims)> const& windows, int tag = 0) {
  return {x, windows, tag};
}

/// The same in one call.
template <int... Dims, sharded_tensor X>
auto exchange_halo(X const& x, std::array<halo_window, sizeof...(Dims)> const& windows, int tag = 0) {
  return start_halo<Dims...>(x, windows, tag).finish();
}

namespace detail {
template <int Axes>
constexpr bool sums_only(placements<Axes> const& layout) {
  for (int a = 0; a < Axes; ++a)
    if (layout[a].is_partial() && layout[a].op != reduction::sum) return false;
  return true;
}
}  // namespace detail

/// The transpose of a halo exchange under way; `start_halo_backward` makes one.
template <sharded_tensor Dx, int... Dims>
class halo_gradient {
 public:
  using plan_type = halo_plan<typename Dx::mesh, Dx::rank, Dims...>;
  using local_type = typename Dx::local_type;
  static_assert(detail::sums_only(Dx::placements),
                "tessera: a gradient is cut, replicated or a partial sum; reduce the maximum first");

  halo_gradient(typename Dx::context_type& context, local_type const& padded, shape<Dx::rank> const& extents,
                typename plan_type::windows_type const& windows, int tag = 0)
      : context_(&context),
        extents_(extents),
        plan_(Dx::placements, extents, windows, context.coordinates()),
        messages_(std::make_unique<messages>(context, plan_, checked(padded), tag)) {}

  plan_type const& plan() const { return plan_; }
  bool test() { return messages_->test(); }
  /// The gradient, when all messages are here. Called once.
  Dx finish() { return {*context_, extents_, messages_->finish()}; }

 private:
  using messages = detail::halo_messages<typename Dx::context_type, plan_type, local_type, true>;

  local_type const& checked(local_type const& padded) const {
    if (!(padded.extents() == plan_.needed().extents()))
      throw error("the gradient of a padded block has the extents " + to_string(padded.extents()),
                  to_string(plan_.needed().extents()), "pass the gradient of the block that the halo exchange gave");
    return padded;
  }

  typename Dx::context_type* context_;
  shape<Dx::rank> extents_;
  plan_type plan_;
  std::unique_ptr<messages> messages_;
};

/// Starts to bring the gradient of a padded block to those who own its elements: the transpose of `start_halo`.
///
/// Every element's contributions are added in one order: what this rank computed itself, then what others send, phase
/// by phase (the last of `Dims` first) and by rank. `Dx` may be partial: parts of a sum are exchanged each on its own.
/// Collective over the axes that cut the dimensions `Dims`; `padded` is not written before `finish`.
template <sharded_tensor Dx, int... Dims>
halo_gradient<Dx, Dims...> start_halo_backward(typename Dx::context_type& context,
                                               typename Dx::local_type const& padded, shape<Dx::rank> const& extents,
                                               std::array<halo_window, sizeof...(Dims)> const& windows, int tag = 0) {
  return {context, padded, extents, windows, tag};
}

/// The same in one call.
template <sharded_tensor Dx, int... Dims>
Dx exchange_halo_backward(typename Dx::context_type& context, typename Dx::local_type const& padded,
                          shape<Dx::rank> const& extents, std::array<halo_window, sizeof...(Dims)> const& windows,
                          int tag = 0) {
  return start_halo_backward<Dx, Dims...>(context, padded, extents, windows, tag).finish();
}

}  // namespace tessera
