#pragma once

#include <tessera/core/memory.hpp>
#include <tessera/core/mesh.hpp>
#include <tessera/core/reduction.hpp>
#include <tessera/core/shape.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace tessera {

/// The element types that communicators carry.
template <class T>
concept message_element = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::int64_t> || std::same_as<T, std::uint8_t>;

/// A message or collective under way. `test` lets it progress and says whether it is complete; `wait` returns when it
/// is. The destructor waits, so a request that is declared after its buffer never outlives it.
template <class R>
concept communicator_request = std::movable<R> && !std::copyable<R> && requires(R & r) {
  { r.test() } -> std::same_as<bool>;
  { r.wait() } -> std::same_as<void>;
};

namespace detail {

template <class C, class T>
concept carries = requires(C& c, T* data, T const* send, index_t count, std::span<index_t const> counts, reduction op,
                           int rank) {
  c.all_reduce(data, count, op);
  c.all_gather(send, data, counts);
  c.reduce_scatter(send, data, counts, op);
  c.all_to_all(send, counts, data, counts);
  c.broadcast(data, count, rank);
  { c.start_all_reduce(data, count, op) } -> std::same_as<typename C::request>;
  { c.start_all_gather(send, data, counts) } -> std::same_as<typename C::request>;
  { c.start_reduce_scatter(send, data, counts, op) } -> std::same_as<typename C::request>;
  { c.start_send(send, count, rank, 0) } -> std::same_as<typename C::request>;
  { c.start_receive(data, count, rank, 0) } -> std::same_as<typename C::request>;
};

template <class C>
concept group_handle =
    std::movable<C> && !std::copyable<C> && communicator_request<typename C::request> && carries<C, float> &&
    carries<C, std::int32_t> && carries<C, std::int64_t> && requires(C & c, C const& k, int i, std::size_t bytes) {
  { k.rank() } -> std::same_as<int>;
  { k.size() } -> std::same_as<int>;
  { k.split(i, i) } -> std::same_as<C>;
  { c.allocate(bytes) } -> std::same_as<memory_handle>;
  c.barrier();
  k.abort(i);
};

/// The same group for values in host memory.
template <class C>
auto& host_side(C& c) {
  if constexpr (requires { c.host(); })
    return c.host();
  else
    return c;
}
template <class Context>
auto& host_group(Context& context, axis_set axes) {
  return host_side(context.group(axes));
}

template <class C>
concept carries_host_values = carries<C, float> && carries<C, double> && carries<C, std::int32_t> &&
    carries<C, std::int64_t> && carries<C, std::uint8_t>;

}  // namespace detail

/// A move-only handle on a group of ranks, which are numbered 0 to `size() - 1`.
///
/// Every member of the group calls the same collectives in the same order with matching arguments. Counts are numbers
/// of elements of any size; pointers may be null where the count is zero. A failure throws `tessera::error`.
///
/// - `all_reduce(data, count, op)`: each element becomes its reduction over the ranks, in place, the same on all ranks.
/// - `all_gather(send, receive, counts)`: `receive` gets the `counts[r]` elements of each rank r, packed in rank order.
///   `send` is apart from `receive` or is this rank's place inside it.
/// - `reduce_scatter(send, receive, counts, op)`: `send` holds a part of `counts[r]` elements for each rank r, packed
///   in rank order; `receive` gets the reduction of this rank's part. The buffers do not overlap.
/// - `all_to_all(send, send_counts, receive, receive_counts)`: part r of `send` goes to rank r, part r of `receive`
///   comes from rank r, both packed in rank order. The buffers do not overlap.
/// - `broadcast(data, count, root)`: all ranks get the elements of rank `root`.
/// - `barrier()`: returns when all ranks have called it.
/// - `start_all_reduce(data, count, op)`: an `all_reduce` that is complete when its request is. All ranks start it, in
///   the same place of their order of collectives, and wait for it in the same place of this order.
/// - `start_all_gather(send, receive, counts)`, `start_reduce_scatter(send, receive, counts, op)`: the same of an
///   `all_gather` and of a `reduce_scatter`.
/// - `allocate(bytes)`: 64-byte aligned memory, of the same size on all ranks, in which the communicator reduces
///   fastest; contents arbitrary. Collective. A reduction in it is of the same part of it on all ranks. The
///   communicator outlives the handles.
/// - `start_send(data, count, to, tag)`, `start_receive(data, count, from, tag)`: one message. Messages of one sender
///   and tag arrive in order. Tags are 0 to 32766.
/// - `split(color, key)`: collective; a communicator for each `color` (0 or more), its ranks ordered by `key`, then by
///   old rank.
/// - `abort(code)`: ends all ranks of the program with this exit code.
///
/// Addresses are those of the memory of the backend that the communicator belongs to, and messages are ordered among
/// its kernels as kernels are. Where this is not the host's memory, `host()` gives a communicator of the same group for
/// values in host memory, of all element types, and the communicator itself need not carry double or bytes.
template <class C>
concept communicator = detail::group_handle<C> &&
    detail::carries_host_values<std::remove_reference_t<decltype(detail::host_side(std::declval<C&>()))>>;

}  // namespace tessera
