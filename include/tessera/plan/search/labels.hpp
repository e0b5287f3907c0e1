#pragma once

#include <tessera/plan/search/problem.hpp>

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace tessera::detail {

/// The best way, or one of the best, to a state of a search: a value made in some way, from a given beginning.
struct search_label {
  static constexpr std::int32_t nowhere = -1;
  search_time time = 0;
  index_t bytes = 0;            ///< beyond the least that each layer can keep
  search_time cost = 0;         ///< what is least of the best: see `label_rule`
  std::int32_t from = nowhere;  ///< the label before: of a residual's sum, that of the branch
  std::int32_t other = -1;      ///< of a step through a residual, its label; of a sum, that of the shortcut
  std::int32_t choice = -1;
  std::int16_t made = 0;
};
using label_list = std::vector<search_label>;

/// Time and bytes in one number.
struct label_weight {
  int time = 1;
  double bytes = 0;
  search_time of(search_time t, index_t b) const {
    return time * t + static_cast<search_time>(bytes * static_cast<double>(b) + 0.5);
  }
};

/// Which labels of a state are kept.
///
/// With a limit on bytes: those to which fewer than `keep` others are equal or better in time and bytes both, and none
/// beyond the limit. Else the `keep` of the least weight. Both keep the `keep` best plans exactly, since what follows
/// costs all labels of a state the same.
struct label_rule {
  int keep = 1;
  label_weight weight{};
  bool limited = false;
  index_t most_bytes = std::numeric_limits<index_t>::max();
  int thinned = 0;  ///< above 0: at most so many labels a state with a limit, the best plans or not
};

/// Labels by state.
class label_slots {
 public:
  label_slots(std::size_t places, label_rule const& rule) : rule_(&rule) {
    if (single())
      best_.resize(places);
    else
      slots_.resize(places);
  }

  std::size_t size() const { return single() ? best_.size() : slots_.size(); }
  std::span<search_label const> operator[](std::size_t place) const {
    if (single()) return {&best_[place], best_[place].from == search_label::nowhere ? 0u : 1u};
    return slots_[place];
  }

  void offer(std::size_t place, search_label const& label) {
    if (single()) {
      search_label& best = best_[place];
      if (best.from == search_label::nowhere || label.cost < best.cost) best = label;
    } else if (rule_->limited) {
      offer_to_front(slots_[place], label);
    } else {
      offer_by_cost(slots_[place], label);
    }
  }

  /// Leaves out what later labels have beaten.
  void prune() {
    if (!rule_->limited) return;
    for (label_list& slot : slots_) {
      if (rule_->keep > 1) remove_beaten(slot);
      if (rule_->thinned > 0) thin(slot, static_cast<std::size_t>(rule_->thinned));
    }
  }

  /// All labels, which then know their place.
  label_list list() {
    prune();
    label_list all;
    for (std::size_t place = 0; place < size(); ++place)
      for (search_label const& label : (*this)[place]) {
        all.push_back(label);
        all.back().made = static_cast<std::int16_t>(place);
      }
    return all;
  }

 private:
  void offer_by_cost(label_list& slot, search_label const& label) const {
    const auto keep = static_cast<std::size_t>(rule_->keep);
    if (slot.size() == keep && label.cost >= slot.back().cost) return;
    if (slot.size() == keep) slot.pop_back();
    const auto later = [](search_label const& a, search_label const& b) { return a.cost < b.cost; };
    slot.insert(std::upper_bound(slot.begin(), slot.end(), label, later), label);
  }
  void offer_to_front(label_list& slot, search_label const& label) const {
    if (label.bytes > rule_->most_bytes) return;
    if (rule_->keep > 1) {
      int better = 0;
      for (search_label const& l : slot)
        if (l.time <= label.time && l.bytes <= label.bytes && ++better == rule_->keep) return;
      slot.push_back(label);
      return;
    }
    // Sooner ones first, each with fewer bytes than the one before.
    const auto sooner = [](search_label const& a, search_label const& b) { return a.time < b.time; };
    const auto after = std::upper_bound(slot.begin(), slot.end(), label, sooner);
    if (after != slot.begin() && (after - 1)->bytes <= label.bytes) return;
    auto first = after;
    if (first != slot.begin() && (first - 1)->time == label.time) --first;
    auto last = after;
    while (last != slot.end() && last->bytes >= label.bytes) ++last;
    if (first == last) {
      slot.insert(first, label);
    } else {
      *first = label;
      slot.erase(first + 1, last);
    }
  }
  /// What `keep` others have come to be better than, or came before it as good.
  void remove_beaten(label_list& slot) const {
    std::stable_sort(slot.begin(), slot.end(), [](search_label const& a, search_label const& b) {
      return a.time != b.time ? a.time < b.time : a.bytes < b.bytes;
    });
    label_list kept;
    for (search_label const& label : slot) {
      int better = 0;
      for (search_label const& l : kept) better += l.bytes <= label.bytes;
      if (better < rule_->keep) kept.push_back(label);
    }
    slot = std::move(kept);
  }

  /// Keeps labels from the soonest to that of the fewest bytes at even distances.
  static void thin(label_list& slot, std::size_t most) {
    if (slot.size() <= most) return;
    for (std::size_t i = 0; i < most; ++i) slot[i] = slot[i * (slot.size() - 1) / (most - 1)];
    slot.resize(most);
  }
  bool single() const { return rule_->keep == 1 && !rule_->limited; }

  label_rule const* rule_;
  label_list best_{};  // one label a state
  std::vector<label_list> slots_{};
};

}  // namespace tessera::detail
