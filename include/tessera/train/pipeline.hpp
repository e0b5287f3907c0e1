#pragma once

#include <tessera/backend/progress.hpp>
#include <tessera/comm/concept.hpp>
#include <tessera/core/trace.hpp>
#include <tessera/train/loss_total.hpp>
#include <tessera/train/network.hpp>
#include <tessera/train/pipeline_stage.hpp>
#include <tessera/train/pipeline_ties.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// A model with a `pipeline` policy: each rank has the memory of its own stages only.
///
/// Parameters have the names and first values that they have in the serial model. Activations and gradients pass from
/// each rank to the rank of the same other coordinates in the stage behind or before, in the layouts of the cut. A
/// parameter that stages share belongs to the first of them; the others get its values before each pass.
template <class Model, context Context, class T>
requires pipelined_model<Model>
class network<Model, Context, T> {
  using pipe = pipeline_plan<Model, typename Context::mesh>;
  using schedule = typename pipe::schedule;
  using pass = pipeline_action::pass;
  template <int S>
  using stage = typename pipe::template stage<S>;
  template <int S>
  using stage_type = detail::stage_network<stage<S>, Context, T>;
  static constexpr int last = pipe::stages - 1;
  static_assert(!deterministic_backend<typename Context::backend>,
                "tessera: a pipeline adds up the gradients of micro-batches, which deterministic kernels do not; use "
                "data_parallel alone, or the backend that deterministic<> is given");

 public:
  using mesh = typename Context::mesh;
  using plan_type = plan<Model, mesh>;
  using bound = typename plan_type::bound;
  using value_type = T;
  using input_type =
      edge_tensor<detail::model_element<bound, T>, Context, plan_type::input::rank, plan_type::input::layout>;
  using output_type = edge_tensor<T, Context, plan_type::output::rank, plan_type::loss_layout>;

  /// Starts the parameters of this rank's stages at the values of their initialisers.
  network(Context& context, seed start) : context_(&context) {
    for_own_stages([&]<int S>(std::integral_constant<int, S>) {
      auto& made = stages_.template at<S>().emplace(context, start);
      ties_.find(made, S);
      for (auto const& p : made.memory.parameters_) {
        if (ties_.is_copy(p.name)) continue;
        parameters_.push_back(p);
        parameters_.back().cut = parameters_.back().cut || pipe::devices > 1;
        parameters_.back().cut_by = static_cast<axis_set>(p.cut_by | pipe::axes);
      }
    });
  }
  network(network const&) = delete;
  network& operator=(network const&) = delete;

  Context& where() const { return *context_; }

  /// The output on all ranks, in the layout in which a loss takes it, with running statistics and without dropout.
  ///
  /// Messages from stage to stage, then a broadcast along the pipeline. Throws where the input's extents are not those
  /// that the model was made for, and for `training`: a training pass is part of a `step`.
  output_type forward(input_type const& x, bool training = false) {
    if (training)
      throw error("forward in training through a pipeline", "a step, which takes all parts of a batch at once",
                  "use a trainer, or network::step; forward(x, false) evaluates");
    require_extents(x);
    ties_.share_values(where());
    detail::outbox<Context> sent(along());
    std::optional<output_type> y;
    for_own_stages([&]<int S>(std::integral_constant<int, S>) {
      auto& here = *stages_.template at<S>();
      auto out = [&] {
        if constexpr (S == 0) {
          return here.forward(x, false);
        } else {
          detail::stage_inboxes<stage<S>, pipe, Context, T> arriving(where());
          arriving.activations.expect();
          return here.forward(arriving.activations.take(), false);
        }
      }();
      if constexpr (S == last)
        y = redistribute<typename output_type::layout_type>(std::move(out));
      else
        sent.template send_with_extents<stage<S>::output::extents>(out, pipe::device_of(S + 1),
                                                                   detail::activation_tag(S + 1));
    });
    auto extents = y ? y->extents() : shape<output_type::rank>{};
    detail::host_side(along()).broadcast(extents.extents.data(), output_type::rank, pipe::device_of(last));
    if (!y) y.emplace(where(), extents);
    along().broadcast(y->local().data(), y->local().size(), pipe::device_of(last));
    sent.finish();
    return *std::move(y);
  }

  /// The gradients of all parameters, whole, for a batch that comes in `count` parts; returns its loss, on all ranks.
  ///
  /// `input(i)` is part i, asked for on the ranks of the first and the last stage, on the last before `targets(i)`.
  /// `loss(output, targets)` runs there too; its gradients are multiplied by `factor`. A mean loss weighs rows as over
  /// the whole batch. Throws what the loss throws, and where the input's extents are not those that the model was made
  /// for, on the ranks of these stages: the other ranks wait for them, so let the exception end the program.
  template <class Input, class Targets, class Loss>
  double step(index_t count, Input const& input, Targets const& targets, Loss&& loss, double factor = 1) {
    const int parts = static_cast<int>(count);
    const auto actions = schedule::actions(pipe::devices, device(), parts);
    ties_.share_values(where());
    running now(*this, parts);
    now.expect(actions.front());
    int live = 0;
    peak_live_ = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const pipeline_action a = actions[i];
      // What comes next may arrive while this pass runs.
      const auto look_ahead = [&] {
        if (i + 1 < actions.size() && !is_return(a, actions[i + 1])) now.expect(actions[i + 1]);
      };
      for_own_stages([&]<int S>(std::integral_constant<int, S>) {
        if (a.chunk != pipe::chunk_of(S)) return;
        if (a.kind == pass::forward)
          now.template forward<S>(a.part, input, targets, loss, factor, look_ahead);
        else
          now.template backward<S>(a.part, look_ahead);
      });
      live += a.kind == pass::forward ? 1 : -1;
      peak_live_ = std::max(peak_live_, live);
    }
    now.sent.finish();
    ties_.join_gradients(where());
    double result[2] = {now.total.value(), now.total.scale()};
    detail::host_side(along()).broadcast(result, 2, pipe::device_of(last));
    if (result[1] != 1)
      for (auto const& p : parameters_)
        if (p.trainable) where().kernels().scale(p.gradient, static_cast<T>(result[1]), p.gradient);
    return result[0];
  }

  /// The most passes of which this rank kept activations at one time in the last step.
  int peak_live() const { return peak_live_; }

  /// Whether reductions of buckets run beside the rest of backward (on at first), or each is waited for where it
  /// starts. The same on all ranks.
  void overlap(bool on) {
    for_own_stages([&]<int S>(std::integral_constant<int, S>) { stages_.template at<S>()->memory.overlap(on); });
  }

  /// The parameters and states of this rank's stages, in order of definition. They count as cut along the pipeline:
  /// ranks of other stages hold others.
  std::vector<parameter_view<T>> const& parameters() const { return parameters_; }
  /// As without a pipeline.
  void parameters_changed() {
    for_own_stages([&]<int S>(std::integral_constant<int, S>) { stages_.template at<S>()->memory.forget(); });
  }
  /// Calls `f(name, value)` with each of them as a typed tensor.
  template <class F>
  void for_each_parameter(F&& f) {
    std::size_t next = 0;
    for_own_stages([&]<int S>(std::integral_constant<int, S>) {
      auto& here = *stages_.template at<S>();
      int position = 0;
      auto one = [&]<class Kind>(std::string const& name, Kind, auto const&, auto& value, auto&) {
        if constexpr (Kind::trainable) here.memory.bring(position++);
        // Those that share the memory of others are no parameters of their own.
        if (next == parameters_.size() || parameters_[next].name != name) return;
        ++next;
        f(name, value);
      };
      here.visit(one);
    });
  }

  /// The whole parameters and states of the first rank of each stage to its other ranks; those that are cut are left
  /// alone.
  void broadcast_parameters() {
    constexpr auto others = static_cast<axis_set>(mesh::all & ~pipe::axes);
    if (mesh::group_size(others) == 1) return;
    for (auto const& p : parameters_) {
      const auto alike = static_cast<axis_set>(others & ~p.owners);
      if (mesh::group_size(static_cast<axis_set>(p.cut_by & alike)) == 1 && mesh::group_size(alike) > 1)
        where().group(alike).broadcast(p.value.data, p.value.size(), 0);
    }
    parameters_changed();
  }

 private:
  template <template <int> class Item>
  using by_stage = detail::by_stage<Item, std::make_integer_sequence<int, pipe::stages>>;

  /// Place of this rank along the pipeline.
  int device() const { return where().coordinates()[pipe::axis]; }
  auto& along() const { return where().group(pipe::axes); }

  template <class F>
  void for_own_stages(F f) {
    const int here = device();
    [&]<int... S>(std::integer_sequence<int, S...>) {
      ((pipe::device_of(S) == here ? f(std::integral_constant<int, S>{}) : void()), ...);
    }
    (std::make_integer_sequence<int, pipe::stages>{});
  }

  /// Whether `next` takes back what `now` sends out: extents of the gradient are known after that only.
  static bool is_return(pipeline_action const& now, pipeline_action const& next) {
    return now.kind == pass::forward && next == pipeline_action{pass::backward, now.chunk, now.part};
  }

  static void require_extents(input_type const& x) {
    if (!detail::extents_agree(x.extents(), plan_type::input::extents))
      throw error("an input of " + to_string(x.extents()), to_string(plan_type::input::extents) + " (-1: any extent)",
                  "pass the extents that the model names");
  }

  /// What lives as long as a step.
  class running {
   public:
    running(network& of, int parts)
        : sent(of.along()), of_(of), parts_(parts), loss_gradients_(static_cast<std::size_t>(parts)) {
      of.for_own_stages([&]<int S>(std::integral_constant<int, S>) {
        inboxes_.template at<S>().emplace(of.where());
        auto& here = *of.stages_.template at<S>();
        here.memory.drop_kept();
        here.saved = std::vector<saved_pass>(loss_gradients_.size());
        here.extents.resize(loss_gradients_.size());
      });
    }

    /// Begins to receive what a pass needs.
    void expect(pipeline_action const& action) {
      of_.for_own_stages([&]<int S>(std::integral_constant<int, S>) {
        if (action.chunk != pipe::chunk_of(S)) return;
        if (action.kind == pass::forward)
          expect_activations<S>();
        else
          expect_gradients<S>(action.part);
      });
    }

    template <int S, class Input, class Targets, class Loss, class Ahead>
    void forward(int part, Input const& input, Targets const& targets, Loss& loss, double factor,
                 Ahead const& look_ahead) {
      if constexpr (S == 0) {
        auto&& x = input(part);
        require_extents(x);
        forward_from<S>(x, part, input, targets, loss, factor, look_ahead);
      } else {
        expect_activations<S>();
        forward_from<S>(inboxes_.template at<S>()->activations.take(), part, input, targets, loss, factor, look_ahead);
      }
    }

    template <int S, class Ahead>
    void backward(int part, Ahead const& look_ahead) {
      auto& here = *of_.stages_.template at<S>();
      const auto i = static_cast<std::size_t>(part);
      if constexpr (!stage<S>::learns) {
        look_ahead();
        here.saved[i] = {};
      } else {
        const auto dy = [&] {
          if constexpr (S == last) {
            return *std::exchange(loss_gradients_[i], std::nullopt);
          } else {
            expect_gradients<S>(part);
            return inboxes_.template at<S>()->gradients.take();
          }
        }();
        look_ahead();
        const trace_name name("backward", S, part);
        const trace_scope span(name.text, activity::compute);
        here.saved[i].return_to(here.root);
        const bool aside = part + 1 < parts_;
        typename detail::network_memory<Context, T>::pass collecting(here.memory, aside, 1);
        // With the last part it is the reductions of buckets that kernels look after.
        std::optional<progress_scope> polled;
        if (aside) polled.emplace(hook());
        const auto dx = here.root.template backward<stage<S>::returns_gradient>(dy, here.memory);
        if constexpr (stage<S>::returns_gradient)
          sent.send(dx.local(), pipe::device_of(S - 1), detail::gradient_tag(S - 1));
        collecting.finish();
      }
      settle();
    }

    detail::outbox<Context> sent;
    detail::loss_total total;

   private:
    template <int S>
    using inboxes = detail::stage_inboxes<stage<S>, pipe, Context, T>;

    template <int S>
    void expect_activations() {
      if constexpr (S > 0) inboxes_.template at<S>()->activations.expect();
    }
    template <int S>
    void expect_gradients(int part) {
      if constexpr (S < last && stage<S>::learns)
        inboxes_.template at<S>()->gradients.expect(
            of_.stages_.template at<S>()->extents[static_cast<std::size_t>(part)]);
    }

    template <int S, class X, class Input, class Targets, class Loss, class Ahead>
    void forward_from(X const& x, int part, Input const& input, Targets const& targets, Loss& loss, double factor,
                      Ahead const& look_ahead) {
      look_ahead();
      auto& here = *of_.stages_.template at<S>();
      const auto i = static_cast<std::size_t>(part);
      const trace_name name("forward", S, part);
      const trace_scope span(name.text, activity::compute);
      const progress_scope polled(hook());
      auto y = here.forward(x, true);
      here.saved[i].take_from(here.root);
      if constexpr (S == last) {
        const auto out = redistribute<typename output_type::layout_type>(std::move(y));
        const index_t rows = S == 0 ? x.extent(0) : input(part).extent(0);
        const auto found = loss(out, targets(part));
        const double weight = total.add(found, rows);
        loss_gradients_[i] = found.backward(factor * weight);
      } else {
        here.extents[i] = y.extents();
        sent.template send_with_extents<stage<S>::output::extents>(y, pipe::device_of(S + 1),
                                                                   detail::activation_tag(S + 1));
      }
      settle();
    }

    /// Lets messages progress while kernels run; they cannot pass an exception on, `settle` does.
    progress_hook hook() { return {&poll, this}; }
    static void poll(void* self) noexcept {
      auto& now = *static_cast<running*>(self);
      if (now.failure_ != nullptr) return;
      try {
        now.progress();
      } catch (...) {
        now.failure_ = std::current_exception();
      }
    }
    void progress() {
      sent.progress();
      of_.for_own_stages([&]<int S>(std::integral_constant<int, S>) { inboxes_.template at<S>()->progress(); });
    }
    void settle() {
      if (failure_ != nullptr) std::rethrow_exception(failure_);
      progress();
    }

    network& of_;
    int parts_;
    by_stage<inboxes> inboxes_{};
    std::vector<std::optional<output_type>> loss_gradients_;
    std::exception_ptr failure_{};
  };

  /// The name of a pass in a trace; empty where nothing is traced.
  struct trace_name {
    trace_name(char const* kind, int number, int part) {
      if (tracer::current() != nullptr)
        text = std::string(kind) + " of part " + std::to_string(part) + " in stage " + std::to_string(number);
    }
    std::string text{};
  };

  Context* context_;
  by_stage<stage_type> stages_{};
  detail::pipeline_ties<pipe, Context, T> ties_{};
  std::vector<parameter_view<T>> parameters_{};
  int peak_live_ = 0;
};

}  // namespace tessera
