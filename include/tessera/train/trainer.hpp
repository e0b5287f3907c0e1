#pragma once

#include <tessera/data/batch.hpp>
#include <tessera/data/sampler.hpp>
#include <tessera/train/callback.hpp>
#include <tessera/train/loss.hpp>
#include <tessera/train/optimizer.hpp>

#include <chrono>
#include <cmath>
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
  using T = typename input_type::value_type;
  using memory = typename context_type::backend::memory;
  static constexpr axis_set batch_axes = input_type::placements.shard_axes(0);
  static constexpr int batch_parts = mesh::group_size(batch_axes);

 public:
  trainer(Network& model, Loss loss, Optimizer optimizer, options choice = {})
      : model_(model), loss_(std::move(loss)), optimizer_(std::move(optimizer)), options_(choice) {
    if (options_.parameter_broadcast) model_.broadcast_parameters();
  }

  /// One step on a batch; `labels` (or other targets of the loss) are those of this rank's rows. Returns the loss of
  /// the whole batch.
  ///
  /// Throws where the batch has fewer rows than parts.
  template <class Targets>
  double step(input_type const& x, Targets const& targets) {
    if (x.extent(0) < batch_parts)
      throw error(
          "a batch of " + std::to_string(x.extent(0)) + " rows cut into " + std::to_string(batch_parts) + " parts",
          "at least one row a part", "enlarge the batch, or use fewer data-parallel ranks");
    const auto output = model_.forward(x);
    const auto loss = loss_(output, targets);
    model_.backward(loss.backward(options_.gradients_mean ? 1.0 : static_cast<double>(batch_parts)));
    optimizer_.step(model_.where().kernels(), model_.parameters(), state_);
    return loss.loss();
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
        at.loss = step(load(train, chosen), labels_);
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
};

}  // namespace tessera
