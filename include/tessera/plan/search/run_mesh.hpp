#pragma once

#include <tessera/core/mesh.hpp>

#include <utility>

namespace tessera::detail {

template <int Axes, int Number>
struct run_axis : axis<1> {};

template <int Axes, class = std::make_integer_sequence<int, Axes>>
struct mesh_of_run_axes;
template <int Axes, int... I>
struct mesh_of_run_axes<Axes, std::integer_sequence<int, I...>> {
  using type = mesh<run_axis<Axes, I>...>;
};

/// A mesh whose sizes are set while a program runs, for functions that take their mesh as a type: layers say in terms
/// of it what they cost and keep. It has one value at a time on each thread, that of the innermost `scope`.
template <int Axes>
struct run_mesh : mesh_of_run_axes<Axes>::type {
  using coordinates_type = typename mesh_sizes<Axes>::coordinates_type;

  static inline thread_local mesh_sizes<Axes> value{};
  static inline thread_local coordinates_type sizes{};
  static inline thread_local int devices = 1;

  static axis_set cutting(axis_set set) { return value.cutting(set); }
  static coordinates_type coordinates(int rank) { return value.coordinates(rank); }
  static int group_size(axis_set set) { return value.group_size(set); }
  static int group_rank(axis_set set, coordinates_type const& at) { return value.group_rank(set, at); }
  static coordinates_type group_member(axis_set set, coordinates_type at, int rank) {
    return value.group_member(set, at, rank);
  }

  class scope {
   public:
    explicit scope(mesh_sizes<Axes> const& mesh) : before_(value) { set(mesh); }
    ~scope() { set(before_); }
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;

   private:
    static void set(mesh_sizes<Axes> const& mesh) {
      value = mesh;
      devices = mesh.devices();
      for (int a = 0; a < Axes; ++a) sizes[static_cast<std::size_t>(a)] = mesh[a];
    }
    mesh_sizes<Axes> before_;
  };
};

}  // namespace tessera::detail
