#pragma once

#include <cstddef>
#include <string_view>

namespace tessera::detail {

template <class T>
constexpr std::string_view function_text() {
  return __PRETTY_FUNCTION__;
}
/// What the compiler calls a type, between what surrounds it in the name of a function.
template <class T>
constexpr std::string_view type_text() {
  constexpr std::string_view example = function_text<void>();
  constexpr std::size_t before = example.find("void");
  constexpr std::size_t after = example.size() - before - std::string_view("void").size();
  constexpr std::string_view text = function_text<T>();
  return text.substr(before, text.size() - before - after);
}

/// The same without the namespaces and classes that the type lies in.
template <class T>
constexpr std::string_view short_type_text() {
  constexpr std::string_view text = type_text<T>();
  const std::size_t colons = text.substr(0, text.find('<')).rfind("::");
  return colons == std::string_view::npos ? text : text.substr(colons + 2);
}

}  // namespace tessera::detail
