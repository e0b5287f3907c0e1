#include <tessera/train/loss_scale.hpp>

#include "support/checkpoints.hpp"

#include <fstream>
#include <limits>

// Loss scaling: the factor of each step, and how it is saved. What it does to training is in tests/mpi/train.

namespace {

using namespace checkpoints;

std::vector<double> factors(loss_scaler scaler, std::vector<bool> const& finite) {
  std::vector<double> all;
  for (const bool one : finite) {
    scaler.update(one);
    all.push_back(scaler.factor());
  }
  return all;
}

}  // namespace

TEST_CASE("a dynamic scale grows after so many finite steps in a row and backs off after each other one") {
  const loss_scaler scaler(dynamic_scale{.initial = 64, .growth = 4, .backoff = 0.25, .every = 3});
  CHECK(scaler.on());
  CHECK(scaler.factor() == 64);
  CHECK(factors(scaler, {true, true, true, true, true, true}) == std::vector<double>{64, 64, 256, 256, 256, 1024});
  CHECK(factors(scaler, {true, true, false, true, true, true, false, false}) ==
        std::vector<double>{64, 64, 16, 16, 16, 64, 16, 4});
}

TEST_CASE("a dynamic scale stays within 2^-64 and 2^64") {
  CHECK(factors(loss_scaler(dynamic_scale{.initial = 0x1p63, .every = 1}), {true, true, true}) ==
        std::vector<double>{0x1p64, 0x1p64, 0x1p64});
  CHECK(factors(loss_scaler(dynamic_scale{.initial = 0x1p-63}), {false, false, false}) ==
        std::vector<double>{0x1p-64, 0x1p-64, 0x1p-64});
}

TEST_CASE("a fixed scale never changes, and without one nothing is scaled") {
  const loss_scaler fixed(fixed_scale{128});
  CHECK(fixed.on());
  CHECK(factors(fixed, {true, false, true}) == std::vector<double>{128, 128, 128});
  const loss_scaler none;
  CHECK_FALSE(none.on());
  CHECK(none.factor() == 1);
}

TEST_CASE("skipped steps are counted, and too many in a row are an error") {
  loss_scaler scaler(dynamic_scale{.every = 5});
  for (int i = 0; i < 63; ++i) scaler.update(false);
  CHECK(scaler.state() == loss_scale_state{0x1p-47, 0, 63, 63});
  scaler.update(true);
  CHECK(scaler.state() == loss_scale_state{0x1p-47, 1, 63, 0});
  for (int i = 0; i < 63; ++i) scaler.update(false);
  CHECK_THROWS_WITH_AS(
      scaler.update(false),
      "tessera: gradients that are infinite or NaN in 64 steps in a row; wanted finite gradients at some "
      "scale; look for faults in the data, lower the learning rate, or choose a smaller fixed_scale",
      error);
  loss_scaler fixed(fixed_scale{8});
  for (int i = 0; i < 63; ++i) fixed.update(false);
  CHECK_THROWS_AS(fixed.update(false), error);
}

TEST_CASE("options that make no sense are errors that name them") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto refuses = [](loss_scaling const& choice, char const* option) {
    says(error_of([&] { loss_scaler{choice}; }), option);
  };
  for (const double value : {0.0, -1.0, nan, infinite}) {
    CAPTURE(value);
    refuses(fixed_scale{value}, "fixed_scale::factor");
    refuses(dynamic_scale{.initial = value}, "dynamic_scale::initial");
    refuses(dynamic_scale{.growth = value}, "dynamic_scale::growth");
    refuses(dynamic_scale{.backoff = value}, "dynamic_scale::backoff");
  }
  refuses(dynamic_scale{.growth = 0.5}, "dynamic_scale::growth");
  refuses(dynamic_scale{.backoff = 2}, "dynamic_scale::backoff");
  refuses(dynamic_scale{.every = 0}, "dynamic_scale::every");
}

TEST_CASE("a state goes on in another scaler; a factor that is fixed stays") {
  const loss_scale_state saved{512, 3, 7, 1};
  loss_scaler scaler(dynamic_scale{.every = 4});
  scaler.state(saved);
  CHECK(scaler.state() == saved);
  scaler.update(true);
  CHECK(scaler.factor() == 1024);
  loss_scaler fixed(fixed_scale{8});
  fixed.state(saved);
  CHECK(fixed.factor() == 8);
  CHECK(fixed.state().skipped == 7);
}

namespace {

using alone = worlds::serial_team<mesh<>>;
using small_model = parallel<chain<flatten<>, linear<16, 3>>, input<dynamic, 1, 4, 4>>;
using network_type = network<small_model, alone>;

struct run {
  explicit run(loss_scaling const& scaling)
      : net(team, seed{1}), trains(net, cross_entropy{}, momentum{}, {.loss_scale = scaling}) {}
  alone team{serial_comm{}};
  network_type net;
  trainer<network_type, cross_entropy, momentum> trains;
};

}  // namespace

TEST_CASE("a checkpoint keeps the scale, and one without it still loads") {
  const shared_folder folder;
  run a(dynamic_scale{.initial = 64, .every = 3});
  progress seen;
  struct watch {
    progress& last;
    void on_step(progress const& at) { last = at; }
  } watching{seen};
  a.trains.fit(batches(), epochs{1}, watching);  // four steps
  CHECK(seen.loss_scale == 128);
  CHECK(seen.skipped == 0);
  CHECK(a.trains.loss_scale().state() == loss_scale_state{128, 1, 0, 0});
  a.trains.loss_scale().update(false);
  save_checkpoint(a.trains, folder.path());
  const auto checkpoint = *newest_checkpoint(folder.path());

  run b(dynamic_scale{});
  load_checkpoint(b.trains, checkpoint);
  CHECK(b.trains.loss_scale().state() == loss_scale_state{64, 0, 1, 1});

  nlohmann::json index;
  std::ifstream(checkpoint / "index.json") >> index;
  index.erase("crc32");
  REQUIRE(index["state"].contains("loss_scale"));
  index["state"].erase("loss_scale");
  std::ofstream(checkpoint / "index.json") << index;
  run c(dynamic_scale{.initial = 32});
  load_checkpoint(c.trains, checkpoint);
  CHECK(c.trains.loss_scale().state() == loss_scale_state{32, 0, 0, 0});
}
