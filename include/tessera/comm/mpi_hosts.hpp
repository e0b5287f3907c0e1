#pragma once

#include <tessera/comm/mpi_call.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <utility>
#include <vector>

namespace tessera::detail {

/// A communicator that is freed with its owner, or none. It is not freed while an exception unwinds: freeing is
/// collective, and the other ranks may be elsewhere.
class mpi_group {
 public:
  mpi_group() = default;
  explicit mpi_group(MPI_Comm handle) : handle_(handle) {
    if (handle_ != MPI_COMM_NULL) return_errors(handle);
  }
  mpi_group(mpi_group&& other) noexcept : handle_(std::exchange(other.handle_, MPI_COMM_NULL)) {}
  mpi_group& operator=(mpi_group&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~mpi_group() {
    if (handle_ == MPI_COMM_NULL || std::uncaught_exceptions() > 0 || mpi_finalized()) return;
    check_mpi(MPI_Comm_free(&handle_), "MPI_Comm_free");
  }
  MPI_Comm get() const { return handle_; }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

inline MPI_Comm split_mpi(MPI_Comm group, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(group, color, key, &part), "MPI_Comm_split");
  return part;
}

/// A number that the ranks of `group` on this host, and no others, have in common. With `ranks_per_host` above 0, hosts
/// are taken to be that many ranks in a row. Collective.
inline int host_of_rank(MPI_Comm group, int rank, int ranks_per_host) {
  if (ranks_per_host > 0) return rank / ranks_per_host;
  MPI_Comm handle = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(group, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &handle), "MPI_Comm_split_type");
  const mpi_group here(handle);
  int first = rank;
  check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, here.get()), "MPI_Bcast");
  return first;
}

/// The ranks of a group by host.
///
/// A rank's position counts the ranks of its host in rank order. Positions that every host has are lanes: the ranks of
/// one lane, one on each host, talk across hosts, and each lane carries an equal share.
class mpi_hosts {
 public:
  mpi_hosts() = default;
  /// Of a group that lies on one host.
  mpi_hosts(MPI_Comm group, int rank, int size) : lanes_(size), position_(rank), shares_(size > 1), inside_(group) {}
  /// Collective; `host` is `host_of_rank`.
  mpi_hosts(MPI_Comm group, int rank, int size, int host) : host_(host), lanes_(size), position_(rank), inside_(group) {
    std::vector<int> all(static_cast<std::size_t>(size));
    check_mpi(MPI_Allgather(&host, 1, MPI_INT, all.data(), 1, MPI_INT, group), "MPI_Allgather");
    std::map<int, int> ranks;
    for (const int h : all) ++ranks[h];
    hosts_ = static_cast<int>(ranks.size());
    shares_ = size > hosts_;
    if (hosts_ == 1) return;
    for (auto const& [h, count] : ranks) lanes_ = std::min(lanes_, count);
    position_ = static_cast<int>(std::count(all.begin(), all.begin() + rank, host));
    if (!shares_) return;
    of_host_ = mpi_group(split_mpi(group, host, rank));
    inside_ = of_host_.get();
    across_ = mpi_group(split_mpi(group, position_ < lanes_ ? position_ : MPI_UNDEFINED, rank));
  }

  int host() const { return host_; }
  bool several() const { return hosts_ > 1; }
  /// Whether one of them has several ranks.
  bool shares() const { return shares_; }
  /// Whether both is so.
  bool levels() const { return several() && shares_; }
  int lanes() const { return lanes_; }
  int position() const { return position_; }
  /// The ranks of this host; the whole group where there is one host.
  MPI_Comm inside() const { return inside_; }
  /// The ranks of this lane. Null where there are no levels, and for ranks outside the lanes.
  MPI_Comm across() const { return across_.get(); }

 private:
  int host_ = 0;
  int hosts_ = 1;
  int lanes_ = 1;
  int position_ = 0;
  bool shares_ = false;
  MPI_Comm inside_ = MPI_COMM_NULL;
  mpi_group of_host_;
  mpi_group across_;
};

}  // namespace tessera::detail
