#pragma once

#include <tessera/layer/dropout.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/initializer.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/plan/parallel.hpp>
#include <tessera/plan/plain_name.hpp>
#include <tessera/plan/respell.hpp>

#include <cstddef>
#include <ratio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera {

namespace detail {

/// A type as C++ text: a name, and arguments that are spelled alike.
struct spelled_type {
  std::string name{};
  std::vector<spelled_type> arguments{};
  bool list = false;  ///< of layers, which stand on lines of their own
  bool word = false;  ///< a split word

  /// The text on one line. Without its split words, the name of a layer whatever its split is.
  std::string line(bool words = true) const {
    std::string out = name;
    char before = '<';
    for (auto const& argument : arguments) {
      if (argument.word && !words) continue;
      out += before;
      if (before == ',') out += ' ';
      before = ',';
      out += argument.line(words);
    }
    return before == ',' ? out + ">" : out;
  }
  /// The text with a layer on each line, for a place that is indented so far.
  std::string lines(std::size_t indent) const {
    constexpr std::size_t widest = 100;
    if (!has_list() || (!has_long_list() && indent + line().size() <= widest)) return line();
    const std::string begin = "\n" + std::string(indent + 2, ' ');
    std::string out = name;
    char before = '<';
    for (auto const& argument : arguments) {
      out += before + begin + argument.lines(indent + 2);
      before = ',';
    }
    return out + ">";
  }

 private:
  bool has_list() const {
    for (auto const& argument : arguments)
      if (argument.has_list()) return true;
    return list;
  }
  bool has_long_list() const {
    for (auto const& argument : arguments)
      if (argument.has_long_list()) return true;
    return list && arguments.size() > 1;
  }
};

/// How a type is spelled: by the name that compilers give it, unless a specialisation below knows its arguments.
template <class T>
struct spelling_of {
  static spelled_type in(std::string_view library) { return {plain_name(type_text<T>(), library)}; }
};

template <class T>
spelled_type spell_type(std::string_view library) {
  spelled_type out = spelling_of<T>::in(library);
  out.word = split_policy<T> || std::is_same_v<T, no_split>;
  return out;
}

template <auto Value>
spelled_type spell_value(std::string_view library) {
  using type = std::remove_cv_t<decltype(Value)>;
  if constexpr (std::is_same_v<type, bool>) {
    return {Value ? "true" : "false"};
  } else if constexpr (std::is_same_v<type, fan>) {
    return {std::string(library) + (Value == fan::in ? "fan::in" : "fan::out")};
  } else if constexpr (std::is_same_v<type, reduction>) {
    return {std::string(library) + (Value == reduction::sum ? "reduction::sum" : "reduction::maximum")};
  } else if constexpr (std::is_enum_v<type>) {
    return {"static_cast<" + spell_type<type>(library).line() + ">(" +
            std::to_string(static_cast<std::underlying_type_t<type>>(Value)) + ")"};
  } else {
    return {std::to_string(Value)};
  }
}

/// A template with arguments, of which those after the first `least` are left out at the end where they are what the
/// template has without being told: `usual`.
template <class T>
spelled_type spell_template(std::string_view library, std::vector<spelled_type> arguments, std::size_t least = 1000,
                            std::vector<std::string> const& usual = {}) {
  while (arguments.size() > least && arguments.back().line() == usual[arguments.size() - least - 1])
    arguments.pop_back();
  std::string name = template_name<T>(library);
  if (arguments.empty()) name += "<>";
  return {std::move(name), std::move(arguments)};
}

// The usual forms of templates: layers, options, policies and split words, also those of others. (Numbers before no
// types are left to the compilers, who agree on them, for else templates of numbers would have two forms.)
template <template <class...> class X, class... A>
struct spelling_of<X<A...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<X<A...>>(library, {spell_type<A>(library)...});
  }
};
template <template <int...> class X, int... N>
struct spelling_of<X<N...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<X<N...>>(library, {spell_value<N>(library)...});
  }
};
template <template <index_t...> class X, index_t... N>
struct spelling_of<X<N...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<X<N...>>(library, {spell_value<N>(library)...});
  }
};
template <template <int, class...> class X, int N, class... A>
requires(sizeof...(A) > 0) struct spelling_of<X<N, A...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<X<N, A...>>(library, {spell_value<N>(library), spell_type<A>(library)...});
  }
};
template <template <int, int, class...> class X, int M, int N, class... A>
requires(sizeof...(A) > 0) struct spelling_of<X<M, N, A...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<X<M, N, A...>>(library,
                                         {spell_value<M>(library), spell_value<N>(library), spell_type<A>(library)...});
  }
};
template <template <index_t, index_t, class...> class X, index_t M, index_t N, class... A>
requires(sizeof...(A) > 0) struct spelling_of<X<M, N, A...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<X<M, N, A...>>(library,
                                         {spell_value<M>(library), spell_value<N>(library), spell_type<A>(library)...});
  }
};
template <template <class, int> class X, class A, int N>
struct spelling_of<X<A, N>> {
  static spelled_type in(std::string_view library) {
    return spell_template<X<A, N>>(library, {spell_type<A>(library), spell_value<N>(library)});
  }
};

// Templates whose parameters are constrained, or have usual values.
template <int Dim, class... Axes>
struct spelling_of<shard<Dim, Axes...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<shard<Dim, Axes...>>(library, {spell_value<Dim>(library), spell_type<Axes>(library)...});
  }
};
template <class Axis, reduction Op>
struct spelling_of<partial<Axis, Op>> {
  static spelled_type in(std::string_view library) {
    return spell_template<partial<Axis, Op>>(library, {spell_type<Axis>(library), spell_value<Op>(library)}, 1,
                                             {spell_value<reduction::sum>(library).line()});
  }
};
template <class... Axes>
struct spelling_of<whole_along<Axes...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<whole_along<Axes...>>(library, {spell_type<Axes>(library)...});
  }
};
template <int Dim, class... Axes>
struct spelling_of<cut_along<Dim, Axes...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<cut_along<Dim, Axes...>>(library, {spell_value<Dim>(library), spell_type<Axes>(library)...});
  }
};
template <int Size, int Stride, int Padding, int Dilation>
struct spelling_of<window<Size, Stride, Padding, Dilation>> {
  static spelled_type in(std::string_view library) {
    return spell_template<window<Size, Stride, Padding, Dilation>>(
        library,
        {spell_value<Size>(library), spell_value<Stride>(library), spell_value<Padding>(library),
         spell_value<Dilation>(library)},
        1, {"1", "0", "1"});
  }
};
template <int... N>
struct spelling_of<window2d<N...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<window2d<N...>>(library, {spell_value<N>(library)...}, 2, {"1", "1", "0", "0", "1", "1"});
  }
};
template <int Start, int End>
struct spelling_of<flatten<Start, End>> {
  static spelled_type in(std::string_view library) {
    return spell_template<flatten<Start, End>>(library, {spell_value<Start>(library), spell_value<End>(library)}, 0,
                                               {"1", "-1"});
  }
};
template <fan Keep>
struct spelling_of<kaiming_normal<Keep>> {
  static spelled_type in(std::string_view library) {
    return spell_template<kaiming_normal<Keep>>(library, {spell_value<Keep>(library)}, 0,
                                                {spell_value<fan::in>(library).line()});
  }
};
template <fan Keep>
struct spelling_of<kaiming_uniform<Keep>> {
  static spelled_type in(std::string_view library) {
    return spell_template<kaiming_uniform<Keep>>(library, {spell_value<Keep>(library)}, 0,
                                                 {spell_value<fan::in>(library).line()});
  }
};
template <std::intmax_t Over, std::intmax_t Under>
struct spelling_of<std::ratio<Over, Under>> {
  static spelled_type in(std::string_view library) {
    return spell_template<std::ratio<Over, Under>>(library, {spell_value<Over>(library), spell_value<Under>(library)},
                                                   1, {"1"});
  }
};
template <word_text Text, class... Axes>
struct spelling_of<split_named<Text, Axes...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<split_named<Text, Axes...>>(
        library,
        {{std::string(library) + "word_text(\"" + std::string(Text.view()) + "\")"}, spell_type<Axes>(library)...});
  }
};

template <class... Layers>
struct spelling_of<chain<Layers...>> {
  static spelled_type in(std::string_view library) {
    spelled_type out = spell_template<chain<Layers...>>(library, {spell_type<Layers>(library)...});
    out.list = true;
    return out;
  }
};
template <class Branch, class Shortcut>
struct spelling_of<residual<Branch, Shortcut>> {
  static spelled_type in(std::string_view library) {
    return spell_template<residual<Branch, Shortcut>>(library,
                                                      {spell_type<Branch>(library), spell_type<Shortcut>(library)}, 1,
                                                      {spell_type<identity>(library).line()});
  }
};

template <index_t... Extents>
struct spelling_of<input<Extents...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<input<Extents...>>(
        library,
        {Extents == dynamic ? spelled_type{std::string(library) + "dynamic"} : spell_value<Extents>(library)...});
  }
};
template <class... Words>
struct spelling_of<input_layout<Words...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<input_layout<Words...>>(library, {spell_type<Words>(library)...});
  }
};
template <class... Axes>
struct spelling_of<data_parallel<Axes...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<data_parallel<Axes...>>(library, {spell_type<Axes>(library)...});
  }
};
template <class... Axes>
struct spelling_of<axis_list<Axes...>> {
  static spelled_type in(std::string_view library) {
    return spell_template<axis_list<Axes...>>(library, {spell_type<Axes>(library)...});
  }
};
template <class Axis, class Schedule>
struct spelling_of<pipeline<Axis, Schedule>> {
  static spelled_type in(std::string_view library) {
    return spell_template<pipeline<Axis, Schedule>>(library, {spell_type<Axis>(library), spell_type<Schedule>(library)},
                                                    1, {spell_type<one_forward_one_backward>(library).line()});
  }
};
template <class Machine, index_t Unknown>
struct spelling_of<fuse::automatic_on<Machine, Unknown>> {
  static spelled_type in(std::string_view library) {
    return spell_template<fuse::automatic_on<Machine, Unknown>>(
        library, {spell_type<Machine>(library), spell_value<Unknown>(library)}, 1, {"32"});
  }
};

}  // namespace detail

/// A model, found or written by hand, as C++ text of the same type: to paste, read and pin.
///
///     std::cout << "using pinned = " << tessera::spell<found>() << ";\n";
///
/// Each layer of a chain stands on a line of its own, and arguments that are usual are left out. `library` comes before
/// the library's names: "tessera::", or "" where `using namespace tessera` is in force. Other names are those of
/// the namespaces in which their types are declared; types that are declared in a function have their name alone. A
/// struct that is a model is spelled by its name; `spell<typename Model::composition>()` opens it.
///
/// The text is the same whichever compiler makes the program, but for arguments of a template of yours whose parameters
/// are none of the usual lists of numbers and types: those are as the compiler writes them.
template <class Model>
std::string spell(std::string_view library = "ts::") {
  return detail::spell_type<Model>(library).lines(0);
}

}  // namespace tessera
