#pragma once

#include <tessera/core/error.hpp>
#include <tessera/train/callback.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace tessera {

namespace detail {

/// A file of lines that grows: what is in it stays, and each line is written when it is complete.
class line_file {
 public:
  /// Throws where the file cannot be written, or begins otherwise than with `header`.
  line_file(std::filesystem::path const& path, std::string const& header) : path_(path) {
    std::string first;
    bool unfinished = false;  // a program ended within its last line
    if (std::ifstream before(path, std::ios::binary); before) {
      std::getline(before, first);
      before.clear();
      unfinished = before.seekg(-1, std::ios::end) && before.get() != '\n';
    }
    if (!first.empty() && !header.empty() && first != header)
      throw error(path.string() + ", which begins with \"" + first + "\"",
                  "a new file, or one that begins with \"" + header + "\"", "name another file");
    out_.open(path, std::ios::app);
    if (unfinished) line({});
    if (first.empty() && !header.empty()) line(header);
    check();
  }
  void line(std::string const& text) {
    out_ << text << '\n';
    out_.flush();
    check();
  }

 private:
  void check() const {
    if (!out_)
      throw error("cannot write " + path_.string(), "a file that can be written and has room",
                  "check the path, its permissions and the disk");
  }
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace detail

/// Writes a line of comma-separated values every so many steps and at the end of each epoch, on rank 0: epoch and step
/// (both from 1), loss of the step, mean loss of the epoch, rows a second, seconds of the epoch, and at its end the
/// accuracy and loss of a `validate` named before. Appends to a file of its own. Throws where it cannot write.
class csv_log {
 public:
  explicit csv_log(std::filesystem::path path, index_t every = 100) : path_(std::move(path)), every_(every) {}

  void on_step(progress const& p) {
    if (every_ > 0 && p.step % every_ == 0) row(p, false);
  }
  void on_epoch_end(progress const& p) { row(p, true); }

 private:
  void row(progress const& p, bool ended) {
    if (!file_)
      file_.emplace(path_, "epoch,step,loss,mean_loss,rows_per_second,seconds,validation_accuracy,validation_loss");
    std::string text = std::to_string(p.epoch + 1) + ',' + std::to_string(p.step);
    for (const double value : {p.loss, p.mean_loss, p.rate, p.seconds}) text += ',' + number(value);
    for (auto const& value : {p.validation_accuracy, p.validation_loss})
      text += ',' + (ended && value ? number(*value) : std::string());
    file_->line(text);
  }
  /// So many digits that reading gives the same number.
  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    return text;
  }

  std::filesystem::path path_;
  index_t every_;
  std::optional<detail::line_file> file_{};
};

/// The same as one JSON object a line; infinite losses and NaN are null.
class json_log {
 public:
  explicit json_log(std::filesystem::path path, index_t every = 100) : path_(std::move(path)), every_(every) {}

  void on_step(progress const& p) {
    if (every_ > 0 && p.step % every_ == 0) row(p, "step");
  }
  void on_epoch_end(progress const& p) { row(p, "epoch"); }

 private:
  void row(progress const& p, char const* what) {
    if (!file_) file_.emplace(path_, "");
    nlohmann::ordered_json line{{"event", what},       {"epoch", p.epoch + 1},     {"step", p.step},
                                {"loss", p.loss},      {"mean_loss", p.mean_loss}, {"rows_per_second", p.rate},
                                {"seconds", p.seconds}};
    if (std::string_view(what) == "epoch") {
      if (p.validation_accuracy) line["validation_accuracy"] = *p.validation_accuracy;
      if (p.validation_loss) line["validation_loss"] = *p.validation_loss;
    }
    file_->line(line.dump());
  }

  std::filesystem::path path_;
  index_t every_;
  std::optional<detail::line_file> file_{};
};

}  // namespace tessera
