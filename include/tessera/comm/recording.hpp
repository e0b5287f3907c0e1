#pragma once

#include <tessera/comm/collective.hpp>
#include <tessera/comm/concept.hpp>
#include <tessera/comm/counts.hpp>
#include <tessera/core/mesh.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tessera {

/// One call of a communicator, as this rank made it.
struct recorded_call {
  collective kind = collective::barrier;
  /// The mesh axes of the communicator's group: its label, empty for one without.
  axis_set group = 0;
  /// Elements of the call's payload on this rank, its own part included: the count of `all_reduce`, `broadcast`,
  /// `send` and `receive`; the sum of counts of `all_gather` (what it receives) and `reduce_scatter` (what it sends);
  /// the larger one of what `all_to_all` sends and receives; 0 for `barrier`.
  index_t elements = 0;
  std::size_t element_bytes = 0;
  /// `sum` for calls without a reduction.
  reduction op = reduction::sum;

  friend bool operator==(recorded_call const&, recorded_call const&) = default;
};

/// A communicator that forwards to `Inner` and logs each call, those of no elements and of one rank included. Starting
/// a reduction is logged as `all_reduce`; `split` and `allocate` are not logged. Communicators that come from one by
/// `split` share its log.
template <communicator Inner>
class recording {
 public:
  using request = typename Inner::request;

  explicit recording(Inner inner) : recording(std::move(inner), std::make_shared<std::vector<recorded_call>>()) {}

  /// The calls so far, oldest first.
  std::vector<recorded_call> const& calls() const { return *log_; }
  /// Empties the log, for all communicators that share it.
  void clear() { log_->clear(); }
  /// Names the mesh axes of this group in later entries.
  void label(axis_set group) { group_ = group; }
  Inner& inner() { return inner_; }
  /// Values in host memory go past this communicator where it is one of a device.
  auto& host() requires requires(Inner& inner) { inner.host(); }
  { return inner_.host(); }

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }

  template <message_element T>
  void all_reduce(T* data, index_t count, reduction op) {
    record<T>(collective::all_reduce, count, op);
    inner_.all_reduce(data, count, op);
  }
  template <message_element T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    record<T>(collective::all_gather, detail::total_of(counts));
    inner_.all_gather(send, receive, counts);
  }
  template <message_element T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    record<T>(collective::reduce_scatter, detail::total_of(counts), op);
    inner_.reduce_scatter(send, receive, counts, op);
  }
  template <message_element T>
  void all_to_all(T const* send, std::span<index_t const> send_counts, T* receive,
                  std::span<index_t const> receive_counts) {
    record<T>(collective::all_to_all, std::max(detail::total_of(send_counts), detail::total_of(receive_counts)));
    inner_.all_to_all(send, send_counts, receive, receive_counts);
  }
  template <message_element T>
  void broadcast(T* data, index_t count, int root) {
    record<T>(collective::broadcast, count);
    inner_.broadcast(data, count, root);
  }
  void barrier() {
    log_->push_back({.kind = collective::barrier, .group = group_});
    inner_.barrier();
  }
  template <message_element T>
  request start_all_reduce(T* data, index_t count, reduction op) {
    record<T>(collective::all_reduce, count, op);
    return inner_.start_all_reduce(data, count, op);
  }
  template <message_element T>
  request start_all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    record<T>(collective::all_gather, detail::total_of(counts));
    return inner_.start_all_gather(send, receive, counts);
  }
  template <message_element T>
  request start_reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    record<T>(collective::reduce_scatter, detail::total_of(counts), op);
    return inner_.start_reduce_scatter(send, receive, counts, op);
  }
  template <message_element T>
  request start_send(T const* data, index_t count, int to, int tag) {
    record<T>(collective::send, count);
    return inner_.start_send(data, count, to, tag);
  }
  template <message_element T>
  request start_receive(T* data, index_t count, int from, int tag) {
    record<T>(collective::receive, count);
    return inner_.start_receive(data, count, from, tag);
  }
  memory_handle allocate(std::size_t bytes) { return inner_.allocate(bytes); }
  /// The new communicator shares the log and has no label.
  recording split(int color, int key) const { return {inner_.split(color, key), log_}; }
  [[noreturn]] void abort(int code) const { inner_.abort(code); }

 private:
  recording(Inner inner, std::shared_ptr<std::vector<recorded_call>> log)
      : inner_(std::move(inner)), log_(std::move(log)) {}

  template <class T>
  void record(collective kind, index_t elements, reduction op = reduction::sum) {
    log_->push_back({kind, group_, elements, sizeof(T), op});
  }

  Inner inner_;
  std::shared_ptr<std::vector<recorded_call>> log_;
  axis_set group_ = 0;
};

}  // namespace tessera
