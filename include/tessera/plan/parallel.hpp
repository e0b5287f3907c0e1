#pragma once

#include <tessera/layer/chain.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/residual.hpp>
#include <tessera/plan/fusion.hpp>

namespace tessera {

/// The extents of a model's input, as in `input<dynamic, 3, 224, 224>`; `dynamic` is for what only run time knows.
template <index_t... Extents>
struct input {
  static constexpr shape<static_cast<int>(sizeof...(Extents))> extents{{Extents...}};
};

/// The batch is cut by these axes; that is all that data parallelism is.
template <mesh_axis... Axes>
struct data_parallel {
  using layout = tessera::layout<shard<0, Axes...>>;
};

/// A model with policies: `input<...>`, `data_parallel<...>`, and one of `fuse`. An ordinary model type itself.
template <class Model, class... Policies>
struct parallel {
  using model = Model;
};

namespace detail {

template <class P>
struct is_input : std::false_type {};
template <index_t... E>
struct is_input<input<E...>> : std::true_type {};
template <class P>
struct is_data_parallel : std::false_type {};
template <class... A>
struct is_data_parallel<data_parallel<A...>> : std::true_type {};
template <class P>
    struct is_fusion : std::bool_constant < requires {
  P::cuts_before(0, 0, 0);
} > {};

struct not_data_parallel {
  using layout = replicated;
};
struct no_input {};

/// The input extents that a model's first layer states.
template <class Model>
struct first_layer {
  using type = Model;
};
template <class Model>
requires requires {
  typename Model::composition;
} &&(!std::is_same_v<typename Model::composition, Model>)struct first_layer<Model>
    : first_layer<typename Model::composition> {
};
template <class First, class... Rest>
struct first_layer<chain<First, Rest...>> : first_layer<First> {};
template <class Branch, class Shortcut>
struct first_layer<residual<Branch, Shortcut>> : first_layer<Branch> {};

template <class Model>
constexpr auto stated_extents() {
  using first = typename first_layer<Model>::type;
  static_assert(
      requires { first::input_extents; },
      "tessera: the first layer of this model does not tell the extents of its input; name them, as in "
      "parallel<model, input<dynamic, 3, 224, 224>>");
  return first::input_extents;
}

template <class Model, class... Policies>
struct model_parts_of {
  static_assert(((is_input<Policies>::value || is_data_parallel<Policies>::value || is_fusion<Policies>::value) && ...),
                "tessera: this is no policy of a parallel model; it takes input<...>, data_parallel<...> and one of "
                "fuse::at, fuse::bytes, fuse::all and fuse::each");
  using model = Model;
  using given_input = option_or_t<is_input, no_input, Policies...>;
  using batch_layout = typename option_or_t<is_data_parallel, not_data_parallel, Policies...>::layout;
  using fusion = option_or_t<is_fusion, fuse::bytes<(index_t{4} << 20)>, Policies...>;
  static constexpr auto extents = [] {
    if constexpr (std::is_same_v<given_input, no_input>)
      return stated_extents<Model>();
    else
      return given_input::extents;
  }();
};
template <class Model>
struct model_parts : model_parts_of<Model> {};
template <class Model, class... Policies>
struct model_parts<parallel<Model, Policies...>> : model_parts_of<Model, Policies...> {};

}  // namespace detail

/// A model of any kind on a mesh: `bound` (see `bind`), its input, and how its gradients are fused.
template <class Model, device_mesh Mesh>
struct plan {
  using mesh_type = Mesh;
  using parts = detail::model_parts<Model>;
  using input = flow<parts::extents, placements_of<Mesh, typename parts::batch_layout>>;
  using bound = bind<typename parts::model, Mesh, input>;
  using output = typename bound::output;
  using fusion = typename parts::fusion;

  /// The layout in which a loss takes the output and hands its gradient back.
  static constexpr placements<Mesh::axes> loss_layout = dual(output::layout);

  static constexpr std::vector<parameter_info<Mesh::axes>> parameters() {
    std::vector<parameter_info<Mesh::axes>> list;
    bound::append_parameters(list);
    return list;
  }
  /// The parameters that have a gradient.
  static constexpr std::vector<parameter_info<Mesh::axes>> trainable() {
    std::vector<parameter_info<Mesh::axes>> list;
    for (auto const& p : parameters())
      if (p.trainable) list.push_back(p);
    return list;
  }
  static constexpr std::vector<gradient_bucket> buckets(index_t element_bytes) {
    return fuse_gradients<Mesh, fusion>(trainable(), element_bytes);
  }
};

}  // namespace tessera
