#include "support/checkpoints.hpp"

#include <tessera/train/log.hpp>
#include <tessera/train/validation.hpp>

#include <fstream>

// What callbacks watch: validation, early stopping, the best checkpoint, logs.

namespace {

using namespace checkpoints;

using alone = worlds::serial_team<mesh<>>;
using model = parallel<chain<flatten<>, linear<16, 3>>, input<dynamic, 1, 4, 4>>;

struct run {
  explicit run(double rate = 0.05) : net(team, seed{1}), trains(net, {}, momentum{.learning_rate = rate}) {}
  alone team{serial_comm{}};
  network<model, alone> net;
  trainer<network<model, alone>, cross_entropy, momentum> trains;
};

/// Gives each epoch the accuracy of a list, as `validate` would.
struct pretend {
  std::vector<double> accuracies;
  template <class Trainer, class Batches>
  void on_epoch_end(progress& at, Trainer&, Batches const&) const {
    at.validation_accuracy = accuracies.at(static_cast<std::size_t>(at.epoch));
    at.validation_loss = 1 - *at.validation_accuracy;
  }
};

std::vector<std::string> lines_of(std::filesystem::path const& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("validate leaves what evaluate finds, in the epochs that it is asked for") {
  run r;
  std::vector<std::pair<std::optional<double>, std::optional<double>>> seen;
  struct look {
    decltype(seen)& into;
    void on_epoch_end(progress const& p) const { into.emplace_back(p.validation_accuracy, p.validation_loss); }
  };
  r.trains.fit(batches(), epochs{3}, validate(batches(), 2), look{seen});
  REQUIRE(seen.size() == 3);
  CHECK(!seen[0].first);
  CHECK(seen[1].first);
  CHECK(!seen[2].second);
  run again;
  again.trains.fit(batches(), epochs{2});
  const auto found = again.trains.evaluate(batches());
  CHECK(seen[1].first == found.accuracy);
  CHECK(seen[1].second == found.loss);
  CHECK(found.rows == 37);
}

TEST_CASE("the loss of an evaluation is the mean over all rows, whatever the batch") {
  run r;
  auto whole = batches();
  whole.batch = 37;
  auto parts = batches();
  parts.batch = 5;
  CHECK(r.trains.evaluate(whole).loss == doctest::Approx(r.trains.evaluate(parts).loss).epsilon(1e-6));
  CHECK(r.trains.evaluate(whole).accuracy == r.trains.evaluate(parts).accuracy);
}

TEST_CASE("early_stop ends training after as many validated epochs without gain as its patience") {
  const auto epochs_of = [](std::vector<double> const& accuracies, early_stop stop) {
    run r;
    return r.trains.fit(batches(), epochs{static_cast<index_t>(accuracies.size())}, pretend{accuracies}, stop).size();
  };
  const early_stop two(watched::validation_accuracy, 2);
  CHECK(epochs_of({0.1, 0.2, 0.2, 0.15, 0.9}, two) == 4);
  CHECK(epochs_of({0.1, 0.2, 0.2, 0.3, 0.3, 0.3, 0.9}, two) == 6);
  CHECK(epochs_of({0.1, 0.2, 0.3, 0.4}, early_stop(watched::validation_accuracy, 1, 0.2)) == 2);
  CHECK(epochs_of({0.4, 0.3, 0.2, 0.1}, early_stop(watched::validation_loss, 2)) == 3);
  const double nan = std::nan("");
  CHECK(epochs_of({0.1, nan, nan, 0.5}, two) == 3);
  CHECK(says(error_of([&] { epochs_of({0.1}, early_stop(watched::validation_loss, 0)); }), "a patience of 1 or more"));
}

TEST_CASE("keep_best keeps the checkpoint of the best epoch, across runs") {
  const shared_folder folder;
  {
    run r;
    keep_best best(folder.path());
    r.trains.fit(batches(), epochs{4}, pretend{{0.1, 0.3, 0.2, 0.3}}, best);
    CHECK(best.best() == 0.3);
    CHECK(*newest_checkpoint(folder.path()) == folder.path() / "step-00000008");
  }
  run r;
  const auto at = load_checkpoint(r.trains, *newest_checkpoint(folder.path()));
  CHECK(at.epoch == 2);
  CHECK(at.step == 0);
  keep_best best(folder.path());
  r.trains.fit(batches(), epochs{2}, pretend{{0.25, 0.35}}, best);
  CHECK(*newest_checkpoint(folder.path()) == folder.path() / "step-00000016");
  keep_best other(folder.path(), watched::validation_loss);
  CHECK(says(error_of([&] { r.trains.fit(batches(), epochs{1}, other); }), "the best by validation_accuracy"));
}

TEST_CASE("csv_log and json_log write what happened, and go on in files of their own") {
  const shared_folder folder;
  std::filesystem::create_directories(folder.path());
  const auto csv = folder.path() / "log.csv";
  const auto json = folder.path() / "log.jsonl";
  for (int times = 0; times < 2; ++times) {
    run r;
    const auto losses =
        r.trains.fit(batches(), epochs{2}, pretend{{0.5, 0.25}}, csv_log(csv, 2), json_log(json, 3));
    const auto rows = lines_of(csv);
    REQUIRE(rows.size() == static_cast<std::size_t>(1 + 6 * (times + 1)));  // two steps and an end in each epoch
    CHECK(rows[0] == "epoch,step,loss,mean_loss,rows_per_second,seconds,validation_accuracy,validation_loss");
    CHECK(rows[1].substr(0, 4) == "1,2,");
    CHECK(rows[1].substr(rows[1].size() - 2) == ",,");
    CHECK(rows[6].substr(rows[6].size() - 10) == ",0.25,0.75");
    const auto objects = lines_of(json);
    REQUIRE(objects.size() == static_cast<std::size_t>(4 * (times + 1)));
    const auto last = nlohmann::json::parse(objects[3]);
    CHECK(last["event"] == "epoch");
    CHECK(last["mean_loss"] == losses[1]);
    CHECK(last["validation_loss"] == 0.75);
    CHECK(!nlohmann::json::parse(objects[0]).contains("validation_loss"));
  }
  run r;
  CHECK(says(error_of([&] { r.trains.fit(batches(), epochs{1}, csv_log(json, 1)); }), "name another file"));
  CHECK(says(error_of([&] { r.trains.fit(batches(), epochs{1}, csv_log(folder.path() / "no" / "x.csv")); }),
             "cannot write"));
}
