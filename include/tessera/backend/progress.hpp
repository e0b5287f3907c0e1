#pragma once

#include <chrono>
#include <utility>

namespace tessera {

/// A function that kernels call between pieces of their work, so that messages progress while they compute.
struct progress_hook {
  void (*call)(void*) noexcept = nullptr;
  void* with = nullptr;
};

namespace detail {

struct progress_state {
  progress_hook hook{};
  std::chrono::steady_clock::time_point next{};
};
// One a thread: those that a kernel starts have no hook, so only the thread that set it ever calls it.
inline constinit thread_local progress_state thread_progress{};

[[gnu::noinline]] inline void call_progress_hook(progress_state& state) {
  using clock = std::chrono::steady_clock;
  if (clock::now() < state.next) return;
  state.hook.call(state.hook.with);
  state.next = clock::now() + std::chrono::microseconds(50);
}

/// Kernels call this at least every 0.2 ms or so of their work. The hook runs where the last time is 50 microseconds
/// ago; without a hook this is one load.
inline void make_progress() {
  progress_state& state = thread_progress;
  if (state.hook.call != nullptr) [[unlikely]]
    call_progress_hook(state);
}

}  // namespace detail

/// While it lives, kernels that this thread runs call the hook. Scopes nest: the inner one's hook is called.
class [[nodiscard]] progress_scope {
 public:
  explicit progress_scope(progress_hook hook)
      : before_(std::exchange(detail::thread_progress, detail::progress_state{hook, {}})) {}
  progress_scope(progress_scope const&) = delete;
  progress_scope& operator=(progress_scope const&) = delete;
  ~progress_scope() { detail::thread_progress = before_; }

 private:
  detail::progress_state before_;
};

}  // namespace tessera
