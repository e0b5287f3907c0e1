#include <doctest/doctest.h>
#include <tessera/train/schedule.hpp>

namespace {

using namespace tessera;
using doctest::Approx;
using tessera::index_t;

TEST_CASE("a constant rate does not change") {
  const constant_rate rate{0.3};
  for (const index_t s : {0, 1, 1000}) CHECK(rate(s) == 0.3);
}

TEST_CASE("a step rate falls by its factor every so many steps") {
  const step_rate rate{.rate = 0.8, .every = 3, .factor = 0.5};
  const double wanted[] = {0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2};
  for (index_t s = 0; s < 7; ++s) CHECK(rate(s) == Approx(wanted[s]).epsilon(1e-15));
  CHECK_THROWS_WITH_AS(step_rate{.every = 0}(4),
                       "tessera: a learning rate that changes every 0 steps; wanted a positive number; mend "
                       "step_rate::every",
                       error);
}

TEST_CASE("a cosine rate goes from its first rate to its last, half of the way in the middle") {
  const cosine_rate rate{.rate = 0.9, .steps = 12, .last = 0.1};
  CHECK(rate(0) == 0.9);
  CHECK(rate(4) == Approx(0.1 + 0.8 * 0.75).epsilon(1e-15));  // cos 60 degrees is 1/2
  CHECK(rate(6) == Approx(0.5).epsilon(1e-15));
  CHECK(rate(8) == Approx(0.1 + 0.8 * 0.25).epsilon(1e-15));
  CHECK(rate(9) == Approx(0.1 + 0.8 * (1 - std::sqrt(0.5)) / 2).epsilon(1e-15));
  for (const index_t s : {12, 13, 1000}) CHECK(rate(s) == 0.1);
  CHECK(cosine_rate{.rate = 1, .steps = 0, .last = 0.25}(0) == 0.25);
}

TEST_CASE("a warm-up rises in a straight line to where the next schedule begins") {
  const warm_up rate{3, step_rate{.rate = 0.8, .every = 2, .factor = 0.5}};
  const double wanted[] = {0.2, 0.4, 0.6, 0.8, 0.8, 0.4, 0.4, 0.2};
  for (index_t s = 0; s < 8; ++s) CHECK(rate(s) == Approx(wanted[s]).epsilon(1e-15));
  CHECK(warm_up{0, constant_rate{0.5}}(0) == 0.5);
  CHECK(warm_up{1, cosine_rate{.rate = 1, .steps = 2}}(0) == 0.5);
}

TEST_CASE("rates, factors and numbers of steps that make no sense are refused") {
  for (const double bad : {-0.1, std::nan(""), HUGE_VAL}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(constant_rate{bad}(0), error);
    CHECK_THROWS_AS((step_rate{.rate = bad}(0)), error);
    CHECK_THROWS_AS((step_rate{.rate = 1, .factor = bad}(0)), error);
    CHECK_THROWS_AS((cosine_rate{.rate = bad, .steps = 2}(5)), error);
    CHECK_THROWS_AS((cosine_rate{.rate = 1, .steps = 2, .last = bad}(0)), error);
    CHECK_THROWS_AS((warm_up{2, constant_rate{bad}}(0)), error);
  }
  CHECK_THROWS_WITH_AS((cosine_rate{.rate = 1, .steps = -2}(0)),
                       "tessera: cosine_rate::steps of -2; wanted 0 or more; mend the option", error);
  CHECK_THROWS_AS((warm_up{-1, constant_rate{1}}(0)), error);
}

}  // namespace
