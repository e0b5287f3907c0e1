#pragma once

#include <tessera/layer/chain.hpp>
#include <tessera/layer/recompute.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/residual.hpp>
#include <tessera/layer/stage.hpp>
#include <tessera/plan/bucket_sharing.hpp>
#include <tessera/plan/fusion.hpp>
#include <tessera/plan/optimizer_parallel.hpp>
#include <tessera/plan/pipeline_schedule.hpp>

namespace tessera {

/// The extents of a model's input, as in `input<dynamic, 3, 224, 224>`; `dynamic` is for what only run time knows.
template <index_t... Extents>
struct input {
  static constexpr shape<static_cast<int>(sizeof...(Extents))> extents{{Extents...}};
};

namespace detail {
template <class... Words>
struct joined_words {
  using type = layout<Words...>;
};
template <class... Words>
struct joined_words<layout<Words...>> : joined_words<Words...> {};
}  // namespace detail

/// How the model's input is cut, in the words of a layout: `input_layout<shard<0, dp>, shard<2, sp>>` for images whose
/// batch and height are cut. Each rank loads and holds its own block only.
///
/// Without it the input is whole on every rank, and the split words of the first layer take slices of it.
template <layout_word... Words>
struct input_layout {
  using layout = typename detail::joined_words<Words...>::type;
};

/// The batch is cut by these axes, `input_layout<shard<0, Axes...>>`; that is all that data parallelism is.
template <mesh_axis... Axes>
struct data_parallel : input_layout<shard<0, Axes...>> {};

/// A model with policies: `input<...>`, one of `data_parallel<...>` and `input_layout<...>`, one of `fuse`,
/// `optimizer_parallel<...>`, and `pipeline<...>`. An ordinary model type itself.
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
struct is_input_layout : std::false_type {};
template <class... W>
struct is_input_layout<input_layout<W...>> : std::true_type {};
template <class... A>
struct is_input_layout<data_parallel<A...>> : std::true_type {};
template <class P>
    struct is_fusion : std::bool_constant < requires {
  P::cuts_before(0, 0, 0);
} > {};
template <class Machine, index_t Unknown>
struct is_fusion<fuse::automatic_on<Machine, Unknown>> : std::true_type {};

template <class P>
struct is_pipeline : std::false_type {};
template <class Axis, class Schedule>
struct is_pipeline<pipeline<Axis, Schedule>> : std::true_type {};

template <class P>
struct is_optimizer_parallel : std::false_type {};
template <class Axis, int Level>
struct is_optimizer_parallel<optimizer_parallel<Axis, Level>> : std::true_type {};

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
template <int Number, class First, class... Rest>
struct first_layer<chain<stage<Number>, First, Rest...>> : first_layer<First> {};
template <class Branch, class Shortcut>
struct first_layer<residual<Branch, Shortcut>> : first_layer<Branch> {};
template <class Layer>
struct first_layer<recompute<Layer>> : first_layer<Layer> {};

template <class Model>
constexpr auto stated_extents() {
  using first = typename first_layer<Model>::type;
  static_assert(
      requires { first::input_extents; },
      "tessera: the first layer of this model does not tell the extents of its input; name them, as in "
      "parallel<model, input<dynamic, 3, 224, 224>>");
  return first::input_extents;
}

template <class Model>
struct is_parallel : std::false_type {};
template <class Model, class... Policies>
struct is_parallel<parallel<Model, Policies...>> : std::true_type {};

template <class Model, class... Policies>
struct model_parts_of {
  static_assert(!is_parallel<Model>::value,
                "tessera: this parallel model is made of another one, whose policies would be lost; name all policies "
                "in one, as in parallel<model, data_parallel<dp>, optimizer_parallel<dp, 2>>");
  static_assert(((is_input<Policies>::value || is_input_layout<Policies>::value || is_fusion<Policies>::value ||
                  is_optimizer_parallel<Policies>::value || is_pipeline<Policies>::value) &&
                 ...),
                "tessera: this is no policy of a parallel model; it takes input<...>, one of data_parallel<...> and "
                "input_layout<...>, one of fuse::at, fuse::bytes, fuse::all, fuse::each and fuse::automatic, "
                "optimizer_parallel<...>, and pipeline<...>");
  static_assert((0 + ... + int{is_input_layout<Policies>::value}) < 2,
                "tessera: a parallel model has one layout of its input; name the axes of the batch in it too, as in "
                "input_layout<shard<0, dp>, shard<2, sp>>");
  using model = Model;
  using given_input = option_or_t<is_input, no_input, Policies...>;
  using layout = typename option_or_t<is_input_layout, input_layout<>, Policies...>::layout;
  using fusion = option_or_t<is_fusion, fuse::bytes<(index_t{4} << 20)>, Policies...>;
  using sharing = option_or_t<is_optimizer_parallel, no_optimizer_parallel, Policies...>;
  /// `pipeline<...>`, or void.
  using pipeline = option_or_t<is_pipeline, void, Policies...>;
  static_assert((0 + ... + int{is_optimizer_parallel<Policies>::value}) < 2,
                "tessera: a parallel model has one optimizer_parallel policy; name its axes in one, as in "
                "optimizer_parallel<axis_list<dp, sp>, 2>");
  static constexpr auto extents = [] {
    if constexpr (std::is_same_v<given_input, no_input>)
      return stated_extents<Model>();
    else
      return given_input::extents;
  }();
};
/// Whether a value of so many dimensions that is cut in this way can be loaded block by block.
template <int Axes>
constexpr bool is_layout_of_input(placements<Axes> const& layout, int rank) {
  return layout.partial_axes() == 0 && layout.last_cut_dim() < rank;
}

template <class Model>
struct model_parts : model_parts_of<Model> {};
template <class Model, class... Policies>
struct model_parts<parallel<Model, Policies...>> : model_parts_of<Model, Policies...> {};

}  // namespace detail

/// Satisfied by models with a `pipeline` policy.
template <class Model>
concept pipelined_model = !std::is_void_v<typename detail::model_parts<Model>::pipeline>;

/// A model of any kind on a mesh: `bound` (see `bind`), its input, and how its gradients are fused.
template <class Model, device_mesh Mesh>
struct plan {
  using mesh_type = Mesh;
  using parts = detail::model_parts<Model>;
  static_assert(detail::is_layout_of_input(placements_of<Mesh, typename parts::layout>, parts::extents.rank),
                "tessera: the input of a model is cut along dimensions that it has, or replicated, never partial; name "
                "shard<Dim, Axis> words with Dim below the number of extents");
  using input = flow<parts::extents, placements_of<Mesh, typename parts::layout>>;
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
    static_assert(detail::ties_agree<bound>(),
                  "tessera: parameters that are tied by one name have different extents or layouts; give their layers "
                  "the same sizes, and split words that cut their weights alike");
    std::vector<parameter_info<Mesh::axes>> list;
    for (auto const& p : parameters())
      if (p.trainable) list.push_back(p);
    return list;
  }
  static constexpr std::vector<gradient_bucket> buckets(index_t element_bytes) {
    return fuse_gradients_of<bound, fusion>(trainable(), element_bytes, level > 0);
  }

  /// The level of `optimizer_parallel`; 0 without.
  static constexpr int level = parts::sharing::level;
  /// The axes along which ranks share the buckets.
  static constexpr axis_set sharing_axes() {
    constexpr axis_set axes = parts::sharing::template axes<Mesh>;
    static_assert((Mesh::cutting(axes) & ~summed_axes()) == 0,
                  "tessera: no gradient of this model is a sum over an axis of its optimizer_parallel, so the ranks "
                  "along it hold no parameters in common; name an axis that cuts the batch");
    return axes;
  }
  /// How they do.
  static constexpr bucket_sharing sharing(index_t element_bytes) {
    return share_buckets<bound>(buckets(element_bytes), trainable(), sharing_axes(), level);
  }

 private:
  /// The axes over which any gradient is a sum.
  static constexpr axis_set summed_axes() {
    unsigned axes = 0;
    const auto list = trainable();
    for (int i = 0; i < static_cast<int>(list.size()); ++i) axes |= detail::reduced_axes<Mesh>(list, i);
    return static_cast<axis_set>(axes);
  }
};

}  // namespace tessera
