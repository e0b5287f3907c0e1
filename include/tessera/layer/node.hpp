#pragma once

#include <tessera/core/trace.hpp>
#include <tessera/core/type_text.hpp>
#include <tessera/layer/bind.hpp>
#include <tessera/layer/environment.hpp>
#include <tessera/layer/kept.hpp>
#include <tessera/layer/kernels.hpp>
#include <tessera/layer/parameter_gate.hpp>
#include <tessera/redistribute/to.hpp>

#include <string>
#include <tuple>
#include <utility>

namespace tessera {

/// A tensor along an edge of a bound model.
template <class T, context Context, int Rank, auto Layout>
using edge_tensor = basic_sharded<T, Rank, layout_of<typename Context::mesh, Layout>, Context>;

/// Appends a name to the path of a model's tree while it lives.
class path_entry {
 public:
  [[gnu::noinline]] path_entry(std::string& path, std::string_view name) : path_(path), length_(path.size()) {
    path += name;
  }
  /// A child of a chain.
  [[gnu::noinline]] path_entry(std::string& path, int child) : path_(path), length_(path.size()) {
    path += std::to_string(child);
    path += '.';
  }
  path_entry(path_entry const&) = delete;
  path_entry& operator=(path_entry const&) = delete;
  [[gnu::noinline]] ~path_entry() { path_.resize(length_); }

 private:
  std::string& path_;
  std::size_t length_;
};

/// What a visitor of a model needs of a parameter's type beside its tensors. Parameters of many layers have one kind,
/// so that what is done with them is compiled once.
template <class Init, bool Trainable, class Tie = void>
struct parameter_kind {
  using init = Init;
  using tie = Tie;
  static constexpr bool trainable = Trainable;
};

namespace detail {
template <class F, class Kind, int Rank, class Value, class Gradient>
void visit_parameter(std::string& path, std::string_view name, F& f, Kind kind, shape<Rank> const& extents,
                     Value& value, Gradient& gradient) {
  const path_entry entry(path, name);
  f(path, kind, extents, value, gradient);
}
}  // namespace detail

/// A bound layer with its memory: parameters, gradients, and what forward keeps for backward.
///
/// `node_of<Bound, T, Context>` names it for every kind of layer; all have `forward`, `backward`, `visit`,
/// `visit_saved` and `number`.
template <class Bound, class T, context Context>
class layer_node {
  using layer = typename Bound::layer;
  using mesh = typename Context::mesh;
  static constexpr auto resolved = Bound::resolved;
  static constexpr std::string_view name = detail::short_type_text<layer>();

  template <int I, class P>
  using parameter_tensor = edge_tensor<T, Context, P::extents.rank, resolved.operand[I]>;
  template <int I, class P>
  using gradient_tensor = edge_tensor<T, Context, P::extents.rank, resolved.gradient[I]>;

  template <class... P>
  struct stored {
    static constexpr bool states_last = [] {
      bool seen = false;
      bool good = true;
      ((seen = seen || !P::trainable, good = good && (!seen || !P::trainable)), ...);
      return good;
    }();
    static_assert(states_last, "tessera: list the parameters of a layer before its states");

    static constexpr int trainable = (0 + ... + (P::trainable ? 1 : 0));

    template <int... I>
    static auto values(std::integer_sequence<int, I...>) -> std::tuple<parameter_tensor<I + 1, P>...>;
    template <int... I>
    static auto gradients(std::integer_sequence<int, I...>)
        -> std::tuple<std::conditional_t<P::trainable, gradient_tensor<I + 1, P>, no_gradient>...>;

    using sequence = std::make_integer_sequence<int, static_cast<int>(sizeof...(P))>;
    using values_type = decltype(values(sequence{}));
    using gradients_type = decltype(gradients(sequence{}));
  };
  template <class List>
  struct storage_of;
  template <class... P>
  struct storage_of<parameter_list<P...>> : stored<P...> {};
  using storage = storage_of<typename Bound::parameters>;

 public:
  using input_type =
      edge_tensor<typename Bound::template input_element<T>, Context, Bound::input::rank, resolved.operand[0]>;
  using output_type = edge_tensor<T, Context, Bound::output::rank, resolved.output>;

  /// Collectives: the route to the layer's input layout, then the layer's own.
  template <sharded_tensor X>
  output_type forward(X const& x, bool training) {
    const trace_scope span(name, activity::compute, " forward");
    const layer_environment<Context, Bound, true> env{x.where(), training};
    acquire(false);
    const input_type in = redistribute<typename input_type::layout_type>(x);
    if (training) return run_forward(env, saved_, in, typename storage::sequence{});
    saved_type unused{};
    return run_forward(env, unused, in, typename storage::sequence{});
  }

  /// The input's gradient in the layout `Bound::gradient`, or `no_gradient`; parameter gradients are written in place,
  /// then `ready(first, count)` is called for them (positions in the list of trainable parameters).
  template <bool WantsInput, sharded_tensor Dy, class Ready>
  auto backward(Dy const& dy, Ready& ready) {
    if constexpr (!WantsInput && !Bound::learns) {
      saved_ = {};
      return no_gradient{};
    } else {
      return run_backward<WantsInput>(dy, ready, typename storage::sequence{});
    }
  }

  /// Calls `f(path and name, parameter_kind, extents, value, gradient or no_gradient)` for each parameter and state.
  template <class F>
  void visit(std::string& path, F& f) {
    visit(path, f, static_cast<typename Bound::parameters const*>(nullptr), typename storage::sequence{});
  }
  /// Calls `f(saved)` with what each layer keeps of the last forward pass for backward.
  template <class F>
  void visit_saved(F& f) {
    if constexpr (!std::is_same_v<saved_type, nothing_saved>) f(saved_);
  }
  /// Numbers the trainable parameters from `first`; returns the number after the last. The gate, if any, is asked for
  /// them before each pass.
  int number(int first, parameter_gate* gate = nullptr) {
    first_ = first;
    gate_ = gate;
    return first + storage::trainable;
  }

 private:
  template <class X>
  struct saved_of {
    using type = nothing_saved;
  };
  template <class X>
  requires requires { typename layer::template saved<X>; }
  struct saved_of<X> {
    using type = typename layer::template saved<X>;
  };
  using saved_type = typename saved_of<input_type>::type;

  void acquire(bool backward) {
    if constexpr (storage::trainable > 0)
      if (gate_ != nullptr) gate_->acquire(first_, storage::trainable, backward);
  }

  template <bool WantsInput, class Dy, class Ready, int... I>
  auto run_backward(Dy const& dy, Ready& ready, std::integer_sequence<int, I...>) {
    const trace_scope span(name, activity::compute, " backward");
    const layer_environment<Context, Bound, WantsInput> env{dy.where(), true};
    acquire(true);
    const auto gradient = redistribute<layout_of<mesh, Bound::needed(Dy::placements)>>(dy);
    auto dx = layer::backward(env, saved_, gradient, gradients_, std::get<I>(values_)...);
    saved_ = {};
    if constexpr (storage::trainable > 0) ready(first_, storage::trainable);
    if constexpr (!WantsInput) {
      return no_gradient{};
    } else {
      using wanted = edge_tensor<T, Context, Bound::input::rank, Bound::produced(Dy::placements)>;
      static_assert(std::is_same_v<decltype(dx), wanted>,
                    "tessera: backward of this layer returns the input's gradient in another layout than its rules "
                    "say; compare the two types below and redistribute, or mend the rules");
      return redistribute<layout_of<mesh, Bound::gradient(Dy::placements)>>(dx);
    }
  }

  template <class Env, int... I>
  output_type run_forward(Env const& env, saved_type& saved, input_type const& in, std::integer_sequence<int, I...>) {
    auto y = layer::forward(env, saved, in, std::get<I>(values_)...);
    static_assert(std::is_same_v<decltype(y), output_type>,
                  "tessera: forward of this layer returns a tensor in another layout than its rules say; compare the "
                  "two types below and redistribute, or mend the rules");
    return y;
  }

  template <class F, class... P, int... I>
  void visit(std::string& path, F& f, parameter_list<P...> const*, std::integer_sequence<int, I...>) {
    (detail::visit_parameter(path, P::name, f, parameter_kind<typename P::init, P::trainable, typename P::tie>{},
                             P::extents, std::get<I>(values_), std::get<I>(gradients_)),
     ...);
  }

  typename storage::values_type values_;
  typename storage::gradients_type gradients_;
  saved_type saved_{};
  int first_ = 0;
  parameter_gate* gate_ = nullptr;
};

namespace detail {
template <class Bound, class T, class Context>
struct node_of {
  using type = layer_node<Bound, T, Context>;
};
}  // namespace detail

/// The node of a bound layer of any kind.
template <class Bound, class T, context Context>
using node_of = typename detail::node_of<Bound, T, Context>::type;

}  // namespace tessera
