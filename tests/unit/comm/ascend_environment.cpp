#include "support/errors.hpp"

#include <tessera/comm/ascend_environment.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace tessera;
using errors::error_of;

char const* const variables[] = {
    "RANK_TABLE_FILE",      "RANK_SIZE",        "RANK_ID", "DEVICE_ID", "HCCL_WHITELIST_FILE", "HCCL_WHITELIST_DISABLE",
    "HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT"};

/// The environment of one rank, while it lives, and a table of two devices, 4 and 5.
struct set_up {
  std::filesystem::path table = std::filesystem::temp_directory_path() / "tessera_rank_table.json";

  set_up() {
    clear();
    std::ofstream(table) << R"({"version": "1.0", "server_count": "1", "status": "completed", "server_list": [
      {"server_id": "10.0.0.1", "device": [{"device_id": "4", "device_ip": "192.168.100.1", "rank_id": "0"},
                                           {"device_id": "5", "device_ip": "192.168.101.1", "rank_id": "1"}]}]})";
  }
  set_up(set_up const&) = delete;
  set_up& operator=(set_up const&) = delete;
  ~set_up() {
    clear();
    std::filesystem::remove(table);
  }
  static void clear() {
    for (char const* name : variables) unsetenv(name);
  }
  static void set(char const* name, std::string const& value) { setenv(name, value.c_str(), 1); }
  void as_rank(std::string const& rank) const {
    set("RANK_TABLE_FILE", table.string());
    set("RANK_SIZE", "2");
    set("RANK_ID", rank);
  }
};

std::string refused() {
  return error_of([] { ascend_environment::read(); });
}
bool says(std::initializer_list<char const*> parts) {
  const std::string text = refused();
  for (char const* part : parts)
    if (text.find(part) == std::string::npos) {
      MESSAGE(text);
      return false;
    }
  return true;
}

TEST_CASE("a rank finds its device in the table") {
  const set_up here;
  for (const int rank : {0, 1}) {
    here.as_rank(std::to_string(rank));
    const auto found = ascend_environment::read();
    CHECK(found.rank == rank);
    CHECK(found.size == 2);
    CHECK(found.device == 4 + rank);
    CHECK(found.table_file == here.table.string());
  }
  set_up::set("DEVICE_ID", "5");
  CHECK(ascend_environment::read().device == 5);
  unsetenv("RANK_SIZE");
  CHECK(ascend_environment::read().size == 2);
}

TEST_CASE("without a table the job is one device") {
  const set_up here;
  CHECK(ascend_environment::read().size == 1);
  CHECK(ascend_environment::read().device == 0);
  set_up::set("DEVICE_ID", "3");
  set_up::set("RANK_SIZE", "1");
  set_up::set("RANK_ID", "0");
  CHECK(ascend_environment::read().device == 3);
  CHECK_FALSE(ascend_environment::read().table.has_value());
}

TEST_CASE("what contradicts itself is refused, with the variable and the remedy") {
  const set_up here;
  set_up::set("RANK_SIZE", "8");
  CHECK(says({"RANK_SIZE=8", "RANK_TABLE_FILE"}));
  set_up::set("RANK_SIZE", "1");
  set_up::set("RANK_ID", "2");
  CHECK(says({"RANK_ID=2", "no RANK_TABLE_FILE"}));
  here.as_rank("2");
  CHECK(says({"RANK_ID=2", "2 devices"}));
  here.as_rank("x");
  CHECK(says({"RANK_ID=x", "a number"}));
  here.as_rank("1");
  set_up::set("RANK_SIZE", "4");
  CHECK(says({"RANK_SIZE=4", "of 2 devices"}));
  here.as_rank("1");
  set_up::set("DEVICE_ID", "4");
  CHECK(says({"DEVICE_ID=4", "device_id 5", "rank_id 1"}));
  set_up::clear();
  set_up::set("RANK_TABLE_FILE", here.table.string());
  CHECK(says({"no RANK_ID", "0 to 1"}));
  set_up::set("RANK_TABLE_FILE", "/nowhere/table.json");
  CHECK(says({"/nowhere/table.json", "check RANK_TABLE_FILE"}));
}

TEST_CASE("HCCL's own variables are in their ranges") {
  const set_up here;
  set_up::set("HCCL_CONNECT_TIMEOUT", "60");
  CHECK(says({"HCCL_CONNECT_TIMEOUT=60", "120 to 7200"}));
  set_up::set("HCCL_CONNECT_TIMEOUT", "600");
  set_up::set("HCCL_EXEC_TIMEOUT", "0");
  CHECK(says({"HCCL_EXEC_TIMEOUT=0"}));
  set_up::set("HCCL_EXEC_TIMEOUT", "1836");
  set_up::set("HCCL_WHITELIST_DISABLE", "2");
  CHECK(says({"HCCL_WHITELIST_DISABLE=2"}));
  set_up::set("HCCL_WHITELIST_DISABLE", "0");
  CHECK(says({"HCCL_WHITELIST_FILE"}));
  for (std::string const& no_file : {here.table.parent_path().string(), std::string(5000, 'x')}) {
    set_up::set("HCCL_WHITELIST_FILE", no_file);
    CHECK(says({"HCCL_WHITELIST_FILE"}));
  }
  set_up::set("HCCL_WHITELIST_FILE", here.table.string());
  CHECK_NOTHROW(ascend_environment::read());
}

}  // namespace
