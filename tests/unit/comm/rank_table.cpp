#include "support/errors.hpp"

#include <tessera/comm/rank_table.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>

namespace {

using namespace tessera;
using errors::error_of;
using nlohmann::json;

json device_entry(int rank, int device) {
  return {{"device_id", std::to_string(device)},
          {"device_ip", "192.168." + std::to_string(100 + device % 4) + '.' + std::to_string(rank + 1)},
          {"rank_id", std::to_string(rank)}};
}
/// A table of version 1.0 with the same devices of each server.
json table_of(int servers, std::vector<int> const& devices) {
  json table{{"version", "1.0"}, {"server_count", std::to_string(servers)}, {"status", "completed"}};
  int rank = 0;
  for (int s = 0; s < servers; ++s) {
    json one{{"server_id", "10.0.0." + std::to_string(s + 1)}, {"host_nic_ip", "reserve"}};
    for (const int d : devices) one["device"].push_back(device_entry(rank++, d));
    table["server_list"].push_back(one);
  }
  return table;
}
/// The older form: an instance a server, or, with ranks, an instance a device.
json group_table(bool ranks) {
  json group{{"group_name", "hccl_world_group"}, {"device_count", "4"}};
  for (int s = 0; s < 2; ++s)
    for (int d = 0; d < 2; ++d) {
      json device = device_entry(2 * s + d, d);
      device.erase("rank_id");
      if (ranks || d == 0) group["instance_list"].push_back({{"server_id", "10.0.0." + std::to_string(s + 1)}});
      json& instance = group["instance_list"].back();
      instance["devices"].push_back(device);
      if (ranks) instance["rank_id"] = std::to_string(3 - (2 * s + d));
    }
  group["instance_count"] = std::to_string(group["instance_list"].size());
  return {{"status", "completed"}, {"group_count", "1"}, {"group_list", json::array({group})}};
}

rank_table parsed(json const& table) { return rank_table::parse(table.dump(), "here.json"); }
std::string refused(json const& table) {
  return error_of([&] { parsed(table); });
}
bool holds(std::string const& text, std::initializer_list<char const*> parts) {
  for (char const* part : parts)
    if (text.find(part) == std::string::npos) {
      MESSAGE(text);
      return false;
    }
  return text.find("here.json") != std::string::npos;
}

TEST_CASE("a table of version 1.0 gives devices by rank") {
  for (auto const& devices : {std::vector{3}, {0, 1}, {6, 4}, {4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}})
    for (const int servers : {1, 2, 3}) {
      const rank_table table = parsed(table_of(servers, devices));
      const int each = static_cast<int>(devices.size());
      REQUIRE(table.size() == servers * each);
      CHECK(table.servers().size() == static_cast<std::size_t>(servers));
      for (int r = 0; r < table.size(); ++r) {
        auto const& d = table.devices()[static_cast<std::size_t>(r)];
        CHECK(d.rank == r);
        CHECK(d.server == r / each);
        CHECK(d.device == devices[static_cast<std::size_t>(r % each)]);
        CHECK(d.ip.ends_with('.' + std::to_string(r + 1)));
      }
    }
}

TEST_CASE("ranks need not be in order, and one server needs no addresses") {
  json table = table_of(1, {0, 1});
  std::swap(table["server_list"][0]["device"][0], table["server_list"][0]["device"][1]);
  CHECK(parsed(table).devices()[0].device == 0);
  for (json& d : table["server_list"][0]["device"]) d.erase("device_ip");
  CHECK(parsed(table).devices()[1].ip.empty());
}

TEST_CASE("the older form gives devices by order, or by the rank of each instance") {
  const rank_table by_order = parsed(group_table(false));
  REQUIRE(by_order.size() == 4);
  CHECK(by_order.devices()[3].server == 1);
  CHECK(by_order.devices()[3].device == 1);
  const rank_table by_rank = parsed(group_table(true));
  REQUIRE(by_rank.size() == 4);
  CHECK(by_rank.devices()[3].server == 0);
  CHECK(by_rank.devices()[3].device == 0);
  CHECK(by_rank.servers()[static_cast<std::size_t>(by_rank.devices()[0].server)] == "10.0.0.2");
}

TEST_CASE("what HCCL would refuse names the field and the remedy") {
  const json good = table_of(2, {0, 1});
  const auto changed = [&](auto change) {
    json table = good;
    change(table);
    return refused(table);
  };
  const auto first = [](json& t) -> json& { return t["server_list"][0]["device"][0]; };

  CHECK(holds(changed([](json& t) { t["status"] = "initializing"; }), {"initializing", "completed", "wait"}));
  CHECK(holds(changed([](json& t) { t.erase("status"); }), {"lacks status"}));
  CHECK(holds(changed([](json& t) { t["version"] = "1.2"; }), {"1.2", "1.0"}));
  CHECK(holds(changed([](json& t) { t["server_count"] = "3"; }), {"server_count = 3", "lists 2"}));
  CHECK(holds(changed([](json& t) { t["server_count"] = 2; }), {"server_count = 2", "quotes"}));
  CHECK(holds(changed([](json& t) { t.erase("server_list"); }), {"server_list nor group_list"}));
  CHECK(holds(changed([](json& t) { t["server_list"] = json::array(); }), {"server_list", "not empty"}));
  CHECK(holds(changed([](json& t) { t["server_list"][1]["server_id"] = "10.0.0.1"; }), {"10.0.0.1", "twice"}));
  CHECK(holds(changed([](json& t) { t["server_list"][1]["server_id"] = ""; }), {"server_list[1].server_id"}));
  CHECK(holds(changed([](json& t) { t["server_list"][1].erase("device"); }), {"lacks server_list[1].device"}));
  CHECK(
      holds(changed([&](json& t) { first(t)["device_id"] = "8"; }), {"server_list[0].device[0].device_id", "0 to 7"}));
  CHECK(holds(changed([&](json& t) { first(t)["device_id"] = "-1"; }), {"device_id = \"-1\""}));
  CHECK(holds(changed([&](json& t) { first(t)["device_id"] = "1"; }), {"device_id 1 twice", "10.0.0.1"}));
  CHECK(holds(changed([&](json& t) { first(t)["rank_id"] = "1"; }), {"no rank_id 0"}));
  CHECK(holds(changed([&](json& t) { first(t)["rank_id"] = "9"; }), {"no rank_id 0", "from 0 to 3"}));
  CHECK(holds(changed([&](json& t) {
                first(t)["rank_id"] = "1";
                t["server_list"][0]["device"][1]["rank_id"] = "0";
                t["server_list"][1]["device"][0]["rank_id"] = "0";
              }),
              {"rank_id 0 twice"}));
  CHECK(holds(changed([&](json& t) { first(t).erase("rank_id"); }), {"lacks server_list[0].device[0].rank_id"}));
  CHECK(holds(changed([&](json& t) { first(t).erase("device_ip"); }), {"lacks device_ip", "hccn.conf"}));
  CHECK(holds(changed([&](json& t) { first(t)["device_ip"] = "192.168.1"; }), {"192.168.1", "address_0"}));
  CHECK(holds(changed([&](json& t) { first(t)["device_ip"] = "192.168.101.2"; }), {"192.168.101.2 twice"}));
  CHECK(holds(changed([&](json& t) {
                t["server_list"][0]["device"][1]["rank_id"] = "2";
                t["server_list"][1]["device"][0]["rank_id"] = "1";
              }),
              {"goes back", "server by server"}));
}

TEST_CASE("groups of devices are those that the links of a server join") {
  CHECK(holds(refused(table_of(1, {3, 4})), {"devices 3 and 4", "one half"}));
  CHECK(holds(refused(table_of(1, {0, 1, 2, 7})), {"devices 0 and 7"}));
  CHECK(holds(refused(table_of(1, {0, 1, 2})), {"3 devices", "1, 2, 4 or 8"}));
  json uneven = table_of(2, {0, 1});
  uneven["server_list"][1]["device"].erase(1);
  CHECK(holds(refused(uneven), {"2 devices of server 10.0.0.1 and 1 of 10.0.0.2"}));
}

TEST_CASE("the older form is checked alike") {
  json table = group_table(true);
  table["group_list"][0]["instance_list"][2].erase("rank_id");
  CHECK(holds(refused(table), {"3 of 4 instances"}));
  table = group_table(false);
  table["group_list"][0]["instance_count"] = "3";
  CHECK(holds(refused(table), {"instance_count = 3"}));
  table["group_list"][0]["instance_count"] = "2";
  table["group_list"][0]["instance_list"][0]["rank_id"] = "0";
  CHECK(holds(refused(table), {"rank_id for 2 devices"}));
  table = group_table(false);
  table["group_list"].push_back(table["group_list"][0]);
  table["group_count"] = "2";
  CHECK(holds(refused(table), {"2 groups"}));
}

TEST_CASE("what is no table is refused") {
  CHECK(holds(error_of([] { rank_table::parse("{\"status\":", "here.json"); }), {"no JSON"}));
  CHECK(holds(error_of([] { rank_table::parse("", "here.json"); }), {"no JSON"}));
  CHECK(holds(error_of([] { rank_table::parse("[1]", "here.json"); }), {"an object"}));
  CHECK(error_of([] { rank_table::read("/nowhere/here.json"); }).find("/nowhere/here.json") != std::string::npos);
  CHECK(error_of([] { rank_table::read("/"); }).find("no rank table at /") != std::string::npos);
  const std::string whole = table_of(1, {0, 1}).dump();
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    CHECK_THROWS_AS(rank_table::parse(whole.substr(0, cut), "here.json"), error);
}

}  // namespace
