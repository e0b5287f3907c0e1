#pragma once

#include <tessera/backend/concept.hpp>
#include <tessera/train/network_memory.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

namespace detail {

/// The elements of a model's input. A model that only changes layouts takes those of the model.
template <class Bound, class T>
using model_element = std::conditional_t<std::is_void_v<typename Bound::template input_element<T>>, T,
                                         typename Bound::template input_element<T>>;

}  // namespace detail

/// A model on a context with its memory: parameters, and gradients that lie in their buckets.
///
/// `Model` is a layer of any kind, or `parallel<...>`. `T` is float or double.
template <class Model, context Context, class T = float>
class network {
 public:
  using mesh = typename Context::mesh;
  using plan_type = plan<Model, mesh>;
  using bound = typename plan_type::bound;
  using value_type = T;
  /// Tensors of T, or of indices for a model whose first layer takes these.
  using input_type =
      edge_tensor<detail::model_element<bound, T>, Context, plan_type::input::rank, plan_type::input::layout>;
  using output_type = edge_tensor<T, Context, plan_type::output::rank, plan_type::loss_layout>;

  /// Starts every parameter at the values of its initialiser: all ranks draw the same numbers. Collective where the
  /// communicator gives memory for buckets.
  network(Context& context, seed start) : memory_(context) {
    memory_.allocate_buckets(plan_type::trainable(), plan_type::buckets(sizeof(T)), plan_type::sharing(sizeof(T)));
    root_.number(0, memory_.gate());
    typename detail::network_memory<Context, T>::allocator allocate{memory_, start};
    std::string path;
    root_.visit(path, allocate);
  }
  network(network const&) = delete;
  network& operator=(network const&) = delete;

  Context& where() const { return *memory_.context_; }

  /// The output in the layout in which a loss takes it. `training` turns batch statistics on.
  ///
  /// Throws where the input's extents are not those that the model was made for, and where deterministic kernels train
  /// on a batch that is not a multiple of their blocks.
  output_type forward(input_type const& x, bool training = true) {
    if (!detail::extents_agree(x.extents(), plan_type::input::extents))
      throw error("an input of " + to_string(x.extents()), to_string(plan_type::input::extents) + " (-1: any extent)",
                  "pass the extents that the model names");
    begin_batch(rows_ = x.extent(0), training);
    const typename detail::network_memory<Context, T>::forward_pass running(memory_);
    auto y = redistribute<typename output_type::layout_type>(root_.forward(x, training));
    forward_extents_ = training ? std::optional(y.extents()) : std::nullopt;
    return y;
  }

  /// Gradients of all parameters, from that of the output of the last forward pass in training.
  ///
  /// The all-reduce of each bucket starts when its last gradient exists and runs beside the rest, in the same order on
  /// all ranks; afterwards every gradient is whole. `kept` times what `accumulate` kept aside is added before. Throws
  /// where no such pass came before, or the extents are not those of its output.
  void backward(output_type const& gradient, double kept = 1) { run_backward(gradient, false, kept); }
  /// The same without the reductions of buckets: keeps the gradients aside, summed, for the next `backward`.
  void accumulate(output_type const& gradient) {
    if (deterministic)
      throw error("a batch in parts, with deterministic kernels", "whole batches",
                  "leave micro_batches at 1: on one rank and on several the gradients are added in different orders");
    run_backward(gradient, true, 0);
  }
  /// Forgets what `accumulate` kept aside.
  void drop_accumulated() { memory_.drop_kept(); }

  /// Whether reductions of buckets run beside the rest of backward (on at first), or each is waited for where it
  /// starts. The same on all ranks.
  void overlap(bool on) { memory_.overlap(on); }

  /// All parameters and states, in order of definition. Those that share a parameter name it once, where it comes
  /// first. With `optimizer_parallel` they are what this rank updates: its slices, with their gradients.
  std::vector<parameter_view<T>> const& parameters() const { return memory_.parameters_; }
  /// With `optimizer_parallel`: values of `parameters()` were changed by other means than the update after `backward`,
  /// so that layers need them anew. On all ranks; loading a checkpoint calls it.
  void parameters_changed() { memory_.forget(); }
  /// Calls `f(name, value)` with each parameter and state as a typed tensor, in order of definition. With
  /// `optimizer_parallel` it is collective, and changes of shared values are lost; in level 3 they are there during
  /// the call only.
  template <class F>
  void for_each_parameter(F&& f) {
    std::vector<void const*> ties;
    int position = 0;
    auto one = [&]<class Kind>(std::string const& name, Kind, auto const&, auto& value, auto&) {
      if constexpr (Kind::trainable) memory_.bring(position++);
      if constexpr (Kind::trainable && !std::is_void_v<typename Kind::tie>) {
        constexpr void const* tie = tie_of<typename Kind::tie>;
        if (std::find(ties.begin(), ties.end(), tie) != ties.end()) return;
        ties.push_back(tie);
      }
      f(name, value);
    };
    std::string path;
    root_.visit(path, one);
  }

  /// Rank 0's whole parameters and states to all ranks; those that are cut are left alone. With `optimizer_parallel`,
  /// each slice of the first rank that owns it.
  void broadcast_parameters() {
    for (auto const& p : memory_.parameters_) {
      const bool cut_by_layers = mesh::group_size(static_cast<axis_set>(p.cut_by & ~p.owners)) > 1;
      const auto alike = static_cast<axis_set>(mesh::all & ~p.owners);
      if (!cut_by_layers && mesh::group_size(alike) > 1)
        where().group(alike).broadcast(p.value.data, p.value.size(), 0);
    }
    memory_.forget();
  }

 private:
  static constexpr bool deterministic = deterministic_backend<typename Context::backend>;

  /// Deterministic kernels are told of how many rows their blocks are.
  void begin_batch(index_t rows, bool training) {
    if constexpr (deterministic) {
      static_assert(
          mesh::devices == 1 || requires { Context::communicator::sums_in_order; },
          "tessera: deterministic kernels with a communicator that adds up in an order of its own; use "
          "session<Mesh, deterministic<>>, or team<Mesh, ordered<Comm>, deterministic<>>");
      constexpr int parts = mesh::group_size(input_type::placements.shard_axes(0));
      where().kernels().template begin_batch<parts>(rows, training);
    }
  }
  void run_backward(output_type const& gradient, bool aside, double kept) {
    if (!forward_extents_)
      throw error("backward without a forward pass in training before it", "one forward(x) for each backward",
                  "call forward(x) with training on first");
    if (!(gradient.extents() == *forward_extents_))
      throw error("a gradient of " + to_string(gradient.extents()), to_string(*forward_extents_),
                  "pass the gradient of the output of the last forward pass");
    forward_extents_.reset();
    begin_batch(rows_, true);
    typename detail::network_memory<Context, T>::pass running(memory_, aside, kept);
    root_.template backward<false>(gradient, memory_);
    running.finish();
  }

  node_of<bound, T, Context> root_;
  std::optional<shape<plan_type::output::rank>> forward_extents_{};  // of a pass that backward may follow
  index_t rows_ = 0;                                                 // of the input of the last forward pass
  detail::network_memory<Context, T> memory_;
};

}  // namespace tessera
