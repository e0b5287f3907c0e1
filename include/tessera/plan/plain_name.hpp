#pragma once

#include <tessera/core/layout_text.hpp>
#include <tessera/core/type_text.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::detail {

/// Calls `f` with each part of a text between separators that stand outside of brackets.
template <class F>
void each_part(std::string_view text, std::string_view separator, F f) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (depth != 0 || !text.substr(i).starts_with(separator)) continue;
    f(text.substr(begin, i - begin));
    begin = i + separator.size();
    i = begin - 1;
  }
  f(text.substr(begin));
}

/// What a compiler calls a type, brought to what all call it and what a program can call it: without functions and
/// unnamed namespaces that it lies in, with `library` in place of `tessera::`, and one space after each comma.
inline std::string plain_name(std::string_view text, std::string_view library) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (!text.empty() && (is_digit(text.front()) || text.front() == '-')) {
    while (text.ends_with('u') || text.ends_with('l')) text.remove_suffix(1);  // 3ul
    return std::string(text);
  }
  std::string out;
  bool inside = false;  // of a named namespace or class
  each_part(text, "::", [&](std::string_view part) {
    const std::size_t open = part.find('<');
    const std::string_view name = part.substr(0, open);
    if (part == "(anonymous namespace)" || part == "{anonymous}") return;
    if (name.find('(') != std::string_view::npos) {
      out.clear();
      inside = false;
      return;
    }
    if (!inside && name == "tessera") {
      out = library;
      return;
    }
    if (inside) out += "::";
    inside = true;
    out += name;
    if (open == std::string_view::npos) return;
    char before = '<';
    each_part(part.substr(open + 1, part.rfind('>') - open - 1), ",", [&](std::string_view argument) {
      out += before;
      if (before == ',') out += ' ';
      before = ',';
      out += plain_name(argument, library);
    });
    out += '>';
  });
  return out;
}

/// The name of the template of which a type is made.
template <class T>
std::string template_name(std::string_view library) {
  constexpr std::string_view text = type_text<T>();
  std::size_t begin = text.size();
  int depth = 0;
  while (begin > 0) {
    const char c = text[--begin];
    if (c == '>') ++depth;
    if (c == '<' && --depth == 0) break;
  }
  return plain_name(text.substr(0, begin), library);
}

}  // namespace tessera::detail
