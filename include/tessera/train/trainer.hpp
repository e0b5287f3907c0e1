#pragma once

#include <tessera/data/batch.hpp>
#include <tessera/data/sampler.hpp>
#include <tessera/train/adam.hpp>
#include <tessera/train/callback.hpp>
#include <tessera/train/clip.hpp>
#include <tessera/train/loss.hpp>
#include <tessera/train/optimizer.hpp>
#include <tessera/train/schedule.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
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
};

/// Images in global batches, each rank reading its own rows.
struct image_batches {
  image_dataset const& data;
  index_t batch = 256;
  float mean = 0;
  float deviation = 1;
  sampler_options sampling{};
};

/// How a model did on a dataset.
struct evaluation {
  double accuracy = 0;
  index_t rows = 0;
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
  using memory = typename context_type::backend::memory;
  static constexpr axis_set batch_axes = input_type::placements.shard_axes(0);
  static constexpr int batch_parts = mesh::group_size(batch_axes);
  static constexpr bool has_rate = requires(Optimizer & o) { o.learning_rate = 0.0; };

 public:
  trainer(Network& model, Loss loss, Optimizer optimizer, options choice = {})
      : model_(model), loss_(std::move(loss)), optimizer_(std::move(optimizer)), options_(choice) {
    if (!(options_.clip_norm >= 0))
      throw error("options::clip_norm of " + std::to_string(options_.clip_norm), "0 (off) or a positive number",
                  "mend the option");
    if (options_.micro_batches < 1)
      throw error("options::micro_batches of " + std::to_string(options_.micro_batches), "1 or more",
                  "mend the option");
    if constexpr (!has_rate)
      if (options_.schedule)
        throw error("options::schedule with an optimizer without a learning rate", "a member learning_rate",
                    "leave the schedule out, or give the optimizer the member");
    if (options_.parameter_broadcast) model_.broadcast_parameters();
  }

  /// One step on a batch; `labels` (or other targets of the loss) are those of this rank's rows. Returns the loss of
  /// the whole batch.
  ///
  /// Throws where the batch has fewer rows than parts and, with `options::clip_norm`, where the norm of the gradients
  /// is infinite or NaN: on all ranks, before any parameter has moved.
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

  /// Trains for some epochs; callbacks have any of `on_step(progress)` and `on_epoch_end(progress)` and run on rank 0.
  /// Returns the mean loss of each epoch.
  template <class... Callbacks>
  std::vector<double> fit(image_batches const& train, epochs passes, Callbacks&&... callbacks) {
    using clock = std::chrono::steady_clock;
    sampler order(train.data.size(), train.batch, train.sampling);
    std::vector<double> means;
    progress at;
    at.epochs = passes.count;
    at.steps = order.batches();
    for (at.epoch = 0; at.epoch < passes.count; ++at.epoch) {
      order.begin_epoch(at.epoch);
      const auto start = clock::now();
      double sum = 0;
      index_t rows = 0;
      for (at.step = 0; at.step < at.steps;) {
        const auto chosen = order.rows_of(at.step);
        rows += static_cast<index_t>(chosen.size());
        at.loss = step_on(train, chosen);
        sum += at.loss;
        ++at.step;
        at.mean_loss = sum / static_cast<double>(at.step);
        at.seconds = std::chrono::duration<double>(clock::now() - start).count();
        at.rate = static_cast<double>(rows) / at.seconds;
        if (is_first()) (notify_step(callbacks, at), ...);
      }
      means.push_back(at.mean_loss);
      if (is_first()) (notify_epoch(callbacks, at), ...);
    }
    return means;
  }

  /// Accuracy on all rows of a dataset, with running statistics. The last batch may be smaller than the others.
  evaluation evaluate(image_batches const& test) {
    const sampler order(test.data.size(), test.batch, {.shuffle = false, .drop_last = false});
    std::int64_t correct = 0;
    for (index_t b = 0; b < order.batches(); ++b) {
      const auto logits = model_.forward(load(test, order.rows_of(b)), false);
      // Whole rows of logits, still cut by batch.
      constexpr auto rows = [] {
        auto layout = decltype(logits)::placements;
        for (int a = 0; a < mesh::axes; ++a)
          if (!layout[a].is_shard(0)) layout[a] = replicated_placement();
        return layout;
      }();
      const auto whole = redistribute<layout_of<mesh, rows>>(logits);
      const auto values = whole.read();
      for (index_t r = 0; r < values.extent(0); ++r) {
        T const* row = values.data + r * values.extent(1);
        correct += std::max_element(row, row + values.extent(1)) - row == labels_[static_cast<std::size_t>(r)];
      }
    }
    constexpr axis_set row_axes = output_type::placements.shard_axes(0);
    if (mesh::group_size(row_axes) > 1) model_.where().group(row_axes).all_reduce(&correct, 1, reduction::sum);
    return {static_cast<double>(correct) / static_cast<double>(test.data.size()), test.data.size()};
  }

  Network& model() { return model_; }
  Optimizer& optimizer() { return optimizer_; }

 private:
  bool is_first() const { return mesh::group_rank(mesh::all, model_.where().coordinates()) == 0; }

  static void require_rows(index_t rows) {
    if (rows < batch_parts)
      throw error("a batch of " + std::to_string(rows) + " rows cut into " + std::to_string(batch_parts) + " parts",
                  "at least one row a part", "enlarge the batch, or use fewer data-parallel ranks");
  }

  /// What a loss divided by: the rows of its part of the batch, where it does not say.
  template <class Result>
  static std::optional<double> divisor_of(Result const& loss, index_t rows) {
    if constexpr (requires { loss.divisor(); })
      return loss.divisor();
    else
      return static_cast<double>(rows);
  }

  /// A step on `count` parts of a batch; `input(i)` is asked for before `targets(i)`, each once.
  template <class Input, class Targets>
  double step_on(index_t count, Input const& input, Targets const& targets) {
    const double factor = options_.gradients_mean ? 1.0 : static_cast<double>(batch_parts);
    double total = 0;    // the sum of the losses so far, or their mean
    double divisor = 0;  // of that mean
    model_.drop_accumulated();
    for (index_t i = 0; i < count; ++i) {
      auto&& x = input(i);
      const auto loss = loss_(model_.forward(x), targets(i));
      double weight = 1;
      double share = 1;  // of this part in the mean so far
      if (const std::optional<double> mean_of = divisor_of(loss, x.extent(0))) {
        weight = *mean_of;
        divisor += weight;
        if (divisor > 0) share = weight / divisor;
        if (share == 1)
          total = loss.loss();
        else if (share > 0)  // a part in which no row counts has no loss
          total += share * (loss.loss() - total);
      } else {
        total += loss.loss();
      }
      // The divisor of the whole is known with the last part only: those before give gradients of sums.
      if (i < count - 1)
        model_.accumulate(loss.backward(factor * weight));
      else
        model_.backward(loss.backward(factor * share), divisor > 0 ? 1 / divisor : 1);
    }
    update();
    return total;
  }

  void update() {
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
    ++steps_;
  }

  /// A step on rows of a dataset.
  double step_on(image_batches const& from, std::span<index_t const> rows) {
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

  input_type load(image_batches const& from, std::span<index_t const> rows) {
    auto extents = from.data.extents;
    extents[0] = static_cast<index_t>(rows.size());
    const interval mine = local_box<mesh>(input_type::placements, extents, model_.where().coordinates())[0];
    typename input_type::local_type local;
    load_batch(from.data, rows, mine, from.mean, from.deviation, local, labels_);
    // The loss wants the labels of the output's rows, which a layer may have cut in another way than the input's.
    shape<output_type::rank> output_extents;
    output_extents[0] = extents[0];
    const interval out = local_box<mesh>(output_type::placements, output_extents, model_.where().coordinates())[0];
    if (!(out == mine)) {
      labels_.clear();
      for (index_t i = out.begin; i < out.end(); ++i)
        labels_.push_back(from.data.labels[static_cast<std::size_t>(rows[static_cast<std::size_t>(i)])]);
    }
    return input_type(model_.where(), extents, std::move(local));
  }
  template <class C>
  static void notify_step(C& callback, progress const& at) {
    if constexpr (requires { callback.on_step(at); }) callback.on_step(at);
  }
  template <class C>
  static void notify_epoch(C& callback, progress const& at) {
    if constexpr (requires { callback.on_epoch_end(at); }) callback.on_epoch_end(at);
  }

  Network& model_;
  Loss loss_;
  Optimizer optimizer_;
  options options_;
  typename Optimizer::template state<T, memory> state_{};
  std::vector<std::int64_t> labels_;
  index_t steps_ = 0;
};

}  // namespace tessera
