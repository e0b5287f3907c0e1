#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

/// What a rank does in a stretch of time.
enum class activity : std::uint8_t { compute, communication };

constexpr char const* to_string(activity kind) { return kind == activity::compute ? "compute" : "communication"; }

/// A stretch of time of one rank, in nanoseconds of `tracer::now`.
struct trace_span {
  std::string name{};
  activity kind = activity::compute;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  /// Whether it runs beside what the thread does meanwhile: such spans may overlap, all others nest.
  bool beside = false;
};

/// The spans of the thread for which it is made current (`trace_into`), in the order in which they end.
class tracer {
 public:
  void add(trace_span span) { spans_.push_back(std::move(span)); }
  std::vector<trace_span> const& spans() const { return spans_; }
  void clear() { spans_.clear(); }

  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  /// That of this thread; null where nothing is traced.
  static tracer* current() { return current_; }

 private:
  friend class trace_into;
  static inline constinit thread_local tracer* current_ = nullptr;

  std::vector<trace_span> spans_;
};

/// While it lives, the spans of this thread go to a tracer.
class [[nodiscard]] trace_into {
 public:
  explicit trace_into(tracer* to) : before_(std::exchange(tracer::current_, to)) {}
  trace_into(trace_into const&) = delete;
  trace_into& operator=(trace_into const&) = delete;
  ~trace_into() { tracer::current_ = before_; }

 private:
  tracer* before_;
};

/// A span from construction to destruction, named by two texts in a row, which outlive it. Without a tracer it costs
/// one load.
class [[nodiscard]] trace_scope {
 public:
  trace_scope(std::string_view name, activity kind, std::string_view rest = {})
      : to_(tracer::current()), name_(name), rest_(rest), kind_(kind) {
    if (to_ != nullptr) begin_ = tracer::now();
  }
  trace_scope(trace_scope const&) = delete;
  trace_scope& operator=(trace_scope const&) = delete;
  ~trace_scope() {
    if (to_ != nullptr) to_->add({std::string(name_).append(rest_), kind_, begin_, tracer::now()});
  }

 private:
  tracer* to_;
  std::string_view name_;
  std::string_view rest_;
  activity kind_;
  std::int64_t begin_ = 0;
};

}  // namespace tessera
