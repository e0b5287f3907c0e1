#include "support/golden.hpp"

#include <tessera/core/error.hpp>

#include <doctest/doctest.h>
#include <mpi.h>
#include <nlohmann/json.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xnpy.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace golden {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

template <class T>
void load_values(fs::path const& file, array& a) {
  const auto loaded = xt::load_npy<T>(file.string());
  const std::vector<index_t> extents(loaded.shape().begin(), loaded.shape().end());
  if (extents != a.extents)
    throw tessera::error("other extents in " + file.string() + " than in the manifest",
                         "a folder whose manifest and arrays agree", "copy it again");
  a.values.assign(loaded.begin(), loaded.end());
}

array load_array(fs::path const& where, json const& entry) {
  array a;
  a.role = entry.at("role");
  a.of = entry.value("of", "");
  a.extents = entry.at("shape").get<std::vector<index_t>>();
  if (entry.contains("atol_per_element"))
    a.atol = entry.at("atol_per_element").get<std::vector<double>>();
  else
    a.atol = {entry.value("atol", 0.0)};
  const fs::path file = where / entry.at("file").get<std::string>();
  const std::string type = entry.at("dtype");
  if (type == "float32")
    load_values<float>(file, a);
  else if (type == "int64")
    load_values<std::int64_t>(file, a);
  else if (type == "int32")
    load_values<std::int32_t>(file, a);
  else
    throw tessera::error("elements of type " + type + " in " + file.string(), "float32, int32 or int64",
                         "teach tests/support/golden.cpp the type");
  return a;
}

attributes load_attributes(json const& entries) {
  attributes out;
  for (auto const& [name, value] : entries.items()) {
    if (value.is_string())
      out.texts[name] = value;
    else if (value.is_boolean())
      out.numbers[name] = {value.get<bool>() ? 1.0 : 0.0};
    else if (value.is_number())
      out.numbers[name] = {value.get<double>()};
    else if (value.is_array())
      out.numbers[name] = value.get<std::vector<double>>();
  }
  return out;
}

/// A member that may be absent or null.
json member(json const& entry, char const* name) {
  const auto found = entry.find(name);
  return found == entry.end() || found->is_null() ? json::object() : *found;
}

folder load_folder(fs::path const& where) {
  std::ifstream text(where / "manifest.json");
  if (!text)
    throw tessera::error("no manifest.json in " + where.string(), "a folder of reference cases",
                         "mend the environment variable TESSERA_GOLDENS");
  folder out{where.string(), {}};
  for (json const& entry : json::parse(text)) {
    test_case c;
    c.name = entry.at("case");
    c.op = entry.at("op");
    c.given = load_attributes(member(entry, "attributes"));
    c.expected = load_attributes(member(entry, "expect"));
    c.expected_file = entry.value("expected_file", "");
    c.must_fail = entry.contains("expect_error");
    c.rtol = member(entry, "tolerance").value("rtol", 0.0);
    c.stats_rtol = member(entry, "tolerance").value("stats_rtol", 0.0);
    const json arrays = member(entry, "arrays");
    for (auto const& [name, a] : arrays.items()) c.arrays[name] = load_array(where, a);
    out.cases.push_back(std::move(c));
  }
  return out;
}

std::vector<folder> load_all() {
  // tests/goldens, beside the folder of this file.
  std::vector<folder> all{load_folder(fs::path(__FILE__).parent_path().parent_path() / "goldens")};
  if (char const* const named = std::getenv("TESSERA_GOLDENS")) {
    all.push_back(load_folder(named));
    return all;
  }
  char const* const shared = std::getenv("TESSERA_SHARED");
  const fs::path common = shared != nullptr ? fs::path(shared) / "goldens" : fs::path();
  if (shared != nullptr && fs::exists(common / "manifest.json"))
    all.push_back(load_folder(common));
  else
    say("skipped: the shared reference cases, there is no " + (shared != nullptr ? common.string() : "TESSERA_SHARED"));
  return all;
}

template <class Map>
auto const& entry_of(Map const& map, std::string const& name) {
  const auto found = map.find(name);
  if (found == map.end())
    throw tessera::error("no '" + name + "' in this reference case", "a case with it",
                         "compare its entry in the manifest");
  return found->second;
}

std::set<std::string>& registry() {
  static std::set<std::string> operators;
  return operators;
}

std::string text_of(std::vector<index_t> const& extents) {
  std::string text = "[";
  for (const index_t e : extents) text += (text.size() > 1 ? ", " : "") + std::to_string(e);
  return text + "]";
}

}  // namespace

double attributes::number(std::string const& name) const { return entry_of(numbers, name).at(0); }
double attributes::number(std::string const& name, double otherwise) const {
  return numbers.count(name) > 0 ? number(name) : otherwise;
}
std::vector<double> const& attributes::list(std::string const& name) const { return entry_of(numbers, name); }
std::string attributes::text(std::string const& name, std::string const& otherwise) const {
  const auto found = texts.find(name);
  return found == texts.end() ? otherwise : found->second;
}

array const& test_case::operator[](std::string const& wanted) const { return entry_of(arrays, wanted); }

std::vector<folder> const& folders() {
  static const std::vector<folder> all = load_all();
  return all;
}

std::string difference(array const& reference, double rtol, std::vector<index_t> const& extents,
                       std::vector<double> const& values) {
  if (extents != reference.extents) return "extents " + text_of(extents) + ", not " + text_of(reference.extents);
  if (values.size() != reference.values.size()) return std::to_string(values.size()) + " values";
  std::size_t wrong = 0;
  std::string first;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double found = values[i];
    const double wanted = reference.values[i];
    if (found == wanted || (std::isnan(found) && std::isnan(wanted))) continue;
    const double allowed = reference.atol[reference.atol.size() > 1 ? i : 0] + rtol * std::abs(wanted);
    if (std::isfinite(wanted) && std::abs(found - wanted) <= allowed) continue;
    if (wrong++ > 0) continue;
    char text[160];
    std::snprintf(text, sizeof text, "element %zu is %.9g, not %.9g within %.3g", i, found, wanted, allowed);
    first = text;
  }
  return wrong == 0 ? "" : first + " (" + std::to_string(wrong) + " of " + std::to_string(values.size()) + " differ)";
}

std::string to_string(run_description const& how) {
  const std::string type = how.type;
  if (how.devices == 1) return type + ", one rank";
  return type + ", " + std::to_string(how.devices) + " ranks, axes cut '" + how.cuts + "'";
}

void trial::expect(std::string const& name, std::vector<index_t> const& extents, std::vector<double> const& values) {
  compared_.insert(name);
  const std::string apart = difference((*case_)[name], case_->rtol, extents, values);
  CHECK_MESSAGE(apart.empty(), case_->name << " (" << to_string(how_) << "): " << name << ": " << apart);
}

void trial::finish() const {
  if (rejected_) return;
  for (auto const& entry : case_->arrays) {
    std::string const& role = entry.second.role;
    if (role == "output" || role == "grad")
      CHECK_MESSAGE(compared_.count(entry.first) == 1,
                    case_->name << " (" << to_string(how_) << "): nothing was compared with " << entry.first);
  }
}

void attempt(test_case const& what, run_description how, std::function<void(trial&)> const& go) {
  trial t(what, how);
  if (what.must_fail) {
    CHECK_THROWS_AS_MESSAGE(go(t), tessera::error, what.name << " (" << to_string(how) << ")");
  } else {
    go(t);
    t.finish();
  }
}

built::built(std::string const& op) { registry().insert(op); }
std::set<std::string> const& built_operators() { return registry(); }

void say(std::string const& line) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) return;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace golden
