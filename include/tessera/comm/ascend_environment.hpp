#pragma once

#include <tessera/comm/rank_table.hpp>

#include <cstdlib>
#include <optional>
#include <system_error>

namespace tessera {

/// Which rank of a job on Ascend this process is, as launchers for MindSpore say it in the environment.
///
/// | variable | |
/// |---|---|
/// | `RANK_TABLE_FILE` | the `rank_table`; without it the job is one device |
/// | `RANK_SIZE` | number of ranks; may be left out beside a table |
/// | `RANK_ID` | this process's rank |
/// | `DEVICE_ID` | its device; may be left out beside a table |
/// | `HCCL_WHITELIST_DISABLE` | 1, the default: HCCL does not check who connects; 0 needs `HCCL_WHITELIST_FILE` |
/// | `HCCL_CONNECT_TIMEOUT` | seconds that HCCL waits for other ranks at the start, 120 to 7200 |
/// | `HCCL_EXEC_TIMEOUT` | seconds that a collective waits for other ranks |
///
/// HCCL itself reads the last three; they are checked here because it would say less.
struct ascend_environment {
  std::string table_file{};  ///< empty: one device
  std::optional<rank_table> table{};
  int size = 1;
  int rank = 0;
  int device = 0;

  /// Throws where a variable is missing, is no number in its range, or contradicts the table.
  static ascend_environment read();
};

namespace detail {

inline std::string environment_text(char const* name) {
  char const* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// The number that a variable has, or nothing where it is not set.
inline std::optional<int> environment_number(char const* name, int least, int most) {
  const std::string text = environment_text(name);
  if (text.empty()) return std::nullopt;
  const bool digits = text.size() < 8 && text.find_first_not_of("0123456789") == std::string::npos;
  const int value = digits ? std::stoi(text) : -1;
  if (value < least || value > most)
    throw error(std::string(name) + "=" + text + " in the environment",
                "a number from " + std::to_string(least) + " to " + std::to_string(most),
                std::string("set ") + name + " to one, or unset it");
  return value;
}

inline void check_hccl_environment() {
  if (environment_number("HCCL_WHITELIST_DISABLE", 0, 1) == 0) {
    const std::string file = environment_text("HCCL_WHITELIST_FILE");
    std::error_code fault;
    if (!std::filesystem::is_regular_file(file, fault))
      throw error("HCCL_WHITELIST_DISABLE=0 and HCCL_WHITELIST_FILE=" + file, "a file that lists who may connect",
                  "set HCCL_WHITELIST_FILE to it, or HCCL_WHITELIST_DISABLE to 1");
  }
  environment_number("HCCL_CONNECT_TIMEOUT", 120, 7200);
  environment_number("HCCL_EXEC_TIMEOUT", 1, 2'147'483);
}

}  // namespace detail

inline ascend_environment ascend_environment::read() {
  using detail::environment_number;
  detail::check_hccl_environment();
  ascend_environment here;
  here.table_file = detail::environment_text("RANK_TABLE_FILE");
  const auto size = environment_number("RANK_SIZE", 1, 999'999);
  const auto rank = environment_number("RANK_ID", 0, 999'999);
  const auto device = environment_number("DEVICE_ID", 0, 7);
  if (here.table_file.empty()) {
    if (size.value_or(1) != 1)
      throw error("RANK_SIZE=" + std::to_string(*size) + " and no RANK_TABLE_FILE in the environment",
                  "a rank table for a job of several ranks", "set RANK_TABLE_FILE to its path");
    if (rank.value_or(0) != 0)
      throw error("RANK_ID=" + std::to_string(*rank) + " and no RANK_TABLE_FILE in the environment", "rank 0 of one",
                  "set RANK_TABLE_FILE to the table of the job, or unset RANK_ID");
    here.device = device.value_or(0);
    return here;
  }
  here.table = rank_table::read(here.table_file);
  here.size = here.table->size();
  if (size.value_or(here.size) != here.size)
    throw error("RANK_SIZE=" + std::to_string(*size) + " and rank table " + here.table_file + " of " +
                    std::to_string(here.size) + " devices",
                "the same number", "use the table of this job, or correct RANK_SIZE");
  if (!rank)
    throw error("rank table " + here.table_file + " and no RANK_ID in the environment",
                "the rank of this process, 0 to " + std::to_string(here.size - 1),
                "let the launcher set RANK_ID for each process");
  if (*rank >= here.size)
    throw error("RANK_ID=" + std::to_string(*rank) + " and rank table " + here.table_file + " of " +
                    std::to_string(here.size) + " devices",
                "a rank below that", "use the table of this job, or correct RANK_ID");
  here.rank = *rank;
  here.device = here.table->devices()[static_cast<std::size_t>(*rank)].device;
  if (device.value_or(here.device) != here.device)
    throw error("DEVICE_ID=" + std::to_string(*device) + " and device_id " + std::to_string(here.device) +
                    " of rank_id " + std::to_string(*rank) + " in rank table " + here.table_file,
                "the same device", "correct DEVICE_ID, or start this rank where the table has it");
  return here;
}

}  // namespace tessera
