#pragma once

#include <tessera/backend/concept.hpp>
#include <tessera/comm/concept.hpp>
#include <tessera/data/sampler.hpp>
#include <tessera/train/adam.hpp>
#include <tessera/train/batches.hpp>
#include <tessera/train/callback.hpp>
#include <tessera/train/clip.hpp>
#include <tessera/train/image_batches.hpp>
#include <tessera/train/loss.hpp>
#include <tessera/train/loss_scale.hpp>
#include <tessera/train/loss_total.hpp>
#include <tessera/train/optimizer.hpp>
#include <tessera/train/schedule.hpp>
#include <tessera/train/trace.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Number of passes over the data.
struct epochs {
  index_t count = 1;
};

/// Options of a trainer, named as in MindSpore.
struct options {
  /// The gradient is that of the mean loss over the whole batch. Off, as MindSpore's default: that of the sum of the
  /// losses of the data-parallel ranks, which is as many times larger as the batch has parts.
  bool gradients_mean = true;
  /// Rank 0's whole parameters to all ranks before training. They are equal anyway unless somebody changed them.
  bool parameter_broadcast = false;
  /// Gradients are scaled down to this norm of all together before each update (`clip_by_global_norm`); 0: never.
  double clip_norm = 0;
  /// The learning rate of each step, counted from 0 (train/schedule.hpp); empty: that of the optimizer.
  std::function<double(index_t)> schedule{};
  /// `fit` takes each batch in this many parts, one after the other, and adds their gradients up: less memory, the same
  /// losses and updates where rows do not depend on each other. Batch norm takes the statistics of each part, dropout
  /// draws for each part anew.
  index_t micro_batches = 1;
  /// Reductions of gradients run beside the rest of backward; off: each is waited for where it starts.
  bool overlap = true;
  /// The loss is multiplied by a factor and its gradients are divided by it before they are clipped, so that small ones
  /// do not vanish in a format of few exponents: `fixed_scale` or `dynamic_scale` (train/loss_scale.hpp). Where a
  /// gradient is infinite or NaN on any rank, all ranks skip the update; one small all_reduce a step says so.
  loss_scaling loss_scale{};
};

/// How a model did on a dataset.
struct evaluation {
  double accuracy = 0;  ///< the share of rows of the output whose largest value is at their target
  index_t rows = 0;     ///< of the output
  double loss = 0;      ///< of the whole dataset
};

/// Trains a network: forward, loss, backward with bucket reductions, update.
///
/// Losses and updates are those of the serial model on the whole batch, however it is split, up to the rounding of sums
/// taken in another order. All members are collective over the mesh.
template <class Network, class Loss, class Optimizer>
class trainer {
  using context_type = std::remove_reference_t<decltype(std::declval<Network&>().where())>;
  using mesh = typename context_type::mesh;
  using input_type = typename Network::input_type;
  using output_type = typename Network::output_type;
  using T = typename Network::value_type;
  using backend = typename context_type::backend;
  using memory = typename backend::memory;
  static constexpr axis_set batch_axes = input_type::placements.shard_axes(0);
  static constexpr int batch_parts = mesh::group_size(batch_axes);
  static constexpr bool has_rate = requires(Optimizer & o) { o.learning_rate = 0.0; };

 public:
  trainer(Network& model, Loss loss, Optimizer optimizer, options choice = {})
      : model_(model),
        loss_(std::move(loss)),
        optimizer_(std::move(optimizer)),
        options_(choice),
        scaler_(choice.loss_scale) {
    if (!(options_.clip_norm >= 0))
      throw error("options::clip_norm of " + std::to_string(options_.clip_norm), "0 (off) or a positive number",
                  "mend the option");
    if (options_.micro_batches < 1)
      throw error("options::micro_batches of " + std::to_string(options_.micro_batches), "1 or more",
                  "mend the option");
    if (deterministic_backend<backend> && options_.micro_batches > 1)
      throw error("options::micro_batches with deterministic kernels", "whole batches", "leave micro_batches at 1");
    if constexpr (requires { optimizer_.check(); }) optimizer_.check();
    if constexpr (!has_rate)
      if (options_.schedule)
        throw error("options::schedule with an optimizer without a learning rate", "a member learning_rate",
                    "leave the schedule out, or give the optimizer the member");
    model_.overlap(options_.overlap);
    if (options_.parameter_broadcast) model_.broadcast_parameters();
  }

  /// One step on a batch; `labels` (or other targets of the loss) are those of this rank's rows. Returns the loss of
  /// the whole batch.
  ///
  /// Throws where the batch has fewer rows than parts and, with `options::clip_norm`, where the norm of the gradients
  /// is infinite or NaN: on all ranks, before any parameter has moved. With `options::loss_scale` such a step is
  /// skipped, and too many of them in a row throw.
  template <class Targets>
  double step(input_type const& x, Targets const& targets) {
    require_rows(x.extent(0));
    return step_on(
        1, [&](index_t) -> input_type const& { return x; }, [&](index_t) -> Targets const& { return targets; });
  }

  /// The same step on a batch that comes in parts, each with targets of its own: gradients are added up on each rank
  /// and reduced once. A mean loss weighs rows as over the whole batch. Batch norm and dropout take each part for a
  /// batch of its own.
  ///
  /// Throws also where there are no parts, or not as many targets.
  template <class Targets>
  double step(std::vector<input_type> const& x, std::vector<Targets> const& targets) {
    if (x.empty() || x.size() != targets.size())
      throw error(std::to_string(x.size()) + " micro-batches with " + std::to_string(targets.size()) + " targets",
                  "at least one, and targets for each", "pass two lists of one length");
    for (auto const& part : x) require_rows(part.extent(0));
    const auto at = [](index_t i) { return static_cast<std::size_t>(i); };
    return step_on(
        static_cast<index_t>(x.size()), [&](index_t i) -> input_type const& { return x[at(i)]; },
        [&](index_t i) -> Targets const& { return targets[at(i)]; });
  }

  /// An input of another kind does not compile.
  template <class X, class Targets>
  requires(!std::is_same_v<X, input_type>) double step(X const&, Targets const&) {
    static_assert(std::is_same_v<X, input_type>,
                  "tessera: the input of step is not in the layout that the model takes: make it with "
                  "tessera::distribute<typename decltype(model)::input_type::layout_type>(session, whole)");
    return 0;
  }

  /// Trains for some epochs and returns the mean loss of each.
  ///
  /// Callbacks have any of `on_step(progress)` and `on_epoch_end(progress)`, which run on rank 0, and of
  /// `on_step(progress, trainer, batches)` and `on_epoch_end(progress, trainer, batches)`, which run on all ranks and
  /// may be collective. `on_begin(progress, trainer, batches)` runs on all ranks before the first step and may say
  /// where to begin (train/checkpoint.hpp), `after_epoch(progress, trainer, batches)` when all callbacks have seen the
  /// end of an epoch. Those on all ranks may set `progress::stop`, on all of them: training ends with the epoch.
  template <class Batches, class... Callbacks>
  requires batches_for<Batches, Network> std::vector<double> fit(Batches const& train, epochs passes,
                                                                 Callbacks&&... callbacks) {
    using clock = std::chrono::steady_clock;
    sampler order(train.rows(), train.batch, train.sampling);
    require_rows(static_cast<index_t>(order.rows_of(order.batches() - 1).size()));  // no batch is smaller than the last
    progress at;
    at.epochs = passes.count;
    at.steps = order.batches();
    (notify_begin(callbacks, at, train), ...);
    for (; at.epoch < passes.count && !at.stop; ++at.epoch, at.step = 0, at.loss_sum = 0) {
      order.begin_epoch(at.epoch);
      const auto start = clock::now();
      index_t rows = 0;
      while (at.step < at.steps) {
        const auto chosen = order.rows_of(at.step);
        rows += static_cast<index_t>(chosen.size());
        at.loss = step_on(train, chosen);
        at.loss_sum += at.loss;
        at.loss_scale = scaler_.factor();
        at.skipped = scaler_.state().skipped;
        ++at.step;
        at.mean_loss = at.loss_sum / static_cast<double>(at.step);
        at.seconds = std::chrono::duration<double>(clock::now() - start).count();
        at.rate = static_cast<double>(rows) / at.seconds;
        (notify_step(callbacks, at, train), ...);
      }
      at.epoch_losses.push_back(at.loss_sum / static_cast<double>(at.steps));
      (notify_epoch(callbacks, at, train), ...);
      (notify_after(callbacks, at, train), ...);
    }
    return at.epoch_losses;
  }

  template <class... Callbacks>
  std::vector<double> fit(image_batches const& train, epochs passes, Callbacks&&... callbacks) {
    return fit<image_batches, Callbacks...>(train, passes, std::forward<Callbacks>(callbacks)...);
  }

  /// Accuracy and loss on all rows of a dataset, with running statistics. The last batch may be smaller than others.
  template <class Batches>
  requires batches_for<Batches, Network> evaluation evaluate(Batches const& test) {
    const sampler order(test.rows(), test.batch, {.shuffle = false, .drop_last = false});
    std::int64_t correct = 0;
    index_t rows = 0;
    detail::loss_total total;
    for (index_t b = 0; b < order.batches(); ++b) {
      const auto logits = model_.forward(load(test, order.rows_of(b)), false);
      rows += logits.extent(0);
      total.add(loss_(logits, labels_), logits.extent(0));
      // Whole rows of logits, still cut by batch.
      constexpr auto whole_rows = [] {
        auto layout = decltype(logits)::placements;
        for (int a = 0; a < mesh::axes; ++a)
          if (!layout[a].is_shard(0)) layout[a] = replicated_placement();
        return layout;
      }();
      const auto whole = to_host(model_.where().kernels(), redistribute<layout_of<mesh, whole_rows>>(logits).local());
      const auto values = whole.read();
      for (index_t r = 0; r < values.extent(0); ++r) {
        T const* row = values.data + r * values.extent(1);
        correct += std::max_element(row, row + values.extent(1)) - row == labels_[static_cast<std::size_t>(r)];
      }
    }
    constexpr axis_set row_axes = output_type::placements.shard_axes(0);
    if (mesh::group_size(row_axes) > 1)
      detail::host_group(model_.where(), row_axes).all_reduce(&correct, 1, reduction::sum);
    return {static_cast<double>(correct) / static_cast<double>(rows), rows, total.value()};
  }

  evaluation evaluate(image_batches const& test) { return evaluate<image_batches>(test); }

  Network& model() { return model_; }
  Optimizer& optimizer() { return optimizer_; }
  /// Records what the next `steps` steps do; the last writes it to `path` on rank 0, for all ranks, in the trace format
  /// of Chrome, which Perfetto opens (train/trace.hpp). Collective. Throws where there are no steps to record.
  void trace(std::string path, index_t steps = 1) {
    if (steps < 1)
      throw error("a trace of " + std::to_string(steps) + " steps", "1 or more", "name the steps to record");
    trace_ = std::make_unique<step_trace>();
    trace_->path = std::move(path);
    trace_->steps = steps;
    trace_->origin = detail::common_origin(model_.where());
  }

  /// What the optimizer remembers.
  auto& optimizer_state() { return state_; }
  /// The factor of the loss, and how many steps were skipped because of it.
  loss_scaler& loss_scale() { return scaler_; }
  /// Steps so far, those that were skipped too: the step of the schedule.
  index_t steps() const { return steps_; }
  /// Goes on as after this many steps.
  void steps(index_t done) { steps_ = done; }

 private:
  bool is_first() const { return mesh::group_rank(mesh::all, model_.where().coordinates()) == 0; }

  static void require_rows(index_t rows) {
    if (rows < batch_parts)
      throw error("a batch of " + std::to_string(rows) + " rows cut into " + std::to_string(batch_parts) + " parts",
                  "at least one row a part",
                  "enlarge the batch, leave out a smaller last one (sampler_options::drop_last), or use fewer "
                  "data-parallel ranks");
    if constexpr (requires { backend::check_batch(rows); }) backend::check_batch(rows);
  }

  /// A step on `count` parts of a batch; `input(i)` is asked for before `targets(i)`, each once.
  template <class Input, class Targets>
  double step_on(index_t count, Input const& input, Targets const& targets) {
    if (trace_ == nullptr) return compute_step(count, input, targets);
    double loss = 0;
    {
      const trace_into recorded(&trace_->spans);
      const std::string name = "step " + std::to_string(steps_);
      const trace_scope span(name, activity::compute);
      loss = compute_step(count, input, targets);
    }
    if (--trace_->steps == 0) {
      const auto done = std::move(trace_);
      write_trace(model_.where(), done->spans, done->path, done->origin);
    }
    return loss;
  }

  template <class Input, class Targets>
  double compute_step(index_t count, Input const& input, Targets const& targets) {
    const double factor = scaler_.factor() * (options_.gradients_mean ? 1.0 : static_cast<double>(batch_parts));
    if constexpr (requires { model_.step(count, input, targets, loss_, factor); }) {
      const double total = model_.step(count, input, targets, loss_, factor);
      update();
      return total;
    } else {
      detail::loss_total total;
      model_.drop_accumulated();
      for (index_t i = 0; i < count; ++i) {
        auto&& x = input(i);
        const auto loss = loss_(model_.forward(x), targets(i));
        const double weight = total.add(loss, x.extent(0));
        // The divisor of the whole is known with the last part only: those before give gradients of sums.
        if (i < count - 1)
          model_.accumulate(loss.backward(factor * weight));
        else
          model_.backward(loss.backward(factor * total.share()), total.scale());
      }
      update();
      return total.value();
    }
  }

  void update() {
    const trace_scope span("update", activity::compute);
    if (unscale_gradients()) move_parameters();
    ++steps_;
  }

  void move_parameters() {
    auto const& parameters = model_.parameters();
    if (options_.clip_norm > 0) {
      const double norm = clip_by_global_norm(model_.where(), parameters, options_.clip_norm);
      if (!std::isfinite(norm))
        throw error("gradients of norm " + std::to_string(norm) + " in step " + std::to_string(steps_), "a finite norm",
                    "look for faults in the data, or lower the learning rate");
    }
    if constexpr (has_rate)
      if (options_.schedule) optimizer_.learning_rate = options_.schedule(steps_);
    optimizer_.step(model_.where().kernels(), parameters, state_);
  }

  /// Takes the factor of the loss out of the gradients. False, on all ranks, where one of them is not finite.
  bool unscale_gradients() {
    if (!scaler_.on()) return true;
    auto const& parameters = model_.parameters();
    const double factor = scaler_.factor();
    const bool finite = gradients_finite(model_.where(), parameters);
    scaler_.update(finite);
    if (finite && factor != 1)
      for (auto const& p : parameters)
        if (p.trainable) model_.where().kernels().scale(p.gradient, static_cast<T>(1 / factor), p.gradient);
    return finite;
  }

  /// A step on rows of a dataset.
  template <class Batches>
  double step_on(Batches const& from, std::span<index_t const> rows) {
    const auto all = static_cast<index_t>(rows.size());
    require_rows(all);
    // Fewer parts where there are too few rows for so many.
    const index_t count = std::min(options_.micro_batches, all / batch_parts);
    return step_on(
        count,
        [&](index_t i) {
          const interval part = cut({0, all}, static_cast<int>(count), static_cast<int>(i));
          return load(from, rows.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.size)));
        },
        [&](index_t) -> std::vector<std::int64_t> const& { return labels_; });
  }

  template <class Batches>
  input_type load(Batches const& from, std::span<index_t const> rows) {
    auto loaded = from.load(model_, rows);
    labels_ = std::move(loaded.targets);
    return std::move(loaded.input);
  }

  template <class C, class Batches>
  void notify_begin(C& callback, progress& at, Batches const& from) {
    if constexpr (requires { callback.on_begin(at, *this, from); }) callback.on_begin(at, *this, from);
  }
  template <class C, class Batches>
  void notify_step(C& callback, progress& at, Batches const& from) {
    if constexpr (requires { callback.on_step(at, *this, from); })
      callback.on_step(at, *this, from);
    else if constexpr (requires { callback.on_step(at); })
      if (is_first()) callback.on_step(std::as_const(at));
  }
  template <class C, class Batches>
  void notify_epoch(C& callback, progress& at, Batches const& from) {
    if constexpr (requires { callback.on_epoch_end(at, *this, from); })
      callback.on_epoch_end(at, *this, from);
    else if constexpr (requires { callback.on_epoch_end(at); })
      if (is_first()) callback.on_epoch_end(std::as_const(at));
  }

  template <class C, class Batches>
  void notify_after(C& callback, progress& at, Batches const& from) {
    if constexpr (requires { callback.after_epoch(at, *this, from); }) callback.after_epoch(at, *this, from);
  }

  Network& model_;
  Loss loss_;
  Optimizer optimizer_;
  options options_;
  loss_scaler scaler_;
  typename Optimizer::template state<T, memory> state_{};
  std::vector<std::int64_t> labels_;
  index_t steps_ = 0;

  struct step_trace {
    std::string path{};
    index_t steps = 0;  // still to come
    std::int64_t origin = 0;
    tracer spans{};
  };
  std::unique_ptr<step_trace> trace_{};
};

}  // namespace tessera
