#pragma once

#include <tessera/layer/kernel_kind.hpp>
#include <tessera/layer/node.hpp>
#include <tessera/op/group_norm.hpp>

namespace tessera {

/// Group norm of [N, C, H, W] (Y. Wu and K. He, ECCV 2018): each sample over `Groups` groups of neighbouring channels.
///
/// Options: `no_affine`, `epsilon_of<std::ratio<1, 100000>>`, `weight_init<...>` (ones), `bias_init<...>` (zeros), and
/// split words:
///
/// | split | parameters | collectives |
/// |---|---|---|
/// | `split_batch` (flows) | whole, their gradients partial | none |
/// | `split_channels`, by whole groups (flows) | by channel | none |
/// | `split_height`, `split_width` (flow) | whole, their gradients partial | one all_reduce of two sums a
/// group forward and one backward, over both together |
template <int Groups, int C, class... Options>
struct group_norm {
  static_assert((detail::known_option<Options, detail::is_no_affine, detail::is_epsilon, detail::is_weight_init,
                                      detail::is_bias_init> &&
                 ...),
                "tessera: group_norm has no such option; it has no_affine, epsilon_of<...>, weight_init<...>, "
                "bias_init<...> and split words");
  static_assert(Groups > 0 && C % Groups == 0,
                "tessera: the number of groups of group_norm does not divide the number of channels; choose another");
  static constexpr bool affine = !detail::has_option<no_affine, Options...>;
  static constexpr double epsilon =
      detail::option_or_t<detail::is_epsilon, epsilon_of<std::ratio<1, 100000>>, Options...>::value;
  using words = split_words<Options...>;
  static constexpr kernel_kind kernels = kernel_kind::norm;

  struct weight
      : parameter<typename detail::option_or_t<detail::is_weight_init, weight_init<ones>, Options...>::type, C> {
    static constexpr std::string_view name = "weight";
  };
  struct bias : parameter<typename detail::option_or_t<detail::is_bias_init, bias_init<zeros>, Options...>::type, C> {
    static constexpr std::string_view name = "bias";
  };
  using parameters = std::conditional_t<affine, parameter_list<weight, bias>, parameter_list<>>;

  template <bool Known>
  struct split_check {
    static_assert(Known,
                  "tessera: group_norm has no such split; it has split_batch, split_channels, split_height and "
                  "split_width");
  };
  static constexpr shape<4> input_extents{{dynamic, C, dynamic, dynamic}};

  template <auto Extents>
  static constexpr index_rules rules() {
    return {affine ? "nchw,c,c->nchw" : "nchw->nchw",
            {{'n', "batch"}, {'c', "channels", true, false, Groups}, {'h', "height"}, {'w', "width"}}};
  }
  template <auto Extents>
  static constexpr auto output() {
    static_assert(Extents.rank == 4, "tessera: group_norm takes images [N, C, H, W]; put it before flatten");
    static_assert(
        Extents[1] == C || Extents[1] == dynamic,
        "tessera: the input of group_norm does not have C channels; give it the channels of the layer before");
    return Extents;
  }
  template <auto Extents, class Mesh>
  static constexpr void calls(phase when, resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    if (when == phase::forward) reduction_of_groups<Extents, Mesh>(when, r, list);
  }
  template <auto Extents, class Mesh>
  static constexpr void input_gradient_calls(resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    reduction_of_groups<Extents, Mesh>(phase::backward, r, list);
  }
  /// The statistics of a group need all of it before its first element is normalised; so do the sums of backward.
  template <auto Extents, class Mesh, class Add>
  static constexpr void work(resolved_layer<Mesh::axes> const& r, index_t unknown, Add& add) {
    const double size = largest_size(Mesh::value, r.output, Extents, unknown);
    add(layer_pass::forward, 0.0, size);
    add(layer_pass::forward, 0.0, 2 * size);
    add(affine ? layer_pass::parameters : layer_pass::input, 0.0, 2 * size);
    add(layer_pass::input, 0.0, 3 * size);
  }

  template <class X>
  struct saved {
    X x;
    using backend = typename X::context_type::backend;
    row_statistics<typename backend::memory, typename backend::statistic> statistics;
  };
  template <auto Extents, class Mesh>
  static constexpr kept_memory kept(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at, index_t) {
    const index_t statistic =
        local_bytes<Mesh>(groups_layout<Mesh>(r), shape<4>{{Extents[0], Groups, 1, 1}}, at, sizeof(double));
    return {.input = true, .own = 2 * statistic, .scratch = 9 * statistic};
  }

  template <class Env, class Saved, class X, class... P>
  static auto forward(Env const&, Saved& saved, X const& x, P const&... parameters) {
    auto out = op::group_norm<Groups>(x, parameters..., epsilon);
    saved.x = x;
    saved.statistics = std::move(out.statistics);
    return std::move(out.y);
  }
  template <class Env, class Saved, class Dy, class Gradients, class... P>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients& gradients, P const&... parameters) {
    if constexpr (!Env::wants_input_gradient) {
      op::group_norm_backward_parameters<Groups>(saved.x, dy, saved.statistics, std::get<0>(gradients),
                                                 std::get<1>(gradients));
      return no_gradient{};
    } else if constexpr (affine) {
      return op::group_norm_backward<Groups>(saved.x, dy, saved.statistics, std::get<0>(std::tie(parameters...)),
                                             std::get<0>(gradients), std::get<1>(gradients));
    } else {
      return op::group_norm_backward<Groups>(saved.x, dy, saved.statistics);
    }
  }

 private:
  /// Of what there is of each group, [N, Groups, 1, 1].
  template <class Mesh>
  static constexpr auto groups_layout(resolved_layer<Mesh::axes> const& r) {
    auto layout = r.output;
    for (int a = 0; a < Mesh::axes; ++a)
      if (layout[a].is_shard(2) || layout[a].is_shard(3)) layout[a] = replicated_placement();
    return layout;
  }
  template <auto Extents, class Mesh>
  static constexpr void reduction_of_groups(phase when, resolved_layer<Mesh::axes> const& r,
                                            call_list<Mesh::axes>& list) {
    const axis_set axes = r.axes_cutting("hw");
    append_reduction<Mesh>(list, when, collective::all_reduce, axes, reduction::sum,
                           shape<4>{{Extents[0], Groups, 1, 1}}, groups_layout<Mesh>(r), 2);
  }
};

}  // namespace tessera
