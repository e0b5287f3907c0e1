#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>

#include "runtime.hpp"

namespace ascend_double {

namespace {

void merge(progress& into, progress const& from) {
  for (auto const& [stream, number] : from) into[stream] = std::max(into[stream], number);
}

// Names of streams are not reused, so that progress is kept apart.
std::int32_t next_id() {
  static std::atomic<std::int32_t> next{1};
  return next++;
}

}  // namespace

stream::stream(std::int32_t id, std::shared_ptr<context> owner) : id_(id), owner_(std::move(owner)) {
  thread_ = std::thread([this] { work(); });
}

stream::~stream() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void stream::enqueue(std::string const& name, std::vector<use> const& uses, std::function<void()> run,
                     bool bookkeeping) {
  std::vector<use> touched;
  for (auto const& memory : uses)
    if (memory.bytes > 0) touched.push_back(memory);
  auto& memory = device_memory::instance();
  for (auto const& u : touched)
    if (memory.contains(reinterpret_cast<void const*>(u.begin)) || !host_memory::instance().pinned(u))
      memory.require_live(u, -1, name);
  std::lock_guard lock(mutex_);
  memory.admit(id_, ++enqueued_, follows_, touched, name);
  tasks_.push_back({std::move(run), bookkeeping});
  changed_.notify_all();
}

progress stream::following() const {
  std::lock_guard lock(mutex_);
  auto result = follows_;
  result[id_] = enqueued_;
  return result;
}

void stream::follow(progress const& other) {
  std::lock_guard lock(mutex_);
  merge(follows_, other);
}

aclError stream::synchronize(std::int64_t milliseconds, aclError late) {
  progress seen;
  task_failure failure;
  {
    std::unique_lock lock(mutex_);
    auto last = enqueued_;
    seen = follows_;
    seen[id_] = last;
    auto done = [&] { return finished_ >= last; };
    if (milliseconds < 0)
      changed_.wait(lock, done);
    else if (!changed_.wait_for(lock, std::chrono::milliseconds(milliseconds), done))
      return fail(late, "stream " + std::to_string(id_) + " did not finish in time");
    failure = failure_;
  }
  device_memory::instance().observe(seen);
  return failure.code == ACL_SUCCESS ? ACL_SUCCESS : fail(failure.code, failure.message);
}

bool stream::idle() const {
  progress seen;
  {
    std::lock_guard lock(mutex_);
    if (finished_ < enqueued_) return false;
    seen = follows_;
    seen[id_] = enqueued_;
  }
  device_memory::instance().observe(seen);
  return true;
}

void stream::fail_with(task_failure const& failure) {
  std::lock_guard lock(mutex_);
  if (failure_.code == ACL_SUCCESS) failure_ = failure;
}

void stream::work() {
  std::minstd_rand random(static_cast<std::uint32_t>(id_));
  auto delay = configuration().delay;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto next = std::move(tasks_.front());
    tasks_.pop_front();
    bool skipped = failure_.code != ACL_SUCCESS && !next.bookkeeping;
    lock.unlock();
    if (!skipped) {
      if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % (delay + 1)));
      try {
        next.run();
      } catch (task_failure const& failure) {
        fail_with(failure);
      } catch (std::exception const& e) {
        fail_with({ACL_ERROR_RT_AICORE_EXCEPTION, e.what()});
      }
    }
    next.run = nullptr;
    lock.lock();
    ++finished_;
    changed_.notify_all();
  }
}

registry<stream>& streams() {
  static auto* all = new registry<stream>("a stream", 0x51);
  return *all;
}

std::shared_ptr<stream> usable_stream(aclrtStream handle, std::string_view user, int& status) {
  auto name = std::string(user);
  if (!handle) {
    status = fail(ACL_ERROR_RT_PARAM_INVALID, name + ": the stream is null");
    return nullptr;
  }
  auto found = streams().find(handle, user);
  if (!found->is_in(current_context())) {
    status = fail(ACL_ERROR_RT_STREAM_CONTEXT, name + ": the stream is of another context than this thread's");
    return nullptr;
  }
  return found;
}

namespace {

// Recorded and done count the records, so that an event can be recorded again while a stream waits for the last time.
struct event {
  std::uint32_t flags;
  bool plain;  // made without flags, by aclrtCreateEvent
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0;
  std::uint64_t done = 0;
  progress captured;
  std::chrono::steady_clock::time_point time;

  bool timed() const { return plain || (flags & ACL_EVENT_TIME_LINE) != 0; }
};

registry<event>& events() {
  static auto* all = new registry<event>("an event", 0x52);
  return *all;
}

aclError create_event(aclrtEvent* event_handle, std::uint32_t flags, bool plain, std::string const& user) {
  if (!event_handle) return fail(ACL_ERROR_RT_PARAM_INVALID, user + ": null");
  if (!current_context()) return fail(ACL_ERROR_RT_CONTEXT_NULL, user + ": no device is set on this thread");
  auto made = std::make_shared<event>();
  made->flags = flags;
  made->plain = plain;
  *event_handle = events().add(made);
  return ACL_SUCCESS;
}

aclError wait(event& e, std::int64_t milliseconds, std::string const& user) {
  progress seen;
  {
    std::unique_lock lock(e.mutex);
    auto wanted = e.recorded;
    auto done = [&] { return e.done >= wanted; };
    seen = e.captured;
    if (milliseconds < 0)
      e.changed.wait(lock, done);
    else if (!e.changed.wait_for(lock, std::chrono::milliseconds(milliseconds), done))
      return fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, user + ": the event did not come in time");
  }
  device_memory::instance().observe(seen);
  return ACL_SUCCESS;
}

}  // namespace

}  // namespace ascend_double

using namespace ascend_double;

aclError aclrtCreateStream(aclrtStream* handle) {
  if (!handle) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtCreateStream: null");
  auto context = current_context();
  if (!context) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtCreateStream: no device is set on this thread");
  std::size_t limit = configuration().chip == chip::ascend_910 ? 2048 : 1984;
  if (streams().all().size() >= limit) return fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, "aclrtCreateStream: too many");
  *handle = streams().add(std::make_shared<ascend_double::stream>(next_id(), context));
  return ACL_SUCCESS;
}

aclError aclrtCreateStreamWithConfig(aclrtStream* handle, uint32_t priority, uint32_t flag) {
  if (priority > 7 || (flag & ~(ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC)) != 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtCreateStreamWithConfig: priority or flag");
  return aclrtCreateStream(handle);
}

aclError aclrtDestroyStream(aclrtStream handle) {
  int status = ACL_SUCCESS;
  if (!usable_stream(handle, "aclrtDestroyStream", status)) return status;
  auto last = streams().take(handle, "aclrtDestroyStream");
  last->synchronize(-1, ACL_SUCCESS);
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream handle) { return aclrtSynchronizeStreamWithTimeout(handle, -1); }

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t timeout) {
  int status = ACL_SUCCESS;
  auto stream = usable_stream(handle, "aclrtSynchronizeStream", status);
  return stream ? stream->synchronize(timeout, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) : status;
}

aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
  int code = ACL_SUCCESS;
  auto stream = usable_stream(handle, "aclrtStreamQuery", code);
  if (!stream) return code;
  if (!status) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtStreamQuery: null");
  *status = stream->idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtStreamGetId(aclrtStream handle, int32_t* id) {
  int status = ACL_SUCCESS;
  auto stream = usable_stream(handle, "aclrtStreamGetId", status);
  if (!stream) return status;
  if (!id) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtStreamGetId: null");
  *id = stream->id();
  return ACL_SUCCESS;
}

aclError aclrtCreateEvent(aclrtEvent* handle) { return create_event(handle, 0, true, "aclrtCreateEvent"); }

aclError aclrtCreateEventWithFlag(aclrtEvent* handle, uint32_t flag) {
  constexpr std::uint32_t known = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;
  if (flag == 0 || (flag & ~known) != 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtCreateEventWithFlag: flag");
  return create_event(handle, flag, false, "aclrtCreateEventWithFlag");
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* handle, uint32_t flag) {
  constexpr std::uint32_t known =
      ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_EXTERNAL;
  if (flag == 0 || (flag & ~known) != 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtCreateEventExWithFlag: flag");
  return create_event(handle, flag, false, "aclrtCreateEventExWithFlag");
}

aclError aclrtDestroyEvent(aclrtEvent handle) {
  if (!handle) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtDestroyEvent: null");
  events().take(handle, "aclrtDestroyEvent");
  return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream on) {
  if (!handle) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtRecordEvent: null");
  auto recorded = events().find(handle, "aclrtRecordEvent");
  int status = ACL_SUCCESS;
  auto stream = usable_stream(on, "aclrtRecordEvent", status);
  if (!stream) return status;
  std::uint64_t number;
  {
    std::lock_guard lock(recorded->mutex);
    number = ++recorded->recorded;
    recorded->captured = stream->following();
  }
  auto come = [recorded, number] {
    std::lock_guard lock(recorded->mutex);
    recorded->done = std::max(recorded->done, number);
    recorded->time = std::chrono::steady_clock::now();
    recorded->changed.notify_all();
  };
  stream->enqueue("aclrtRecordEvent", {}, come, true);
  return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream waiting, aclrtEvent handle) {
  if (!handle) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtStreamWaitEvent: null");
  auto awaited = events().find(handle, "aclrtStreamWaitEvent");
  int status = ACL_SUCCESS;
  auto stream = usable_stream(waiting, "aclrtStreamWaitEvent", status);
  if (!stream) return status;
  std::uint64_t number;
  progress captured;
  {
    std::lock_guard lock(awaited->mutex);
    number = awaited->recorded;
    captured = awaited->captured;
  }
  auto wait_for_it = [awaited, number] {
    std::unique_lock lock(awaited->mutex);
    auto come = [&] { return awaited->done >= number; };
    if (!awaited->changed.wait_for(lock, std::chrono::seconds(configuration().timeout), come))
      throw task_failure{ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "aclrtStreamWaitEvent: the event did not come in time"};
  };
  stream->enqueue("aclrtStreamWaitEvent", {}, wait_for_it, true);
  stream->follow(captured);
  return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus* status) {
  if (!handle || !status) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtQueryEventStatus: null");
  auto queried = events().find(handle, "aclrtQueryEventStatus");
  progress seen;
  {
    std::lock_guard lock(queried->mutex);
    if (queried->done < queried->recorded) {
      *status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
      return ACL_SUCCESS;
    }
    seen = queried->captured;
  }
  device_memory::instance().observe(seen);
  *status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent handle) { return aclrtSynchronizeEventWithTimeout(handle, -1); }

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent handle, int32_t timeout) {
  if (!handle) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtSynchronizeEvent: null");
  return wait(*events().find(handle, "aclrtSynchronizeEvent"), timeout, "aclrtSynchronizeEvent");
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end) {
  if (!ms || !start || !end) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtEventElapsedTime: null");
  auto from = events().find(start, "aclrtEventElapsedTime");
  auto to = events().find(end, "aclrtEventElapsedTime");
  std::chrono::steady_clock::time_point times[2];
  for (auto const& [at, e] : {std::pair{&times[0], from}, std::pair{&times[1], to}}) {
    std::lock_guard lock(e->mutex);
    if (!e->timed() || e->recorded == 0)
      return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "aclrtEventElapsedTime: an event without a time");
    if (e->done < e->recorded)
      return fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, "aclrtEventElapsedTime: an event that has not come");
    *at = e->time;
  }
  *ms = std::chrono::duration<float, std::milli>(times[1] - times[0]).count();
  return ACL_SUCCESS;
}

namespace ascend_double {

std::vector<std::string> stream_leaks() { return {streams().all().size(), "a stream"}; }
std::vector<std::string> event_leaks() { return {events().all().size(), "an event"}; }

}  // namespace ascend_double
