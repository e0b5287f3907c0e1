#include "support/errors.hpp"
#include "support/scratch_file.hpp"

#include <tessera/plan/machine_file.hpp>
#include <tessera/plan/machines/ascend_910_server.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace machine_files {

using errors::error_of;

using ::scratch_files::has;
using ::scratch_files::replaced;

struct scratch : ::scratch_files::file {
  scratch() : file("machine") {}
};

// machine::ascend_910_server.
const std::string ascend = R"({
  "peak": {"float32": 256e12, "float16": 256e12}, "reachable": 0.93, "half": 536870912,
  "bytes_per_second": 1.2e12, "memory": 32000000000, "launch": 5e-6,
  "levels": [
    {"name": "HCCS", "ranks": 4, "latency": 3.4e-6, "seconds_per_byte": 3.3333333333333335e-11, "pairs": true},
    {"name": "PCIe", "ranks": 8, "latency": 5.7e-6, "seconds_per_byte": 3.125e-11},
    {"name": "RoCE", "latency": 14e-6, "seconds_per_byte": 8e-11}]})";

}  // namespace machine_files

TEST_CASE("a machine of a file is the one that it describes") {
  using namespace machine_files;
  const scratch file;
  file.write(ascend);
  const auto found = tessera::load_machine(file.path);
  constexpr auto& wanted = tessera::machine::ascend_910_server::about;
  CHECK(found.peak.float16 == wanted.peak.float16);
  CHECK(found.peak.float64 == 0);
  CHECK(found.rate(4) == wanted.rate(4));
  CHECK(found.half == wanted.half);
  CHECK(found.memory == wanted.memory);
  CHECK(found.seconds(1e9, 1e9, 2) == wanted.seconds(1e9, 1e9, 2));
  REQUIRE(found.level_count() == 3);
  CHECK(std::string(found.levels[0].name) == "HCCS");
  CHECK(found.levels[0].pairs);
  CHECK(!found.levels[1].pairs);
  CHECK(found.levels[1].ranks == 8);
  CHECK(found.levels[2].ranks == 0);
  CHECK(found.levels[2].link.latency == wanted.levels[2].link.latency);
  CHECK(found.levels[0].link.seconds_per_byte == wanted.levels[0].link.seconds_per_byte);
  CHECK(found.speeds.convolutions == 1);

  file.write(replaced(ascend, "\"launch\"", R"("speeds": {"norms": 0.5}, "launch")"));
  CHECK(tessera::load_machine(file.path).speeds.norms == 0.5);
  file.write(replaced(ascend, "\"pairs\": true", R"("buckets": 3)"));
  CHECK(tessera::load_machine(file.path).levels[0].buckets == 3);
}

TEST_CASE("files that describe no machine are refused with what is wrong") {
  using namespace machine_files;
  const scratch file;
  const auto load = [&] { return error_of([&] { tessera::load_machine(file.path); }); };
  CHECK(has(load(), "no machine file"));
  const auto load_with = [&](std::string const& what, std::string const& with) {
    file.write(replaced(ascend, what, with));
    const std::string fault = load();
    CHECK(has(fault, file.path.string()));
    return fault;
  };
  file.write(ascend.substr(0, ascend.size() - 1));
  CHECK(has(load(), "no JSON"));
  file.write("[]");
  CHECK(has(load(), "the machine is no object"));
  CHECK(has(load_with("\"memory\"", "\"memorie\""), "a member \"memorie\""));
  CHECK(has(load_with("\"float32\"", "\"float8\""), "\"peak\" has a member \"float8\""));
  CHECK(has(load_with("\"latency\": 14e-6, ", ""), "a level has no \"latency\""));
  CHECK(has(load_with("\"memory\": 32000000000, ", ""), "no \"memory\""));
  CHECK(has(load_with("32000000000", "3.2e10"), "\"memory\" of the machine is no whole number"));
  CHECK(has(load_with("0.93", "\"0.93\""), "\"reachable\" of the machine is no number"));
  CHECK(has(load_with("0.93", "1.5"), "reachable"));
  CHECK(has(load_with("1.2e12", "0"), "bytes_per_second"));
  CHECK(has(load_with("\"ranks\": 8", "\"ranks\": 6"), "whole groups"));
  CHECK(has(load_with("14e-6", "-1"), "latency"));
  CHECK(has(load_with("\"HCCS\"", "\"a name that is too long\""), "1 to 15 letters"));
  CHECK(has(load_with("true", "1"), "neither true nor false"));
  file.write(replaced(ascend, "\"levels\": [", "\"levels\": 3, \"launch\": ["));
  CHECK(has(load(), "twice"));
}
