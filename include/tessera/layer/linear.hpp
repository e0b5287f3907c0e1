#pragma once

#include <tessera/layer/node.hpp>
#include <tessera/op/matmul.hpp>

namespace tessera {

/// y = x W^T + b over the last dimension of x; W is [Out, In]. Inputs of 2, 3 or 5 dimensions.
///
/// Options: `no_bias`, `weight_init<...>` (Xavier uniform), `bias_init<...>` (zeros), `tied<Name>`, and split words:
///
/// | split | parameters | output | backward |
/// |---|---|---|---|
/// | `split_batch` (flows) | whole | cut by rows | gradients of parameters partial |
/// | `split_output` | W by rows, b | cut by features | input gradient partial |
/// | `split_input` | W by columns, b whole | partial sum, the bias added once | input gradient cut |
template <int In, int Out, class... Options>
struct linear {
  static_assert((detail::known_option<Options, detail::is_no_bias, detail::is_weight_init, detail::is_bias_init,
                                      detail::is_tied> &&
                 ...),
                "tessera: linear has no such option; it has no_bias, weight_init<...>, bias_init<...>, tied<...> and "
                "split words");
  static constexpr bool has_bias = !detail::has_option<no_bias, Options...>;
  using words = split_words<Options...>;

  struct weight
      : parameter<typename detail::option_or_t<detail::is_weight_init, weight_init<xavier_uniform>, Options...>::type,
                  Out, In> {
    static constexpr std::string_view name = "weight";
    using tie = detail::tie_name<Options...>;
  };
  struct bias : parameter<typename detail::option_or_t<detail::is_bias_init, bias_init<zeros>, Options...>::type, Out> {
    static constexpr std::string_view name = "bias";
  };
  using parameters = std::conditional_t<has_bias, parameter_list<weight, bias>, parameter_list<weight>>;

  template <bool Known>
  struct split_check {
    static_assert(Known, "tessera: linear has no such split; it has split_batch, split_output and split_input");
  };
  static constexpr shape<2> input_extents{{dynamic, In}};

  template <auto Extents>
  static constexpr index_rules rules() {
    return detail::linear_letters<Extents.rank>::expand(has_bias ? "*k,ok+o->*o" : "*k,ok->*o", linearity::none);
  }
  template <auto Extents>
  static constexpr auto output() {
    constexpr int last = Extents.rank - 1;
    static_assert(
        Extents[last] == In || Extents[last] == dynamic,
        "tessera: the input of linear does not have In features; make In the last extent of what comes before");
    auto out = Extents;
    out[last] = Out;
    return out;
  }

  template <class X>
  struct saved {
    X x;
  };
  static constexpr kept_memory keeps{.input = true};
  template <class Env, class Saved, class X, class W, class... B>
  static auto forward(Env const&, Saved& saved, X const& x, W const& w, B const&... b) {
    saved.x = x;
    auto y = op::linear_product(x, w);
    (op::add_bias_once(y, b), ...);
    return y;
  }
  template <class Env, class Saved, class Dy, class Gradients, class W, class... B>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients& gradients, W const& w, B const&...) {
    op::linear_product_backward_weight(dy, saved.x, std::get<0>(gradients));
    if constexpr (has_bias) op::bias_backward(dy, std::get<1>(gradients));
    if constexpr (Env::wants_input_gradient)
      return op::linear_product_backward_input(dy, w);
    else
      return no_gradient{};
  }
};

}  // namespace tessera
