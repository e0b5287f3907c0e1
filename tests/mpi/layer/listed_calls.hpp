#pragma once

#include "against_serial.hpp"
#include "support/listed_calls.hpp"

namespace against_serial {

/// On meshes of two axes of A and B ranks, in double as in `on_mesh`: the networks of both are compiled once.
template <template <class, class> class Model, int A, int B, int Rank, class Input>
void check_calls(shape<Rank> const& extents, Input input) {
  worlds::check_listed_calls<mesh<first<A>, second<B>>, Model<first<A>, second<B>>, double>(extents, input);
}

template <template <class, class> class Model, int Rank, class Input>
void check_all_calls(shape<Rank> const& extents, Input input) {
  check_calls<Model, 2, 1>(extents, input);
  check_calls<Model, 1, 2>(extents, input);
  check_calls<Model, 2, 2>(extents, input);
}
template <template <class, class> class Model, int Rank>
void check_all_calls(shape<Rank> const& extents) {
  check_all_calls<Model>(extents, [](shape<Rank> const& whole) { return worlds::values<double>(whole, 5); });
}

}  // namespace against_serial
