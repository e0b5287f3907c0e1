#pragma once

#include <tessera/comm/hccl/job.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tessera::detail {

/// The communicators through which a pair of ranks sends messages, one for each direction.
struct hccl_link {
  std::shared_ptr<hccl_handle> out{};
  std::shared_ptr<hccl_handle> in{};
  std::uint32_t peer = 0;  ///< the other rank, in both
};

/// Makes the links of this rank. HCCL makes none of two devices in both halves of a server of Ascend 910: neighbours in
/// a group of whole servers have one through the group's ranks.
class hccl_links {
 public:
  explicit hccl_links(std::shared_ptr<hccl_job> job) : job_(std::move(job)) {}

  /// Once for each other rank, which calls it too.
  hccl_link to(int peer) const {
    const auto found = joined_.find(peer);
    return found != joined_.end() ? found->second : make(peer);
  }

  /// All ranks of a group call it with their ranks in the job, in an order in which neighbours send each other
  /// messages, and the number of the group.
  void join_halves(std::vector<int> const& ranks, std::uint64_t id) {
    const std::size_t size = ranks.size();
    // Of each rank at most one neighbour is across, so that a rank has one stream for a communicator.
    std::vector<std::pair<int, int>> across;
    for (std::size_t r = 0; r < size; ++r)
      if (job_->across_halves(ranks[r], ranks[(r + 1) % size])) across.emplace_back(ranks[r], ranks[(r + 1) % size]);
    std::vector<int> ends;
    for (auto const& [a, b] : across) ends.insert(ends.end(), {a, b});
    std::sort(ends.begin(), ends.end());
    if (across.empty() || std::adjacent_find(ends.begin(), ends.end()) != ends.end()) return;
    std::vector<int> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    const auto up = job_->make(sorted, up_of_halves | id, megabytes);
    const auto down = job_->make(sorted, down_of_halves | id, megabytes);
    for (auto const& [a, b] : across) {
      if (a != job_->rank() && b != job_->rank()) continue;
      const int peer = a == job_->rank() ? b : a;
      const auto place = std::lower_bound(sorted.begin(), sorted.end(), peer) - sorted.begin();
      joined_.try_emplace(peer, a == job_->rank() ? hccl_link{up, down, static_cast<std::uint32_t>(place)}
                                                  : hccl_link{down, up, static_cast<std::uint32_t>(place)});
    }
  }

 private:
  // Numbers of communicators, apart from those of groups.
  static constexpr std::uint64_t of_pairs = std::uint64_t{1} << 60;
  static constexpr std::uint64_t up_of_halves = std::uint64_t{2} << 60;
  static constexpr std::uint64_t down_of_halves = std::uint64_t{3} << 60;
  static constexpr std::uint32_t megabytes = 32;  // of their buffers, which many messages do not need

  hccl_link make(int peer) const {
    const int low = std::min(peer, job_->rank());
    const int high = std::max(peer, job_->rank());
    const std::vector<int> ranks{low, high};
    job_->check_members(ranks, "messages");
    const auto id = [](int from, int to) {
      return of_pairs | static_cast<std::uint64_t>(from) << 20 | static_cast<std::uint64_t>(to);
    };
    auto up = job_->make(ranks, id(low, high), megabytes);
    auto down = job_->make(ranks, id(high, low), megabytes);
    if (low == job_->rank()) return {std::move(up), std::move(down), 1};
    return {std::move(down), std::move(up), 0};
  }

  std::shared_ptr<hccl_job> job_;
  std::map<int, hccl_link> joined_{};
};

}  // namespace tessera::detail
