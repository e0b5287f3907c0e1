#pragma once

#include <tessera/layer/kernel_kind.hpp>
#include <tessera/layer/node.hpp>
#include <tessera/op/attention.hpp>
#include <tessera/op/heads.hpp>
#include <tessera/op/matmul.hpp>

#include <utility>

namespace tessera {

namespace detail {

/// An initialiser of a weight that is stored with other extents than [Out, In].
template <class Init, index_t Out, index_t In>
struct init_of_matrix {
  static double value(philox const& draw, index_t i, fans) { return Init::value(draw, i, fans{In, Out}); }
};

}  // namespace detail

/// Multi-head self-attention over [B, S, Features] (A. Vaswani et al., 2017): queries, keys and values by one
/// projection, attention of each head to all positions, and a projection of the heads' results.
///
/// Heads are a dimension of the stored parameters, so that they can be cut: `in_proj_weight` is [3, Heads, D *
/// Features] with D = Features / Heads, `in_proj_bias` [3, Heads, D], `out_proj_weight` [Features, Heads, D],
/// `out_proj_bias` [Features]. Element by element these are the matrices [3 * Features, Features] (queries, keys,
/// values stacked) and [Features, Features] of the usual form. Options: `causal`, `no_bias`, `weight_init<...>` (Xavier
/// uniform, of these matrices), `bias_init<...>` (zeros), and split words:
///
/// | split | parameters | output | backward | messages |
/// |---|---|---|---|---|
/// | `split_batch` (flows) | whole | cut alike | gradients of parameters partial | none |
/// | `split_heads` | by heads, `out_proj_bias` whole | partial sum, this bias added once | input gradient partial |
/// none | | `split_sequence` (flows) | whole | cut alike | gradients of parameters partial | a ring of keys and values
/// |
///
/// The ring is that of `op::scaled_dot_product_attention`; with `causal` blocks that nobody sees are not sent.
template <int Features, int Heads, class... Options>
struct multi_head_attention {
  static_assert((detail::known_option<Options, detail::is_causal, detail::is_no_bias, detail::is_weight_init,
                                      detail::is_bias_init> &&
                 ...),
                "tessera: multi_head_attention has no such option; it has causal, no_bias, weight_init<...>, "
                "bias_init<...> and split words");
  static_assert(Heads > 0 && Features % Heads == 0,
                "tessera: multi_head_attention needs a number of features that the number of heads divides; choose "
                "another number of heads or of features");
  static constexpr int width = Features / Heads;
  static constexpr bool has_bias = !detail::has_option<no_bias, Options...>;
  static constexpr attention_options options{detail::has_option<causal, Options...>};
  using words = split_words<Options...>;

 private:
  /// Extents and layout of so many projections to heads, [B, S, Count, H, D].
  template <auto Extents, index_t Count>
  static constexpr shape<5> projections{{Extents[0], Extents[1], Count, Heads, width}};
  template <class Mesh>
  static constexpr auto heads_layout(resolved_layer<Mesh::axes> const& r) {
    placements<Mesh::axes> layout;
    for (int a = 0; a < Mesh::axes; ++a)
      if (const int dim = dim_of("bs.h.", r.letter[a]); dim >= 0)
        layout[a] = shard_placement(dim, dim == 3 ? r.operand[1][a].order : r.operand[0][a].order);
    return layout;
  }
  using init = typename detail::option_or_t<detail::is_weight_init, weight_init<xavier_uniform>, Options...>::type;
  using bias_start = typename detail::option_or_t<detail::is_bias_init, bias_init<zeros>, Options...>::type;

 public:
  struct in_proj_weight
      : parameter<detail::init_of_matrix<init, 3 * Features, Features>, 3, Heads, index_t{width} * Features> {
    static constexpr std::string_view name = "in_proj_weight";
  };
  struct in_proj_bias : parameter<bias_start, 3, Heads, width> {
    static constexpr std::string_view name = "in_proj_bias";
  };
  struct out_proj_weight : parameter<detail::init_of_matrix<init, Features, Features>, Features, Heads, width> {
    static constexpr std::string_view name = "out_proj_weight";
  };
  struct out_proj_bias : parameter<bias_start, Features> {
    static constexpr std::string_view name = "out_proj_bias";
  };
  using parameters =
      std::conditional_t<has_bias, parameter_list<in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias>,
                         parameter_list<in_proj_weight, out_proj_weight>>;
  static constexpr std::size_t out_weight = has_bias ? 2 : 1;  ///< its place among them

  template <bool Known>
  struct split_check {
    static_assert(
        Known, "tessera: multi_head_attention has no such split; it has split_batch, split_heads and split_sequence");
  };
  static constexpr shape<3> input_extents{{dynamic, dynamic, Features}};

  template <auto Extents>
  static constexpr index_rules rules() {
    return detail::head_rules(has_bias ? "bsf,phk,phd,ohd+o->bso" : "bsf,phk,ohd->bso", linearity::none);
  }
  template <auto Extents>
  static constexpr auto output() {
    static_assert(Extents.rank == 3,
                  "tessera: multi_head_attention takes sequences [B, S, Features]; reshape the input");
    static_assert(Extents[2] == Features || Extents[2] == dynamic,
                  "tessera: the input of multi_head_attention does not have its Features; make them the last extent of "
                  "what comes before");
    return Extents;
  }
  template <auto Extents, class Mesh>
  static constexpr void calls(phase when, resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    // What travels for a position are the keys and values of this rank's heads.
    append_ring<Mesh>(list, when, projections<Extents, 2>, heads_layout<Mesh>(r), options.causal);
  }
  /// Two projections, and between them two products for each pair of positions that see each other. Backward has five,
  /// since it computes the probabilities again (T. Dao et al., NeurIPS 2022), and needs them for the gradients of the
  /// first projection already. Where `causal` sequences are cut the last device sees most.
  template <auto Extents, class Mesh, class Add>
  static constexpr void work(resolved_layer<Mesh::axes> const& r, index_t unknown, Add& add) {
    const auto x = largest_block(Mesh::value, r.operand[0], Extents, unknown);
    const double positions = static_cast<double>(x[0] * x[1]);
    const double size = static_cast<double>(x.size());
    const double channels =
        static_cast<double>(largest_block(Mesh::value, r.operand[1], in_proj_weight::extents, unknown)[1] * width);
    const double length = static_cast<double>(Extents[1] == dynamic ? unknown : Extents[1]);
    const double seen = options.causal ? length - static_cast<double>(x[1] - 1) / 2 : length;
    const double product = 2 * positions * channels * Features;
    const double weight = channels * Features;
    const double heads = positions * channels;
    for (const layer_pass pass : {layer_pass::forward, layer_pass::parameters}) {
      add(pass, 3 * product, size + 3 * weight + 3 * heads);
      add(pass, (pass == layer_pass::forward ? 4 : 10) * heads * seen, (pass == layer_pass::forward ? 4 : 8) * heads,
          kernel_kind::attention);
      add(pass, product, size + weight + heads);
    }
    add(layer_pass::parameters, product, size + weight + heads);  // the gradient of what the second one took
    add(layer_pass::input, 3 * product, size + 3 * weight + 3 * heads);
  }

  template <class X>
  struct saved {
   private:
    static constexpr auto resolved = detail::resolve<typename X::mesh>(
        rules<shape<3>{}>(), X::placements, detail::cuts_named_by<typename X::mesh>(words{}));
    using projected = decltype(op::to_heads(std::declval<X>(), std::declval<relaid<X, 3, resolved.operand[1]>>()));
    using attended = decltype(op::scaled_dot_product_attention(std::declval<projected>()));

   public:
    X x;
    projected heads;
    attended result;
  };
  template <auto Extents, class Mesh>
  static constexpr kept_memory kept(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at,
                                    index_t element_bytes) {
    const auto bytes = [&](shape<5> const& extents, index_t of_element) {
      return local_bytes<Mesh>(heads_layout<Mesh>(r), extents, at, of_element);
    };
    const index_t heads = bytes(projections<Extents, 3>, element_bytes);
    const index_t out = bytes(projections<Extents, 1>, element_bytes);
    const index_t log_sum = bytes({{Extents[0], Extents[1], 1, Heads, 1}}, sizeof(double));
    // Gradients of these; zeros take the place of other memory. In a ring blocks of all ranks, and their gradients.
    index_t scratch = out + 2 * heads + log_sum;
    if (const int ranks = Mesh::group_size(r.axes_cutting("s")); ranks > 1)
      scratch += 2 * (ranks + 1) *
                 local_bytes<Mesh>(heads_layout<Mesh>(r), projections<Extents, 2>, {}, element_bytes);
    return {.input = true, .own = heads + out + log_sum, .scratch = scratch};
  }

  template <class Env, class Saved, class X, class... P>
  static auto forward(Env const&, Saved& saved, X const& x, P const&... p) {
    const auto parameters = std::tie(p...);
    saved.x = x;
    saved.heads = op::to_heads(x, std::get<0>(parameters));
    if constexpr (has_bias) op::add_head_bias(saved.heads, std::get<1>(parameters));
    saved.result = op::scaled_dot_product_attention(saved.heads, options);
    auto y = op::from_heads(saved.result.out, std::get<out_weight>(parameters));
    if constexpr (has_bias) op::add_bias_once(y, std::get<3>(parameters));
    return y;
  }
  template <class Env, class Saved, class Dy, class Gradients, class... P>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients& gradients, P const&... p) {
    const auto parameters = std::tie(p...);
    op::from_heads_backward_weight(dy, saved.result.out, std::get<out_weight>(gradients));
    if constexpr (has_bias) op::bias_backward(dy, std::get<3>(gradients));
    const auto d_heads = op::scaled_dot_product_attention_backward(
        saved.heads, saved.result, op::from_heads_backward_input(dy, std::get<out_weight>(parameters)), options);
    op::to_heads_backward_weight(d_heads, saved.x, std::get<0>(gradients));
    if constexpr (has_bias) op::head_bias_backward(d_heads, std::get<1>(gradients));
    if constexpr (Env::wants_input_gradient)
      return op::to_heads_backward_input(d_heads, std::get<0>(parameters));
    else
      return no_gradient{};
  }
};

}  // namespace tessera
