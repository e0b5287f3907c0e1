#pragma once

#include <tessera/plan/search/problem.hpp>

#include <cstdint>
#include <vector>

namespace tessera::detail {

/// One of the ways to a state of a search that are best in time or in bytes: a value made in some way.
struct plan_label {
  search_time time = 0;
  index_t bytes = 0;
  std::int32_t from = -1;   ///< the label before; of a sum, that at the end of the branch
  std::int32_t other = -1;  ///< after a residual, which label of its row; of a sum, that at the end of the shortcut
  std::int32_t choice = -1;
  std::int16_t made = 0;
  std::int16_t set = 0;  ///< of a row's label: where the gradient of the residual's input is partial
};
using plan_label_list = std::vector<plan_label>;

/// Labels somewhere, of no changing number.
struct plan_label_view {
  plan_label const* first = nullptr;
  int count = 0;
  constexpr plan_label_view() = default;
  constexpr plan_label_view(plan_label const* begin, int size) : first(begin), count(size) {}
  constexpr plan_label_view(plan_label_list const& list) : first(list.data()), count(static_cast<int>(list.size())) {}
  constexpr plan_label const* begin() const { return first; }
  constexpr plan_label const* end() const { return first + count; }
};

/// Labels by state, each with fewer bytes than all that are sooner.
class plan_label_slots {
 public:
  explicit constexpr plan_label_slots(int places) : heads_(static_cast<std::size_t>(places), -1) {}

  constexpr void offer(int place, plan_label const& label) {
    std::int32_t* link = heads_.data() + place;
    while (*link >= 0) {
      entry const& here = entries_.data()[*link];
      if (here.label.time > label.time || (here.label.time == label.time && here.label.bytes > label.bytes)) break;
      if (here.label.bytes <= label.bytes) return;
      link = &entries_.data()[*link].next;
    }
    // Those that are later and keep no less.
    std::int32_t after = *link;
    while (after >= 0 && entries_.data()[after].label.bytes >= label.bytes) after = entries_.data()[after].next;
    *link = static_cast<std::int32_t>(entries_.size());
    entries_.push_back({label, after});
  }
  template <class F>
  constexpr void each(int place, F f) const {
    for (std::int32_t i = heads_.data()[place]; i >= 0; i = entries_.data()[i].next) f(entries_.data()[i].label);
  }
  constexpr bool empty(int place) const { return heads_.data()[place] < 0; }
  constexpr int places() const { return static_cast<int>(heads_.size()); }

  /// All labels, which then know their place.
  constexpr plan_label_list list() const {
    plan_label_list all;
    for (int place = 0; place < places(); ++place)
      each(place, [&](plan_label const& label) {
        all.push_back(label);
        all.back().made = static_cast<std::int16_t>(place);
      });
    return all;
  }

 private:
  struct entry {
    plan_label label{};
    std::int32_t next = -1;
  };
  std::vector<std::int32_t> heads_;
  std::vector<entry> entries_{};
};

}  // namespace tessera::detail
