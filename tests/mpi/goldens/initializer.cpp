#include "support/golden_worlds.hpp"

#include <tessera/layer/initializer.hpp>

namespace {

using namespace tessera;
using tessera::index_t;

/// Draws the values of a weight in C order and compares their bound and moments.
template <initializer Init, int Rank>
void check_moments(golden::test_case const& c) {
  golden::array as_array;
  for (const double e : c.given.list("shape")) as_array.extents.push_back(static_cast<index_t>(e));
  const auto extents = golden::extents_of<Rank>(as_array);
  const fans f = fans_of(extents);
  auto const& wanted = c.expected;
  CHECK(static_cast<double>(f.in) == wanted.number("fan_in"));
  CHECK(static_cast<double>(f.out) == wanted.number("fan_out"));
  CHECK(static_cast<double>(extents.size()) == wanted.number("count"));

  const philox draw(20, stream_of(c.name));
  double sum = 0;
  double squares = 0;
  double most = 0;
  for (index_t i = 0; i < extents.size(); ++i) {
    const double v = Init::value(draw, i, f);
    sum += v;
    squares += v * v;
    most = std::max(most, std::abs(v));
  }
  const auto count = static_cast<double>(extents.size());
  const double mean = sum / count;
  CHECK(std::abs(mean - wanted.number("mean")) <= wanted.number("mean_within"));
  CHECK(std::abs(std::sqrt(squares / count - mean * mean) - wanted.number("std")) <= wanted.number("std_within"));
  if (wanted.has("bound")) {
    CHECK(most <= wanted.number("bound"));
    CHECK(most >= 0.99 * wanted.number("bound"));
  }
}

template <initializer Init>
bool check_by_rank(golden::test_case const& c) {
  if (c.given.number("gain", 1) != 1 || c.given.text("nonlinearity", "relu") != "relu") return false;
  switch (c.given.list("shape").size()) {
    case 2: check_moments<Init, 2>(c); return true;
    case 3: check_moments<Init, 3>(c); return true;
    case 4: check_moments<Init, 4>(c); return true;
    case 5: check_moments<Init, 5>(c); return true;
    default: return false;
  }
}

bool keeps_inputs(golden::test_case const& c) { return c.given.text("mode", "fan_in") == "fan_in"; }

const golden::built here[] = {golden::built("init_xavier_uniform"), golden::built("init_xavier_normal"),
                              golden::built("init_kaiming_uniform"), golden::built("init_kaiming_normal")};

}  // namespace

TEST_CASE("Xavier initialisers have the reference moments") {
  golden::run("init_xavier_uniform", [](auto&, auto const& c) { return check_by_rank<xavier_uniform>(c); });
  golden::run("init_xavier_normal", [](auto&, auto const& c) { return check_by_rank<xavier_normal>(c); });
}

TEST_CASE("Kaiming initialisers have the reference moments") {
  golden::run("init_kaiming_uniform", [](auto&, auto const& c) {
    return keeps_inputs(c) ? check_by_rank<kaiming_uniform<fan::in>>(c) : check_by_rank<kaiming_uniform<fan::out>>(c);
  });
  golden::run("init_kaiming_normal", [](auto&, auto const& c) {
    return keeps_inputs(c) ? check_by_rank<kaiming_normal<fan::in>>(c) : check_by_rank<kaiming_normal<fan::out>>(c);
  });
}
