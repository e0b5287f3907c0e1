#pragma once

#include <tessera/layer/kernel_kind.hpp>
#include <tessera/layer/node.hpp>
#include <tessera/op/batch_norm.hpp>

namespace tessera {

/// Batch normalisation of [N, C, H, W] by channel (S. Ioffe and C. Szegedy, ICML 2015), over the whole batch wherever
/// it is cut.
///
/// Normalises with the biased variance; running statistics r = (1 - momentum) r + momentum * batch hold the unbiased
/// one. Options: `momentum_of<std::ratio<1, 10>>`, `epsilon_of<std::ratio<1, 100000>>`, `no_affine`, and split words.
///
/// | split | parameters and statistics | collectives |
/// |---|---|---|
/// | `split_batch`, `split_height`, `split_width` (flow) | whole | one all_reduce forward, one all_reduce
/// backward, over all these axes together | | `split_channels` (flows) | by channel | none |
///
/// Gradients of the parameters come out whole: they are what the backward reduction sums.
template <int C, class... Options>
struct batch_norm2d {
  static_assert((detail::known_option<Options, detail::is_no_affine, detail::is_momentum, detail::is_epsilon,
                                      detail::is_weight_init> &&
                 ...),
                "tessera: batch_norm2d has no such option; it has no_affine, momentum_of<...>, epsilon_of<...>, "
                "weight_init<...> and split words");
  static constexpr bool affine = !detail::has_option<no_affine, Options...>;
  static constexpr double momentum =
      detail::option_or_t<detail::is_momentum, momentum_of<std::ratio<1, 10>>, Options...>::value;
  static constexpr double epsilon =
      detail::option_or_t<detail::is_epsilon, epsilon_of<std::ratio<1, 100000>>, Options...>::value;
  using words = split_words<Options...>;
  static constexpr kernel_kind kernels = kernel_kind::norm;

  struct weight
      : parameter<typename detail::option_or_t<detail::is_weight_init, weight_init<ones>, Options...>::type, C> {
    static constexpr std::string_view name = "weight";
  };
  struct bias : parameter<zeros, C> {
    static constexpr std::string_view name = "bias";
  };
  struct running_mean : state<zeros, C> {
    static constexpr std::string_view name = "running_mean";
  };
  struct running_variance : state<ones, C> {
    static constexpr std::string_view name = "running_var";
  };
  using parameters = std::conditional_t<affine, parameter_list<weight, bias, running_mean, running_variance>,
                                        parameter_list<running_mean, running_variance>>;

  template <bool Known>
  struct split_check {
    static_assert(Known,
                  "tessera: batch_norm2d has no such split; it has split_batch, split_channels, split_height and "
                  "split_width");
  };
  static constexpr shape<4> input_extents{{dynamic, C, dynamic, dynamic}};

  template <auto Extents>
  static constexpr index_rules rules() {
    return {affine ? "nchw,c,c,c,c->nchw" : "nchw,c,c->nchw",
            {{'n', "batch", true, true},
             {'c', "channels", true, true},
             {'h', "height", true, true},
             {'w', "width", true, true}}};
  }
  template <auto Extents>
  static constexpr auto output() {
    static_assert(Extents.rank == 4, "tessera: batch_norm2d takes images [N, C, H, W]; put it before flatten");
    static_assert(
        Extents[1] == C || Extents[1] == dynamic,
        "tessera: the input of batch_norm2d does not have C channels; give it the channels of the layer before");
    return Extents;
  }
  /// Letters of the rules: where no axis cuts one of them, statistics are whole.
  static constexpr std::string_view calls_when_cut = "nhw";
  template <auto Extents, class Mesh>
  static constexpr void calls(phase when, resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    append_reduction<Mesh>(list, when, collective::all_reduce, r.axes_cutting("nhw"), reduction::sum, shape<1>{{C}},
                           r.operand[1], 2);
  }
  /// Statistics need all of the input before the first element is normalised; so do the sums of backward.
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
    channel_statistics<typename backend::memory, typename backend::statistic> statistics;
    bool training = true;
  };
  template <auto Extents, class Mesh>
  static constexpr kept_memory kept(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at, index_t) {
    const index_t statistic = local_bytes<Mesh>(r.operand[1], shape<1>{{C}}, at, sizeof(double));
    // Moments and sums, as they are and reduced.
    return {.input = true, .own = 2 * statistic, .scratch = 9 * statistic};
  }

  template <class Env, class Saved, class X, class... P>
  static auto forward(Env const& env, Saved& saved, X const& x, P&... parameters) {
    auto all = std::tie(parameters...);
    auto& mean = std::get<sizeof...(P) - 2>(all);
    auto& variance = std::get<sizeof...(P) - 1>(all);
    saved.x = x;
    saved.training = env.training;
    saved.statistics = env.training ? op::batch_norm_statistics(x, momentum, epsilon, mean, variance)
                                    : op::batch_norm_running(epsilon, mean, variance);
    return op::batch_norm(x, saved.statistics, affine_block<0, X>(all), affine_block<1, X>(all));
  }

  template <class Env, class Saved, class Dy, class Gradients, class... P>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients& gradients, P&... parameters) {
    auto all = std::tie(parameters...);
    const auto gamma = affine_block<0, Dy>(all);
    const auto sums = op::batch_norm_backward_sums(saved.x, dy, saved.statistics);
    if constexpr (affine) {
      const auto d_weight = std::get<0>(gradients).write();
      const auto d_bias = std::get<1>(gradients).write();
      auto& kernels = dy.where().kernels();
      kernels.copy(sums.part(0, d_bias.extents).read(), d_bias);
      kernels.copy(sums.part(d_bias.size(), d_weight.extents).read(), d_weight);
    }
    if constexpr (!Env::wants_input_gradient)
      return no_gradient{};
    else
      return saved.training ? op::batch_norm_backward_input(saved.x, dy, saved.statistics, gamma, sums)
                            : op::batch_norm_backward_evaluation(dy, saved.statistics, gamma);
  }

 private:
  template <int I, class X, class Parameters>
  static auto affine_block(Parameters const& all) {
    block<typename X::value_type const, 1> b;
    if constexpr (affine) b = std::get<I>(all).read();
    return b;
  }
};

}  // namespace tessera
