#pragma once

#include <tessera/core/error.hpp>
#include <tessera/data/json_text.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace tessera {

/// A device of a job, as a rank table names it.
struct table_device {
  int rank = 0;      ///< in the whole job
  int device = 0;    ///< physical index in its server, 0 to 7
  int server = 0;    ///< place of its server in the table
  std::string ip{};  ///< of the device's own network; empty where the table leaves it out
};

/// Which devices a job on Ascend runs on, and their ranks: the file that `RANK_TABLE_FILE` names.
///
/// Reads version 1.0 (`server_list`) and the older form (`group_list`), with or without ranks; without them devices
/// have the ranks of their order. The file format is that of HCCL's documentation, all values strings. A table is
/// refused where HCCL would refuse it, or hang: each error names the file, the field and the remedy.
class rank_table {
 public:
  /// Throws where the file can't be read, is no rank table, or describes no job that HCCL can run.
  static rank_table read(std::filesystem::path const& path) {
    std::error_code fault;
    std::ifstream file(path, std::ios::binary);
    if (!std::filesystem::is_regular_file(path, fault) || !file)
      throw error("no rank table at " + path.string(), "a file that can be read", "check RANK_TABLE_FILE");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return parse(text, path.string());
  }
  /// The same of a text; `name` is what errors call it.
  static rank_table parse(std::string_view text, std::string const& name);

  int size() const { return static_cast<int>(devices_.size()); }
  std::vector<std::string> const& servers() const { return servers_; }
  /// Devices by rank.
  std::vector<table_device> const& devices() const { return devices_; }

 private:
  std::vector<std::string> servers_{};
  std::vector<table_device> devices_{};
};

namespace detail {

/// Reads one rank table: knows its name for errors and where it is in the text.
class rank_table_reader {
 public:
  rank_table_reader(std::string const& name, std::vector<std::string>& servers, std::vector<table_device>& devices)
      : name_(name), servers_(servers), devices_(devices) {}

  void read(std::string_view text) {
    try {
      json_ = parse_json(text);
    } catch (json_fault const& fault) {
      refuse("is no JSON that can be read: " + std::string(fault.what()), "a rank table", "generate it again");
    }
    const std::string status = member(json_, "status", "");
    if (status != "completed")
      refuse("has the status \"" + status + "\"", "\"completed\"",
             "wait until the scheduler has filled it in, or generate it again");
    if (json_.contains("server_list"))
      read_servers();
    else if (json_.contains("group_list"))
      read_groups();
    else
      refuse("has neither server_list nor group_list", "one of them",
             "generate it with HCCL's table tool, version 1.0 has server_list");
    check_ranks();
    check_servers();
  }

 private:
  using json = nlohmann::json;

  [[noreturn]] void refuse(std::string const& found, std::string const& wanted, std::string const& remedy) const {
    throw error("rank table " + name_ + " " + found, wanted, remedy);
  }

  std::string member(json const& object, char const* field, std::string const& where) const {
    const std::string path = where.empty() ? field : where + '.' + field;
    if (!object.is_object()) refuse("has at " + where + " " + short_text(object), "an object", "correct it");
    const auto found = object.find(field);
    if (found == object.end()) refuse("lacks " + path, "that field, a string", "add it, or generate the table again");
    if (!found->is_string())
      refuse("has " + path + " = " + short_text(*found), "a string", "put the value in quotes, as in \"0\"");
    return found->get<std::string>();
  }
  int number(json const& object, char const* field, std::string const& where, int least, int most) const {
    const std::string text = member(object, field, where);
    const bool digits = !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos;
    const int value = digits ? std::stoi(text) : -1;
    if (value < least || value > most)
      refuse("has " + (where.empty() ? "" : where + '.') + field + " = \"" + text + '"',
             "a number from " + std::to_string(least) + " to " + std::to_string(most), "correct it");
    return value;
  }
  json const& list(json const& object, char const* field, std::string const& where) const {
    const std::string path = where.empty() ? field : where + '.' + field;
    if (!object.is_object() || !object.contains(field)) refuse("lacks " + path, "that list", "generate it again");
    if (!object[field].is_array() || object[field].empty())
      refuse("has " + path + " = " + short_text(object[field]), "a list that is not empty", "generate it again");
    return object[field];
  }
  static std::string at(std::string const& list, std::size_t i) { return list + '[' + std::to_string(i) + ']'; }
  void check_count(json const& object, char const* field, std::string const& where, std::size_t is) const {
    if (!object.contains(field)) return;
    const int says = number(object, field, where, 0, most_ranks);
    if (static_cast<std::size_t>(says) != is)
      refuse("says " + (where.empty() ? "" : where + '.') + field + " = " + std::to_string(says) + " and lists " +
                 std::to_string(is),
             "the same number", "add what is missing, or correct the count");
  }

  int server(std::string const& id) {
    const auto found = std::find(servers_.begin(), servers_.end(), id);
    if (found != servers_.end()) return static_cast<int>(found - servers_.begin());
    servers_.push_back(id);
    return static_cast<int>(servers_.size()) - 1;
  }
  std::string server_id(json const& object, std::string const& where) const {
    const std::string id = member(object, "server_id", where);
    if (id.empty() || id.size() > 64)
      refuse("has " + where + ".server_id of " + std::to_string(id.size()) + " characters", "1 to 64", "shorten it");
    return id;
  }
  table_device device(json const& object, int server, std::string const& where) const {
    table_device d{-1, number(object, "device_id", where, 0, 7), server, {}};
    if (object.contains("device_ip")) d.ip = member(object, "device_ip", where);
    unsigned char address[sizeof(in6_addr)];
    if (!d.ip.empty() && inet_pton(AF_INET, d.ip.c_str(), address) != 1 &&
        inet_pton(AF_INET6, d.ip.c_str(), address) != 1)
      refuse("has " + where + ".device_ip = \"" + d.ip + '"', "an address of the device's network",
             "take it from address_" + std::to_string(d.device) + " in /etc/hccn.conf of that server");
    return d;
  }

  void read_servers() {
    const std::string version = member(json_, "version", "");
    if (version != "1.0") refuse("has the version \"" + version + '"', "\"1.0\"", "generate it in that version");
    json const& all = list(json_, "server_list", "");
    check_count(json_, "server_count", "", all.size());
    for (std::size_t s = 0; s < all.size(); ++s) {
      const std::string where = at("server_list", s);
      const std::string id = server_id(all[s], where);
      if (std::find(servers_.begin(), servers_.end(), id) != servers_.end())
        refuse("has server_id \"" + id + "\" twice", "each server once", "put all its devices into one entry");
      const int place = server(id);
      json const& devices = list(all[s], "device", where);
      for (std::size_t i = 0; i < devices.size(); ++i) {
        const std::string here = at(where + ".device", i);
        devices_.push_back(device(devices[i], place, here));
        devices_.back().rank = number(devices[i], "rank_id", here, 0, most_ranks);
      }
    }
  }

  void read_groups() {
    json const& groups = list(json_, "group_list", "");
    check_count(json_, "group_count", "", groups.size());
    if (groups.size() != 1)
      refuse("has " + std::to_string(groups.size()) + " groups in group_list", "one", "start a job for each group");
    const std::string group = at("group_list", 0);
    json const& instances = list(groups[0], "instance_list", group);
    check_count(groups[0], "instance_count", group, instances.size());
    std::size_t with_rank = 0;
    for (std::size_t i = 0; i < instances.size(); ++i) {
      const std::string where = at(group + ".instance_list", i);
      const int place = server(server_id(instances[i], where));
      json const& devices = list(instances[i], "devices", where);
      const bool ranked = instances[i].contains("rank_id");
      if (ranked && devices.size() != 1)
        refuse("has " + where + ".rank_id for " + std::to_string(devices.size()) + " devices", "one device",
               "make each device an instance, or leave rank_id out");
      with_rank += ranked ? 1 : 0;
      for (std::size_t k = 0; k < devices.size(); ++k) {
        devices_.push_back(device(devices[k], place, at(where + ".devices", k)));
        devices_.back().rank =
            ranked ? number(instances[i], "rank_id", where, 0, most_ranks) : static_cast<int>(devices_.size()) - 1;
      }
    }
    check_count(groups[0], "device_count", group, devices_.size());
    check_count(groups[0], "device_num", group, devices_.size());
    check_count(groups[0], "server_num", group, servers_.size());
    if (with_rank != 0 && with_rank != instances.size())
      refuse("has rank_id in " + std::to_string(with_rank) + " of " + std::to_string(instances.size()) + " instances",
             "it in all or in none", "generate it again");
  }

  void check_ranks() {
    std::sort(devices_.begin(), devices_.end(), [](auto const& a, auto const& b) { return a.rank < b.rank; });
    for (std::size_t r = 0; r < devices_.size(); ++r)
      if (devices_[r].rank != static_cast<int>(r))
        refuse("has " + (r > 0 && devices_[r].rank == devices_[r - 1].rank
                             ? "rank_id " + std::to_string(devices_[r].rank) + " twice"
                             : "no rank_id " + std::to_string(r)),
               "each rank from 0 to " + std::to_string(devices_.size() - 1) + " once", "number the devices again");
    std::set<int> passed;
    for (std::size_t r = 1; r < devices_.size(); ++r) {
      if (devices_[r].server == devices_[r - 1].server) continue;
      passed.insert(devices_[r - 1].server);
      if (passed.contains(devices_[r].server))
        refuse("goes back to server " + servers_[static_cast<std::size_t>(devices_[r].server)] + " at rank_id " +
                   std::to_string(r),
               "all ranks of a server one after the other", "number the devices server by server");
    }
  }

  void check_servers() const {
    std::size_t each = 0;
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      std::set<int> ids;
      std::size_t count = 0;
      for (auto const& d : devices_) {
        if (d.server != static_cast<int>(s)) continue;
        ++count;
        if (!ids.insert(d.device).second)
          refuse("has device_id " + std::to_string(d.device) + " twice in server " + servers_[s], "each device once",
                 "correct one of them");
        if (d.ip.empty() && servers_.size() > 1)
          refuse("lacks device_ip of device " + std::to_string(d.device) + " of server " + servers_[s],
                 "one for each device where there are several servers",
                 "take it from address_" + std::to_string(d.device) + " in /etc/hccn.conf of that server");
      }
      if (count != 1 && count != 2 && count != 4 && count != 8)
        refuse("has " + std::to_string(count) + " devices of server " + servers_[s], "1, 2, 4 or 8",
               "leave devices out");
      const bool halves = *ids.begin() / 4 != *ids.rbegin() / 4;
      if (count != 8 && halves)
        refuse("joins devices " + std::to_string(*ids.begin()) + " and " + std::to_string(*ids.rbegin()) +
                   " of server " + servers_[s],
               "2 or 4 devices within 0 to 3 or within 4 to 7, which are joined by links of their own",
               "choose devices of one half, or all 8");
      if (each == 0) each = count;
      if (count != each)
        refuse("has " + std::to_string(each) + " devices of server " + servers_[0] + " and " + std::to_string(count) +
                   " of " + servers_[s],
               "as many of each", "take as many devices of all servers");
    }
    std::set<std::string> ips;
    for (auto const& d : devices_)
      if (!d.ip.empty() && !ips.insert(d.ip).second)
        refuse("has device_ip " + d.ip + " twice", "an address for each device", "correct one of them");
  }

  static constexpr int most_ranks = 999'999;
  std::string const& name_;
  std::vector<std::string>& servers_;
  std::vector<table_device>& devices_;
  json json_{};
};

}  // namespace detail

inline rank_table rank_table::parse(std::string_view text, std::string const& name) {
  rank_table table;
  detail::rank_table_reader(name, table.servers_, table.devices_).read(text);
  return table;
}

}  // namespace tessera
