#pragma once

#include <tessera/layer/chain.hpp>
#include <tessera/op/elementwise.hpp>

namespace tessera {

/// The shortcut that changes nothing.
struct identity {};

/// y = branch(x) + shortcut(x), both layers of any kind; the shortcut is the input itself unless said otherwise.
///
/// The sum has the layout of the shortcut (reduced where that is partial); a partial branch is reduced to it once.
template <class Branch, class Shortcut = identity>
struct residual {
  using composition = residual;
};

template <class Branch, class Shortcut, device_mesh Mesh, class Flow>
struct bound_residual {
  using mesh = Mesh;
  using input = Flow;
  using layout_value = placements<Mesh::axes>;
  static constexpr bool plain = std::is_same_v<Shortcut, identity>;
  using branch = tessera::bind<Branch, Mesh, Flow>;

 private:
  template <bool Plain, class Dummy = void>
  struct other {
    using bound = void;
    using output = Flow;
  };
  template <class Dummy>
  struct other<false, Dummy> {
    using bound = tessera::bind<Shortcut, Mesh, Flow>;
    using output = typename bound::output;
  };

 public:
  using shortcut = typename other<plain>::bound;
  using branch_output = typename branch::output;
  using shortcut_output = typename other<plain>::output;
  static_assert(branch_output::rank == shortcut_output::rank &&
                    detail::extents_agree(branch_output::extents, shortcut_output::extents),
                "tessera: branch and shortcut of a residual have different extents; give the shortcut a layer that "
                "makes them equal, as in residual<branch, conv2d<...>>");

  static constexpr bool shortcut_learns = [] {
    if constexpr (plain)
      return false;
    else
      return shortcut::learns;
  }();
  static constexpr bool learns = branch::learns || shortcut_learns;

  static constexpr bool only_layout = false;
  /// The elements of the input, as the branch takes them.
  template <class T>
  using input_element = typename branch::template input_element<T>;

  /// The layout of the sum.
  static constexpr layout_value joined = dual(shortcut_output::layout);
  using output = flow<branch_output::extents, joined>;

  /// The layout of the output's gradient as both sides take it: a partial one may pass.
  static constexpr layout_value needed(layout_value const& arriving) {
    layout_value out = joined;
    for (int a = 0; a < Mesh::axes; ++a)
      if (joined[a].is_replicated() && arriving[a].is_partial()) out[a] = arriving[a];
    return out;
  }
  static constexpr layout_value branch_arriving(layout_value const& arriving) {
    return gradient_for(branch_output::layout, needed(arriving));
  }
  static constexpr layout_value shortcut_arriving(layout_value const& arriving) {
    return gradient_for(shortcut_output::layout, needed(arriving));
  }
  static constexpr layout_value shortcut_gradient(layout_value const& arriving) {
    if constexpr (plain)
      return shortcut_arriving(arriving);
    else
      return shortcut::gradient(shortcut_arriving(arriving));
  }
  /// Both contributions in one layout: partial where both are, so that the sum is reduced once.
  static constexpr layout_value gradient(layout_value const& arriving) {
    const layout_value one = branch::gradient(branch_arriving(arriving));
    const layout_value two = shortcut_gradient(arriving);
    layout_value out = one;
    for (int a = 0; a < Mesh::axes; ++a)
      if (!(one[a] == two[a])) out[a] = replicated_placement();
    return out;
  }

  static constexpr void append_parameters(std::vector<parameter_info<Mesh::axes>>& list) {
    branch::append_parameters(list);
    if constexpr (!plain) shortcut::append_parameters(list);
  }
  static constexpr void append_forward(call_list<Mesh::axes>& calls) {
    branch::append_forward(calls);
    if constexpr (!plain) shortcut::append_forward(calls);
    append_route<Mesh>(calls, phase::forward, branch_output::extents, branch_output::layout, joined);
    append_route<Mesh>(calls, phase::forward, shortcut_output::extents, shortcut_output::layout, joined);
  }
  static constexpr void append_backward(call_list<Mesh::axes>& calls, layout_value const& arriving, bool wants_input) {
    append_route<Mesh>(calls, phase::backward, output::extents, arriving, needed(arriving));
    // A side that learns nothing is left out where nobody wants the input's gradient.
    const bool to_shortcut = wants_input || shortcut_learns;
    const bool to_branch = wants_input || branch::learns;
    if (to_shortcut)
      append_route<Mesh>(calls, phase::backward, output::extents, needed(arriving), shortcut_arriving(arriving));
    if (to_branch)
      append_route<Mesh>(calls, phase::backward, output::extents, needed(arriving), branch_arriving(arriving));
    if constexpr (!plain)
      if (to_shortcut) shortcut::append_backward(calls, shortcut_arriving(arriving), wants_input);
    if (to_branch) branch::append_backward(calls, branch_arriving(arriving), wants_input);
    if (!wants_input) return;
    append_route<Mesh>(calls, phase::backward, Flow::extents, branch::gradient(branch_arriving(arriving)),
                       gradient(arriving));
    append_route<Mesh>(calls, phase::backward, Flow::extents, shortcut_gradient(arriving), gradient(arriving));
  }
};

template <class Bound, class T, context Context>
class residual_node {
  using mesh = typename Context::mesh;
  template <placements<mesh::axes> Layout, class X>
  static auto bring(X const& x) {
    return redistribute<layout_of<mesh, Layout>>(x);
  }

 public:
  template <sharded_tensor X>
  auto forward(X const& x, bool training) {
    auto y = branch_.forward(x, training);
    if constexpr (Bound::plain) {
      return join(y, x);
    } else {
      return join(y, shortcut_.forward(x, training));
    }
  }

  template <bool WantsInput, sharded_tensor Dy, class Ready>
  auto backward(Dy const& dy, Ready& ready) {
    constexpr auto arriving = Dy::placements;
    const auto d = bring<Bound::needed(arriving)>(dy);
    if constexpr (!WantsInput) {
      if constexpr (Bound::shortcut_learns)
        shortcut_.template backward<false>(bring<Bound::shortcut_arriving(arriving)>(d), ready);
      if constexpr (Bound::branch::learns)
        branch_.template backward<false>(bring<Bound::branch_arriving(arriving)>(d), ready);
      return no_gradient{};
    } else {
      const auto to_shortcut = bring<Bound::shortcut_arriving(arriving)>(d);
      const auto to_branch = bring<Bound::branch_arriving(arriving)>(d);
      constexpr auto common = Bound::gradient(arriving);
      if constexpr (Bound::plain) {
        const auto one = bring<common>(branch_.template backward<true>(to_branch, ready));
        return op::add(one, bring<common>(to_shortcut));
      } else {
        const auto two = shortcut_.template backward<true>(to_shortcut, ready);
        const auto one = bring<common>(branch_.template backward<true>(to_branch, ready));
        return op::add(one, bring<common>(two));
      }
    }
  }

  template <class F>
  void visit(std::string& path, F& f) {
    {
      const path_entry side(path, "branch.");
      branch_.visit(path, f);
    }
    if constexpr (!Bound::plain) {
      const path_entry side(path, "shortcut.");
      shortcut_.visit(path, f);
    }
  }
  template <class F>
  void visit_saved(F& f) {
    branch_.visit_saved(f);
    if constexpr (!Bound::plain) shortcut_.visit_saved(f);
  }
  int number(int first, parameter_gate* gate = nullptr) {
    first = branch_.number(first, gate);
    if constexpr (!Bound::plain) first = shortcut_.number(first, gate);
    return first;
  }

 private:
  struct none {};
  template <bool Plain, class Dummy = void>
  struct other {
    using type = none;
  };
  template <class Dummy>
  struct other<false, Dummy> {
    using type = node_of<typename Bound::shortcut, T, Context>;
  };

  template <class A, class B>
  static auto join(A const& y, B const& s) {
    const auto one = bring<Bound::joined>(y);
    return op::add(one, bring<Bound::joined>(s));
  }

  node_of<typename Bound::branch, T, Context> branch_;
  typename other<Bound::plain>::type shortcut_;
};

namespace detail {
template <class Branch, class Shortcut, class Mesh, class Flow>
struct bind<residual<Branch, Shortcut>, Mesh, Flow> {
  using type = bound_residual<Branch, Shortcut, Mesh, Flow>;
};
template <class Branch, class Shortcut, class Mesh, class Flow, class T, class Context>
struct node_of<bound_residual<Branch, Shortcut, Mesh, Flow>, T, Context> {
  using type = residual_node<bound_residual<Branch, Shortcut, Mesh, Flow>, T, Context>;
};
}  // namespace detail

}  // namespace tessera
