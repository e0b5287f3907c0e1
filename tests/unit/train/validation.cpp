#include "support/checkpoints.hpp"

#include <tessera/train/log.hpp>
#include <tessera/train/validation.hpp>

#include <cmath>
#include <fstream>
#include <limits>

// What callbacks watch: validation, early stopping, the best checkpoint, logs.

namespace {

using namespace checkpoints;

using alone = worlds::serial_team<mesh<>>;
using small_model = parallel<chain<flatten<>, linear<16, 3>>, input<dynamic, 1, 4, 4>>;

struct run {
  explicit run(double rate = 0.05) : net(team, seed{1}), trains(net, {}, momentum{.learning_rate = rate}) {}
  alone team{serial_comm{}};
  network<small_model, alone> net;
  trainer<network<small_model, alone>, cross_entropy, momentum> trains;
};

/// Gives each epoch the accuracy of a list, as `validate` would.
struct pretend {
  std::vector<double> accuracies;
  template <class Trainer, class Batches>
  void on_begin(progress& at, Trainer&, Batches const&) const {
    at.validates = true;
  }
  template <class Trainer, class Batches>
  void on_epoch_end(progress& at, Trainer&, Batches const&) const {
    at.validation_accuracy = accuracies.at(static_cast<std::size_t>(at.epoch));
    at.validation_loss = 1 - *at.validation_accuracy;
  }
};

/// Ends a run after so many steps.
struct interrupted {};
struct interrupt {
  index_t after;
  template <class Trainer, class Batches>
  void on_step(progress const&, Trainer& trainer, Batches const&) const {
    if (trainer.steps() == after) throw interrupted{};
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
  run r;
  CHECK(says(error_of([&] { r.trains.fit(batches(), epochs{1}, early_stop(), validate(batches())); }),
             "early_stop on validation_loss without validate before it"));
  CHECK(r.trains.fit(batches(), epochs{1}, early_stop(watched::training_loss)).size() == 1);
}

TEST_CASE("early_stop goes on counting in a run that is resumed, wherever it was interrupted") {
  const std::vector<double> accuracies{0.1, 0.3, 0.2, 0.3, 0.25, 0.9};
  const early_stop two(watched::validation_accuracy, 3);
  run whole;
  const auto wanted = whole.trains.fit(batches(), epochs{6}, pretend{accuracies}, two);
  REQUIRE(wanted.size() == 5);
  // After each step, callbacks in another order.
  for (index_t steps = 1; steps <= 5 * 4; ++steps) {
    CAPTURE(steps);
    const shared_folder folder;
    const checkpoint_every every{.directory = folder.path(), .steps = 1, .epochs = 1};
    run first;
    CHECK_THROWS_AS(first.trains.fit(batches(), epochs{6}, every, interrupt{steps}, pretend{accuracies}, two),
                    interrupted);
    run second;
    CHECK(second.trains.fit(batches(), epochs{6}, resume{folder.path()}, every, pretend{accuracies}, two) == wanted);
    CHECK(second.trains.steps() == 5 * 4);
    // It was ended, so it trains no more.
    run third;
    CHECK(third.trains.fit(batches(), epochs{6}, resume{folder.path()}, pretend{accuracies}, two) == wanted);
    CHECK(third.trains.steps() == 5 * 4);
  }
}

TEST_CASE("two that watch the same count once") {
  run r;
  const std::vector<double> accuracies{0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
  CHECK(r.trains
            .fit(batches(), epochs{6}, pretend{accuracies}, early_stop(watched::validation_accuracy, 4),
                 early_stop(watched::validation_accuracy, 5), early_stop(watched::validation_loss, 4, 0.5))
            .size() == 5);
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
  CHECK(says(error_of([&] { r.trains.fit(batches(), epochs{1}, pretend{{0.5}}, other); }),
             "the best by validation_accuracy"));
}

TEST_CASE("keep_best goes on after a kill at any step of its saving, and always has a whole checkpoint") {
  const shared_folder folder;
  const auto dir = folder.path();
  const auto kept = [](keep_best best) {
    run r;
    // Asks for the value in the folder without saving.
    r.trains.fit(batches(), epochs{1}, pretend{{std::nan("")}}, best);
    return best.best();
  };
  int killed = 0;
  // From nothing, over an earlier step, over the same step, and over a later one.
  struct case_of {
    std::vector<double> before;
    std::vector<double> accuracies;
    double saved;
    char const* name;
  };
  for (case_of const& c :
       {case_of{{}, {0.5}, 0.5, "step-00000004"}, case_of{{0.25}, {0.1, 0.5}, 0.5, "step-00000008"},
        case_of{{0.25}, {0.5}, 0.5, "step-00000004"}, case_of{{0.1, 0.25}, {0.5}, 0.5, "step-00000004"}}) {
    CAPTURE(c.accuracies.size());
    bool finished = false;
    for (int stop = 0; !finished; ++stop) {
      CAPTURE(stop);
      std::filesystem::remove_all(dir);
      const auto fit = [&](std::vector<double> const& accuracies) {
        run r;
        keep_best best(dir);
        r.trains.fit(batches(), epochs{static_cast<index_t>(accuracies.size())}, pretend{accuracies}, best);
        return best.best();
      };
      if (!c.before.empty()) fit(c.before);
      int steps = 0;
      struct stopped {};
      detail::before_file_step = [&](std::filesystem::path const&) {
        if (steps++ == stop) throw stopped{};
      };
      try {
        fit(c.accuracies);
        finished = true;
      } catch (stopped const&) {
        ++killed;
      }
      detail::before_file_step = nullptr;
      const auto newest = newest_checkpoint(dir);
      CHECK((newest || c.before.empty()));
      // What the folder says is what it holds.
      const auto value = kept(keep_best(dir));
      CHECK(value.has_value() == newest.has_value());
      if (newest) CHECK((*value == c.saved || *value == c.before.back()));
      CHECK(fit(c.accuracies) == c.saved);
      REQUIRE(newest_checkpoint(dir));
      CHECK(newest_checkpoint(dir)->filename() == c.name);
      CHECK(kept(keep_best(dir)) == c.saved);
    }
  }
  CHECK(killed > 40);
}

TEST_CASE("keep_best leaves checkpoints of others alone, and values that are not finite") {
  const shared_folder folder;
  run r;
  const double infinite = std::numeric_limits<double>::infinity();
  keep_best best(folder.path() / "best");
  r.trains.fit(batches(), epochs{3}, pretend{{infinite, std::nan(""), -infinite}}, best);
  CHECK(!best.best());
  CHECK(!std::filesystem::exists(folder.path() / "best"));
  save_checkpoint(r.trains, folder.path() / "best");
  run other;
  CHECK(says(error_of([&] { other.trains.fit(batches(), epochs{1}, pretend{{0.5}}, best); }),
             "holds a checkpoint of step 12 already"));
}

TEST_CASE("a best.json that keep_best did not write is an error") {
  const shared_folder folder;
  std::filesystem::create_directories(folder.path());
  for (char const* text :
       {"", "[]", "{}", R"({"watched":3,"value":0.5})", R"({"watched":"validation_accuracy","value":null})",
        R"({"watched":"validation_accuracy","value":"much"})"}) {
    CAPTURE(text);
    std::ofstream(folder.path() / "best.json") << text;
    run r;
    CHECK(says(error_of([&] { r.trains.fit(batches(), epochs{1}, pretend{{0.5}}, keep_best(folder.path())); }),
               "which is not what keep_best writes"));
  }
}

TEST_CASE("a log goes on in a new line after one that is unfinished") {
  const shared_folder folder;
  std::filesystem::create_directories(folder.path());
  const auto json = folder.path() / "log.jsonl";
  std::ofstream(json) << "{}\n{\"event\":";
  run r;
  r.trains.fit(batches(), epochs{1}, json_log(json, 0));
  const auto lines = lines_of(json);
  REQUIRE(lines.size() == 3);
  CHECK(lines[1] == "{\"event\":");
  CHECK(nlohmann::json::parse(lines[2])["event"] == "epoch");
}

TEST_CASE("csv_log and json_log write what happened, and go on in files of their own") {
  const shared_folder folder;
  std::filesystem::create_directories(folder.path());
  const auto csv = folder.path() / "log.csv";
  const auto json = folder.path() / "log.jsonl";
  for (int times = 0; times < 2; ++times) {
    run r;
    const auto losses = r.trains.fit(batches(), epochs{2}, pretend{{0.5, 0.25}}, csv_log(csv, 2), json_log(json, 3));
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
