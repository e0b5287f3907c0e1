#pragma once

#include <tessera/comm/counts.hpp>
#include <tessera/comm/mpi_hosts.hpp>
#include <tessera/comm/mpi_reductions.hpp>
#include <tessera/comm/mpi_window.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace tessera::detail {

/// What a reduction does to elements whose type it does not know.
struct shared_operation {
  fold_function fold;
  std::size_t element_bytes;
  std::uint64_t code;  ///< a number for element type and reduction
  MPI_Datatype type;
  MPI_Op op;
  index_t piece;  ///< most elements of one message across hosts
};

template <message_element T>
shared_operation shared_operation_of(reduction op, MPI_Op mpi_op, index_t piece) {
  const bool maximum = op == reduction::maximum;
  return {fold_of<T>(op),   sizeof(T), 4 * sizeof(T) + 2 * std::floating_point<T> + maximum,
          mpi_type_of<T>(), mpi_op,    piece};
}

/// All-reduces of memory that the ranks of a host share.
///
/// Each rank reduces an equal slice of all ranks' buffers in rank order, and writes the result into all of them; where
/// there are several hosts, the ranks of a lane first reduce their slice across hosts by MPI. Reductions are numbered
/// in the order in which they start, which is the same on all ranks, and pass each stage in this order; a rank tells
/// the others by counters how many have arrived at it, and of how many it has reduced its slice.
class mpi_shared final : public mpi_reductions {
 public:
  /// Collective over `group`, whose hosts these are. It and their groups live until `close`.
  mpi_shared(MPI_Comm group, mpi_hosts const& hosts)
      : several_(hosts.several()),
        lanes_(hosts.lanes()),
        lane_(hosts.position()),
        group_(group),
        inside_(hosts.inside()) {
    check_mpi(MPI_Comm_rank(inside_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(inside_, &size_), "MPI_Comm_size");
    piece_ = std::max(run, (std::size_t{512} << 10) / static_cast<std::size_t>(size_) / run * run);
    if (hosts.across() != MPI_COMM_NULL) {
      // Its own group: others of the lanes may come between messages of reductions under way.
      MPI_Comm copy = MPI_COMM_NULL;
      check_mpi(MPI_Comm_dup(hosts.across(), &copy), "MPI_Comm_dup");
      across_ = mpi_group(copy);
    }
    counters_ = std::make_shared<mpi_window>(group_, inside_, sizeof(board));
    new (counters_->block(rank_)) board{};
    check_mpi(MPI_Barrier(inside_), "MPI_Barrier");
  }

  /// Memory of `bytes` bytes, the same on all ranks. Collective. A window whose memory no rank uses any more serves
  /// again where its size is the one wanted, and is freed otherwise. Throws on all ranks where their sizes differ or a
  /// host lacks room.
  memory_handle allocate(std::size_t bytes) {
    const std::size_t size = (bytes + host_memory::alignment - 1) / host_memory::alignment * host_memory::alignment;
    std::vector<std::int64_t> most = uses();
    most.push_back(static_cast<std::int64_t>(size));
    most.push_back(-static_cast<std::int64_t>(size));
    most = maximum_of(std::move(most));
    if (most[windows_.size()] + most[windows_.size() + 1] != 0)
      throw error("allocate of different sizes on ranks of one group, this one " + std::to_string(bytes) + " bytes",
                  "the same size on all ranks of the group", "check the extents that the size comes from");
    if (size == 0) return host_memory::allocate(0);
    std::shared_ptr<mpi_window> serves;
    for (std::size_t w = 0; w < windows_.size() && serves == nullptr; ++w)
      if (most[w] == 0 && windows_[w]->bytes() == size) serves = windows_[w];
    if (serves == nullptr) {
      free_unused(most);
      serves = std::make_shared<mpi_window>(group_, inside_, size);
      windows_.push_back(serves);
    }
    serves->lend();
    return {serves, serves->block(rank_), size};
  }

  /// Whether these bytes lie in memory from `allocate`.
  bool holds(void const* data, std::size_t bytes) const { return find(data, bytes) != windows_.end(); }

  /// Starts a reduction of `bytes` bytes at `data`, which `holds`. Returns its number.
  std::uint64_t start(void* data, std::size_t bytes, shared_operation const& operation) {
    std::shared_ptr<mpi_window> const& window = *find(data, bytes);
    const std::size_t granules = (bytes + host_memory::alignment - 1) / host_memory::alignment;
    const auto slice = [&](int lane) {
      const std::size_t whole = granules * static_cast<std::size_t>(lane) / static_cast<std::size_t>(lanes_);
      return std::min(bytes, whole * host_memory::alignment);
    };
    const bool in_lane = lane_ < lanes_;
    const std::size_t begin = in_lane ? slice(lane_) : 0;
    const std::size_t end = in_lane ? slice(lane_ + 1) : 0;
    // Windows are made and freed in the same order on all ranks, so that their places are the same.
    const auto number = static_cast<std::uint64_t>(&window - windows_.data());
    const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(data) - window->block(rank_));
    under_way_.push_back({window, operation, {number, offset, bytes, operation.code}, begin, end, begin, {}});
    ++started_;
    progress();
    return started_;
  }

  /// Whether the reduction of this number is complete, after a bounded piece of work on those under way. Throws where
  /// ranks of this host did not call the same reduction.
  bool test(std::uint64_t number) override {
    if (completed_ < number) progress();
    if (completed_ < number) return false;
    if (const auto failure = failures_.find(number); failure != failures_.end()) {
      const error thrown = failure->second;
      failures_.erase(failure);
      throw thrown;
    }
    return true;
  }

  void wait(std::uint64_t number) override {
    finish(number);
    test(number);
  }

  /// Completes what is under way and frees the memory, but for what a rank of the host still has handles on: that is
  /// left to the end of the program. Collective.
  void close() {
    finish(started_);
    free_unused(maximum_of(uses()));
    windows_.clear();
    counters_->free();
    across_ = mpi_group();
  }

 private:
  static constexpr std::size_t places = 16;                 ///< reductions that ranks show each other at a time
  static constexpr std::size_t run = std::size_t{8} << 10;  ///< bytes that stay in the first cache between two ranks

  /// What a rank reduces: the number of the window, the place in it, bytes, element type and reduction.
  using call = std::array<std::uint64_t, 4>;
  /// What a rank shows the others of its host.
  struct board {
    alignas(64) std::uint64_t arrived = 0;
    alignas(64) std::uint64_t reduced = 0;
    alignas(64) call calls[places] = {};
  };
  struct task {
    std::shared_ptr<mpi_window> window;
    shared_operation operation;
    call what;
    std::size_t begin;
    std::size_t end;  ///< of this rank's slice
    std::size_t at;   ///< up to where the stage under way has come
    std::vector<MPI_Request> crossing;

    std::byte* data(int rank, std::size_t from) const { return window->block(rank) + what[1] + from; }
  };

  board& board_of(int rank) const { return *std::launder(reinterpret_cast<board*>(counters_->block(rank))); }
  static std::atomic_ref<std::uint64_t> shown(std::uint64_t& counter) {
    return std::atomic_ref<std::uint64_t>(counter);
  }
  task& numbered(std::uint64_t number) { return under_way_[static_cast<std::size_t>(number - completed_ - 1)]; }

  /// One step of each stage; whether any had something to do.
  bool progress() {
    const bool any[] = {arrive(), reduce(), spread(), complete()};
    return any[0] || any[1] || any[2] || any[3];
  }

  void finish(std::uint64_t number) {
    backoff pause(inside_);
    while (completed_ < number) progress() ? pause.reset() : pause();
  }

  bool arrive() {
    const std::uint64_t before = arrived_;
    while (arrived_ < started_ && arrived_ < completed_ + places) {
      ++arrived_;
      board_of(rank_).calls[arrived_ % places] = numbered(arrived_).what;
    }
    if (arrived_ == before) return false;
    shown(board_of(rank_).arrived).store(arrived_, std::memory_order_release);
    return true;
  }

  /// Reduces a piece of this rank's slice; with the last one the slice is on its way across hosts.
  bool reduce() {
    if (summed_ == arrived_ || !all(&board::arrived, summed_ + 1)) return false;
    task& t = numbered(summed_ + 1);
    if (t.at == t.begin && !same_calls(t)) t.at = t.begin = t.end;
    for (const std::size_t end = std::min(t.end, t.at + piece_); t.at < end;) {
      const std::size_t bytes = std::min(run, end - t.at);
      for (int r = 1; r < size_; ++r) t.operation.fold(t.data(r, t.at), t.data(0, t.at), bytes);
      if (!several_) copy_to_others(t, bytes);
      t.at += bytes;
    }
    if (t.at < t.end) return true;
    ++summed_;
    if (several_) {
      cross(t);
      t.at = t.begin;
    }
    return true;
  }

  void cross(task& t) {
    const std::size_t each = t.operation.element_bytes;
    for_pieces(static_cast<index_t>((t.end - t.begin) / each), t.operation.piece, [&](interval piece) {
      std::byte* data = t.data(0, t.begin + static_cast<std::size_t>(piece.begin) * each);
      t.crossing.push_back(MPI_REQUEST_NULL);
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(piece.size), t.operation.type, t.operation.op,
                               across_.get(), &t.crossing.back()),
                "MPI_Iallreduce");
    });
  }

  /// Tells the others of slices that are complete, after a piece of one that came across hosts is copied to them.
  bool spread() {
    if (reduced_ == summed_) return false;
    task& t = numbered(reduced_ + 1);
    if (!t.crossing.empty()) {
      int arrived = 0;
      check_mpi(MPI_Testall(static_cast<int>(t.crossing.size()), t.crossing.data(), &arrived, MPI_STATUSES_IGNORE),
                "MPI_Testall");
      if (arrived == 0) return false;
      t.crossing.clear();
    }
    if (t.at < t.end) {
      const std::size_t bytes = std::min(piece_, t.end - t.at);
      copy_to_others(t, bytes);
      t.at += bytes;
      if (t.at < t.end) return true;
    }
    ++reduced_;
    shown(board_of(rank_).reduced).store(reduced_, std::memory_order_release);
    return true;
  }

  bool complete() {
    if (completed_ == reduced_ || !all(&board::reduced, completed_ + 1)) return false;
    under_way_.pop_front();
    ++completed_;
    return true;
  }

  /// Whether all ranks of the host have counted to `number`.
  bool all(std::uint64_t board::*counter, std::uint64_t number) const {
    for (int r = 0; r < size_; ++r)
      if (shown(board_of(r).*counter).load(std::memory_order_acquire) < number) return false;
    return true;
  }

  void copy_to_others(task const& t, std::size_t bytes) const {
    for (int r = 1; r < size_; ++r) std::memcpy(t.data(r, t.at), t.data(0, t.at), bytes);
  }

  /// Whether the ranks of this host have all called what this one has; otherwise its `test` will throw.
  bool same_calls(task const& t) {
    for (int r = 0; r < size_; ++r) {
      call const& other = board_of(r).calls[(summed_ + 1) % places];
      if (other == t.what) continue;
      failures_.emplace(summed_ + 1, error("an all_reduce of " + text_of(t.what) + ", and on rank " +
                                               std::to_string(r) + " of this host of " + text_of(other),
                                           "the same call on all ranks of the group",
                                           "start reductions in the same order and with the same counts on all ranks"));
      return false;
    }
    return true;
  }
  static std::string text_of(call const& what) {
    return std::to_string(what[2]) + " bytes at byte " + std::to_string(what[1]) + " of shared block " +
           std::to_string(what[0]) + " (element and reduction " + std::to_string(what[3]) + ")";
  }

  std::vector<std::shared_ptr<mpi_window>>::const_iterator find(void const* data, std::size_t bytes) const {
    const auto from = reinterpret_cast<std::uintptr_t>(data);
    return std::find_if(windows_.begin(), windows_.end(), [&](auto const& window) {
      const auto begin = reinterpret_cast<std::uintptr_t>(window->block(rank_));
      return from >= begin && from + bytes <= begin + window->bytes();
    });
  }

  std::vector<std::int64_t> uses() const {
    std::vector<std::int64_t> used;
    for (auto const& window : windows_) used.push_back(window->in_use() ? 1 : 0);
    return used;
  }
  std::vector<std::int64_t> maximum_of(std::vector<std::int64_t> values) const {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_INT64_T, MPI_MAX, group_),
              "MPI_Allreduce");
    return values;
  }
  void free_unused(std::vector<std::int64_t> const& used) {
    for (std::size_t w = windows_.size(); w-- > 0;) {
      if (used[w] != 0) continue;
      windows_[w]->free();
      windows_.erase(windows_.begin() + static_cast<std::ptrdiff_t>(w));
    }
  }

  bool several_;  // hosts
  int lanes_;
  int lane_;  // `lanes_` or more outside them
  MPI_Comm group_;
  MPI_Comm inside_;
  int rank_ = 0;  // on this host
  int size_ = 1;
  std::size_t piece_ = run;  // bytes of a slice in one step
  mpi_group across_;
  std::shared_ptr<mpi_window> counters_;
  std::vector<std::shared_ptr<mpi_window>> windows_;
  std::deque<task> under_way_;
  // How many reductions this rank has started, shown, summed over its host, finished its slice of, and seen complete.
  std::uint64_t started_ = 0;
  std::uint64_t arrived_ = 0;
  std::uint64_t summed_ = 0;
  std::uint64_t reduced_ = 0;
  std::uint64_t completed_ = 0;
  std::map<std::uint64_t, error> failures_;
};

/// The owner of a communicator's `mpi_shared`, if there is one. As with groups, nothing is freed while an exception
/// unwinds.
class mpi_shared_owner {
 public:
  mpi_shared_owner() = default;
  mpi_shared_owner(mpi_shared_owner&&) = default;
  mpi_shared_owner& operator=(mpi_shared_owner&& other) noexcept {
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~mpi_shared_owner() {
    if (shared_ != nullptr && std::uncaught_exceptions() == 0 && !mpi_finalized()) shared_->close();
  }
  std::shared_ptr<mpi_shared> const& get() const { return shared_; }
  /// Collective the first time.
  mpi_shared& get_or_make(MPI_Comm group, mpi_hosts const& hosts) {
    if (shared_ == nullptr) shared_ = std::make_shared<mpi_shared>(group, hosts);
    return *shared_;
  }

 private:
  std::shared_ptr<mpi_shared> shared_;
};

}  // namespace tessera::detail
