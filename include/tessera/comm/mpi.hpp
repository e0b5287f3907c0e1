#pragma once

#include <tessera/comm/counts.hpp>
#include <tessera/comm/mpi_environment.hpp>
#include <tessera/comm/mpi_exchange.hpp>
#include <tessera/comm/mpi_levels.hpp>
#include <tessera/comm/mpi_request.hpp>
#include <tessera/comm/mpi_shared.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Settings of `mpi_comm`, the same on all ranks of a group; `split` passes them on.
struct mpi_options {
  /// Most elements in one MPI call; MPI 3.1 counts are of type int.
  index_t chunk_limit = std::numeric_limits<int>::max();
  /// Bytes in which `all_reduce`, and reductions across hosts, send larger buffers. On one host pieces of 1 to 4 MiB
  /// stay in the cache; networks want more.
  index_t piece_bytes = index_t{1} << 20;
  /// Whether `allocate` gives memory that ranks of one host share, in which all-reduces need no messages among them.
  bool shared_memory = true;
  /// Fewest bytes of other memory that are reduced inside each host, then across, where there are several of several
  /// ranks; fewer are sent as if all ranks were alike.
  index_t level_bytes = index_t{64} << 10;
  /// Ranks in a row that count as one host; 0 for hosts as they are. For tests.
  int ranks_per_host = 0;
};

/// A group of MPI ranks. See `communicator`. It is destroyed before MPI is finalized.
class mpi_comm {
 public:
  using request = mpi_request;

  /// Collective over `parent`, which is duplicated, so that messages of others on it do not meet the library's.
  explicit mpi_comm(MPI_Comm parent = MPI_COMM_WORLD, mpi_options options = {})
      : mpi_comm{valid(options), duplicate(parent), std::make_shared<detail::mpi_operators const>()} {
    const int host = detail::host_of_rank(group_.get(), rank_, options_.ranks_per_host);
    hosts_ = detail::mpi_hosts(group_.get(), rank_, size_, host);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }

  index_t piece_bytes() const { return options_.piece_bytes; }
  /// Sets the size of pieces of later reductions; the same on all ranks.
  void piece_bytes(index_t bytes) {
    mpi_options changed = options_;
    changed.piece_bytes = bytes;
    options_ = valid(changed);
  }

  /// Memory of the ranks of each host together, unless switched off or each rank is alone on its host. The communicator
  /// outlives the handles, and is destroyed on all ranks together. Where sizes differ or a host lacks shared memory,
  /// throws on all ranks.
  memory_handle allocate(std::size_t bytes) {
    if (!options_.shared_memory || !hosts_.shares()) return host_memory::allocate(bytes);
    return shared_.get_or_make(group_.get(), hosts_).allocate(bytes);
  }

  template <message_element T>
  void all_reduce(T* data, index_t count, reduction op) {
    detail::check_count(count, "all_reduce");
    const index_t bytes = count * static_cast<index_t>(sizeof(T));
    if (in_shared_memory(data, bytes)) return start_shared(data, count, op).wait();
    const bool by_level = hosts_.levels() && bytes >= options_.level_bytes;
    // Level by level, a piece is what a rank sends across.
    const index_t limit = std::min(options_.chunk_limit, piece_elements(sizeof(T)) * (by_level ? hosts_.lanes() : 1));
    detail::for_pieces(count, limit, [&](interval piece) {
      T* begin = data + piece.begin;
      const MPI_Datatype type = detail::mpi_type_of<T>();
      const MPI_Op operation = operators_->reduce<T>(op);
      if (by_level) return detail::all_reduce_by_level(hosts_, begin, piece.size, type, operation);
      detail::check_mpi(MPI_Allreduce(MPI_IN_PLACE, begin, as_int(piece.size), type, operation, group_.get()),
                        "MPI_Allreduce");
    });
  }

  template <message_element T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    detail::check_counts(counts, size_, "all_gather");
    const index_t total = detail::total_of(counts);
    if (total == 0) return;
    const auto begins = detail::begins_of(counts);
    T* own = receive + begins[at(rank_)];
    if (own != send) std::copy_n(send, counts[at(rank_)], own);
    if (total > options_.chunk_limit) {
      for (int r = 0; r < size_; ++r) broadcast(receive + begins[at(r)], counts[at(r)], r);
      return;
    }
    // All ranks gather in place, because MPI asks that all or none do.
    const std::vector<int> sizes = as_ints(counts);
    const std::vector<int> places = as_ints(begins);
    detail::check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, detail::mpi_type_of<T>(), receive, sizes.data(), places.data(),
                                     detail::mpi_type_of<T>(), group_.get()),
                      "MPI_Allgatherv");
  }

  template <message_element T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    detail::check_counts(counts, size_, "reduce_scatter");
    const index_t total = detail::total_of(counts);
    if (total == 0) return;
    const MPI_Op operation = operators_->reduce<T>(op);
    if (total > options_.chunk_limit) {
      for (int r = 0; r < size_; ++r) {
        detail::for_pieces(counts[at(r)], options_.chunk_limit, [&](interval piece) {
          T* into = r == rank_ ? receive + piece.begin : nullptr;
          detail::check_mpi(MPI_Reduce(send + piece.begin, into, as_int(piece.size), detail::mpi_type_of<T>(),
                                       operation, r, group_.get()),
                            "MPI_Reduce");
        });
        send += counts[at(r)];
      }
      return;
    }
    const std::vector<int> sizes = as_ints(counts);
    detail::check_mpi(MPI_Reduce_scatter(send, detail::not_null(receive), sizes.data(), detail::mpi_type_of<T>(),
                                         operation, group_.get()),
                      "MPI_Reduce_scatter");
  }

  /// Sent as one message for each pair of ranks with a count above zero: a rank knows only its own counts, so ranks
  /// could not agree on when `MPI_Alltoallv` would overflow.
  template <message_element T>
  void all_to_all(T const* send, std::span<index_t const> send_counts, T* receive,
                  std::span<index_t const> receive_counts) {
    detail::check_counts(send_counts, size_, "all_to_all");
    detail::check_counts(receive_counts, size_, "all_to_all");
    detail::check_own_part(send_counts[at(rank_)], receive_counts[at(rank_)]);
    const auto from = detail::begins_of(send_counts);
    const auto to = detail::begins_of(receive_counts);
    request messages;
    for (int step = 1; step < size_; ++step) {
      const int source = (rank_ - step + size_) % size_;
      add_receive(messages, receive + to[at(source)], receive_counts[at(source)], source, exchange_tag);
    }
    for (int step = 1; step < size_; ++step) {
      const int target = (rank_ + step) % size_;
      add_send(messages, send + from[at(target)], send_counts[at(target)], target, exchange_tag);
    }
    std::copy_n(send + from[at(rank_)], send_counts[at(rank_)], receive + to[at(rank_)]);
    messages.wait();
  }

  template <message_element T>
  void broadcast(T* data, index_t count, int root) {
    detail::check_count(count, "broadcast");
    detail::check_rank(root, size_);
    detail::for_pieces(count, options_.chunk_limit, [&](interval piece) {
      detail::check_mpi(MPI_Bcast(data + piece.begin, as_int(piece.size), detail::mpi_type_of<T>(), root, group_.get()),
                        "MPI_Bcast");
    });
  }

  void barrier() { detail::check_mpi(MPI_Barrier(group_.get()), "MPI_Barrier"); }

  template <message_element T>
  request start_all_reduce(T* data, index_t count, reduction op) {
    detail::check_count(count, "start_all_reduce");
    if (in_shared_memory(data, count * static_cast<index_t>(sizeof(T)))) return start_shared(data, count, op);
    request pieces;
    if (count == 0 || size_ == 1) return pieces;
    if (!hosts_.several()) {
      if (exchange_ == nullptr) exchange_ = std::make_shared<detail::mpi_exchange>(group_.get(), options_.chunk_limit);
      pieces.number_ = exchange_->start(data, count, op);
      pieces.reductions_ = exchange_;
      return pieces;
    }
    // All pieces start now: starting them one by one in `test` would order them differently among other collectives
    // on different ranks.
    detail::for_pieces(count, piece_elements(sizeof(T)), [&](interval piece) {
      pieces.add([&](MPI_Request* handle) {
        detail::check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data + piece.begin, as_int(piece.size), detail::mpi_type_of<T>(),
                                         operators_->reduce<T>(op), group_.get(), handle),
                          "MPI_Iallreduce");
      });
    });
    return pieces;
  }

  template <message_element T>
  request start_all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    detail::check_counts(counts, size_, "start_all_gather");
    const auto begins = detail::begins_of(counts);
    T* own = receive + begins[at(rank_)];
    if (own != send) std::copy_n(send, counts[at(rank_)], own);
    request pieces;
    const index_t total = detail::total_of(counts);
    if (total > options_.chunk_limit) {
      for (int r = 0; r < size_; ++r)
        detail::for_pieces(counts[at(r)], options_.chunk_limit, [&](interval piece) {
          pieces.add([&](MPI_Request* handle) {
            detail::check_mpi(MPI_Ibcast(receive + begins[at(r)] + piece.begin, as_int(piece.size),
                                         detail::mpi_type_of<T>(), r, group_.get(), handle),
                              "MPI_Ibcast");
          });
        });
    } else if (total > 0) {
      int const* const sizes = pieces.keep(as_ints(counts));
      int const* const places = pieces.keep(as_ints(begins));
      pieces.add([&](MPI_Request* handle) {
        detail::check_mpi(MPI_Iallgatherv(MPI_IN_PLACE, 0, detail::mpi_type_of<T>(), receive, sizes, places,
                                          detail::mpi_type_of<T>(), group_.get(), handle),
                          "MPI_Iallgatherv");
      });
    }
    return pieces;
  }

  template <message_element T>
  request start_reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    detail::check_counts(counts, size_, "start_reduce_scatter");
    const MPI_Op operation = operators_->reduce<T>(op);
    request pieces;
    const index_t total = detail::total_of(counts);
    if (total > options_.chunk_limit) {
      for (int r = 0; r < size_; ++r) {
        detail::for_pieces(counts[at(r)], options_.chunk_limit, [&](interval piece) {
          T* const into = r == rank_ ? receive + piece.begin : nullptr;
          pieces.add([&](MPI_Request* handle) {
            detail::check_mpi(MPI_Ireduce(send + piece.begin, into, as_int(piece.size), detail::mpi_type_of<T>(),
                                          operation, r, group_.get(), handle),
                              "MPI_Ireduce");
          });
        });
        send += counts[at(r)];
      }
    } else if (total > 0) {
      int const* const sizes = pieces.keep(as_ints(counts));
      pieces.add([&](MPI_Request* handle) {
        detail::check_mpi(MPI_Ireduce_scatter(send, detail::not_null(receive), sizes, detail::mpi_type_of<T>(),
                                              operation, group_.get(), handle),
                          "MPI_Ireduce_scatter");
      });
    }
    return pieces;
  }

  template <message_element T>
  request start_send(T const* data, index_t count, int to, int tag) {
    check_message(count, to, tag, "start_send");
    request pieces;
    add_send(pieces, data, count, to, tag);
    return pieces;
  }

  template <message_element T>
  request start_receive(T* data, index_t count, int from, int tag) {
    check_message(count, from, tag, "start_receive");
    request pieces;
    add_receive(pieces, data, count, from, tag);
    return pieces;
  }

  mpi_comm split(int color, int key) const {
    detail::check_color(color);
    mpi_comm part(options_, detail::split_mpi(group_.get(), color, key), operators_);
    if (hosts_.several()) part.hosts_ = detail::mpi_hosts(part.group_.get(), part.rank_, part.size_, hosts_.host());
    return part;
  }

  [[noreturn]] void abort(int code) const { detail::abort_mpi(code); }

 private:
  /// The largest tag that every MPI library has, kept for `all_to_all`.
  static constexpr int exchange_tag = 32767;

  mpi_comm(mpi_options options, MPI_Comm handle, std::shared_ptr<detail::mpi_operators const> operators)
      : options_(options), operators_(std::move(operators)), group_(handle) {
    detail::check_mpi(MPI_Comm_rank(handle, &rank_), "MPI_Comm_rank");
    detail::check_mpi(MPI_Comm_size(handle, &size_), "MPI_Comm_size");
    hosts_ = detail::mpi_hosts(handle, rank_, size_);
  }

  static MPI_Comm duplicate(MPI_Comm parent) {
    MPI_Comm copy = MPI_COMM_NULL;
    detail::check_mpi(MPI_Comm_dup(parent, &copy), "MPI_Comm_dup");
    return copy;
  }

  static mpi_options valid(mpi_options options) {
    if (options.chunk_limit < 1 || options.chunk_limit > std::numeric_limits<int>::max() || options.piece_bytes < 1)
      throw error("chunk_limit " + std::to_string(options.chunk_limit) + " and piece_bytes " +
                      std::to_string(options.piece_bytes),
                  "1 to 2147483647 elements and at least 1 byte", "correct the mpi_options");
    if (options.level_bytes < 0 || options.ranks_per_host < 0)
      throw error("level_bytes " + std::to_string(options.level_bytes) + " and ranks_per_host " +
                      std::to_string(options.ranks_per_host),
                  "neither below 0", "correct the mpi_options");
    return options;
  }

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  static int as_int(index_t count) { return static_cast<int>(count); }
  static std::vector<int> as_ints(std::span<index_t const> values) {
    std::vector<int> ints(values.size());
    std::transform(values.begin(), values.end(), ints.begin(), as_int);
    return ints;
  }
  void check_message(index_t count, int other, int tag, char const* operation) const {
    detail::check_count(count, operation);
    detail::check_rank(other, size_);
    detail::check_tag(tag);
  }

  /// Elements of `bytes` bytes in one piece of a reduction.
  index_t piece_elements(std::size_t bytes) const {
    return std::min(options_.chunk_limit, std::max(index_t{1}, options_.piece_bytes / static_cast<index_t>(bytes)));
  }

  bool in_shared_memory(void const* data, index_t bytes) const {
    return shared_.get() != nullptr && bytes > 0 && shared_.get()->holds(data, static_cast<std::size_t>(bytes));
  }
  template <class T>
  request start_shared(T* data, index_t count, reduction op) {
    const auto operation = detail::shared_operation_of<T>(op, operators_->reduce<T>(op), piece_elements(sizeof(T)));
    request started;
    started.reductions_ = shared_.get();
    started.number_ = shared_.get()->start(data, static_cast<std::size_t>(count) * sizeof(T), operation);
    return started;
  }

  template <class T>
  void add_send(request& pieces, T const* data, index_t count, int to, int tag) {
    detail::for_pieces(count, options_.chunk_limit, [&](interval piece) {
      pieces.add([&](MPI_Request* handle) {
        detail::check_mpi(
            MPI_Isend(data + piece.begin, as_int(piece.size), detail::mpi_type_of<T>(), to, tag, group_.get(), handle),
            "MPI_Isend");
      });
    });
  }

  template <class T>
  void add_receive(request& pieces, T* data, index_t count, int from, int tag) {
    detail::for_pieces(count, options_.chunk_limit, [&](interval piece) {
      pieces.add_receive(as_int(piece.size), detail::mpi_type_of<T>(), [&](MPI_Request* handle) {
        detail::check_mpi(MPI_Irecv(data + piece.begin, as_int(piece.size), detail::mpi_type_of<T>(), from, tag,
                                    group_.get(), handle),
                          "MPI_Irecv");
      });
    });
  }

  mpi_options options_;
  std::shared_ptr<detail::mpi_operators const> operators_;
  detail::mpi_group group_;
  int rank_ = 0;
  int size_ = 1;
  detail::mpi_hosts hosts_;
  detail::mpi_shared_owner shared_;
  std::shared_ptr<detail::mpi_exchange> exchange_;  // from the first reduction that needs it on
};

static_assert(communicator<mpi_comm>);

}  // namespace tessera
