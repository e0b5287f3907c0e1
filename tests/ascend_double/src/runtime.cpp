#include "runtime.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>

namespace ascend_double {

namespace {

std::string from_environment(char const* name, std::string const& otherwise) {
  auto const* value = std::getenv(("ASCEND_DOUBLE_" + std::string(name)).c_str());
  return value ? value : otherwise;
}

template <class T>
T number_from_environment(char const* name, T otherwise) {
  auto text = from_environment(name, std::to_string(otherwise));
  char* end = nullptr;
  auto value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') violation("ASCEND_DOUBLE_" + std::string(name) + "=" + text + " is no number");
  return static_cast<T>(value);
}

settings from_environment() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  auto name = from_environment("CHIP", "910");
  if (name != "910" && name != "910b") violation("ASCEND_DOUBLE_CHIP=" + name + " is neither 910 nor 910b");
  auto chip = name == "910" ? chip::ascend_910 : chip::ascend_910b;
  return {chip,
          number_from_environment<std::int32_t>("DEVICES", 8),
          number_from_environment<std::size_t>("MEMORY", (chip == chip::ascend_910 ? std::size_t{32} : 64) << 30),
          number_from_environment<std::uint32_t>("DELAY", 0),
          number_from_environment<std::uint32_t>("TIMEOUT", 60),
          number_from_environment<int>("EXACT_PRODUCTS", 0) != 0,
          number_from_environment<int>("CROSS_GROUPS", 0) != 0,
          from_environment("SERVER", host)};
}

thread_local std::string recent_message;
thread_local std::string returned_message;
thread_local std::shared_ptr<context> thread_context;

// What is not kept in a registry.
struct process {
  std::mutex mutex;
  bool initialized = false;
  bool finalized = false;
  std::map<std::int32_t, std::shared_ptr<context>> devices;  // default contexts
  std::map<std::int32_t, int> set;                           // how often a device is set and not reset
  std::set<std::pair<std::int32_t, std::int32_t>> peers;     // (from, to)
  std::map<aclSysParamOpt, std::int64_t> options;
  std::vector<std::function<std::vector<std::string>()>> leaks;
};

process& the_process() {
  static auto* state = new process;
  return *state;
}

registry<context>& contexts() {
  static auto* all = new registry<context>("a context", 0x53);
  return *all;
}

// Runs when the program ends: whatever is still there makes it fail.
void report() {
  std::vector<std::string> left;
  auto& state = the_process();
  for (auto const& leaks : state.leaks)
    for (auto& leak : leaks()) left.push_back(std::move(leak));
  for (auto const& [device, times] : state.set)
    if (times > 0) left.push_back("device " + std::to_string(device) + ", set and not reset");
  for (auto const& context : contexts().all())
    if (context->by_program) left.push_back("a context");
  if (!state.finalized) left.push_back("aclInit without aclFinalize");
  if (left.empty()) return;
  std::fflush(stdout);
  for (auto const& leak : left) std::fprintf(stderr, "ascend double: left at exit: %s\n", leak.c_str());
  std::fflush(stderr);
  _exit(99);
}

aclError require_device(std::int32_t device, std::string const& user) {
  if (!initialized()) return fail(ACL_ERROR_UNINITIALIZE, user + " before aclInit");
  if (device < 0 || device >= configuration().devices)
    return fail(ACL_ERROR_RT_INVALID_DEVICEID, user + ": no device " + std::to_string(device));
  return ACL_SUCCESS;
}

aclError synchronize(context const& owner) {
  aclError status = ACL_SUCCESS;
  for (auto const& stream : streams().all())
    if (stream->owner().device == owner.device)
      if (auto code = stream->synchronize(-1, ACL_SUCCESS); code != ACL_SUCCESS) status = code;
  return status;
}

}  // namespace

std::vector<std::string> stream_leaks();
std::vector<std::string> event_leaks();

settings const& configuration() {
  static auto const* all = new settings(from_environment());
  return *all;
}

int fail(int code, std::string message) {
  recent_message = std::move(message);
  return code;
}

void violation(std::string const& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "ascend double: %s\n", message.c_str());
  std::fflush(stderr);
  std::abort();
}

aclError require_context(std::string const& user) {
  return thread_context ? ACL_SUCCESS : fail(ACL_ERROR_RT_CONTEXT_NULL, user + ": no device is set on this thread");
}

bool peers(std::int32_t from, std::int32_t to) {
  auto& state = the_process();
  std::lock_guard lock(state.mutex);
  return state.peers.contains({from, to}) || state.peers.contains({to, from});
}

std::shared_ptr<context> current_context() { return thread_context; }

bool initialized() {
  auto& state = the_process();
  std::lock_guard lock(state.mutex);
  return state.initialized && !state.finalized;
}

void report_at_exit(std::function<std::vector<std::string>()> leaks) {
  auto& state = the_process();
  std::lock_guard lock(state.mutex);
  state.leaks.push_back(std::move(leaks));
}

}  // namespace ascend_double

using namespace ascend_double;

aclError aclInit(const char*) {
  auto& state = the_process();
  {
    std::lock_guard lock(state.mutex);
    if (state.finalized) return fail(ACL_ERROR_REPEAT_FINALIZE, "aclInit after aclFinalize: once per process");
    if (state.initialized) return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: already initialized");
    state.initialized = true;
  }
  report_at_exit([] { return device_memory::instance().leaks(); });
  report_at_exit([] { return host_memory::instance().leaks(); });
  report_at_exit(stream_leaks);
  report_at_exit(event_leaks);
  std::atexit(report);
  return ACL_SUCCESS;
}

aclError aclFinalize() {
  auto& state = the_process();
  std::lock_guard lock(state.mutex);
  if (!state.initialized) return fail(ACL_ERROR_UNINITIALIZE, "aclFinalize before aclInit");
  if (std::exchange(state.finalized, true)) return fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize: already finalized");
  return ACL_SUCCESS;
}

aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
  if (!major || !minor || !patch) return fail(ACL_ERROR_INVALID_PARAM, "aclrtGetVersion: null");
  *major = ACL_MAJOR_VERSION;
  *minor = ACL_MINOR_VERSION;
  *patch = ACL_PATCH_VERSION;
  return ACL_SUCCESS;
}

const char* aclGetRecentErrMsg() {
  if (recent_message.empty()) return nullptr;
  returned_message = std::move(recent_message);
  recent_message.clear();
  return returned_message.c_str();
}

const char* aclrtGetSocName() { return configuration().chip == chip::ascend_910 ? "Ascend910A" : "Ascend910B1"; }

aclError aclrtSetDevice(int32_t device) {
  if (auto status = require_device(device, "aclrtSetDevice")) return status;
  auto& state = the_process();
  std::lock_guard lock(state.mutex);
  ++state.set[device];
  auto& shared = state.devices[device];
  if (!shared) {
    shared = std::make_shared<context>(context{device, false, {}});
    contexts().add(shared);
  }
  thread_context = shared;
  return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t device) {
  if (auto status = require_device(device, "aclrtResetDevice")) return status;
  auto& state = the_process();
  std::shared_ptr<context> last;
  {
    std::lock_guard lock(state.mutex);
    if (state.set[device] == 0)
      return fail(ACL_ERROR_RT_INVALID_DEVICEID, "aclrtResetDevice: device " + std::to_string(device) + " is not set");
    if (--state.set[device] == 0) last = std::move(state.devices[device]);
  }
  if (!last) return ACL_SUCCESS;
  synchronize(*last);
  contexts().take(contexts().handle_of(last), "aclrtResetDevice");
  if (thread_context == last) thread_context = nullptr;
  return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* device) {
  if (auto status = require_context("aclrtGetDevice")) return status;
  if (!device) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtGetDevice: null");
  *device = thread_context->device;
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  if (!count) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtGetDeviceCount: null");
  *count = static_cast<std::uint32_t>(configuration().devices);
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice() {
  if (auto status = require_context("aclrtSynchronizeDevice")) return status;
  return synchronize(*thread_context);
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  if (auto status = require_context("aclrtGetMemInfo")) return status;
  if (!free || !total) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtGetMemInfo: null");
  if (attr != ACL_HBM_MEM) return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtGetMemInfo: ACL_HBM_MEM only");
  *total = configuration().memory;
  *free = *total - device_memory::instance().used(thread_context->device);
  return ACL_SUCCESS;
}

aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t device, int32_t peer) {
  for (auto d : {device, peer})
    if (auto status = require_device(d, "aclrtDeviceCanAccessPeer")) return status;
  if (!can || device == peer) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtDeviceCanAccessPeer: null, or one device");
  *can = 1;
  return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) {
  if (auto status = require_context("aclrtDeviceEnablePeerAccess")) return status;
  if (auto status = require_device(peer, "aclrtDeviceEnablePeerAccess")) return status;
  if (flags != 0 || peer == thread_context->device)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtDeviceEnablePeerAccess: flags, or the device itself");
  auto& state = the_process();
  std::lock_guard lock(state.mutex);
  state.peers.insert({thread_context->device, peer});
  return ACL_SUCCESS;
}

aclError aclrtDeviceDisablePeerAccess(int32_t peer) {
  if (auto status = require_context("aclrtDeviceDisablePeerAccess")) return status;
  auto& state = the_process();
  std::lock_guard lock(state.mutex);
  if (state.peers.erase({thread_context->device, peer}) == 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtDeviceDisablePeerAccess: was not enabled");
  return ACL_SUCCESS;
}

aclError aclrtCreateContext(aclrtContext* handle, int32_t device) {
  if (auto status = require_device(device, "aclrtCreateContext")) return status;
  if (!handle) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtCreateContext: null");
  thread_context = std::make_shared<context>(context{device, true, {}});
  *handle = contexts().add(thread_context);
  return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext handle) {
  if (!handle) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtDestroyContext: null");
  if (!contexts().find(handle, "aclrtDestroyContext")->by_program)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtDestroyContext: the context of aclrtSetDevice");
  auto gone = contexts().take(handle, "aclrtDestroyContext");
  for (auto const& stream : streams().all())
    if (stream->is_in(gone)) violation("aclrtDestroyContext: a stream of the context is still there");
  if (thread_context == gone) thread_context = nullptr;
  return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext handle) {
  if (!handle) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtSetCurrentContext: null");
  thread_context = contexts().find(handle, "aclrtSetCurrentContext");
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* handle) {
  if (auto status = require_context("aclrtGetCurrentContext")) return status;
  if (!handle) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtGetCurrentContext: null");
  *handle = contexts().handle_of(thread_context);
  return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  if (auto status = require_context("aclrtCtxSetSysParamOpt")) return status;
  thread_context->options[opt] = value;
  return ACL_SUCCESS;
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  if (auto status = require_context("aclrtCtxGetSysParamOpt")) return status;
  auto found = thread_context->options.find(opt);
  if (!value || found == thread_context->options.end())
    return fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "aclrtCtxGetSysParamOpt: null, or not set");
  *value = found->second;
  return ACL_SUCCESS;
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  auto& state = the_process();
  std::lock_guard lock(state.mutex);
  state.options[opt] = value;
  return ACL_SUCCESS;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  auto& state = the_process();
  std::lock_guard lock(state.mutex);
  auto found = state.options.find(opt);
  if (!value || found == state.options.end())
    return fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "aclrtGetSysParamOpt: null, or not set");
  *value = found->second;
  return ACL_SUCCESS;
}
