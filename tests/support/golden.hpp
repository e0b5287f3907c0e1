#pragma once

#include <tessera/core/shape.hpp>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

/// Reference cases: folders of arrays described by a `manifest.json`, each case an operator with inputs, outputs and
/// gradients. This part knows the format and the tolerances; golden_worlds.hpp runs cases on meshes.
namespace golden {

using tessera::index_t;

/// One array of a case: values in C order, labels too.
struct array {
  std::string role;
  std::string of;  ///< what it belongs to: the output of a gradient, the parameter of a value
  std::vector<index_t> extents;
  std::vector<double> values;
  std::vector<double> atol;  ///< one for all elements, or one for each
};

/// What a case says of its operator. Booleans are the numbers 0 and 1; what is null is absent.
struct attributes {
  std::map<std::string, std::vector<double>> numbers;
  std::map<std::string, std::string> texts;

  bool has(std::string const& name) const { return numbers.count(name) + texts.count(name) > 0; }
  /// Throws where the case does not have it.
  double number(std::string const& name) const;
  double number(std::string const& name, double otherwise) const;
  bool is(std::string const& name) const { return number(name, 0) != 0; }
  std::vector<double> const& list(std::string const& name) const;
  std::string text(std::string const& name, std::string const& otherwise = {}) const;
};

/// One case of a manifest.
struct test_case {
  std::string name;
  std::string op;
  attributes given;
  attributes expected;
  std::map<std::string, array> arrays;
  double rtol = 0;
  double stats_rtol = 0;      ///< of sums over arrays that are not stored
  std::string expected_file;  ///< in the folder of the cases, where there is one
  bool must_fail = false;

  bool has(std::string const& name) const { return arrays.count(name) > 0; }
  array const& operator[](std::string const& name) const;
};

/// A folder of cases.
struct folder {
  std::string path;
  std::vector<test_case> cases;
};

/// The cases in the repository, then those of the folder that TESSERA_GOLDENS names, or else of `goldens` in the folder
/// that TESSERA_SHARED names, where that exists. Read once.
std::vector<folder> const& folders();

/// Where found values differ from a reference by more than `atol + rtol * |reference|`, in words; empty where nowhere.
std::string difference(array const& reference, double rtol, std::vector<index_t> const& extents,
                       std::vector<double> const& values);

/// How a case is run, for messages.
struct run_description {
  char const* type;
  int devices;
  char const* cuts;
};
std::string to_string(run_description const& how);

/// One run of a case: compares arrays as they are computed, and sees to it that none is forgotten.
class trial {
 public:
  trial(test_case const& what, run_description how) : case_(&what), how_(how) {}

  test_case const& what() const { return *case_; }
  bool has(std::string const& name) const { return case_->has(name); }
  array const& operator[](std::string const& name) const { return (*case_)[name]; }
  /// Compares an output or gradient; a failure is one failed CHECK.
  void expect(std::string const& name, std::vector<index_t> const& extents, std::vector<double> const& values);
  /// Says that the operator does not take this cut of this case, so there is nothing to compare.
  void reject() { rejected_ = true; }
  /// Checks that every output and gradient of the case was compared.
  void finish() const;

 private:
  test_case const* case_;
  run_description how_;
  std::set<std::string> compared_;
  bool rejected_ = false;
};

/// Runs a case once; checks that it throws `tessera::error` where it must, and else that everything is compared.
void attempt(test_case const& what, run_description how, std::function<void(trial&)> const& go);

/// Notes that an operator has a test, so that the report of what is not built yet leaves it out.
struct built {
  explicit built(std::string const& op);
};
std::set<std::string> const& built_operators();

/// Prints a line on rank 0.
void say(std::string const& line);

}  // namespace golden
