#pragma once

#include <tessera/core/shape.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Where training is, as callbacks see it after each step and at the end of each epoch.
struct progress {
  index_t epoch = 0;  ///< from 0
  index_t epochs = 0;
  index_t step = 0;       ///< steps done in this epoch
  index_t steps = 0;      ///< steps an epoch has
  double loss = 0;        ///< of the last step
  double mean_loss = 0;   ///< over the steps of this epoch
  double rate = 0;        ///< rows a second in this epoch, over all ranks
  double seconds = 0;     ///< since the epoch began, or training was resumed in it
  double loss_sum = 0;    ///< over the steps of this epoch
  double loss_scale = 1;  ///< what the loss of the next step is multiplied by (train/loss_scale.hpp)
  index_t skipped = 0;    ///< steps since training began whose gradients were infinite or NaN, so nothing moved
  /// The mean loss of each epoch that has ended.
  std::vector<double> epoch_losses{};
  /// Whether a callback validates.
  bool validates = false;
  /// What the last validation found: accuracy and loss (train/validation.hpp).
  std::optional<double> validation_accuracy{};
  std::optional<double> validation_loss{};
  /// Ends training with the epoch.
  bool stop = false;
  /// What callbacks remember from epoch to epoch, by names of their own: checkpoints keep it, and `resume` brings it
  /// back.
  std::map<std::string, std::vector<double>> remembered{};
};

/// Prints the loss every so many steps and its mean after each epoch, on rank 0 (MindSpore's LossMonitor).
struct loss_monitor {
  index_t every = 100;

  void on_step(progress const& p) const {
    if (every > 0 && p.step % every == 0)
      std::printf("epoch %lld step %lld: loss %.4f\n", static_cast<long long>(p.epoch + 1),
                  static_cast<long long>(p.step), p.loss);
  }
  void on_epoch_end(progress const& p) const {
    std::printf("epoch %lld: mean loss %.4f, %.0f rows/s, %.1f s\n", static_cast<long long>(p.epoch + 1), p.mean_loss,
                p.rate, p.seconds);
  }
};

/// Prints how long each epoch took, and a step of it on average, on rank 0 (MindSpore's TimeMonitor).
struct time_monitor {
  void on_epoch_end(progress const& p) const {
    std::printf("epoch %lld: %.1f s, %.2f ms a step\n", static_cast<long long>(p.epoch + 1), p.seconds,
                p.steps > 0 ? 1e3 * p.seconds / static_cast<double>(p.steps) : 0.0);
  }
};

/// A bar with loss, images (or what else the rows are) a second and time left, on rank 0. Where output is no terminal
/// it prints a line an epoch.
///
/// Debian has no C++ library for this, so it is a few lines of our own.
class progress_bar {
 public:
  explicit progress_bar(bool terminal, std::string rows = "images") : terminal_(terminal), rows_(std::move(rows)) {}

  void on_step(progress const& p) {
    if (!terminal_ || (p.seconds - shown_ < 0.1 && p.step != p.steps)) return;
    shown_ = p.seconds;
    const double done = static_cast<double>(p.step) / static_cast<double>(p.steps);
    const auto filled = static_cast<std::size_t>(done * width);
    const double left = done > 0 ? p.seconds * (1 - done) / done : 0;
    std::printf("\r%s [%s%s] %3.0f%%  loss %.4f  %.0f %s/s  %.0f s left ", name(p).c_str(),
                std::string(filled, '#').c_str(), std::string(width - filled, '.').c_str(), 100 * done, p.mean_loss,
                p.rate, rows_.c_str(), left);
    std::fflush(stdout);
  }
  void on_epoch_end(progress const& p) {
    std::string validated;
    if (p.validation_loss && p.validation_accuracy) {
      char text[80];
      std::snprintf(text, sizeof text, "; validation loss %.4f, accuracy %.4f", *p.validation_loss,
                    *p.validation_accuracy);
      validated = text;
    }
    std::printf("%s%s: mean loss %.4f, %.0f %s/s, %.1f s%s%s\n", terminal_ ? "\r" : "", name(p).c_str(), p.mean_loss,
                p.rate, rows_.c_str(), p.seconds, validated.c_str(), terminal_ ? "\033[K" : "");
    std::fflush(stdout);
    shown_ = 0;
  }

 private:
  static constexpr std::size_t width = 30;
  static std::string name(progress const& p) {
    return "epoch " + std::to_string(p.epoch + 1) + "/" + std::to_string(p.epochs);
  }

  bool terminal_;
  std::string rows_;
  double shown_ = 0;
};

}  // namespace tessera
