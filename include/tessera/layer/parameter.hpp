#pragma once

#include <tessera/core/layout.hpp>
#include <tessera/layer/initializer.hpp>

#include <string_view>
#include <type_traits>

namespace tessera {

/// A parameter of a layer: its name, static extents, and how it starts.
///
///     struct weight : tessera::parameter<tessera::xavier_uniform, Out, In> {
///       static constexpr std::string_view name = "weight";
///     };
template <initializer Init, index_t... Extents>
struct parameter {
  static_assert(((Extents > 0) && ...), "tessera: a parameter has positive extents; correct the sizes of its layer");
  using init = Init;
  static constexpr shape<static_cast<int>(sizeof...(Extents))> extents{{Extents...}};
  static constexpr bool trainable = true;
  /// The name that parameters of other layers have too which share its memory; void: none.
  using tie = void;
};

/// What a layer keeps between steps without a gradient (running statistics); stored and cut like a parameter.
template <initializer Init, index_t... Extents>
struct state : parameter<Init, Extents...> {
  static constexpr bool trainable = false;
};

/// The parameters and states of a layer, in the order of the operands after the input in its rules.
template <class... Parameters>
struct parameter_list {
  static constexpr int count = static_cast<int>(sizeof...(Parameters));
};

/// One mark for each name that parameters are tied by, null for void.
template <class Name>
inline constexpr char tie_mark = 0;
template <class Name>
inline constexpr void const* tie_of = &tie_mark<Name>;
template <>
inline constexpr void const* tie_of<void> = nullptr;

/// What is known of a parameter of a bound model while compiling.
template <int Axes>
struct parameter_info {
  std::string_view name{};
  int rank = 0;
  index_t extents[max_rank] = {};
  placements<Axes> layout{};
  placements<Axes> gradient{};
  bool trainable = true;
  void const* tie = nullptr;  ///< equal for parameters that share their memory (`tie_of`); null: none do

  /// Elements of the block of the device at `at`.
  template <device_mesh Mesh>
  constexpr index_t local_size(decltype(Mesh::sizes) const& at) const {
    shape<max_rank> whole;
    for (int d = 0; d < max_rank; ++d) whole[d] = d < rank ? extents[d] : 1;
    return local_box<Mesh>(layout, whole, at).size();
  }
};

/// The description of one parameter.
template <int Rank, int Axes>
constexpr parameter_info<Axes> describe_parameter(std::string_view name, shape<Rank> const& extents,
                                                  placements<Axes> const& layout, placements<Axes> const& gradient,
                                                  bool trainable, void const* tie = nullptr) {
  parameter_info<Axes> info{name, Rank, {}, layout, gradient, trainable, tie};
  for (int d = 0; d < Rank; ++d) info.extents[d] = extents[d];
  return info;
}

}  // namespace tessera
