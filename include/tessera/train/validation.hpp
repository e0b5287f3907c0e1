#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/train/checkpoint.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tessera {

/// A callback of `fit` that evaluates the model on other data every so many epochs, and leaves accuracy and loss in
/// `progress` for the callbacks after it. Collective.
template <class Batches>
struct validate {
  Batches batches;
  index_t every = 1;

  explicit validate(Batches data, index_t epochs = 1) : batches(std::move(data)), every(epochs) {
    if (every < 1) throw error("validate every " + std::to_string(every) + " epochs", "1 or more", "mend the option");
  }
  template <class Trainer, class From>
  void on_begin(progress& at, Trainer&, From const&) const {
    at.validates = true;
  }
  template <class Trainer, class From>
  void on_epoch_end(progress& at, Trainer& trainer, From const&) const {
    if ((at.epoch + 1) % every != 0) {
      at.validation_accuracy.reset();
      at.validation_loss.reset();
      return;
    }
    const auto found = trainer.evaluate(batches);
    at.validation_accuracy = found.accuracy;
    at.validation_loss = found.loss;
  }
};

/// What callbacks watch.
enum class watched { training_loss, validation_loss, validation_accuracy };

namespace detail {

template <class Trainer>
auto& all_ranks_of(Trainer& trainer) {
  auto& where = trainer.model().where();
  return host_group(where, std::remove_reference_t<decltype(where)>::mesh::all);
}

inline char const* name_of(watched what) {
  return what == watched::training_loss     ? "training_loss"
         : what == watched::validation_loss ? "validation_loss"
                                            : "validation_accuracy";
}

/// The value at the end of an epoch, nothing where this epoch had no validation.
inline std::optional<double> value_of(watched what, progress const& at) {
  if (what == watched::training_loss) return at.mean_loss;
  return what == watched::validation_loss ? at.validation_loss : at.validation_accuracy;
}

/// Throws where nothing before a callback gives what it watches.
inline void require_watched(char const* callback, watched what, progress const& at) {
  if (what != watched::training_loss && !at.validates)
    throw error(std::string(callback) + " on " + name_of(what) + " without validate before it",
                "validate(batches) among the callbacks of fit, named before " + std::string(callback),
                "name it first, or watch training_loss");
}

/// Whether `found` is better than the best so far by more than `least`. What is not finite never is.
inline bool improves(watched what, double found, std::optional<double> best, double least) {
  if (!std::isfinite(found)) return false;
  if (!best) return true;
  return what == watched::validation_accuracy ? found > *best + least : found < *best - least;
}

}  // namespace detail

/// A callback of `fit` that ends training when what it watches has not become better by more than `least_gain` in
/// `patience` epochs that were validated (MindSpore's EarlyStopping). Name it after `validate`, without which it
/// throws, and after `resume`: checkpoints keep its count, and a run that it has ended trains no more when it is
/// resumed.
class early_stop {
 public:
  explicit early_stop(watched what = watched::validation_loss, index_t patience = 5, double least_gain = 0)
      : what_(what), patience_(patience), least_gain_(least_gain) {
    if (patience < 1 || !(least_gain >= 0))
      throw error(
          "early_stop with patience " + std::to_string(patience) + " and least_gain " + std::to_string(least_gain),
          "a patience of 1 or more and a gain of 0 or more", "mend the options");
  }

  template <class Trainer, class Batches>
  void on_begin(progress& at, Trainer& trainer, Batches const&) const {
    detail::require_watched("early_stop", what_, at);
    stop_where_due(at, trainer);
  }
  template <class Trainer, class Batches>
  void on_epoch_end(progress& at, Trainer& trainer, Batches const&) const {
    const auto found = detail::value_of(what_, at);
    if (!found) return;
    count seen = seen_in(at);
    if (seen.epochs > at.epoch) return;  // another one that watches the same
    seen.epochs = at.epoch + 1;
    if (detail::improves(what_, *found, seen.best, least_gain_)) {
      seen.best = found;
      seen.without = 0;
    } else {
      ++seen.without;
    }
    auto& kept = at.remembered[name()] = {static_cast<double>(seen.epochs), static_cast<double>(seen.without)};
    if (seen.best) kept.push_back(*seen.best);
    stop_where_due(at, trainer);
  }

 private:
  /// What it has seen of a run.
  struct count {
    index_t epochs = 0;   ///< up to where
    index_t without = 0;  ///< validated epochs since the best one
    std::optional<double> best{};
  };

  std::string name() const {
    return std::string("early_stop on ") + detail::name_of(what_) + " by " + std::to_string(least_gain_);
  }
  count seen_in(progress const& at) const {
    const auto kept = at.remembered.find(name());
    if (kept == at.remembered.end() || kept->second.size() < 2) return {};
    auto const& values = kept->second;
    return {static_cast<index_t>(values[0]), static_cast<index_t>(values[1]),
            values.size() > 2 ? std::optional(values[2]) : std::nullopt};
  }
  template <class Trainer>
  void stop_where_due(progress& at, Trainer& trainer) const {
    const count seen = seen_in(at);
    if (seen.without < patience_) return;
    at.stop = true;
    if (detail::all_ranks_of(trainer).rank() == 0)
      std::printf("%s no better than %g for %lld epochs: training ends\n", detail::name_of(what_),
                  seen.best.value_or(std::nan("")), static_cast<long long>(seen.without));
  }

  watched what_;
  index_t patience_;
  double least_gain_;
};

/// A callback of `fit` that keeps the checkpoint of the best epoch so far in a folder of its own, with a file
/// `best.json` that says how good it was; a run that is resumed goes on from that, and what it saves takes the place of
/// the best so far, of an earlier, the same or a later step. Values that are not finite are never the best. Name it
/// after `validate`.
class keep_best {
 public:
  explicit keep_best(std::filesystem::path directory, watched what = watched::validation_accuracy)
      : directory_(std::move(directory)), what_(what) {}

  /// Throws where the folder keeps what is best by another measure, and where `best.json` is damaged.
  template <class Trainer, class Batches>
  void on_begin(progress const& at, Trainer& trainer, Batches const&) {
    detail::require_watched("keep_best", what_, at);
    best_.reset();
    auto& comm = detail::all_ranks_of(trainer);
    double value = std::nan("");
    detail::together(comm, [&] {
      if (comm.rank() == 0) value = kept();
    });
    comm.broadcast(&value, 1, 0);
    if (!std::isnan(value)) best_ = value;
  }
  template <class Trainer, class Batches>
  void after_epoch(progress const& at, Trainer& trainer, Batches const& from) {
    const auto found = detail::value_of(what_, at);
    if (!found || !detail::improves(what_, *found, best_, 0)) return;
    const nlohmann::json value{{"watched", detail::name_of(what_)}, {"value", *found}};
    detail::save_trainer(trainer, directory_, detail::position_after(at, from), 1, value);
    best_ = found;
    auto& comm = detail::all_ranks_of(trainer);
    detail::together(comm, [&] {
      if (comm.rank() != 0) return;
      auto aside = file();
      aside += ".tmp";
      auto said = value;
      said["epoch"] = at.epoch + 1;
      const std::string text = said.dump() + "\n";
      detail::durable_file out(aside);
      out.append(std::as_bytes(std::span(text)));
      out.finish();
      detail::rename_durably(aside, file());
    });
  }
  /// The best value so far, if there is any.
  std::optional<double> best() const { return best_; }

 private:
  std::filesystem::path file() const { return directory_ / "best.json"; }

  /// The value of the checkpoint in the folder, NaN where there is none. What the checkpoint says itself counts:
  /// `best.json` is written after it, and a program may have ended between.
  double kept() const {
    double value = std::nan("");
    if (std::filesystem::exists(file())) {
      std::ifstream in(file(), std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
      try {
        value = value_in(detail::parse_json(text), file());
      } catch (detail::json_fault const&) {
        unknown(file());
      }
    }
    const auto found = detail::checkpoints_in(directory_);
    const auto newest =
        std::find_if(found.rbegin(), found.rend(), [](auto const& entry) { return detail::is_whole(entry.second); });
    if (newest == found.rend()) return std::nan("");
    const auto state = detail::read_index(newest->second).state;
    return state.contains(detail::best_key) ? value_in(state[detail::best_key], newest->second) : value;
  }
  double value_in(nlohmann::json const& json, std::filesystem::path const& from) const {
    if (!json.is_object() || !json.contains("watched") || !json["watched"].is_string() || !json.contains("value") ||
        !json["value"].is_number())
      unknown(from);
    if (json["watched"] != detail::name_of(what_))
      throw error(directory_.string() + ", which keeps the best by " + json["watched"].get<std::string>(),
                  detail::name_of(what_), "name another folder, or watch the same");
    return json["value"].get<double>();
  }
  [[noreturn]] static void unknown(std::filesystem::path const& from) {
    throw error(from.string() + ", which is not what keep_best writes", "a JSON object with watched and value",
                "remove it, or name another folder");
  }

  std::filesystem::path directory_;
  watched what_;
  std::optional<double> best_{};
};

}  // namespace tessera
