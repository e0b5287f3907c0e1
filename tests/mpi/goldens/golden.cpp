#include "support/golden.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace {

golden::array reference() { return {"output", "", {2, 2}, {1.0, -2.0, std::nan(""), INFINITY}, {0.1}}; }

std::string apart(std::vector<double> const& found) { return golden::difference(reference(), 0.05, {2, 2}, found); }

}  // namespace

TEST_CASE("a comparison allows atol + rtol * |reference| and no more") {
  CHECK(apart({1.0, -2.0, std::nan(""), INFINITY}).empty());
  CHECK(apart({1.149, -2.199, std::nan(""), INFINITY}).empty());
  CHECK_FALSE(apart({1.151, -2.0, std::nan(""), INFINITY}).empty());
  CHECK_FALSE(apart({1.0, -2.201, std::nan(""), INFINITY}).empty());
}

TEST_CASE("a comparison wants NaN where NaN is, and the same infinity") {
  CHECK_FALSE(apart({1.0, -2.0, 0.0, INFINITY}).empty());
  CHECK_FALSE(apart({std::nan(""), -2.0, std::nan(""), INFINITY}).empty());
  CHECK_FALSE(apart({1.0, -2.0, std::nan(""), -INFINITY}).empty());
  CHECK_FALSE(apart({1.0, -2.0, std::nan(""), 1e300}).empty());
  CHECK_FALSE(apart({INFINITY, -2.0, std::nan(""), INFINITY}).empty());
}

TEST_CASE("a comparison wants the extents of the reference, and takes a tolerance for each element") {
  auto each = reference();
  each.atol = {0, 1, 0, 0};
  CHECK_FALSE(golden::difference(each, 0, {4}, each.values).empty());
  CHECK(golden::difference(each, 0, {2, 2}, {1.0, -1.5, std::nan(""), INFINITY}).empty());
  CHECK_FALSE(golden::difference(each, 0, {2, 2}, {1.5, -2.0, std::nan(""), INFINITY}).empty());
}

TEST_CASE("the repository has a case of every operator with a test, and operators without one are reported") {
  auto const& all = golden::folders();
  std::set<std::string> kept;
  for (auto const& c : all.front().cases) kept.insert(c.op);
  for (auto const& op : golden::built_operators()) {
    CAPTURE(op);
    CHECK(kept.count(op) == 1);
  }
  for (auto const& from : all) {
    std::map<std::string, int> missing;
    for (auto const& c : from.cases)
      if (golden::built_operators().count(c.op) == 0) ++missing[c.op];
    for (auto const& [op, count] : missing)
      golden::say("not built yet: " + std::to_string(count) + " cases of " + op + " of " + from.path);
  }
}
