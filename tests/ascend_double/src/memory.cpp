#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime.hpp"

namespace ascend_double {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t alignment = 64;

std::string text(use const& memory) {
  return std::to_string(memory.bytes) + " bytes at " + std::to_string(memory.begin);
}

}  // namespace

device_memory& device_memory::instance() {
  static auto* memory = new device_memory;
  return *memory;
}

std::size_t device_memory::file_bytes() const { return next_.size() * device_range; }

device_memory::device_memory()
    : file_(memfd_create("ascend_double", MFD_CLOEXEC)),
      next_(static_cast<std::size_t>(configuration().devices)),
      used_(next_.size()) {
  auto size = file_bytes();
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(size)) != 0) violation("no file for device memory");
  auto* bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  auto* range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == MAP_FAILED || range == MAP_FAILED) violation("no address range for device memory");
  bytes_ = static_cast<std::byte*>(bytes);
  range_ = reinterpret_cast<std::uintptr_t>(range);
  for (std::size_t device = 0; device < next_.size(); ++device) next_[device] = range_ + device * device_range;
}

void* device_memory::allocate(std::int32_t device, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  auto d = static_cast<std::size_t>(device);
  auto room = (bytes + 31) / 32 * 32 + 32;
  if (bytes > configuration().memory || used_[d] + room > configuration().memory) return nullptr;
  auto first = range_ + d * device_range;
  auto end = first + device_range;
  auto begin = next_[d];
  // Once the range is used up, whatever was freed longest ago is free for use again.
  for (bool again = false;;) {
    auto above = live_.lower_bound(begin);
    if (above != live_.begin()) {
      auto below = std::prev(above);
      if (auto behind = below->first + below->second; behind > begin)
        begin = (behind + alignment - 1) / alignment * alignment;
      above = live_.lower_bound(begin);
    }
    if (begin + room > end) {
      if (std::exchange(again, true)) return nullptr;
      begin = first;
    } else if (above != live_.end() && above->first < begin + room) {
      begin = above->first;
    } else {
      break;
    }
  }
  next_[d] = (begin + room + alignment - 1) / alignment * alignment;
  live_.emplace(begin, bytes);
  used_[d] += room;
  auto* address = reinterpret_cast<void*>(begin);
  // New memory holds not-a-number, not zero.
  std::memset(this->bytes(address), 0xff, std::min(bytes, std::size_t{64} << 20));
  return address;
}

aclError device_memory::free(void* address) {
  std::lock_guard lock(mutex_);
  auto begin = reinterpret_cast<std::uintptr_t>(address);
  auto found = live_.find(begin);
  if (found == live_.end()) violation("aclrtFree: not the address of an allocation that is still there");
  require_idle_locked({begin, found->second, true}, "aclrtFree");
  auto room = (found->second + 31) / 32 * 32 + 32;
  used_[static_cast<std::size_t>(device_of(address))] -= room;
  // Pages that nothing else lives on go back to the system.
  auto low = found == live_.begin() ? 0 : std::prev(found)->first + std::prev(found)->second;
  auto high = std::next(found) == live_.end() ? UINTPTR_MAX - page : std::next(found)->first;
  low = std::max((low + page - 1) / page * page, begin / page * page);
  high = std::min(high / page * page, (begin + room + page - 1) / page * page);
  if (low < high) {
    auto from = static_cast<off_t>(low - range_);
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, static_cast<off_t>(high - low));
  }
  live_.erase(found);
  return ACL_SUCCESS;
}

std::size_t device_memory::used(std::int32_t device) const {
  std::lock_guard lock(mutex_);
  return used_[static_cast<std::size_t>(device)];
}

std::vector<std::string> device_memory::leaks() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  for (auto const& [begin, bytes] : live_)
    result.push_back("device memory of " + std::to_string(bytes) + " bytes on device " +
                     std::to_string(device_of(reinterpret_cast<void const*>(begin))));
  return result;
}

bool device_memory::contains(void const* address) const {
  auto value = reinterpret_cast<std::uintptr_t>(address);
  return value >= range_ && value - range_ < file_bytes();
}

std::byte* device_memory::bytes(void const* address) const {
  if (!contains(address)) violation("host memory where device memory is meant");
  return bytes_ + (reinterpret_cast<std::uintptr_t>(address) - range_);
}

std::int32_t device_memory::device_of(void const* address) const {
  return static_cast<std::int32_t>((reinterpret_cast<std::uintptr_t>(address) - range_) / device_range);
}

void device_memory::require_live(use const& memory, std::int32_t device, std::string_view user) const {
  if (memory.bytes == 0) return;
  std::lock_guard lock(mutex_);
  auto const* address = reinterpret_cast<void const*>(memory.begin);
  auto name = std::string(user);
  if (!contains(address)) violation(name + ": host memory where device memory is meant");
  auto above = live_.upper_bound(memory.begin);
  if (above == live_.begin()) violation(name + ": device memory that is not allocated");
  auto const& [begin, bytes] = *std::prev(above);
  if (memory.begin >= begin + bytes) violation(name + ": device memory that is not allocated, perhaps freed");
  if (memory.begin + memory.bytes > begin + bytes)
    violation(name + ": " + text(memory) + " go past the end of an allocation of " + std::to_string(bytes));
  if (device >= 0 && device_of(address) != device)
    violation(name + ": memory of device " + std::to_string(device_of(address)) + " on device " +
              std::to_string(device));
}

void device_memory::admit(std::int32_t stream, std::uint64_t number, progress const& after,
                          std::vector<use> const& uses, std::string const& task) {
  std::lock_guard lock(mutex_);
  for (auto const& [other, entries] : unobserved_) {
    if (other == stream) continue;
    auto known = after.find(other);
    auto first = known == after.end() ? entries.begin()
                                      : std::partition_point(entries.begin(), entries.end(),
                                                             [&](entry const& e) { return e.number <= known->second; });
    for (auto e = first; e != entries.end(); ++e)
      for (auto const& memory : uses)
        if ((memory.written || e->memory.written) && memory.overlaps(e->memory))
          violation(task + " on stream " + std::to_string(stream) + " and " + e->task + " on stream " +
                    std::to_string(other) + " touch the same " + text(e->memory) + ", and neither waits for the other");
  }
  auto& entries = unobserved_[stream];
  for (auto const& memory : uses) entries.push_back({number, memory, task});
}

void device_memory::require_idle(use const& memory, std::string_view user) const {
  std::lock_guard lock(mutex_);
  require_idle_locked(memory, user);
}

void device_memory::require_idle_locked(use const& memory, std::string_view user) const {
  for (auto const& [stream, entries] : unobserved_)
    for (auto const& e : entries)
      if ((memory.written || e.memory.written) && memory.overlaps(e.memory))
        violation(std::string(user) + ": " + e.task + " on stream " + std::to_string(stream) + " uses " +
                  text(e.memory) + ", and the host has not waited for it");
}

void device_memory::observe(progress const& seen) {
  std::lock_guard lock(mutex_);
  for (auto const& [stream, number] : seen) {
    auto found = unobserved_.find(stream);
    if (found == unobserved_.end()) continue;
    auto& entries = found->second;
    while (!entries.empty() && entries.front().number <= number) entries.pop_front();
  }
}

host_memory& host_memory::instance() {
  static auto* memory = new host_memory;
  return *memory;
}

void* host_memory::allocate(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  auto* address = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (address) live_.emplace(reinterpret_cast<std::uintptr_t>(address), bytes);
  return address;
}

aclError host_memory::free(void* address) {
  std::lock_guard lock(mutex_);
  auto found = live_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == live_.end()) violation("aclrtFreeHost: not the address of an allocation that is still there");
  device_memory::instance().require_idle({found->first, found->second, true}, "aclrtFreeHost");
  live_.erase(found);
  std::free(address);
  return ACL_SUCCESS;
}

bool host_memory::pinned(use const& memory) const {
  std::lock_guard lock(mutex_);
  auto above = live_.upper_bound(memory.begin);
  if (above == live_.begin()) return false;
  auto const& [begin, bytes] = *std::prev(above);
  return memory.begin + memory.bytes <= begin + bytes;
}

std::vector<std::string> host_memory::leaks() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  for (auto const& [begin, bytes] : live_) result.push_back("host memory of " + std::to_string(bytes) + " bytes");
  return result;
}

}  // namespace ascend_double
