#include <tessera/plan/calibration.hpp>
#include <tessera/plan/mesh_costs.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "written_machine.hpp"

// Machines from measurements: parameters that made the measurements come out again.

namespace {

using namespace tessera;
using errors::error_of;
using tessera::index_t;

constexpr double sizes[] = {1e3, 1e5, 3e6, 1e8};

/// What a machine would measure, every other time `noise` too much, the rest as much too little.
std::vector<timed_work> measured(double fixed, double per_unit, double noise = 0) {
  std::vector<timed_work> list;
  double sign = 1;
  for (const double work : sizes) list.push_back({work, (fixed + per_unit * work) * (1 + (sign = -sign) * noise)});
  return list;
}

/// What is written for a machine of two levels.
machine_description two_levels() {
  machine_description m;
  m.peak = {.float64 = 5e10, .float32 = 1.0625e11, .float16 = 0, .bfloat16 = 0};
  m.reachable = 0.5;
  m.half = 2.5e6;
  m.bytes_per_second = 3e10;
  m.memory = index_t{1} << 33;
  m.launch = 2.5e-7;
  m.speeds = {.convolutions = 1.25,
              .attention = 0.75,
              .maps = 0.5,
              .functions = 0.25,
              .norms = 0.125,
              .pooling = 2,
              .updates = 4};
  m.levels[0] = {.ranks = 4, .link = {1e-6, 2e-10}, .name = "memory", .buckets = 8};
  m.levels[1] = {.ranks = 0, .link = {1e-5, 1e-9}, .name = "network", .pairs = true};
  return m;
}

}  // namespace

TEST_CASE("a line through exact measurements is the line, and errors of a few percent move it as little") {
  const auto exact = fit_line(measured(2e-5, 3e-9));
  CHECK(exact.fixed == doctest::Approx(2e-5));
  CHECK(exact.per_unit == doctest::Approx(3e-9));
  // With squares of absolute errors the largest alone would decide, and the first number would be anything.
  const auto rough = fit_line(measured(2e-5, 3e-9, 0.05));
  CHECK(rough.fixed == doctest::Approx(2e-5).epsilon(0.1));
  CHECK(rough.per_unit == doctest::Approx(3e-9).epsilon(0.1));
}

TEST_CASE("no number of a line is below 0") {
  const timed_work bent[] = {{10, 9}, {20, 20}, {40, 42}};
  CHECK(fit_line(bent).fixed == 0);
  CHECK(fit_line(bent).per_unit == doctest::Approx(1).epsilon(0.06));
  const timed_work falling[] = {{10, 2}, {20, 1}};
  CHECK(fit_line(falling).per_unit == 0);
  CHECK(fit_line(falling).fixed == doctest::Approx(1.2));  // (1 / 2 + 1) / (1 / 4 + 1)
}

TEST_CASE("lines want times above 0 of two amounts of work") {
  const timed_work one[] = {{10, 2}, {10, 3}};
  CHECK(error_of([&] { fit_line(one); }).find("measure several sizes") != std::string::npos);
  CHECK(error_of([] { fit_line({}); }).find("measure several sizes") != std::string::npos);
  const timed_work none[] = {{10, 0}, {20, 3}};
  CHECK(error_of([&] { fit_line(none); }).find("measure longer") != std::string::npos);
}

TEST_CASE("products give rate and half of a machine that would take as long") {
  machine_description truth;
  truth.peak.float32 = 8e10;
  truth.half = 4e5;
  truth.launch = 1e-6;
  truth.bytes_per_second = 1;
  std::vector<timed_work> products;
  for (const double w : sizes) products.push_back({w, truth.seconds(w, 0, 4)});
  machine_description found;
  found.launch = truth.launch;
  set_products(found, products);
  CHECK(found.peak.float32 == doctest::Approx(8e10));
  CHECK(found.half == doctest::Approx(4e5));
  CHECK(found.reachable == 1);
  CHECK(found.rate(4) == found.peak.float32);
  // Launches that are longer than all there is beside the operations leave nothing of half.
  found.launch = 1;
  set_products(found, products);
  CHECK(found.half == 0);
  CHECK(error_of([&] { set_products(found, measured(1, 0)); }).find("measure larger products") != std::string::npos);
}

TEST_CASE("gathers give the link of a level, for any number of ranks") {
  for (const int ranks : {2, 3, 8}) {
    machine_description truth;
    truth.levels[0] = {.ranks = 0, .link = {2e-6, 5e-10}, .name = "memory"};
    const auto costs = costs_on(mesh_sizes<1>{{ranks}}, truth);
    std::vector<timed_work> gathers;
    for (const double bytes : sizes) gathers.push_back({bytes, seconds_of(costs.gather[1], bytes)});
    const link_cost found = link_of(ranks, gathers);
    CHECK(found.latency == doctest::Approx(2e-6));
    CHECK(found.seconds_per_byte == doctest::Approx(5e-10));
  }
  CHECK(error_of([] { link_of(1, measured(1, 1)); }).find("2 or more") != std::string::npos);
}

TEST_CASE("a speed makes the sum of predictions that of measurements") {
  const timed_kernel kernels[] = {{1, 3}, {4, 5}};
  CHECK(fit_speed(kernels) == doctest::Approx(5.0 / 8));
  CHECK(fit_speed({}) == 1);
  const timed_kernel none[] = {{0, 3}};
  CHECK(error_of([&] { fit_speed(none); }).find("measure longer") != std::string::npos);

  // A machine with that speed predicts it.
  machine_description m = two_levels();
  m.speeds.norms = 1;
  m.launch = 0;
  const double predicted = m.seconds(0, 1e6, 4, kernel_kind::norm);
  const timed_kernel one[] = {{predicted, 8 * predicted}};
  m.speeds.norms = fit_speed(one);
  CHECK(m.seconds(0, 1e6, 4, kernel_kind::norm) == doctest::Approx(8 * predicted));
  CHECK(m.seconds(0, 1e6, 4) == predicted);
}

TEST_CASE("buckets are reduced as many times as fast as messages as their level says") {
  const auto costs = costs_on(mesh_sizes<2>{{2, 4}}, two_levels());
  CHECK(costs.bucket[2].seconds_per_byte == doctest::Approx(costs.gather[2].seconds_per_byte / 8));
  CHECK(costs.bucket[2].latency == doctest::Approx(costs.gather[2].latency / 8));
  CHECK(costs.bucket[1].seconds_per_byte == costs.gather[1].seconds_per_byte);
}

// The header of `two_levels` lies beside this file: it compiles, describes that machine, and is what is written.
static_assert(fault_of(description_of<machine::written>) == machine_fault::none);
static_assert(machine::written::about.peak.float32 == 1.062e11);  // four digits
static_assert(machine::written::about.levels[1].name[0] == 'n' && machine::written::about.levels[1].pairs);

TEST_CASE("a header that describes the machine it is written for") {
  const machine_description m = two_levels();
  std::string beside = __FILE__;
  beside.replace(beside.rfind("calibration.cpp"), std::string::npos, "written_machine.hpp");
  std::ifstream file(beside);
  REQUIRE(file);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(machine_header(m, "written", "Two levels.") == text);

  constexpr machine_description const& read = description_of<machine::written>;
  for (int kind = 0; kind < kernel_kinds; ++kind) {
    const auto of = static_cast<kernel_kind>(kind);
    CHECK(read.speeds.of(of) == m.speeds.of(of));
    CHECK(read.seconds(1e6, 1e3, 8, of) == m.seconds(1e6, 1e3, 8, of));
  }
  for (int set = 1; set < 4; ++set) {
    const auto costs = costs_on(mesh_sizes<2>{{2, 4}}, read);
    const auto expected = costs_on(mesh_sizes<2>{{2, 4}}, m);
    CHECK(seconds_of(costs.gather[set], 1e6) == seconds_of(expected.gather[set], 1e6));
    CHECK(seconds_of(costs.bucket[set], 1e6) == seconds_of(expected.bucket[set], 1e6));
  }
  CHECK(read.memory == m.memory);
}

TEST_CASE("machines with a fault are not written") {
  machine_description bad = two_levels();
  bad.speeds.pooling = 0;
  CHECK(fault_of(bad) == machine_fault::rates);
  CHECK(error_of([&] { machine_header(bad, "x", ""); }).find("a fault") != std::string::npos);
  bad = two_levels();
  bad.levels[0].buckets = -1;
  CHECK(fault_of(bad) == machine_fault::links);
}
