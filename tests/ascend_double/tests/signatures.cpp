#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>

#include "aclnn/acl_meta.h"
#include "hccl/hccl.h"

// The headers of the double against signatures.json, word by word.

static_assert(std::is_same_v<aclrtStream, void*> && std::is_same_v<aclrtEvent, void*> &&
              std::is_same_v<aclrtContext, void*> && std::is_same_v<HcclComm, void*>);
static_assert(std::is_same_v<aclError, int> && std::is_same_v<aclnnStatus, int32_t> &&
              std::is_same_v<aclFloat16, uint16_t>);
static_assert(sizeof(HcclRootInfo) == 4108);
static_assert(offsetof(HcclCommConfig, hcclBufferSize) == 24 && offsetof(HcclCommConfig, hcclCommName) == 32 &&
              offsetof(HcclCommConfig, hcclOpExpansionMode) == 288 && sizeof(HcclCommConfig) == 300);
static_assert(offsetof(HcclSendRecvItem, buf) == 8 && offsetof(HcclSendRecvItem, count) == 16 &&
              offsetof(HcclSendRecvItem, dataType) == 24 && offsetof(HcclSendRecvItem, remoteRank) == 28);

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string const folder = ASCEND_DOUBLE_FOLDER;

json wanted() {
  std::ifstream file(folder + "/signatures.json");
  return json::parse(file);
}

// Words apart by one space, punctuation alone.
std::string words(std::string const& text) {
  static std::regex const word(R"(\w+|[^\w\s])");
  std::string result;
  for (std::sregex_iterator i(text.begin(), text.end(), word), end; i != end; ++i) {
    if (!result.empty()) result += ' ';
    result += i->str();
  }
  return result;
}

struct declarations {
  std::map<std::string, std::string> functions;  // name -> "header: words of the declaration"
  std::map<std::string, std::string> enums;      // name -> "header: NAME = value ..."
  std::map<std::string, std::string> constants;  // name -> "header: value"
};

declarations found() {
  declarations all;
  std::regex const function(R"(([\w ]+?[\w*])\s+(\w+)\(([^()]*)\);)");
  std::regex const enumeration(R"(typedef enum \{([^}]*)\} (\w+);)");
  std::regex const constant(R"((?:#define|static const int) (\w+) (?:= )?(\w+);?\n)");
  for (auto const& entry : fs::recursive_directory_iterator(folder + "/include")) {
    if (!entry.is_regular_file()) continue;
    auto header = fs::relative(entry.path(), folder + "/include").string();
    std::ifstream file(entry.path());
    std::ostringstream stream;
    stream << file.rdbuf();
    auto text = stream.str();
    auto each = [&](std::regex const& pattern, auto use) {
      for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i) use(*i);
    };
    each(function, [&](std::smatch const& m) { all.functions[m[2]] = header + ": " + words(m.str()); });
    each(enumeration, [&](std::smatch const& m) { all.enums[m[2]] = header + ": " + words(m[1]); });
    each(constant, [&](std::smatch const& m) { all.constants[m[1]] = header + ": " + m[2].str(); });
  }
  return all;
}

}  // namespace

TEST_CASE("the functions of the headers are those of signatures.json") {
  std::map<std::string, std::string> expected;
  auto listed = wanted()["functions"];
  for (auto const& f : listed) {
    std::string parameters;
    for (auto const& p : f["params"]) {
      if (!parameters.empty()) parameters += ", ";
      parameters += p.get<std::string>();
    }
    expected[f["name"]] =
        f["header"].get<std::string>() + ": " +
        words(f["return"].get<std::string>() + " " + f["name"].get<std::string>() + "(" + parameters + ");");
  }
  CHECK(expected.size() > 300);
  auto declared = found().functions;
  for (auto const& each : expected) {
    INFO(each.first);
    CHECK(declared[each.first] == each.second);
  }
  CHECK(declared.size() == expected.size());
}

TEST_CASE("the enumerations of the headers are those of signatures.json") {
  auto declared = found().enums;
  auto expected = wanted()["enums"];
  for (auto const& each : expected.items()) {
    auto const& name = each.key();
    auto const& e = each.value();
    std::map<std::int64_t, std::string> by_value;
    for (auto const& [key, value] : e["values"].items()) by_value[value.get<std::int64_t>()] = key;
    std::string text;
    for (auto const& [value, key] : by_value) {
      if (!text.empty()) text += ", ";
      text += key;
      text += " = " + std::to_string(value);
    }
    INFO(name);
    CHECK(declared[name] == e["header"].get<std::string>() + ": " + words(text));
  }
  CHECK(declared.size() == expected.size());
}

TEST_CASE("the constants of the headers are those of signatures.json") {
  auto declared = found().constants;
  auto expected = wanted()["constants"];
  for (auto const& each : expected.items()) {
    auto const& name = each.key();
    auto const& c = each.value();
    INFO(name);
    CHECK(declared[name] == c["header"].get<std::string>() + ": " + c["value"].get<std::string>());
  }
  CHECK(declared.size() == expected.size());
}

TEST_CASE("every function is defined") {
  std::set<std::string> defined;
  auto* pipe = popen("nm --defined-only -g '" ASCEND_DOUBLE_ARCHIVE "' 2>/dev/null", "r");
  REQUIRE(pipe);
  char line[1024];
  while (std::fgets(line, sizeof line, pipe)) {
    std::string text(line);
    auto last = text.find_last_of(' ');
    if (last != std::string::npos) defined.insert(text.substr(last + 1, text.size() - last - 2));
  }
  pclose(pipe);
  auto listed = wanted()["functions"];
  for (auto const& f : listed) {
    auto name = f["name"].get<std::string>();
    CHECK_MESSAGE(defined.contains(name), name);
  }
}
