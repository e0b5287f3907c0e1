#pragma once

#include <stdexcept>
#include <string>

namespace tessera {

/// A run-time error that a user can act on: what was found, what was wanted, what to do.
///
/// `session` prints the text once and ends every rank of the program with a non-zero exit code.
class error : public std::runtime_error {
 public:
  /// The text becomes `tessera: FOUND; wanted WANTED; REMEDY`.
  error(std::string const& found, std::string const& wanted, std::string const& remedy)
      : std::runtime_error("tessera: " + found + "; wanted " + wanted + "; " + remedy) {}
};

}  // namespace tessera
