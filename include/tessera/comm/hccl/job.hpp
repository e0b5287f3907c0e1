#pragma once

#include <tessera/backend/ascend/chip.hpp>
#include <tessera/comm/ascend_environment.hpp>
#include <tessera/comm/hccl/call.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tessera::detail {

/// Why HCCL makes no communicator of these devices on Ascend 910, or nothing.
inline std::string hccl_refusal_on_910(std::vector<table_device> const& devices) {
  std::map<int, std::set<int>> servers;
  for (auto const& d : devices) servers[d.server].insert(d.device);
  for (auto const& [server, ids] : servers) {
    const std::size_t count = ids.size();
    if (count != 1 && count != 2 && count != 4 && count != 8)
      return std::to_string(count) + " devices of one server";
    if (count != servers.begin()->second.size()) return "different numbers of devices of two servers";
    if (count != 8 && *ids.begin() / 4 != *ids.rbegin() / 4)
      return "devices " + std::to_string(*ids.begin()) + " and " + std::to_string(*ids.rbegin()) +
             " of one server, without all 8";
  }
  return "";
}

/// What all groups of a rank share: its device, the communicator of all ranks, from which HCCL makes those of groups,
/// and the events and host memory that are used again.
class hccl_job {
 public:
  hccl_job(std::shared_ptr<ascend_device> device, ascend_environment const& place)
      : device_(std::move(device)), rank_(place.rank), size_(place.size) {
    if (device_->number() != place.device)
      throw error("device " + std::to_string(device_->number()) + " opened by rank " + std::to_string(rank_) +
                      ", whose device is " + std::to_string(place.device),
                  "the same device", "open the device of ascend_environment::read()");
    events_ = std::make_shared<stream_events>(device_);
    if (place.table) devices_ = place.table->devices();
    char const* chip = aclrtGetSocName();
    halves_ = chip != nullptr && ascend_910::is(chip);
    if (size_ == 1) return;
    HcclComm made = nullptr;
    check_hccl(HcclCommInitClusterInfo(place.table_file.c_str(), static_cast<std::uint32_t>(rank_), &made),
               "HcclCommInitClusterInfo of rank table " + place.table_file);
    all_ = std::make_shared<hccl_handle>(made);
    watched_.push_back(all_);
  }
  hccl_job(hccl_job const&) = delete;
  hccl_job& operator=(hccl_job const&) = delete;
  ~hccl_job() { aclrtSynchronizeStream(device_->stream()); }

  int rank() const { return rank_; }
  int size() const { return size_; }
  ascend_device& device() const { return *device_; }
  std::shared_ptr<ascend_device> const& shared_device() const { return device_; }
  aclrtStream kernels() const { return device_->stream(); }
  stream_events& events() const { return *events_; }
  pinned_memory& pinned() const { return *pinned_; }
  /// The communicator of all ranks; null where there is one rank.
  std::shared_ptr<hccl_handle> const& all() const { return all_; }

  /// Throws where HCCL makes no communicator of these ranks on this chip.
  void check_members(std::vector<int> const& ranks, std::string const& what) const {
    if (!halves_ || ranks.size() < 2) return;
    std::vector<table_device> devices;
    std::string text;
    for (const int r : ranks) {
      devices.push_back(devices_[at(r)]);
      text += (text.empty() ? "" : ", ") + std::to_string(r);
    }
    const std::string refusal = hccl_refusal_on_910(devices);
    if (!refusal.empty())
      throw error(what + " of ranks " + text + ", which are " + refusal,
                  "1, 2, 4 or 8 devices of a server, as many of each, and 2 or 4 within 0 to 3 or within 4 to 7, as "
                  "the links of Ascend 910 are",
                  "give the mesh axes other sizes or another order, so that the last ones lie within 4 devices");
  }
  /// Whether they are in the two halves of one server of Ascend 910, so that HCCL makes no communicator of them alone.
  bool across_halves(int a, int b) const {
    return halves_ && size_ > 1 && !hccl_refusal_on_910({devices_[at(a)], devices_[at(b)]}).empty();
  }
  /// Makes a communicator of these ranks, which ascend; all of them call it with one `id` that nobody uses twice.
  /// `megabytes`: of each of its two buffers; 0 for those that the environment says.
  std::shared_ptr<hccl_handle> make(std::vector<int> const& ranks, std::uint64_t id, std::uint32_t megabytes = 0) {
    std::vector<std::uint32_t> ids(ranks.begin(), ranks.end());
    const auto own = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    HcclCommConfig settings;
    HcclCommConfigInit(&settings);
    if (megabytes > 0) settings.hcclBufferSize = megabytes;
    HcclComm from = all_->get();
    HcclComm made = nullptr;
    check_hccl(HcclCreateSubCommConfig(&from, static_cast<std::uint32_t>(ids.size()), ids.data(), id,
                                       static_cast<std::uint32_t>(own), &settings, &made),
               "HcclCreateSubCommConfig of " + std::to_string(ids.size()) + " ranks");
    auto handle = std::make_shared<hccl_handle>(made);
    watched_.push_back(handle);
    return handle;
  }
  /// Throws where any call on any communicator failed on the device.
  void check() {
    std::erase_if(watched_, [](auto const& gone) { return gone.expired(); });
    for (auto const& one : watched_) one.lock()->check();
  }
  /// Returns when the kernels' stream is done. Throws where it, or any communicator, has failed.
  void synchronize() {
    const int status = aclrtSynchronizeStream(kernels());
    check();
    check_acl(status, "aclrtSynchronizeStream");
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  std::shared_ptr<ascend_device> device_;
  int rank_;
  int size_;
  bool halves_ = false;  // whether groups must lie in half servers
  std::vector<table_device> devices_{};
  std::shared_ptr<stream_events> events_{};
  std::shared_ptr<pinned_memory> pinned_ = std::make_shared<pinned_memory>();
  std::shared_ptr<hccl_handle> all_{};
  std::vector<std::weak_ptr<hccl_handle>> watched_{};
};

}  // namespace tessera::detail
