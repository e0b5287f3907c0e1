// expect: tessera: this layer does not tell how much memory its `saved` holds; give it a member such as static constexpr kept_memory keeps{.input = true}, or kept<Extents, Mesh>(resolved, at, element_bytes)
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/activation_memory.hpp>

struct twice {
  using words = split_words<>;
  using parameters = parameter_list<>;
  template <auto Extents>
  static constexpr index_rules rules() {
    return elementwise_rules(Extents.rank, 1);
  }
  template <auto Extents>
  static constexpr auto output() {
    return Extents;
  }
  template <class X>
  struct saved {
    X x;
  };
};
static_assert(activation_memory<chain<linear<8, 8>, twice, linear<8, 4>>, world, float, input<2, 8>>().kept > 0);
