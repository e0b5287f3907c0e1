#pragma once

#include <tessera/core/layout.hpp>

#include <type_traits>

namespace tessera {

/// What flows along an edge of a model, as a type: static extents (`dynamic` where only run time knows) and layout.
template <auto Extents, auto Layout>
struct flow {
  static constexpr int rank = Extents.rank;
  static constexpr shape<rank> extents = Extents;
  static constexpr auto layout = Layout;
};

/// A place in a list of types, found by overload resolution (a `std::tuple` of many layers costs far more to compile).
template <int I, class T>
struct indexed {
  using type = T;
};

template <class Sequence, class... Ts>
struct indexed_types;
template <int... I, class... Ts>
struct indexed_types<std::integer_sequence<int, I...>, Ts...> : indexed<I, Ts>... {};

namespace detail {
template <int I, class T>
indexed<I, T> pick(indexed<I, T> const*);
}

/// Type `I` of `indexed_types`.
template <int I, class List>
using type_at = typename decltype(detail::pick<I>(static_cast<List const*>(nullptr)))::type;

template <class... Ts>
using type_list = indexed_types<std::make_integer_sequence<int, static_cast<int>(sizeof...(Ts))>, Ts...>;

}  // namespace tessera
