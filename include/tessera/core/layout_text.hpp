#pragma once

#include <tessera/core/error.hpp>
#include <tessera/core/layout.hpp>
#include <tessera/core/type_text.hpp>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

/// A mesh as a value whose axes have names, for text. An axis without a name has one device and cannot be written.
template <int Axes>
struct named_mesh {
  mesh_sizes<Axes> sizes;
  std::array<std::string, static_cast<std::size_t>(Axes)> names;

  std::string const& name(int axis) const { return names[static_cast<std::size_t>(axis)]; }
  /// The position of the axis of that name, or -1.
  int find(std::string_view name) const {
    const auto at = std::find(names.begin(), names.end(), name);
    return name.empty() || at == names.end() ? -1 : static_cast<int>(at - names.begin());
  }
  /// The names of a set of axes, as in `x,y`.
  std::string list(axis_set set) const {
    std::string text;
    for (int a = 0; a < Axes; ++a)
      if (set >> a & 1) text += (text.empty() ? "" : ",") + name(a);
    return text;
  }
  friend bool operator==(named_mesh const&, named_mesh const&) = default;
};

/// A layout that was read from text, and the number of its dimensions: -1 where the text names none.
struct parsed_layout {
  placements<8> value;
  int rank = -1;
  friend bool operator==(parsed_layout const&, parsed_layout const&) = default;
};

namespace detail {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
/// The end of the word that begins at `begin`: letters, digits and underscores, the first one no digit.
constexpr std::size_t word_end(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  while (end < text.size() && (is_letter(text[end]) || (end > begin && is_digit(text[end])))) ++end;
  return end;
}
/// The end of the template arguments that begin at `begin`; npos where they have none.
constexpr std::size_t arguments_end(std::string_view text, std::size_t begin) {
  int angles = 0;
  int others = 0;  // in parentheses < and > are comparisons
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    others += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (others == 0) angles += (c == '<') - (c == '>');
    if (angles == 0) return i + 1;
  }
  return std::string_view::npos;
}
/// Whether a text is the name of an axis, as `parse_mesh` reads it.
constexpr bool is_axis_name(std::string_view text) {
  const std::size_t end = word_end(text, 0);
  if (end == 0) return false;
  return end == text.size() || (text[end] == '<' && arguments_end(text, end) == text.size());
}

/// Reads a text word by word; faults name the place. Blanks between words do not matter.
class text_reader {
 public:
  text_reader(std::string_view text, std::string kind) : text_(text), kind_(std::move(kind)) { skip_blanks(); }

  bool at_end() const { return at_ == text_.size(); }
  bool at(char c) const { return !at_end() && text_[at_] == c; }
  bool take(char c) { return at(c) && (go_to(at_ + 1), true); }
  /// Letters, digits and underscores that do not begin with a digit; empty where there are none.
  std::string_view take_word() { return take_until(word_end(text_, at_)); }
  /// A word with the arguments of a template behind it, as in `ranks<2>`; empty where there is no word.
  std::string_view take_name() {
    const std::size_t arguments = word_end(text_, at_);
    if (arguments == at_ || arguments == text_.size() || text_[arguments] != '<') return take_until(arguments);
    const std::size_t end = arguments_end(text_, arguments);
    if (end == std::string_view::npos)
      fail_at(arguments, "a > for this <", "write the whole name of the axis tag, as in ranks<2>");
    return take_until(end);
  }
  /// A whole number from 1 to `most`.
  template <class T>
  T take_number(T most, std::string const& wanted, std::string const& remedy) {
    T number{};
    const auto [end, fault] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (fault != std::errc{} || number < 1 || number > most) fail(wanted, remedy);
    go_to(static_cast<std::size_t>(end - text_.data()));
    return number;
  }

  std::size_t position() const { return at_; }
  [[noreturn]] void fail(std::string const& wanted, std::string const& remedy) const { fail_at(at_, wanted, remedy); }
  [[noreturn]] void fail_at(std::size_t where, std::string const& wanted, std::string const& remedy) const {
    // A whole word or number, or one character, which may take several bytes.
    std::size_t end = where;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    if (end == where) ++end;
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0) == 0x80) ++end;
    const std::string whole = "the " + kind_ + " \"" + std::string(text_) + "\"";
    throw error(where >= text_.size() ? "the end of " + whole
                                      : "'" + std::string(text_.substr(where, end - where)) + "' at character " +
                                            std::to_string(where + 1) + " of " + whole,
                wanted, remedy);
  }

 private:
  std::string_view take_until(std::size_t end) {
    const std::string_view taken = text_.substr(at_, end - at_);
    go_to(end);
    return taken;
  }
  void skip_blanks() { go_to(at_); }
  void go_to(std::size_t where) {
    at_ = where;
    while (at(' ') || at('\t')) ++at_;
  }

  std::string_view text_;
  std::string kind_;
  std::size_t at_ = 0;
};

}  // namespace detail

/// The name of an axis tag, without the namespaces, classes and functions that it lies in.
template <mesh_axis Axis>
constexpr std::string_view axis_name() {
  constexpr std::string_view text = detail::type_text<Axis>();
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<' || text[i] == '(') ++depth;
    if (text[i] == '>' || text[i] == ')') --depth;
    if (depth == 0 && text[i] == ':') begin = i + 1;
  }
  return text.substr(begin);
}

namespace detail {
template <class... Axes>
constexpr bool names_differ(mesh<Axes...>) {
  const std::array<std::string_view, sizeof...(Axes)> names{axis_name<Axes>()...};
  for (std::size_t a = 0; a < names.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (names[a] == names[b]) return false;
  return true;
}
template <class... Axes>
constexpr bool have_names(mesh<Axes...>) {
  return (is_axis_name(axis_name<Axes>()) && ...);
}
}  // namespace detail

/// The mesh of a program as a value, its axes named as their tags. Tags whose names are alike, or none that
/// `parse_mesh` reads, do not compile.
template <device_mesh Mesh>
named_mesh<Mesh::axes> named() {
  static_assert(detail::have_names(Mesh{}),
                "tessera: an axis of this mesh has no name of letters, digits and underscores that text could call it "
                "by; give its tag one, as in struct dp : tessera::axis<2> {}");
  static_assert(detail::names_differ(Mesh{}),
                "tessera: two axes of this mesh have the same name but for their namespaces, so text cannot tell them "
                "apart; rename one of the tags");
  return []<class... Axes>(mesh<Axes...>) {
    return named_mesh<Mesh::axes>{Mesh::value, {std::string(axis_name<Axes>())...}};
  }(Mesh{});
}

/// The mesh as text that `parse_mesh` reads: `x=2,y=4`.
template <int Axes>
std::string to_string(named_mesh<Axes> const& mesh) {
  std::string text;
  for (int a = 0; a < Axes; ++a)
    if (!mesh.name(a).empty()) text += (text.empty() ? "" : ",") + mesh.name(a) + "=" + std::to_string(mesh.sizes[a]);
  return text;
}

/// The layout of a tensor of `rank` dimensions as text that `parse_layout` reads. With rank -1 only what is partial is
/// written.
///
/// Each dimension in brackets names the axis that cuts it, or `-`; several axes, first to last, as `(x*y)`. Then come
/// the axes that the value is partial along: `[(x*y),-] partial(z)`, or `partial(z,max)` for a maximum.
template <int Axes>
std::string to_string(named_mesh<Axes> const& mesh, placements<Axes> const& layout, int rank) {
  std::string text;
  if (rank >= 0) {
    text = "[";
    for (int d = 0; d < rank; ++d) {
      std::string cuts;
      for (int order = 0; layout.axis_cutting(d, order) >= 0; ++order)
        cuts += (order > 0 ? "*" : "") + mesh.name(layout.axis_cutting(d, order));
      text += (d > 0 ? "," : "") + (layout.cuts(d) == 0 ? "-" : layout.cuts(d) == 1 ? cuts : "(" + cuts + ")");
    }
    text += "]";
  }
  for (int a = 0; a < Axes; ++a)
    if (layout[a].is_partial())
      text += (text.empty() ? "partial(" : " partial(") + mesh.name(a) +
              (layout[a].op == reduction::maximum ? ",max)" : ")");
  return text;
}

/// Reads a mesh: `x=2,y=4` has 2 devices along x and 4 along y. The empty text is a mesh of one device. The name of an
/// axis may have arguments, as the name of a template's tag has: `ranks<2>=2`.
///
/// Axes that the text does not name have one device and no name. Throws `error` where the text is no mesh.
inline named_mesh<8> parse_mesh(std::string_view text) {
  named_mesh<8> mesh;
  std::fill(std::begin(mesh.sizes.along), std::end(mesh.sizes.along), 1);
  detail::text_reader read(text, "mesh");
  int most = std::numeric_limits<int>::max();
  for (int axis = 0; axis == 0 ? !read.at_end() : read.take(','); ++axis) {
    if (axis == 8) read.fail("at most 8 axes", "merge some of them");
    const std::size_t place = read.position();
    const std::string name(read.take_name());
    if (name.empty()) read.fail("the name of an axis", "write each axis as NAME=SIZE, as in x=2,y=4");
    if (mesh.find(name) >= 0) read.fail_at(place, "each axis once", "give each axis a name of its own");
    if (!read.take('=')) read.fail("= and a size", "write each axis as NAME=SIZE, as in x=2,y=4");
    const int size = read.take_number(most, "a size from 1 to " + std::to_string(most),
                                      "say how many devices lie along the axis; all axes together have at most " +
                                          std::to_string(std::numeric_limits<int>::max()));
    mesh.sizes.along[axis] = size;
    mesh.names[static_cast<std::size_t>(axis)] = name;
    most /= size;
  }
  if (!read.at_end()) read.fail("a comma or the end", "write axes apart with commas, as in x=2,y=4");
  return mesh;
}

/// Reads a layout on a mesh, in the notation of `to_string`: `[x,-]`, `[(x*y),-] partial(z)`, `[]` for a scalar, or
/// only `partial(x)`, whose rank is unknown.
///
/// Throws `error` where the text is no layout on the mesh.
inline parsed_layout parse_layout(named_mesh<8> const& mesh, std::string_view text) {
  parsed_layout layout;
  detail::text_reader read(text, "layout");
  axis_set named = 0;
  const auto take_axis = [&](std::string const& wanted) {
    const std::size_t place = read.position();
    const std::string_view name = read.take_name();
    if (name.empty()) read.fail(wanted, "write a dimension as -, as x, or as (x*y), and the rest as partial(x)");
    const int axis = mesh.find(name);
    if (axis < 0) read.fail_at(place, "an axis of the mesh " + to_string(mesh), "name one of its axes");
    if (named >> axis & 1)
      read.fail_at(place, "each axis once", "let an axis cut one dimension, or make the value partial along it");
    named = static_cast<axis_set>(named | 1u << axis);
    return axis;
  };
  const auto take_dimension = [&](int d) {
    if (d == max_rank) read.fail("at most 6 dimensions", "merge some of them");
    if (read.take('-')) return;
    if (!read.take('(')) {
      layout.value[take_axis("an axis, - or (")] = shard_placement(d);
      return;
    }
    for (int order = 0; order == 0 || read.take('*'); ++order)
      layout.value[take_axis("an axis")] = shard_placement(d, order);
    if (!read.take(')')) read.fail("* or )", "write several axes of one dimension as (x*y)");
  };

  if (read.take('[')) {
    layout.rank = 0;
    while (layout.rank == 0 ? !read.at(']') : read.take(',')) take_dimension(layout.rank++);
    if (!read.take(']'))
      read.fail("a comma or ]", "close the dimensions with ], as in [x,-]; put (x*y) in parentheses");
  }
  if (layout.rank < 0 && read.at_end()) read.fail("a layout", "write one as in [x,-], [] or partial(x)");
  while (!read.at_end()) {
    const std::size_t place = read.position();
    if (read.take_word() != "partial" || !read.take('('))
      read.fail_at(place, layout.rank < 0 ? "[ or partial(" : "partial( or the end",
                   "write a layout as in [x,-], then partial(y) for each axis that the value is partial along");
    const int axis = take_axis("an axis");
    layout.value[axis] = partial_placement();
    if (read.take(',')) {
      const std::size_t where = read.position();
      const std::string_view op = read.take_word();
      if (op != "sum" && op != "max")
        read.fail_at(where, "sum or max", "write partial(x), or partial(x,max); several axes as partial(x) partial(y)");
      layout.value[axis].op = op == "max" ? reduction::maximum : reduction::sum;
    }
    if (!read.take(')')) read.fail(")", "write partial(x), or partial(x,max)");
  }
  return layout;
}

/// Reads extents: `1024x1024`; the empty text and `scalar` have no dimensions.
///
/// Throws `error` where the text is no shape of at most 6 dimensions, each of one element or more.
inline std::vector<index_t> parse_shape(std::string_view text) {
  std::vector<index_t> extents;
  if (text == "scalar") return extents;
  detail::text_reader read(text, "shape");
  index_t most = std::numeric_limits<index_t>::max();
  while (extents.empty() ? !read.at_end() : read.take('x')) {
    if (extents.size() == max_rank) read.fail("at most 6 dimensions", "merge some of them");
    extents.push_back(read.take_number(most, "an extent from 1 to " + std::to_string(most),
                                       "write a shape as in 1024x1024, or scalar"));
    most /= extents.back();
  }
  if (!read.at_end()) read.fail("x or the end", "write a shape as in 1024x1024, or scalar");
  return extents;
}

}  // namespace tessera
