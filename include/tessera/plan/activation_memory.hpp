#pragma once

#include <tessera/plan/paper_pass.hpp>
#include <tessera/plan/parallel.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace tessera {

/// Bytes of tensors, as `host_memory::used()` counts them, that a pass forward and the pass backward after it need on a
/// device beside parameters and gradients.
struct activation_bytes {
  index_t kept = 0;   ///< what layers keep from forward to backward; a block that several keep counts once
  index_t input = 0;  ///< of these, the block of the input; 0 where no layer keeps it
  /// The most that there is at one time in either pass, or a little more: what is kept then, input and output, values
  /// and gradients between layers and on the way to another layout, and the `scratch` of one layer.
  index_t peak = 0;

  /// What the passes need beside `kept`. Without what kernels and the loss keep for themselves.
  constexpr index_t workspace() const { return peak - kept; }
};

namespace detail {

/// What a bound layer of any kind does with memory, for an input of `Extents` and a model of elements T. `forward` and
/// `backward` borrow their argument and hand what they return over; `first` is the place of the layer's part of `kept`,
/// which is `layers` long.
template <class Bound, auto Extents, class T>
struct on_paper;

template <auto Target, class Mesh, class Flow, auto Extents, class T>
struct on_paper<bound_relayout<Target, Mesh, Flow>, Extents, T> {
  using bound = bound_relayout<Target, Mesh, Flow>;
  static constexpr auto output = Extents;
  static constexpr int layers = 0;

  static constexpr paper_tensor forward(paper_pass<Mesh>& p, paper_tensor x, int) {
    return p.template redistribute<Flow::layout, Target>(Extents, x);
  }
  template <placements<Mesh::axes> Arriving, bool WantsInput>
  static constexpr paper_tensor backward(paper_pass<Mesh>& p, paper_tensor dy, int) {
    if constexpr (WantsInput)
      return p.template redistribute<Arriving, bound::gradient(Arriving)>(Extents, dy);
    else
      return {};
  }
};

template <class Layer, class Mesh, class Flow, auto Extents, class T>
struct on_paper<bound_layer<Layer, Mesh, Flow>, Extents, T> {
  using bound = bound_layer<Layer, Mesh, Flow>;
  static constexpr auto output = Layer::template output<Extents>();
  static constexpr int layers = 1;

  static constexpr kept_memory memory(paper_pass<Mesh> const& p) {
    return kept_by<Layer, Extents, Mesh>(bound::resolved, p.at, sizeof(T));
  }
  static constexpr paper_tensor forward(paper_pass<Mesh>& p, paper_tensor x, int first) {
    const kept_memory memory = on_paper::memory(p);
    const paper_tensor in = p.template redistribute<Flow::layout, bound::resolved.operand[0]>(Extents, x);
    const paper_tensor y = memory.passes_on ? paper_tensor{p.share(in.block), sizeof(T)}
                                            : p.tensor(bound::resolved.output, output, sizeof(T));
    auto& kept = p.kept[static_cast<std::size_t>(first)];
    if (memory.input) kept.input = p.share(in.block);
    if (memory.output) kept.output = p.share(y.block);
    if (memory.own > 0) kept.own = p.make(memory.own);
    p.need(memory.scratch);
    p.drop(in);
    return y;
  }
  template <placements<Mesh::axes> Arriving, bool WantsInput>
  static constexpr paper_tensor backward(paper_pass<Mesh>& p, paper_tensor dy, int first) {
    if constexpr (!WantsInput && !bound::learns) {
      p.forget(first);
      return {};
    } else {
      const kept_memory memory = on_paper::memory(p);
      const paper_tensor gradient = p.template redistribute<Arriving, bound::needed(Arriving)>(output, dy);
      if constexpr (!WantsInput) {
        p.need(memory.scratch);
        p.forget(first);
        p.drop(gradient);
        return {};
      } else {
        const paper_tensor dx =
            memory.passes_on ? p.handle(gradient) : p.tensor(bound::produced(Arriving), Extents, sizeof(T));
        p.need(memory.scratch);
        p.forget(first);
        const paper_tensor out =
            p.template redistribute<bound::produced(Arriving), bound::gradient(Arriving)>(Extents, dx);
        p.drop(dx);
        p.drop(gradient);
        return out;
      }
    }
  }
};

template <class Chain, class Mesh, class Flow, auto Extents, class T>
struct on_paper<bound_chain<Chain, Mesh, Flow>, Extents, T> {
  using bound = bound_chain<Chain, Mesh, Flow>;
  static constexpr int count = bound::count;

 private:
  // One by one, as the edges of the chain.
  template <int I, class = void>
  struct place {
    static constexpr auto extents = on_paper<typename bound::template at<I - 1>, place<I - 1>::extents, T>::output;
    static constexpr int layers =
        place<I - 1>::layers + on_paper<typename bound::template at<I - 1>, place<I - 1>::extents, T>::layers;
  };
  template <class Dummy>
  struct place<0, Dummy> {
    static constexpr auto extents = Extents;
    static constexpr int layers = 0;
  };
  using sequence = std::make_integer_sequence<int, count>;

 public:
  /// The extents of the input of layer `I`; of layer `count`: of the output.
  template <int I>
  static constexpr auto extents = place<I>::extents;
  static constexpr auto output = extents<count>;
  static constexpr int layers = place<count>::layers;

  static constexpr paper_tensor forward(paper_pass<Mesh>& p, paper_tensor x, int first) {
    paper_tensor now = p.handle(x);
    const auto one = [&]<int I>(std::integral_constant<int, I>) {
      const paper_tensor y =
          on_paper<typename bound::template at<I>, extents<I>, T>::forward(p, now, first + place<I>::layers);
      p.drop(now);
      now = y;
    };
    [&]<int... I>(std::integer_sequence<int, I...>) { (one(std::integral_constant<int, I>{}), ...); }
    (sequence{});
    return now;
  }
  template <placements<Mesh::axes> Arriving, bool WantsInput>
  static constexpr paper_tensor backward(paper_pass<Mesh>& p, paper_tensor dy, int first) {
    paper_tensor now = p.handle(dy);
    const auto one = [&]<int I>(std::integral_constant<int, I>) {
      if constexpr (WantsInput || bound::template learns_before<I + 1> || I + 1 == count) {
        constexpr bool wants = WantsInput || bound::template learns_before<I>;
        const paper_tensor dx = on_paper<typename bound::template at<I>, extents<I>, T>::template backward<
            bound::template gradient_before<I + 1>(Arriving), wants>(p, now, first + place<I>::layers);
        p.drop(now);
        now = dx;
      }
    };
    [&]<int... I>(std::integer_sequence<int, I...>) { (one(std::integral_constant<int, count - 1 - I>{}), ...); }
    (sequence{});
    return now;
  }
};

template <class Branch, class Shortcut, class Mesh, class Flow, auto Extents, class T>
struct on_paper<bound_residual<Branch, Shortcut, Mesh, Flow>, Extents, T> {
  using bound = bound_residual<Branch, Shortcut, Mesh, Flow>;
  using branch = on_paper<typename bound::branch, Extents, T>;

 private:
  template <bool Plain, class Dummy = void>
  struct other {
    using type = on_paper<typename bound::shortcut, Extents, T>;
  };
  template <class Dummy>
  struct other<true, Dummy> {
    struct type {
      static constexpr int layers = 0;
    };
  };

 public:
  using shortcut = typename other<bound::plain>::type;
  static constexpr auto output = branch::output;
  static constexpr int layers = branch::layers + shortcut::layers;

  static constexpr paper_tensor forward(paper_pass<Mesh>& p, paper_tensor x, int first) {
    const paper_tensor y = branch::forward(p, x, first);
    const paper_tensor s = [&] {
      if constexpr (bound::plain)
        return p.handle(x);
      else
        return shortcut::forward(p, x, first + branch::layers);
    }();
    const paper_tensor one = p.template redistribute<bound::branch_output::layout, bound::joined>(output, y);
    const paper_tensor two = p.template redistribute<bound::shortcut_output::layout, bound::joined>(output, s);
    const paper_tensor sum = p.tensor(bound::joined, output, sizeof(T));
    for (const paper_tensor t : {y, s, one, two}) p.drop(t);
    return sum;
  }
  template <placements<Mesh::axes> Arriving, bool WantsInput>
  static constexpr paper_tensor backward(paper_pass<Mesh>& p, paper_tensor dy, int first) {
    constexpr auto needed = bound::needed(Arriving);
    constexpr auto at_branch = bound::branch_arriving(Arriving);
    constexpr auto at_shortcut = bound::shortcut_arriving(Arriving);
    const paper_tensor d = p.template redistribute<Arriving, needed>(output, dy);
    paper_tensor sum{};
    if constexpr (!WantsInput) {
      if constexpr (bound::shortcut_learns) {
        const paper_tensor to = p.template redistribute<needed, at_shortcut>(output, d);
        shortcut::template backward<at_shortcut, false>(p, to, first + branch::layers);
        p.drop(to);
      }
      if constexpr (bound::branch::learns) {
        const paper_tensor to = p.template redistribute<needed, at_branch>(output, d);
        branch::template backward<at_branch, false>(p, to, first);
        p.drop(to);
      }
    } else {
      constexpr auto common = bound::gradient(Arriving);
      const paper_tensor to_shortcut = p.template redistribute<needed, at_shortcut>(output, d);
      const paper_tensor to_branch = p.template redistribute<needed, at_branch>(output, d);
      const paper_tensor of_shortcut = [&] {
        if constexpr (bound::plain)
          return p.handle(to_shortcut);
        else
          return shortcut::template backward<at_shortcut, true>(p, to_shortcut, first + branch::layers);
      }();
      const paper_tensor of_branch = branch::template backward<at_branch, true>(p, to_branch, first);
      const paper_tensor one = p.template redistribute<bound::branch::gradient(at_branch), common>(Extents, of_branch);
      p.drop(of_branch);
      const paper_tensor two =
          p.template redistribute<bound::shortcut_gradient(Arriving), common>(Extents, of_shortcut);
      sum = p.tensor(common, Extents, sizeof(T));
      for (const paper_tensor t : {to_shortcut, to_branch, of_shortcut, one, two}) p.drop(t);
    }
    p.drop(d);
    return sum;
  }
};

// Keeps the input and the states that forward found; the rest of what the layer keeps is there in its backward pass
// only.
template <class Layer, class Mesh, class Flow, auto Extents, class T>
struct on_paper<bound_recompute<Layer, Mesh, Flow>, Extents, T> {
  using bound = bound_recompute<Layer, Mesh, Flow>;
  using inner = on_paper<typename bound::inner, Extents, T>;
  static constexpr auto output = inner::output;
  static constexpr int layers = 1 + inner::layers;

  static constexpr paper_tensor forward(paper_pass<Mesh>& p, paper_tensor x, int first) {
    auto& kept = p.kept[static_cast<std::size_t>(first)];
    if (const index_t bytes = states(p); bytes > 0) kept.own = p.make(bytes);
    const paper_tensor y = inner::forward(p, x, first + 1);
    kept.input = p.share(x.block);
    for (int layer = 1; layer < layers; ++layer) p.forget(first + layer);
    return y;
  }
  template <placements<Mesh::axes> Arriving, bool WantsInput>
  static constexpr paper_tensor backward(paper_pass<Mesh>& p, paper_tensor dy, int first) {
    if constexpr (WantsInput || bound::learns) {
      const paper_tensor x{p.kept[static_cast<std::size_t>(first)].input, element_bytes};
      p.drop(inner::forward(p, x, first + 1));
    }
    p.forget(first);
    return inner::template backward<Arriving, WantsInput>(p, dy, first + 1);
  }

 private:
  static constexpr index_t states(paper_pass<Mesh> const& p) {
    std::vector<parameter_info<Mesh::axes>> parameters;
    bound::append_parameters(parameters);
    index_t bytes = 0;
    for (auto const& one : parameters)
      if (!one.trainable) bytes += block_bytes(one.template local_size<Mesh>(p.at), sizeof(T));
    return bytes;
  }
  using element = typename bound::template input_element<T>;
  static constexpr index_t element_bytes = sizeof(std::conditional_t<std::is_void_v<element>, T, element>);
};

template <int Rank>
constexpr bool all_known(shape<Rank> const& extents) {
  for (int d = 0; d < Rank; ++d)
    if (extents[d] == dynamic) return false;
  return true;
}

/// Both passes of a bound model whose output is brought to `Result`, in whose layout `Arriving` its gradient comes.
template <class Bound, auto Extents, class T, auto Result, auto Arriving, bool WantsInput>
constexpr activation_bytes passes_on_paper(decltype(Bound::mesh::sizes) const& at) {
  static_assert(extents_agree(Extents, Bound::input::extents),
                "tessera: these are no extents of an input of the model; name an extent for each of its dimensions, "
                "those that it states as they are");
  static_assert(all_known(Extents),
                "tessera: the memory of activations needs all extents of the input, and some of this model only run "
                "time knows; name them: the last argument is input<32, 3, 224, 224>, say");
  using model = on_paper<Bound, Extents, T>;
  using element = typename Bound::template input_element<T>;
  paper_pass<typename Bound::mesh> p(at, model::layers);
  const paper_tensor x =
      p.tensor(Bound::input::layout, Extents, sizeof(std::conditional_t<std::is_void_v<element>, T, element>));
  const paper_tensor made = model::forward(p, x, 0);
  const paper_tensor y = p.template redistribute<Bound::output::layout, Result>(model::output, made);
  for (const paper_tensor t : {made, y, x}) p.drop(t);
  activation_bytes bytes{p.live(), p.owners(x.block) > 0 ? p.bytes(x.block) : 0, 0};
  // Whoever calls has both until the end.
  p.share(x.block);
  p.share(y.block);
  const paper_tensor dy = p.tensor(Arriving, model::output, sizeof(T));
  model::template backward<Arriving, WantsInput>(p, dy, 0);
  bytes.peak = p.peak();
  return bytes;
}

}  // namespace detail

/// What a bound layer of any kind needs on the device at `at`, in a model of elements T, for an input of these extents,
/// all of them known. The whole that its neighbours share blocks with is less than the sum of all.
template <class Bound, class T = float, auto Extents = Bound::input::extents>
constexpr activation_bytes activation_memory_of(decltype(Bound::mesh::sizes) const& at = {}) {
  constexpr auto arriving = dual(Bound::output::layout);
  return detail::passes_on_paper<Bound, Extents, T, Bound::output::layout, arriving, true>(at);
}

/// What a network of `Model` needs between its parameters and gradients on the device at `at`, the first device having
/// blocks as large as any. A constant:
///
///     static_assert(activation_memory<model, world, float, input<32, 784>>().kept < 1'000'000);
///
/// `Input` names the extents of a batch on all devices together; without it they are those of the model, which must
/// then all be known. With `recompute<block>` only the input of the block is kept, and `peak` has what the block keeps
/// once more. Does not compile where a layer does not tell what it keeps (layer/concept.hpp), and of a model with
/// stages (see `training_memory`).
template <class Model, device_mesh Mesh, class T = float, class Input = typename plan<Model, Mesh>::input>
constexpr activation_bytes activation_memory(decltype(Mesh::sizes) const& at = {}) {
  static_assert(!pipelined_model<Model>,
                "tessera: activation_memory is of all layers of a model, and ranks of a pipeline have those of their "
                "stages; ask training_memory, which counts the passes that are under way too");
  using plan_type = plan<Model, Mesh>;
  constexpr auto loss = plan_type::loss_layout;
  return detail::passes_on_paper<typename plan_type::bound, Input::extents, T, loss, loss, false>(at);
}

}  // namespace tessera
