#pragma once

#include <tessera/comm/collective.hpp>
#include <tessera/comm/concept.hpp>
#include <tessera/comm/counts.hpp>
#include <tessera/comm/plan_hash.hpp>
#include <tessera/core/error.hpp>
#include <tessera/core/mesh.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

namespace detail {

template <message_element T>
constexpr char const* element_name() {
  if constexpr (std::same_as<T, float>) return "float";
  if constexpr (std::same_as<T, double>) return "double";
  if constexpr (std::same_as<T, std::int32_t>) return "int32";
  if constexpr (std::same_as<T, std::int64_t>) return "int64";
  if constexpr (std::same_as<T, std::uint8_t>) return "uint8";
}

/// The counts as text: the first eight, and a hash of all where there are more.
inline std::string counts_text(std::span<index_t const> counts) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t r = 0; r < std::min(counts.size(), shown); ++r) text += (r ? ", " : "") + std::to_string(counts[r]);
  if (counts.size() <= shown) return text;
  number_hash hash;
  for (const index_t count : counts) hash.add(count);
  return text + ", ... (" + std::to_string(counts.size()) + " counts, hash " + std::to_string(hash.value()) + ")";
}

}  // namespace detail

/// A communicator for debugging: before each collective all ranks compare what they are about to call, in a small
/// gather of their own on `Inner`. Where two differ (in the operation, element type, counts, reduction, root or number
/// of collectives so far) all ranks throw `tessera::error` with what both of them call, where MPI would hang or
/// overwrite memory. Single messages are not compared.
template <communicator Inner>
class checked {
 public:
  using request = typename Inner::request;

  explicit checked(Inner inner) : inner_(std::move(inner)) {}

  Inner& inner() { return inner_; }
  /// Values in host memory go past this communicator where it is one of a device.
  auto& host() requires requires(Inner& inner) { inner.host(); }
  { return inner_.host(); }
  void label(axis_set group) requires requires(Inner& labelled) { labelled.label(group); }
  { inner_.label(group); }

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }

  template <message_element T>
  void all_reduce(T* data, index_t count, reduction op) {
    compare(text_of<T>(collective::all_reduce, count) + by(op));
    inner_.all_reduce(data, count, op);
  }
  template <message_element T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    compare(text_of<T>(collective::all_gather, detail::total_of(counts)) + in_parts(counts));
    inner_.all_gather(send, receive, counts);
  }
  template <message_element T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    compare(text_of<T>(collective::reduce_scatter, detail::total_of(counts)) + by(op) + in_parts(counts));
    inner_.reduce_scatter(send, receive, counts, op);
  }
  /// Also compares what each rank sends to each other rank with what that rank receives from it.
  template <message_element T>
  void all_to_all(T const* send, std::span<index_t const> send_counts, T* receive,
                  std::span<index_t const> receive_counts) {
    compare(std::string(to_string(collective::all_to_all)) + " of " + detail::element_name<T>());
    compare_counts(send_counts, receive_counts);
    inner_.all_to_all(send, send_counts, receive, receive_counts);
  }
  template <message_element T>
  void broadcast(T* data, index_t count, int root) {
    compare(text_of<T>(collective::broadcast, count) + " from rank " + std::to_string(root));
    inner_.broadcast(data, count, root);
  }
  void barrier() {
    compare(to_string(collective::barrier));
    inner_.barrier();
  }
  template <message_element T>
  request start_all_reduce(T* data, index_t count, reduction op) {
    compare("start_" + text_of<T>(collective::all_reduce, count) + by(op));
    return inner_.start_all_reduce(data, count, op);
  }
  template <message_element T>
  request start_all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    compare("start_" + text_of<T>(collective::all_gather, detail::total_of(counts)) + in_parts(counts));
    return inner_.start_all_gather(send, receive, counts);
  }
  template <message_element T>
  request start_reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    compare("start_" + text_of<T>(collective::reduce_scatter, detail::total_of(counts)) + by(op) + in_parts(counts));
    return inner_.start_reduce_scatter(send, receive, counts, op);
  }
  template <message_element T>
  request start_send(T const* data, index_t count, int to, int tag) {
    return inner_.start_send(data, count, to, tag);
  }
  template <message_element T>
  request start_receive(T* data, index_t count, int from, int tag) {
    return inner_.start_receive(data, count, from, tag);
  }
  memory_handle allocate(std::size_t bytes) {
    compare("allocate of " + std::to_string(bytes) + " bytes");
    return inner_.allocate(bytes);
  }
  /// Compared without color and key, which each rank chooses.
  checked split(int color, int key) const {
    compare("split");
    return checked{inner_.split(color, key)};
  }
  [[noreturn]] void abort(int code) const { inner_.abort(code); }

 private:
  template <class T>
  static std::string text_of(collective kind, index_t count) {
    return std::string(to_string(kind)) + " of " + std::to_string(count) + " x " + detail::element_name<T>();
  }
  static std::string by(reduction op) { return std::string(" by ") + to_string(op); }
  static std::string in_parts(std::span<index_t const> counts) { return " in parts " + detail::counts_text(counts); }

  /// The text of each rank.
  std::vector<std::string> gather(std::string text) const {
    constexpr index_t length = 320;  // longer than any text of this class
    const auto ranks = static_cast<std::size_t>(size());
    text.resize(length);
    const std::vector<std::uint8_t> own(text.begin(), text.end());
    std::vector<std::uint8_t> all(ranks * own.size());
    detail::host_side(inner_).all_gather(own.data(), all.data(), std::vector<index_t>(ranks, length));
    std::vector<std::string> texts;
    for (auto at = all.begin(); at != all.end(); at += length)
      texts.emplace_back(at, std::find(at, at + length, std::uint8_t{0}));
    return texts;
  }

  void compare(std::string const& call) const {
    const auto calls = gather("collective " + std::to_string(++calls_) + ", " + call);
    for (std::size_t r = 1; r < calls.size(); ++r)
      if (calls[r] != calls[0])
        throw error("rank 0 calls " + calls[0] + ", rank " + std::to_string(r) + " calls " + calls[r],
                    "the same call on all ranks of the group",
                    "look for a branch or an extent before this call that differs between the two ranks");
  }

  void compare_counts(std::span<index_t const> send_counts, std::span<index_t const> receive_counts) {
    detail::check_counts(send_counts, size(), "all_to_all");
    detail::check_counts(receive_counts, size(), "all_to_all");
    std::vector<index_t> announced(receive_counts.size());
    const std::vector<index_t> one_each(receive_counts.size(), 1);
    detail::host_side(inner_).all_to_all(send_counts.data(), one_each, announced.data(), one_each);
    std::string difference;
    for (std::size_t r = 0; r < announced.size() && difference.empty(); ++r)
      if (announced[r] != receive_counts[r])
        difference = "rank " + std::to_string(r) + " sends " + std::to_string(announced[r]) + " elements to rank " +
                     std::to_string(rank()) + ", which receives " + std::to_string(receive_counts[r]);
    for (std::string const& found : gather(difference))
      if (!found.empty())
        throw error("all_to_all where " + found, "equal counts",
                    "make send_counts[r] of rank s equal to receive_counts[s] of rank r for all ranks");
  }

  // Comparing is part of `split`, which is const, and communicates.
  mutable Inner inner_;
  mutable std::uint64_t calls_ = 0;
};

}  // namespace tessera
