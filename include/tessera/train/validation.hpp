#pragma once

#include <tessera/train/checkpoint.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

namespace tessera {

/// A callback of `fit` that evaluates the model on other data every so many epochs, and leaves accuracy and loss in
/// `progress` for the callbacks after it. Collective.
template <class Batches>
struct validate {
  Batches batches;
  index_t every = 1;

  explicit validate(Batches data, index_t epochs = 1) : batches(std::move(data)), every(epochs) {
    if (every < 1)
      throw error("validate every " + std::to_string(every) + " epochs", "1 or more", "mend the option");
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

inline char const* name_of(watched what) {
  return what == watched::training_loss ? "training_loss"
         : what == watched::validation_loss ? "validation_loss"
                                            : "validation_accuracy";
}

/// The value at the end of an epoch, nothing where this epoch had no validation.
inline std::optional<double> value_of(watched what, progress const& at) {
  if (what == watched::training_loss) return at.mean_loss;
  return what == watched::validation_loss ? at.validation_loss : at.validation_accuracy;
}

/// Whether `found` is better than the best so far by more than `least`. NaN is better than nothing.
inline bool improves(watched what, double found, std::optional<double> best, double least) {
  if (!best) return !std::isnan(found);
  return what == watched::validation_accuracy ? found > *best + least : found < *best - least;
}

}  // namespace detail

/// A callback of `fit` that ends training when what it watches has not become better by more than `least_gain` in
/// `patience` epochs that were validated (MindSpore's EarlyStopping). Name it after `validate`.
class early_stop {
 public:
  explicit early_stop(watched what = watched::validation_loss, index_t patience = 5, double least_gain = 0)
      : what_(what), patience_(patience), least_gain_(least_gain) {
    if (patience < 1 || !(least_gain >= 0))
      throw error("early_stop with patience " + std::to_string(patience) + " and least_gain " +
                      std::to_string(least_gain),
                  "a patience of 1 or more and a gain of 0 or more", "mend the options");
  }

  template <class Trainer, class Batches>
  void on_begin(progress const&, Trainer&, Batches const&) {
    best_.reset();
    without_ = 0;
  }
  template <class Trainer, class Batches>
  void on_epoch_end(progress& at, Trainer&, Batches const&) {
    const auto found = detail::value_of(what_, at);
    if (!found) return;
    if (detail::improves(what_, *found, best_, least_gain_)) {
      best_ = found;
      without_ = 0;
    } else if (++without_ >= patience_) {
      at.stop = true;
    }
  }

 private:
  watched what_;
  index_t patience_;
  double least_gain_;
  std::optional<double> best_{};
  index_t without_ = 0;
};

/// A callback of `fit` that keeps the checkpoint of the best epoch so far in a folder of its own, with a file
/// `best.json` that says how good it was; a run that is resumed goes on from that. Name it after `validate`.
class keep_best {
 public:
  explicit keep_best(std::filesystem::path directory, watched what = watched::validation_accuracy)
      : directory_(std::move(directory)), what_(what) {}

  /// Throws where the folder keeps what is best by another measure.
  template <class Trainer, class Batches>
  void on_begin(progress const&, Trainer& trainer, Batches const&) {
    best_.reset();
    auto& comm = all_of(trainer);
    double value = std::nan("");
    detail::together(comm, [&] {
      if (comm.rank() != 0 || !std::filesystem::exists(file())) return;
      std::ifstream in(file());
      const auto json = nlohmann::json::parse(in, nullptr, false);
      if (json.is_discarded() || !json.contains("watched") || !json.contains("value"))
        throw error(file().string() + ", which is not what keep_best writes", "a JSON object with watched and value",
                    "remove the file, or name another folder");
      if (json["watched"] != detail::name_of(what_))
        throw error(directory_.string() + ", which keeps the best by " + json["watched"].template get<std::string>(),
                    detail::name_of(what_), "name another folder, or watch the same");
      value = json["value"].template get<double>();
    });
    comm.broadcast(&value, 1, 0);
    if (!std::isnan(value)) best_ = value;
  }
  template <class Trainer, class Batches>
  void on_epoch_end(progress const& at, Trainer& trainer, Batches const& from) {
    const auto found = detail::value_of(what_, at);
    if (!found || !detail::improves(what_, *found, best_, 0)) return;
    best_ = found;
    save_checkpoint(trainer, directory_, detail::position_after(at, from), 1);
    auto& comm = all_of(trainer);
    detail::together(comm, [&] {
      if (comm.rank() != 0) return;
      auto aside = file();
      aside += ".tmp";
      const std::string text =
          nlohmann::json{{"watched", detail::name_of(what_)}, {"value", *found}, {"epoch", at.epoch + 1}}.dump() + "\n";
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
  template <class Trainer>
  static auto& all_of(Trainer& trainer) {
    auto& where = trainer.model().where();
    return where.group(std::remove_reference_t<decltype(where)>::mesh::all);
  }
  std::filesystem::path directory_;
  watched what_;
  std::optional<double> best_{};
};

}  // namespace tessera
