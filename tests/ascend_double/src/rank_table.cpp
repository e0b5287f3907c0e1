#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "hccl.hpp"

namespace ascend_double {

namespace {

using nlohmann::json;

std::string text(json const& from, char const* key) {
  auto found = from.find(key);
  if (found == from.end() || !found->is_string()) throw std::runtime_error(std::string(key) + " is no string");
  return *found;
}

std::int32_t number(json const& from, char const* key) {
  auto digits = text(from, key);
  std::size_t used = 0;
  int value = -1;
  try {
    value = std::stoi(digits, &used);
  } catch (std::logic_error const&) {
  }
  if (used != digits.size() || value < 0) throw std::runtime_error(std::string(key) + " is no number: " + digits);
  return value;
}

json const& list(json const& from, char const* key) {
  auto found = from.find(key);
  if (found == from.end() || !found->is_array() || found->empty())
    throw std::runtime_error(std::string(key) + " is no list");
  return *found;
}

void require_address(json const& device) {
  if (configuration().chip == chip::ascend_910 && text(device, "device_ip").empty())
    throw std::runtime_error("device_ip is empty");
}

}  // namespace

std::vector<table_entry> read_rank_table(std::string const& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot be read");
  auto table = json::parse(file, nullptr, false);
  if (table.is_discarded()) throw std::runtime_error("is no JSON");
  if (text(table, "status") != "completed") throw std::runtime_error("status is not completed");
  std::vector<table_entry> ranks;
  if (table.contains("group_list")) {
    if (number(table, "group_count") != 1) throw std::runtime_error("group_count is not 1");
    for (auto const& instance : list(list(table, "group_list").front(), "instance_list"))
      for (auto const& device : list(instance, "devices")) {
        require_address(device);
        ranks.push_back({text(instance, "server_id"), number(device, "device_id")});
      }
    return ranks;
  }
  if (text(table, "version") != "1.0") throw std::runtime_error("version is not 1.0");
  auto const& servers = list(table, "server_list");
  if (servers.size() != static_cast<std::size_t>(number(table, "server_count")))
    throw std::runtime_error("server_count is not the length of server_list");
  for (auto const& server : servers) {
    auto name = text(server, "server_id");
    if (name.empty() || name.size() > 64) throw std::runtime_error("server_id has no or more than 64 characters");
    for (auto const& device : list(server, "device")) {
      require_address(device);
      // Ranks count up through the file, so that those of a server are neighbours.
      if (static_cast<std::size_t>(number(device, "rank_id")) != ranks.size())
        throw std::runtime_error("rank_id is not " + std::to_string(ranks.size()) + " but " + text(device, "rank_id"));
      ranks.push_back({name, number(device, "device_id")});
    }
  }
  return ranks;
}

}  // namespace ascend_double
