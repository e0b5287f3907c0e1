#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/data/sampler.hpp>
#include <tessera/train/callback.hpp>
#include <tessera/train/checkpoint_files.hpp>
#include <tessera/train/loss_scale.hpp>
#include <tessera/train/model_entries.hpp>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera {

/// Where in its data a training run is: what a checkpoint says beside tensors and the number of steps.
struct training_position {
  index_t epoch = 0;
  index_t step = 0;     ///< steps done in the epoch
  double loss_sum = 0;  ///< over these steps
  /// The mean loss of each epoch that has ended.
  std::vector<double> epoch_losses{};
  // How the rows are dealt; a place within an epoch means nothing elsewhere. No rows: not by a sampler.
  index_t rows = 0;
  index_t batch = 0;
  sampler_options sampling{};
  /// What callbacks remember (`progress::remembered`).
  std::map<std::string, std::vector<double>> remembered{};

  friend bool operator==(training_position const& a, training_position const& b) {
    return a.epoch == b.epoch && a.step == b.step && a.loss_sum == b.loss_sum && a.epoch_losses == b.epoch_losses &&
           a.remembered == b.remembered && a.deals_like(b);
  }
  /// Whether both deal the same rows in each step.
  bool deals_like(training_position const& other) const {
    return rows == other.rows && batch == other.batch && sampling.seed == other.sampling.seed &&
           sampling.shuffle == other.sampling.shuffle && sampling.drop_last == other.sampling.drop_last;
  }
};

/// An optimizer whose state can be saved, as `momentum` and `adam` can: see there.
template <class Optimizer, class State, class Parameters, class Kernels>
concept checkpointable = requires(Optimizer& o, State& s, Parameters const& p, Kernels& kernels) {
  { Optimizer::name } -> std::convertible_to<std::string>;
  o.visit_options([](char const*, auto&) {});
  o.visit_state(s, [](char const*, auto&) {});
  o.prepare(kernels, p, s);
  s.steps = index_t{};
};

namespace detail {

/// JSON knows no infinite numbers and no NaN; as losses these say the same.
inline nlohmann::json number(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); }
inline double number(nlohmann::json const& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

inline nlohmann::json numbers(std::vector<double> const& list) {
  nlohmann::json json = nlohmann::json::array();
  for (const double x : list) json.push_back(number(x));
  return json;
}
inline std::vector<double> numbers(nlohmann::json const& json) {
  std::vector<double> list;
  for (auto const& x : json) list.push_back(number(x));
  return list;
}

inline nlohmann::json to_json(training_position const& at) {
  nlohmann::json callbacks = nlohmann::json::object();
  for (auto const& [name, values] : at.remembered) callbacks[name] = numbers(values);
  return {{"epoch", at.epoch},
          {"step", at.step},
          {"loss_sum", number(at.loss_sum)},
          {"epoch_losses", numbers(at.epoch_losses)},
          {"callbacks", callbacks},
          {"sampler",
           {{"rows", at.rows},
            {"batch", at.batch},
            {"seed", at.sampling.seed},
            {"shuffle", at.sampling.shuffle},
            {"drop_last", at.sampling.drop_last}}}};
}

inline training_position position_of(nlohmann::json const& json) {
  training_position at{whole_number(json.at("epoch")), whole_number(json.at("step")), number(json.at("loss_sum"))};
  at.epoch_losses = numbers(json.at("epoch_losses"));
  if (json.contains("callbacks"))
    for (auto const& [name, values] : json["callbacks"].items()) at.remembered[name] = numbers(values);
  auto const& dealt = json.at("sampler");
  at.rows = whole_number(dealt.at("rows"));
  at.batch = whole_number(dealt.at("batch"));
  if (!dealt.at("seed").is_number_unsigned()) throw json_fault("a seed that is no whole number");
  at.sampling = {dealt.at("seed"), dealt.at("shuffle"), dealt.at("drop_last")};
  return at;
}

inline nlohmann::json to_json(loss_scale_state const& s) {
  return {{"factor", s.factor},
          {"finite_steps", s.finite_steps},
          {"skipped", s.skipped},
          {"skipped_in_row", s.skipped_in_row}};
}
inline loss_scale_state loss_scale_of(nlohmann::json const& json) {
  const double factor = json.at("factor");
  if (!(factor > 0 && std::isfinite(factor))) throw json_fault("a loss scale that is not positive");
  return {factor, whole_number(json.at("finite_steps")), whole_number(json.at("skipped")),
          whole_number(json.at("skipped_in_row"))};
}

/// The tensors of a trainer: those of its model, and what its optimizer remembers.
template <class Trainer>
auto trainer_entries(Trainer& trainer) {
  auto entries = model_entries(trainer.model());
  trainer.optimizer().visit_state(trainer.optimizer_state(), [&](char const* name, auto& blocks) {
    std::size_t i = 0;
    for (auto const& p : trainer.model().parameters()) {
      if (!p.trainable) continue;
      if (i == blocks.size()) return;  // no step came before
      entries.add(p, state_prefix + std::string(name) + "/" + p.name, blocks[i++].data());
    }
  });
  return entries;
}

template <class Trainer>
void require_checkpointable(Trainer& trainer) {
  using optimizer = std::remove_reference_t<decltype(trainer.optimizer())>;
  static_assert(
      checkpointable<optimizer, std::remove_reference_t<decltype(trainer.optimizer_state())>,
                     std::remove_cvref_t<decltype(trainer.model().parameters())>,
                     std::remove_reference_t<decltype(trainer.model().where().kernels())>>,
      "tessera: this optimizer cannot be saved; give it name, visit_options, visit_state and prepare, and its "
      "state a member steps, as tessera::momentum has");
}

/// As `save_checkpoint`; where `best` says something, that the checkpoint is the best so far.
template <class Trainer>
void save_trainer(Trainer& trainer, std::filesystem::path const& directory, training_position const& at, index_t keep,
                  nlohmann::json const& best) {
  require_checkpointable(trainer);
  auto& optimizer = trainer.optimizer();
  auto& where = trainer.model().where();
  using mesh = typename std::remove_reference_t<decltype(where)>::mesh;
  nlohmann::json options = nlohmann::json::object();
  optimizer.visit_options([&](char const* name, auto const& value) { options[name] = value; });
  nlohmann::json state{
      {"steps", trainer.steps()},
      {"position", to_json(at)},
      {"optimizer", {{"name", optimizer.name}, {"steps", trainer.optimizer_state().steps}, {"options", options}}},
      {"mesh", mesh::sizes}};
  if (trainer.loss_scale().on()) state["loss_scale"] = to_json(trainer.loss_scale().state());
  if (!best.is_null()) state[best_key] = best;
  auto entries = trainer_entries(trainer);
  entries.read();
  write_checkpoint(host_group(where, mesh::all), directory, trainer.steps(), keep, entries.list(), state);
}

}  // namespace detail

/// Saves a trainer in `directory/step-NNNNNNNN`, named by its steps: parameters and states of the model, what the
/// optimizer remembers and its options, the loss scale, and the position. Gradients kept by `accumulate` are not saved.
///
/// Collective over the mesh; all ranks name the same folder, which they share. Each rank writes a safetensors file of
/// what no rank before it holds, with a file `index.json` that says where each tensor lies. They are written to
/// `step-NNNNNNNN.tmp`, brought to the disk and renamed, so that a checkpoint is whole or has another name. Then all
/// before the `keep` newest whole ones are removed.
///
/// Throws on all ranks where one cannot write, or where the folder holds a whole checkpoint of this or a later step.
template <class Trainer>
void save_checkpoint(Trainer& trainer, std::filesystem::path const& directory, training_position const& at = {},
                     index_t keep = 5) {
  detail::save_trainer(trainer, directory, at, keep, {});
}

/// Loads what `save_checkpoint` saved on this mesh, split and pipeline or any other, bit for bit, and returns the
/// position. Collective; each rank reads the bytes of its own blocks only.
///
/// The options of the optimizer become those that were saved: set them afterwards to train on with others. A loss scale
/// goes on where it was saved; a `fixed_scale` keeps its factor. Throws on all ranks, and names the tensor, where a
/// file is truncated, damaged, or of another checkpoint, where the model has other tensors, extents or elements, and
/// where the optimizer is of another kind. Files are looked at first: only those that change meanwhile leave a model
/// that is partly loaded.
template <class Trainer>
training_position load_checkpoint(Trainer& trainer, std::filesystem::path const& checkpoint) {
  detail::require_checkpointable(trainer);
  auto& optimizer = trainer.optimizer();
  auto& where = trainer.model().where();
  using mesh = typename std::remove_reference_t<decltype(where)>::mesh;
  auto& comm = detail::host_group(where, mesh::all);
  detail::checkpoint_index index;
  training_position at;
  index_t updates = 0;
  index_t remembered = 0;
  std::optional<loss_scale_state> scale;
  auto loaded = optimizer;
  detail::together(comm, [&] {
    index = detail::read_index(checkpoint);
    try {
      auto const& state = index.state;
      at = detail::position_of(state.at("position"));
      updates = detail::whole_number(state.at("steps"));
      auto const& saved = state.at("optimizer");
      remembered = detail::whole_number(saved.at("steps"));
      if (state.contains("loss_scale")) scale = detail::loss_scale_of(state.at("loss_scale"));
      if (saved.at("name") != optimizer.name)
        throw error(
            checkpoint.string() + " was saved with the optimizer " + saved.at("name").template get<std::string>(),
            optimizer.name,
            "train on with the same optimizer, or load the weights alone "
            "(tessera::load_weights)");
      loaded.visit_options([&](char const* name, auto& value) { saved.at("options").at(name).get_to(value); });
    } catch (nlohmann::json::exception const& fault) {
      detail::broken_checkpoint(checkpoint, std::string("the state in its index.json (") + fault.what() + ")");
    } catch (detail::json_fault const& fault) {
      detail::broken_checkpoint(checkpoint, std::string("the state in its index.json (") + fault.what() + ")");
    }
    if constexpr (requires { loaded.check(); }) {
      try {
        loaded.check();
      } catch (error const& fault) {
        detail::broken_checkpoint(checkpoint, "the state in its index.json (" + detail::quoted(fault) + ")");
      }
    }
  });
  // Read into memory of its own, so that a fault leaves the state as it is.
  const auto before = optimizer;
  auto state = std::exchange(trainer.optimizer_state(), {});
  try {
    optimizer = loaded;
    if (remembered > 0) optimizer.prepare(where.kernels(), trainer.model().parameters(), trainer.optimizer_state());
    trainer.optimizer_state().steps = remembered;
    auto entries = detail::trainer_entries(trainer);
    detail::read_tensors(comm, checkpoint, checkpoint, index, entries.list());
    entries.write();
    trainer.model().parameters_changed();
  } catch (...) {
    optimizer = before;
    trainer.optimizer_state() = std::move(state);
    throw;
  }
  trainer.steps(updates);
  if (scale) trainer.loss_scale().state(*scale);
  return at;
}

/// Loads the parameters and states of a model from a checkpoint and leaves out what an optimizer remembered; else as
/// `load_checkpoint`.
template <class Network>
void load_weights(Network& model, std::filesystem::path const& checkpoint) {
  auto& comm = detail::host_group(model.where(), Network::mesh::all);
  detail::checkpoint_index index;
  detail::together(comm, [&] { index = detail::read_index(checkpoint); });
  auto entries = detail::model_entries(model);
  detail::read_tensors(comm, checkpoint, checkpoint, index, entries.list(), detail::state_prefix);
  entries.write();
  model.parameters_changed();
}

namespace detail {

template <class Batches>
training_position position_in(progress const& at, Batches const& from) {
  return {at.epoch, at.step, at.loss_sum, at.epoch_losses, from.rows(), from.batch, from.sampling, at.remembered};
}
/// The position when the epoch is over.
template <class Batches>
training_position position_after(progress const& at, Batches const& from) {
  auto next = position_in(at, from);
  ++next.epoch;
  next.step = 0;
  next.loss_sum = 0;
  return next;
}

}  // namespace detail

/// A callback of `fit` that saves every so many steps (since training began), every so many epochs, or both
/// (MindSpore's ModelCheckpoint with its CheckpointConfig). See `save_checkpoint`.
struct checkpoint_every {
  std::filesystem::path directory;
  index_t steps = 0;   ///< 0: not by steps
  index_t epochs = 0;  ///< 0: not by epochs
  index_t keep = 5;    ///< the newest ones that are kept

  /// Throws where neither steps nor epochs are given, and where the folder holds a checkpoint later than where training
  /// begins: one that `resume`, named before this callback, did not load.
  template <class Trainer, class Batches>
  void on_begin(progress const&, Trainer& trainer, Batches const&) const {
    if (steps < 0 || epochs < 0 || (steps == 0 && epochs == 0) || keep < 1)
      throw error("checkpoint_every with steps " + std::to_string(steps) + ", epochs " + std::to_string(epochs) +
                      " and keep " + std::to_string(keep),
                  "a positive number of steps or epochs, and of checkpoints to keep", "mend the options");
    auto& where = trainer.model().where();
    using mesh = typename std::remove_reference_t<decltype(where)>::mesh;
    auto& comm = detail::host_group(where, mesh::all);
    detail::together(comm, [&] {
      if (comm.rank() == 0) detail::require_no_later(directory, trainer.steps() + 1);
    });
  }
  template <class Trainer, class Batches>
  void on_step(progress const& at, Trainer& trainer, Batches const& from) const {
    if (steps == 0 || trainer.steps() % steps != 0) return;
    if (at.step == at.steps && ends(at)) return;  // the end of the epoch saves
    save_checkpoint(trainer, directory, detail::position_in(at, from), keep);
  }
  template <class Trainer, class Batches>
  void after_epoch(progress const& at, Trainer& trainer, Batches const& from) const {
    if (ends(at)) save_checkpoint(trainer, directory, detail::position_after(at, from), keep);
  }

 private:
  bool ends(progress const& at) const { return epochs > 0 && (at.epoch + 1) % epochs == 0; }
};

/// A callback of `fit` that loads the newest whole checkpoint of a folder and goes on where it was saved, within an
/// epoch too: losses are those of the run without interruption, and `fit` returns those of all epochs. Where the
/// folder holds none, or is not named, training begins at the start.
///
/// Throws as `load_checkpoint` and `newest_checkpoint` do, and where the checkpoint was saved within an epoch that
/// dealt other rows.
struct resume {
  std::filesystem::path directory;

  template <class Trainer, class Batches>
  void on_begin(progress& at, Trainer& trainer, Batches const& from) const {
    auto& where = trainer.model().where();
    using mesh = typename std::remove_reference_t<decltype(where)>::mesh;
    auto& comm = detail::host_group(where, mesh::all);
    std::string newest;
    detail::together(comm, [&] {
      if (comm.rank() == 0) newest = newest_checkpoint(directory).value_or("").string();
    });
    newest = detail::gather_texts(comm, newest).front();
    if (newest.empty()) return;
    const training_position now = load_checkpoint(trainer, newest);
    if (now.step > 0 && !now.deals_like(detail::position_in(at, from)))
      throw error(newest + " was saved in step " + std::to_string(now.step) + " of an epoch of " +
                      std::to_string(now.rows) + " rows in batches of " + std::to_string(now.batch),
                  "the same data, batch and sampling", "resume with these, or from the end of an epoch");
    if (now.step > at.steps)
      detail::broken_checkpoint(
          newest, "step " + std::to_string(now.step) + " of an epoch of " + std::to_string(at.steps) + " steps");
    at.epoch = now.epoch;
    at.step = now.step;
    at.loss_sum = now.loss_sum;
    at.epoch_losses = now.epoch_losses;
    at.remembered = now.remembered;
    if (at.step > 0) at.mean_loss = at.loss_sum / static_cast<double>(at.step);
  }
};

}  // namespace tessera
