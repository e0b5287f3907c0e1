#pragma once

#include <tessera/plan/parallel.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// The seed of a model's initial parameters.
struct seed {
  std::uint64_t value = 0;
};

/// A parameter (or state) of a network on this rank, without its type: for optimizers, checkpoints and tests.
template <class T>
struct parameter_view {
  std::string name;              ///< its place in the model, as in `3.branch.0.weight`
  block<T, 1> value;             ///< this rank's block in storage order
  block<T, 1> gradient;          ///< empty for states
  std::vector<index_t> extents;  ///< of the whole
  bool trainable = true;
  bool cut = false;     ///< whether ranks hold different parts of it
  axis_set cut_by = 0;  ///< the mesh axes along which they do
};

namespace detail {

/// The elements of a model's input. A model that only changes layouts takes those of the model.
template <class Bound, class T>
using model_element = std::conditional_t<std::is_void_v<typename Bound::template input_element<T>>, T,
                                         typename Bound::template input_element<T>>;

/// The part of a network that does not depend on the model's type, so that long models do not make it longer.
template <context Context, class T>
class network_memory {
 public:
  using mesh = typename Context::mesh;

  explicit network_memory(Context& context) : context_(&context) {}
  network_memory(network_memory const&) = delete;
  network_memory& operator=(network_memory const&) = delete;

  /// Called by layers when the gradients of `count` parameters from `first` on exist.
  void operator()(int first, int count) {
    for (int i = first; i < first + count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (aside_) {
        keep(at);
        continue;
      }
      if (kept_) context_->kernels().axpy(static_cast<T>(kept_factor_), sums_[at].read(), gradients_[at]);
      const int b = bucket_of_[at];
      if (b < 0 || --buckets_[static_cast<std::size_t>(b)].pending > 0) continue;
      auto& bucket = buckets_[static_cast<std::size_t>(b)];
      context_->group(bucket.axes).all_reduce(bucket.memory.data(), bucket.memory.size(), reduction::sum);
    }
  }

  /// `aside`: the gradients are kept for a later pass, which adds `kept` times what was kept.
  void begin_backward(bool aside, double kept) {
    aside_ = aside;
    kept_factor_ = kept;
    for (auto& bucket : buckets_) bucket.pending = bucket.members;
  }
  void end_backward() { kept_ = aside_; }
  void drop_kept() { kept_ = false; }

  /// Where the gradients of this rank's blocks lie in their buckets, which follows from the plan alone.
  void allocate_buckets(std::vector<parameter_info<mesh::axes>> const& trainable,
                        std::vector<gradient_bucket> const& plan) {
    bucket_of_.assign(trainable.size(), -1);
    offsets_.assign(trainable.size(), 0);
    for (gradient_bucket const& planned : plan) {
      index_t size = 0;
      for (const int member : planned.members) {
        const auto m = static_cast<std::size_t>(member);
        bucket_of_[m] = static_cast<int>(buckets_.size());
        offsets_[m] = size;
        size += trainable[m].template local_size<mesh>(context_->coordinates());
      }
      buckets_.push_back(
          {planned.axes, memory_type(shape<1>{{size}}, T{0}), static_cast<int>(planned.members.size()), 0});
    }
  }

  /// Visits parameters in order of definition and gives them memory and their first values.
  struct allocator {
    network_memory& network;
    seed start;
    std::size_t next = 0;  ///< trainable parameter

    template <class Kind, int Rank, class Value, class Gradient>
    void operator()(std::string const& name, Kind, shape<Rank> const& extents, Value& value, Gradient& gradient) {
      value = Value(*network.context_, extents);
      fill<typename Kind::init>(value, philox(start.value, stream_of(name)));
      constexpr axis_set cut_by = Value::placements.axes_of(placement_kind::shard);
      parameter_view<T> view{name,
                             {value.local().data(), {{value.local().size()}}},
                             {},
                             {extents.extents.begin(), extents.extents.end()},
                             Kind::trainable,
                             mesh::group_size(cut_by) > 1,
                             cut_by};
      if constexpr (Kind::trainable) {
        const int b = network.bucket_of_[next];
        if (b < 0) {
          gradient = Gradient(*network.context_, extents);
        } else {
          auto const& bucket = network.buckets_[static_cast<std::size_t>(b)].memory;
          gradient = Gradient(*network.context_, extents, bucket.part(network.offsets_[next], value.local().extents()));
        }
        view.gradient = {gradient.local().data(), {{gradient.local().size()}}};
        network.gradients_.push_back(view.gradient);
        ++next;
      }
      network.parameters_.push_back(std::move(view));
    }
  };

  Context* context_;
  std::vector<parameter_view<T>> parameters_{};

 private:
  using memory_type = tensor<T, 1, typename Context::backend::memory, Context::backend::order>;
  struct bucket {
    axis_set axes;
    memory_type memory;
    int members;
    int pending;  ///< members whose gradient does not exist yet
  };

  /// Each element by its index in the whole, in logical row-major order.
  template <class Init, class Value>
  static void fill(Value& value, philox const& draw) {
    constexpr int rank = Value::rank;
    const box<rank> part = value.part();
    const fans f = fans_of(value.extents());
    const auto whole = strides_of<storage_order::row_major>(value.extents());
    const auto local = strides_of<Context::backend::order>(value.local().extents());
    const auto count = part.extents();
    for (index_t i = 0; i < count.size(); ++i) {
      index_t global = 0;
      index_t at = 0;
      index_t rest = i;
      for (int d = rank - 1; d >= 0; --d) {
        const index_t along = rest % count[d];
        rest /= count[d];
        global += (part[d].begin + along) * whole[static_cast<std::size_t>(d)];
        at += along * local[static_cast<std::size_t>(d)];
      }
      value.local().data()[at] = static_cast<T>(Init::value(draw, global, f));
    }
  }

  /// Adds a gradient to what is kept of its parameter.
  void keep(std::size_t at) {
    if (sums_.empty())
      for (auto const& gradient : gradients_) sums_.emplace_back(gradient.extents);
    if (kept_)
      context_->kernels().axpy(T{1}, gradients_[at], sums_[at].view());
    else
      context_->kernels().scale(gradients_[at], T{1}, sums_[at].view());
  }

  std::vector<bucket> buckets_{};
  // By trainable parameter:
  std::vector<int> bucket_of_{};    // -1 for none
  std::vector<index_t> offsets_{};  // in its bucket
  std::vector<block<T, 1>> gradients_{};
  std::vector<memory_type> sums_{};  // of gradients that are kept aside; empty until there are any

  bool aside_ = false;  // whether gradients of this pass are kept aside
  bool kept_ = false;   // whether there are any of earlier passes
  double kept_factor_ = 1;
};

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

  /// Starts every parameter at the values of its initialiser. No communication: all ranks draw the same numbers.
  network(Context& context, seed start) : memory_(context) {
    root_.number(0);
    memory_.allocate_buckets(plan_type::trainable(), plan_type::buckets(sizeof(T)));
    typename detail::network_memory<Context, T>::allocator allocate{memory_, start};
    std::string path;
    root_.visit(path, allocate);
  }
  network(network const&) = delete;
  network& operator=(network const&) = delete;

  Context& where() const { return *memory_.context_; }

  /// The output in the layout in which a loss takes it. `training` turns batch statistics on.
  ///
  /// Throws where the input's extents are not those that the model was made for.
  output_type forward(input_type const& x, bool training = true) {
    if (!detail::extents_agree(x.extents(), plan_type::input::extents))
      throw error("an input of " + to_string(x.extents()), to_string(plan_type::input::extents) + " (-1: any extent)",
                  "pass the extents that the model names");
    auto y = redistribute<typename output_type::layout_type>(root_.forward(x, training));
    forward_extents_ = training ? std::optional(y.extents()) : std::nullopt;
    return y;
  }

  /// Gradients of all parameters, from that of the output of the last forward pass in training.
  ///
  /// Each bucket is all-reduced when its last gradient exists; afterwards every gradient is whole. `kept` times what
  /// `accumulate` kept aside is added before. Throws where no such pass came before, or the extents are not those of
  /// its output.
  void backward(output_type const& gradient, double kept = 1) { run_backward(gradient, false, kept); }
  /// The same without the reductions of buckets: keeps the gradients aside, summed, for the next `backward`.
  void accumulate(output_type const& gradient) { run_backward(gradient, true, 0); }
  /// Forgets what `accumulate` kept aside.
  void drop_accumulated() { memory_.drop_kept(); }

  /// All parameters and states, in order of definition.
  std::vector<parameter_view<T>> const& parameters() const { return memory_.parameters_; }
  /// Calls `f(name, value)` with each parameter and state as a typed tensor, in order of definition.
  template <class F>
  void for_each_parameter(F&& f) {
    auto one = [&](std::string const& name, auto, auto const&, auto& value, auto&) { f(name, value); };
    std::string path;
    root_.visit(path, one);
  }

  /// Rank 0's whole parameters and states to all ranks; those that are cut are left alone.
  void broadcast_parameters() {
    for (auto const& p : memory_.parameters_)
      if (!p.cut && mesh::devices > 1) where().group(mesh::all).broadcast(p.value.data, p.value.size(), 0);
  }

 private:
  void run_backward(output_type const& gradient, bool aside, double kept) {
    if (!forward_extents_)
      throw error("backward without a forward pass in training before it", "one forward(x) for each backward",
                  "call forward(x) with training on first");
    if (!(gradient.extents() == *forward_extents_))
      throw error("a gradient of " + to_string(gradient.extents()), to_string(*forward_extents_),
                  "pass the gradient of the output of the last forward pass");
    forward_extents_.reset();
    memory_.begin_backward(aside, kept);
    root_.template backward<false>(gradient, memory_);
    memory_.end_backward();
  }

  node_of<bound, T, Context> root_;
  std::optional<shape<plan_type::output::rank>> forward_extents_{};  // of a pass that backward may follow
  detail::network_memory<Context, T> memory_;
};

}  // namespace tessera
