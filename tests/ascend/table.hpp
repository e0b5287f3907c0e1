#pragma once

#include <string>

namespace job {

/// The rank table of `ranks` devices of one server.
inline std::string table_of(int ranks) {
  std::string devices;
  for (int r = 0; r < ranks; ++r) {
    const std::string number = std::to_string(r);
    devices += (r > 0 ? "," : "") + std::string("{\"device_id\":\"") + number + "\",\"device_ip\":\"192.168.100.10" +
               number + "\",\"rank_id\":\"" + number + "\"}";
  }
  return "{\"version\":\"1.0\",\"server_count\":\"1\",\"server_list\":[{\"server_id\":\"10.0.0.1\",\"device\":[" +
         devices + "]}],\"status\":\"completed\"}";
}

}  // namespace job
