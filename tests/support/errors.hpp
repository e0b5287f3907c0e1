#pragma once

#include <tessera/core/error.hpp>

#include <string>

namespace errors {

/// The text of the error that `call` throws, or "no error".
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (tessera::error const& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace errors
