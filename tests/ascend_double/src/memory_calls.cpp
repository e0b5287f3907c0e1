#include <cstring>

#include "runtime.hpp"

namespace ascend_double {

namespace {

aclError allocate(void** address, std::size_t bytes, std::string const& user) {
  if (auto status = require_context(user)) return status;
  if (!address || bytes == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, user + ": null or 0 bytes");
  *address = device_memory::instance().allocate(current_context()->device, bytes);
  if (!*address) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, user + ": device memory is exhausted");
  return ACL_SUCCESS;
}

struct ends {
  bool to_device;
  bool from_device;
};

// Which side of a copy is device memory, checked against what the program says.
aclError copy_ends(void* to, std::size_t room, void const* from, std::size_t bytes, aclrtMemcpyKind kind,
                   std::string const& user, ends& result) {
  if (auto status = require_context(user)) return status;
  if (!to || !from || bytes == 0 || bytes > room)
    return fail(ACL_ERROR_RT_PARAM_INVALID, user + ": null, 0 bytes, or more than the destination takes");
  auto& memory = device_memory::instance();
  ends found{memory.contains(to), memory.contains(from)};
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST: result = {false, false}; break;
    case ACL_MEMCPY_HOST_TO_DEVICE: result = {true, false}; break;
    case ACL_MEMCPY_DEVICE_TO_HOST: result = {false, true}; break;
    case ACL_MEMCPY_DEVICE_TO_DEVICE: result = {true, true}; break;
    case ACL_MEMCPY_DEFAULT: result = found; break;
    default: return fail(ACL_ERROR_RT_PARAM_INVALID, user + ": kind");
  }
  if (result.to_device != found.to_device || result.from_device != found.from_device)
    violation(user + ": kind says " + (result.from_device ? "device" : "host") + " to " +
              (result.to_device ? "device" : "host") + ", the addresses are of the " +
              (found.from_device ? "device" : "host") + " and of the " + (found.to_device ? "device" : "host"));
  if (result.to_device) memory.require_live(writes(to, bytes), -1, user);
  if (result.from_device) memory.require_live(reads(from, bytes), -1, user);
  if (result.to_device && result.from_device) {
    auto source = memory.device_of(from);
    auto target = memory.device_of(to);
    if (source != target && !peers(source, target))
      return fail(ACL_ERROR_RT_PARAM_INVALID, user + ": between devices without aclrtDeviceEnablePeerAccess");
  }
  return ACL_SUCCESS;
}

std::byte* reachable(void const* address, bool on_device) {
  if (on_device) return device_memory::instance().bytes(address);
  return const_cast<std::byte*>(static_cast<std::byte const*>(address));
}

}  // namespace

}  // namespace ascend_double

using namespace ascend_double;

aclError aclrtMalloc(void** address, size_t bytes, aclrtMemMallocPolicy) {
  return allocate(address, bytes, "aclrtMalloc");
}

aclError aclrtMallocAlign32(void** address, size_t bytes, aclrtMemMallocPolicy) {
  return allocate(address, bytes, "aclrtMallocAlign32");
}

aclError aclrtFree(void* address) {
  if (!address) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: null");
  if (auto status = require_context("aclrtFree")) return status;
  return device_memory::instance().free(address);
}

aclError aclrtMallocHost(void** address, size_t bytes) {
  if (auto status = require_context("aclrtMallocHost")) return status;
  if (!address || bytes == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMallocHost: null or 0 bytes");
  *address = host_memory::instance().allocate(bytes);
  return *address ? ACL_SUCCESS : fail(ACL_ERROR_BAD_ALLOC, "aclrtMallocHost: memory is exhausted");
}

aclError aclrtFreeHost(void* address) {
  if (!address) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFreeHost: null");
  return host_memory::instance().free(address);
}

aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind) {
  ends where;
  if (auto status = copy_ends(to, room, from, bytes, kind, "aclrtMemcpy", where)) return status;
  device_memory::instance().require_idle(writes(to, bytes), "aclrtMemcpy");
  device_memory::instance().require_idle(reads(from, bytes), "aclrtMemcpy");
  std::memmove(reachable(to, where.to_device), reachable(from, where.from_device), bytes);
  return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind, aclrtStream on) {
  ends where;
  if (auto status = copy_ends(to, room, from, bytes, kind, "aclrtMemcpyAsync", where)) return status;
  if (!where.to_device && !where.from_device)
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtMemcpyAsync from host to host");
  int status = ACL_SUCCESS;
  auto stream = usable_stream(on, "aclrtMemcpyAsync", status);
  if (!stream) return status;
  bool pageable = (!where.to_device && !host_memory::instance().pinned(writes(to, bytes))) ||
                  (!where.from_device && !host_memory::instance().pinned(reads(from, bytes)));
  std::vector<use> uses;
  if (where.to_device || !pageable) uses.push_back(writes(to, bytes));
  if (where.from_device || !pageable) uses.push_back(reads(from, bytes));
  auto* target = reachable(to, where.to_device);
  auto const* source = reachable(from, where.from_device);
  stream->enqueue("aclrtMemcpyAsync", uses, [=] { std::memmove(target, source, bytes); });
  // Memory that is not pinned may change as soon as the call returns.
  return pageable ? stream->synchronize(-1, ACL_SUCCESS) : ACL_SUCCESS;
}

aclError aclrtMemset(void* address, size_t room, int32_t value, size_t bytes) {
  if (auto status = require_context("aclrtMemset")) return status;
  if (!address || bytes > room) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemset: null, or too many bytes");
  auto& memory = device_memory::instance();
  memory.require_live(writes(address, bytes), -1, "aclrtMemset");
  memory.require_idle(writes(address, bytes), "aclrtMemset");
  std::memset(memory.bytes(address), value, bytes);
  return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void* address, size_t room, int32_t value, size_t bytes, aclrtStream on) {
  if (auto status = require_context("aclrtMemsetAsync")) return status;
  if (!address || bytes > room) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemsetAsync: null, or too many bytes");
  int status = ACL_SUCCESS;
  auto stream = usable_stream(on, "aclrtMemsetAsync", status);
  if (!stream) return status;
  auto* target = device_memory::instance().bytes(address);
  stream->enqueue("aclrtMemsetAsync", {writes(address, bytes)}, [=] { std::memset(target, value, bytes); });
  return ACL_SUCCESS;
}
