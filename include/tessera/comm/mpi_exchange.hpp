#pragma once

#include <tessera/comm/counts.hpp>
#include <tessera/comm/mpi_hosts.hpp>
#include <tessera/comm/mpi_reductions.hpp>
#include <tessera/core/memory.hpp>
#include <tessera/core/partition.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <string>
#include <vector>

namespace tessera::detail {

/// All-reduces by messages of memory that ranks do not share, for the ranks of one host.
///
/// Each rank gets its slice of a piece from all others, reduces it in rank order, and sends it back to them. A few
/// pieces are under way at a time, so that a look now and then finds messages to handle, and what they pass through
/// stays in the caches. `MPI_Iallreduce` of Open MPI, in place, reduces whole buffers to one rank, then broadcasts
/// them: six times as long on two ranks.
class mpi_exchange final : public mpi_reductions {
 public:
  /// Messages have at most `limit` elements. Collective. Nothing is under way where it is destroyed, unless an
  /// exception unwinds.
  mpi_exchange(MPI_Comm group, index_t limit) : limit_(limit) {
    // Its own group: messages of others may come between those of reductions under way.
    MPI_Comm copy = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(group, &copy), "MPI_Comm_dup");
    group_ = mpi_group(copy);
    check_mpi(MPI_Comm_rank(copy, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(copy, &size_), "MPI_Comm_size");
    for (int r = 0; r < size_; ++r)
      if (r != rank_) peers_.push_back(r);
    pieces_.resize(std::max<std::size_t>(2, messages_under_way / peers_.size()));
    requests_.assign(pieces_.size() * kinds * peers_.size(), MPI_REQUEST_NULL);
    places_.resize(requests_.size());
    statuses_.resize(requests_.size());
    buffers_ = host_memory::allocate(pieces_.size() * peers_.size() * message_bytes);
  }

  /// Starts a reduction and returns its number.
  template <message_element T>
  std::uint64_t start(T* data, index_t count, reduction op) {
    const index_t most = std::min(limit_, static_cast<index_t>(message_bytes / sizeof(T)));
    reductions_.push_back(
        {reinterpret_cast<std::byte*>(data), count, 0, most * size_, sizeof(T), mpi_type_of<T>(), fold_of<T>(op), 0});
    ++started_;
    progress();
    return started_;
  }

  /// Throws, now and ever after, where ranks did not start the same reduction.
  bool test(std::uint64_t number) override {
    if (completed_ < number) progress();
    return completed_ >= number;
  }

  void wait(std::uint64_t number) override {
    backoff pause(group_.get());
    while (completed_ < number) progress() ? pause.reset() : pause();
  }

 private:
  static constexpr std::size_t message_bytes = std::size_t{64} << 10;
  static constexpr std::size_t messages_under_way = 8;
  static constexpr int rounds = 8;  ///< most in one look

  /// Messages of a piece with one other rank: its part of this rank's slice, this rank's part of its slice, and the
  /// reductions of both.
  enum kind : std::size_t { take_part, give_part, take_result, give_result, kinds };

  struct task {
    std::byte* data;
    index_t count;
    index_t at;     ///< up to where pieces have begun
    index_t piece;  ///< elements
    std::size_t element_bytes;
    MPI_Datatype type;
    fold_function fold;
    int pieces;  ///< under way
  };
  struct piece {
    std::uint64_t number = 0;  ///< of its reduction
    interval elements{};
    int parts = 0;     ///< of this rank's slice that have not come
    int messages = 0;  ///< not complete; 0 where nothing is under way
  };

  task& numbered(std::uint64_t number) { return reductions_[static_cast<std::size_t>(number - completed_ - 1)]; }
  std::size_t place(std::size_t p, kind k, std::size_t peer) const { return (p * kinds + k) * peers_.size() + peer; }
  std::byte* buffer(std::size_t p, std::size_t peer) const {
    return static_cast<std::byte*>(buffers_.get()) + (p * peers_.size() + peer) * message_bytes;
  }
  interval slice(piece const& p, int rank) const { return cut(p.elements, size_, rank); }
  static std::byte* data(task const& t, interval elements) {
    return t.data + static_cast<std::size_t>(elements.begin) * t.element_bytes;
  }

  void send(std::size_t p, kind k, std::size_t peer, interval elements) {
    task const& t = numbered(pieces_[p].number);
    ++pieces_[p].messages;
    check_mpi(MPI_Isend(data(t, elements), static_cast<int>(elements.size), t.type, peers_[peer], tag(p, k),
                        group_.get(), &requests_[place(p, k, peer)]),
              "MPI_Isend");
  }
  void receive(std::size_t p, kind k, std::size_t peer, std::byte* into, index_t count) {
    task const& t = numbered(pieces_[p].number);
    ++pieces_[p].messages;
    check_mpi(MPI_Irecv(into, static_cast<int>(count), t.type, peers_[peer], tag(p, k), group_.get(),
                        &requests_[place(p, k, peer)]),
              "MPI_Irecv");
  }
  static int tag(std::size_t p, kind k) {
    return static_cast<int>(2 * p) + (k == take_result || k == give_result ? 1 : 0);
  }

  /// Handles what has come, a bounded number of messages; whether there was any.
  bool progress() {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    try {
      bool any = begin_pieces();
      for (int round = 0; round < rounds; ++round) {
        int count = 0;
        check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, places_.data(),
                               statuses_.data()),
                  "MPI_Testsome");
        if (count == MPI_UNDEFINED || count == 0) break;
        any = true;
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
          ended(static_cast<std::size_t>(places_[i]), statuses_[i]);
        begin_pieces();
      }
      return any;
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

  /// Begins pieces, in the order of reductions, while there is a place for the next one.
  bool begin_pieces() {
    bool any = false;
    while (pieces_[next_].messages == 0) {
      while (begun_ < started_ && numbered(begun_ + 1).at == numbered(begun_ + 1).count) ++begun_;
      if (begun_ == started_) break;
      task& t = numbered(begun_ + 1);
      pieces_[next_] = {begun_ + 1, {t.at, std::min(t.piece, t.count - t.at)}};
      t.at += pieces_[next_].elements.size;
      ++t.pieces;
      begin(next_);
      next_ = (next_ + 1) % pieces_.size();
      any = true;
    }
    return any;
  }

  void begin(std::size_t p) {
    const index_t own = slice(pieces_[p], rank_).size;
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
      if (own > 0) {
        ++pieces_[p].parts;
        receive(p, take_part, peer, buffer(p, peer), own);
      }
      if (const interval other = slice(pieces_[p], peers_[peer]); other.size > 0) send(p, give_part, peer, other);
    }
  }

  void ended(std::size_t place, MPI_Status const& status) {
    const std::size_t peer = place % peers_.size();
    const auto k = static_cast<kind>(place / peers_.size() % kinds);
    const std::size_t p = place / peers_.size() / kinds;
    piece& of = pieces_[p];
    --of.messages;
    const interval own = slice(of, rank_);
    const interval other = slice(of, peers_[peer]);
    switch (k) {
      case take_part:
        check_size(of, status, own.size);
        if (--of.parts > 0) break;
        reduce(p, own);
        for (std::size_t to = 0; to < peers_.size(); ++to) send(p, give_result, to, own);
        break;
      case give_part:
        // Only now may other elements take the place of those that were sent.
        receive(p, take_result, peer, data(numbered(of.number), other), other.size);
        break;
      case take_result: check_size(of, status, other.size); break;
      default: break;
    }
    if (of.messages > 0) return;
    --numbered(of.number).pieces;
    while (!reductions_.empty() && reductions_.front().at == reductions_.front().count &&
           reductions_.front().pieces == 0) {
      reductions_.pop_front();
      begun_ = std::max(begun_, ++completed_);
    }
  }

  /// All ranks' parts of this rank's slice, in rank order.
  void reduce(std::size_t p, interval own) {
    task const& t = numbered(pieces_[p].number);
    std::byte* const into = data(t, own);
    const std::size_t bytes = static_cast<std::size_t>(own.size) * t.element_bytes;
    const auto before = static_cast<std::size_t>(rank_);
    for (std::size_t peer = 1; peer < before; ++peer) t.fold(buffer(p, peer), buffer(p, 0), bytes);
    if (before > 0) t.fold(buffer(p, 0), into, bytes);
    for (std::size_t peer = before; peer < peers_.size(); ++peer) t.fold(buffer(p, peer), into, bytes);
  }

  void check_size(piece const& of, MPI_Status const& status, index_t wanted) {
    int found = 0;
    check_mpi(MPI_Get_count(&status, numbered(of.number).type, &found), "MPI_Get_count");
    if (found != wanted)
      throw error("a part of " + (found == MPI_UNDEFINED ? "no whole number of" : std::to_string(found)) +
                      " elements from rank " + std::to_string(status.MPI_SOURCE) + " of the group in an all_reduce",
                  std::to_string(wanted) + " as on this rank",
                  "start reductions in the same order and with the same counts on all ranks");
  }

  index_t limit_;
  mpi_group group_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<int> peers_;
  std::vector<piece> pieces_;
  std::size_t next_ = 0;               // of `pieces_`
  std::vector<MPI_Request> requests_;  // by piece, kind and other rank
  std::vector<int> places_;            // of requests that one look found complete
  std::vector<MPI_Status> statuses_;
  memory_handle buffers_;        // by piece and other rank
  std::deque<task> reductions_;  // under way
  std::uint64_t started_ = 0;    // reductions
  std::uint64_t begun_ = 0;      // those all of whose pieces have begun
  std::uint64_t completed_ = 0;
  std::exception_ptr failure_;
};

}  // namespace tessera::detail
