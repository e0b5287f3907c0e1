#pragma once

#include <tessera/core/shape.hpp>

#include <algorithm>
#include <cstdio>
#include <string>

namespace tessera {

/// Where training is, as callbacks see it after each step and at the end of each epoch.
struct progress {
  index_t epoch = 0;  ///< from 0
  index_t epochs = 0;
  index_t step = 0;      ///< steps done in this epoch
  index_t steps = 0;     ///< steps an epoch has
  double loss = 0;       ///< of the last step
  double mean_loss = 0;  ///< over the steps of this epoch
  double rate = 0;       ///< rows a second in this epoch, over all ranks
  double seconds = 0;    ///< since the epoch began
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

/// A bar with loss, images a second and time left, on rank 0. Where output is no terminal it prints a line an epoch.
///
/// Debian has no C++ library for this, so it is a few lines of our own.
class progress_bar {
 public:
  explicit progress_bar(bool terminal) : terminal_(terminal) {}

  void on_step(progress const& p) {
    if (!terminal_ || (p.seconds - shown_ < 0.1 && p.step != p.steps)) return;
    shown_ = p.seconds;
    const double done = static_cast<double>(p.step) / static_cast<double>(p.steps);
    const auto filled = static_cast<std::size_t>(done * width);
    const double left = done > 0 ? p.seconds * (1 - done) / done : 0;
    std::printf("\r%s [%s%s] %3.0f%%  loss %.4f  %.0f images/s  %.0f s left ", name(p).c_str(),
                std::string(filled, '#').c_str(), std::string(width - filled, '.').c_str(), 100 * done, p.mean_loss,
                p.rate, left);
    std::fflush(stdout);
  }
  void on_epoch_end(progress const& p) {
    std::printf("%s%s: mean loss %.4f, %.0f images/s, %.1f s%s\n", terminal_ ? "\r" : "", name(p).c_str(), p.mean_loss,
                p.rate, p.seconds, terminal_ ? "\033[K" : "");
    std::fflush(stdout);
    shown_ = 0;
  }

 private:
  static constexpr std::size_t width = 30;
  static std::string name(progress const& p) {
    return "epoch " + std::to_string(p.epoch + 1) + "/" + std::to_string(p.epochs);
  }

  bool terminal_;
  double shown_ = 0;
};

}  // namespace tessera
