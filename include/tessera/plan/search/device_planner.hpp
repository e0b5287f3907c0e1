#pragma once

#include <tessera/core/error.hpp>
#include <tessera/plan/search/device_stages.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace tessera::detail {

/// The search for the plan of a model on many devices: see `plan_devices`.
template <int Axes>
class device_planner {
 public:
  /// Prices the model on a mesh of a machine, for parts of so many rows.
  using pricing = std::function<device_graph<Axes>(mesh_sizes<Axes> const&, machine_description const&, index_t rows)>;

  device_planner(machine_description const& machine, device_request const& request, index_t batch, pricing price)
      : machine_(machine),
        request_(request),
        memory_(request.memory > 0 ? request.memory : machine.memory),
        price_(std::move(price)) {
    best_.devices = request.devices;
    best_.batch = batch;
  }

  device_plan best() {
    check();
    one_device();
    std::vector<device_cell<Axes>> cells = all_cells();
    std::stable_sort(cells.begin(), cells.end(), [](auto const& a, auto const& b) { return a.bound < b.bound; });
    for (device_cell<Axes> const& cell : cells) {
      if (is_hopeless(cell.bound)) break;
      // More parts never shorten a step of one stage: they only save memory.
      if (cell.stages == 1 && settled_[sizes_of(cell.mesh)]) continue;
      search(cell);
    }
    // Searches with limits, and for several plans, are the long ones: they come last, when most of them are known to be
    // of no use.
    std::stable_sort(open_.begin(), open_.end(), [](auto const& a, auto const& b) { return a.bound < b.bound; });
    for (open_cell<Axes>& cell : open_) search_limited(cell);
    if (request_.plans > 1)
      for (open_cell<Axes> const& cell : open_) search_further(cell);
    if (!found_) refuse();
    return best_;
  }

 private:
  static std::vector<int> sizes_of(mesh_sizes<Axes> const& mesh) { return {mesh.along, mesh.along + Axes}; }
  index_t rows_of(int parts) const { return (best_.batch + parts - 1) / parts; }
  bool is_hopeless(double bound) const {
    return found_ && bound >= best_.step.total() * (1 - request_.tolerance) && bound > 0;
  }
  int entries() const { return static_cast<int>(whole_->entries.size()); }

  void check() {
    const auto at_least_one = [](int number, char const* what) {
      if (number < 1) throw error("a request for " + std::to_string(number) + what, "1 or more", "correct it");
    };
    at_least_one(request_.devices, " devices");
    at_least_one(request_.plans, " split plans");
    at_least_one(request_.most_parts, " parts of a batch at the most");
    at_least_one(request_.most_stages, " stages at the most");
    if (!(request_.tolerance >= 0 && request_.tolerance < 1))
      throw error("a request for plans within a share of " + std::to_string(request_.tolerance) + " of the best",
                  "0 or more, and less than 1", "correct it; 0.01 is one part in a hundred");
    if (request_.memory < 0)
      throw error("a request for devices of " + std::to_string(request_.memory) + " bytes of memory", "1 or more",
                  "correct it, or leave it out for what the machine has");
    if (best_.batch < 1)
      throw error("a batch of " + std::to_string(best_.batch) + " samples", "1 or more",
                  "name the batch in the request, or in the extents of the input");
    if (const machine_fault fault = fault_of(machine_); fault != machine_fault::none)
      throw error(
          "a machine whose description has a fault in its " + std::string(fault == machine_fault::rates    ? "rates"
                                                                          : fault == machine_fault::memory ? "memory"
                                                                          : fault == machine_fault::levels ? "levels"
                                                                                                           : "links"),
          "one that can be priced", "see plan/machine.hpp for what belongs there");
    mesh_sizes<Axes> one;
    for (int& size : one.along) size = 1;
    whole_ = std::make_unique<device_graph<Axes>>(price_(one, machine_, rows_of(1)));
    for (search_node const& n : whole_->nodes)
      if (n.kind == search_kind::layer && !n.memory_known)
        throw error("a model whose layer " + std::string(n.name) + " does not tell what it keeps", "one that does",
                    "give it a member `keeps` or `kept`");
    check_times(*whole_, machine_);
  }

  /// A step of the batch on one device, as if its memory had no limit.
  void one_device() {
    cell_state<Axes> state = state_of({1, whole_->mesh, 1, 0});
    const staged_plan<Axes> plan =
        stage_planner<Axes>(state, {.remembered = request_.remembered}).unlimited(1, 1).front();
    best_.one_device = simulate(state, plan, {.remembered = request_.remembered}).seconds();
  }

  std::vector<device_cell<Axes>> all_cells() {
    std::vector<device_cell<Axes>> cells;
    const int devices = request_.devices;
    const int most_stages = std::min(request_.most_stages, std::max(1, entries()));
    for (int parts = 1; parts <= request_.most_parts && parts <= best_.batch; ++parts) {
      if (best_.batch % parts != 0 || (request_.parts > 0 && parts != request_.parts)) continue;
      const device_graph<Axes> part = price_(whole_->mesh, machine_, rows_of(parts));
      const least_work least = least_of(part, static_cast<int>(part.nodes.size()) - 1);
      const double launches = least.kernels * machine_.launch;
      for (const int stages : divisors(devices)) {
        if (stages > most_stages) break;
        if (request_.stages > 0 && stages != request_.stages) continue;
        const double pass = launches + (least.seconds - launches) / (devices / stages);
        for (auto const& mesh : factorizations<Axes>(devices / stages)) {
          if (!request_.mesh.empty() && !is_asked_for(mesh)) continue;
          cells.push_back({stages, mesh, parts});
          cells.back().bound = bound_of(stages, parts, pass);
        }
      }
    }
    const auto levels = static_cast<int>(std::count(request_.levels.begin(), request_.levels.end(), true));
    best_.combinations = static_cast<int>(cells.size()) * levels * (request_.recompute ? 2 : 1);
    if (best_.combinations == 0) {
      std::string mesh;
      for (const int size : request_.mesh) mesh += (mesh.empty() ? "" : "x") + std::to_string(size);
      const auto asked = [](int number) { return number > 0 ? std::to_string(number) : "any number of"; };
      throw error("a request that leaves no combination for " + std::to_string(devices) + " devices and a batch of " +
                      std::to_string(best_.batch) + ": " + asked(request_.stages) + " stages, " +
                      (mesh.empty() ? "any mesh" : "a mesh of " + mesh) + ", " + asked(request_.parts) + " parts",
                  "one at least",
                  "ask for stages that divide the devices and are no more than the outermost chain has entries, parts "
                  "that divide the batch, a mesh of a stage's devices, and a level");
    }
    return cells;
  }
  bool is_asked_for(mesh_sizes<Axes> const& mesh) const {
    std::vector<int> sizes;
    for (const int size : mesh.along)
      if (size > 1) sizes.push_back(size);
    std::vector<int> asked = request_.mesh;
    std::erase(asked, 1);
    return sizes == asked;
  }

  cell_state<Axes> state_of(device_cell<Axes> const& cell) {
    cell_state<Axes> state;
    state.cell = cell;
    const int devices = request_.devices / cell.stages;
    state.graph =
        price_(cell.mesh, cell.stages == 1 ? machine_ : machine_of_stages(machine_, devices), rows_of(cell.parts));
    state.links = std::make_unique<run_links<Axes>>(state.graph.mesh, state.graph.costs);
    search_node const& root = state.graph.nodes.back();
    if (root.kind != search_kind::chain) {
      state.begins = {0, 1};
      return state;
    }
    std::vector<index_t> costs;
    for (const int part : root.parts) costs.push_back(picoseconds(least_of(state.graph, part).seconds));
    state.begins = balance(costs, static_cast<std::size_t>(cell.stages));
    state.begins.push_back(static_cast<int>(root.parts.size()));
    mesh_sizes<Axes + 1> all;
    all.along[0] = cell.stages;
    for (int a = 0; a < Axes; ++a) all.along[a + 1] = cell.mesh[a];
    state.message = costs_on(all, machine_).message[1];
    return state;
  }

  device_terms terms_of(device_cell<Axes> const& cell, int level, bool recompute) const {
    return {.level = level, .recompute = recompute, .parts = cell.parts, .remembered = request_.remembered};
  }

  cell_step<Axes> simulate(cell_state<Axes>& state, staged_plan<Axes> const& plan, device_terms terms) {
    device_cell<Axes> const& cell = state.cell;
    ++best_.simulated;
    cell_step<Axes> out;
    std::vector<planned_stage<Axes>>& stages = out.stages;
    stages = std::vector<planned_stage<Axes>>(static_cast<std::size_t>(cell.stages));
    out.steps.resize(stages.size());
    const step_settings settings{.element_bytes = request_.element_bytes,
                                 .parts = cell.stages == 1 ? cell.parts : 1,
                                 .remembered = request_.remembered,
                                 .overlap = request_.overlap};
    std::vector<step_price> prices(stages.size());
    for (int s = cell.stages - 1; s >= 0; --s) {
      const auto at = static_cast<std::size_t>(s);
      const bool last = s + 1 == cell.stages;
      search_graph<Axes> const& graph = plan.graphs[at];
      const auto wanted = layout_of_edge<Axes>(last ? plan.plans[at].output : plan.plans[at + 1].input);
      terms.live = state.live(s);
      plan_walk<Axes> walk(state.graph, graph, plan.sources[at], plan.plans[at], *state.links);
      stages[at] =
          walk.of_passes(terms.live).stage(wanted, last ? dual(wanted) : stages[at + 1].leaving, state.begins[at]);
      const auto bytes = [&](placements<Axes> const& layout, search_value const& value) {
        double share = value.bytes;
        for (int a = 0; a < Axes; ++a)
          if (layout[a].is_shard()) share /= cell.mesh[a];
        return share;
      };
      const double out_bytes = last ? 0 : bytes(wanted, graph.root().output);
      const double in_bytes = s == 0 ? 0 : bytes(stages[at].leaving, graph.root().input);
      const auto messages = static_cast<index_t>((terms.live + 1) * (out_bytes + in_bytes));
      stage_step& step = out.steps[at];
      step = simulate_stage(state.graph, stages[at], terms, settings, messages, memory_);
      if (!last) step.price.forward += seconds_of(state.message, out_bytes);
      if (s > 0) step.price.backward += seconds_of(state.message, in_bytes);
      if (!last) step.messages += seconds_of(state.message, out_bytes);
      if (s > 0) step.messages += seconds_of(state.message, in_bytes);
      prices[at] = step.price;
    }
    out.total = cell.stages == 1 ? prices.front() : simulate_pipeline<one_forward_one_backward>(prices, cell.parts);
    return out;
  }

  void search(device_cell<Axes> const& cell) {
    cell_state<Axes> state = state_of(cell);
    std::vector<double> fastest;
    for (std::size_t s = 0; s + 1 < state.begins.size(); ++s) fastest.push_back(state.least_of_stage(s));
    if (is_hopeless(bound_of(cell.parts, fastest))) {
      settle(cell);
      return;
    }
    for (const bool recompute : {false, true}) {
      if (recompute && (!request_.recompute || !has_blocks(state))) break;
      open_cell<Axes> open{cell, recompute, cell.bound, {}};
      stage_planner<Axes> stages(state, terms_of(cell, 0, recompute));
      open.bound = std::max(open.bound, stages.least_seconds());
      if (is_hopeless(open.bound)) {
        if (!recompute) settle(cell);
        return;
      }
      // Simulations take little beside the search: all levels are worth them.
      const std::vector<staged_plan<Axes>> plans = stages.candidates(1);
      bool all_fit = true;
      for (int level = 0; level < 4; ++level) {
        if (!request_.levels[static_cast<std::size_t>(level)]) continue;
        ++best_.searched;
        open.levels.push_back(simulate_level(state, plans, level, open));
        all_fit = all_fit && open.levels.back().fits;
      }
      open_.push_back(std::move(open));
      if (all_fit) {
        if (!recompute) settle(cell);
        break;
      }
    }
  }

  typename open_cell<Axes>::at_level simulate_level(cell_state<Axes>& state,
                                                    std::vector<staged_plan<Axes>> const& plans, int level,
                                                    open_cell<Axes> const& open) {
    const device_terms terms = terms_of(open.cell, level, open.recompute);
    typename open_cell<Axes>::at_level out{level, false, {}, open.bound};
    out.overhead.resize(static_cast<std::size_t>(open.cell.stages));
    double least_seconds = std::numeric_limits<double>::max();
    for (staged_plan<Axes> const& plan : plans) {
      if (found_ && plan.bound > 0 && plan.bound >= best_.step.total()) continue;
      const cell_step<Axes> step = simulate(state, plan, terms);
      offer(state, terms, step);
      if (step.seconds() >= least_seconds) continue;
      least_seconds = step.seconds();
      out.fits = step.fits(memory_);
      for (std::size_t s = 0; s < out.overhead.size(); ++s)
        out.overhead[s] = step.steps[s].memory.workspace + step.steps[s].memory.buckets;
    }
    return out;
  }

  void search_limited(open_cell<Axes>& open) {
    std::optional<cell_state<Axes>> state;
    double bound = open.bound;
    // Lower levels keep more: what bounds a level bounds those below.
    for (auto at = open.levels.rbegin(); at != open.levels.rend(); ++at) {
      if (at->fits) continue;
      at->bound = bound;
      if (is_hopeless(bound)) continue;
      if (!state) state = state_of(open.cell);
      const device_terms terms = terms_of(open.cell, at->level, open.recompute);
      if (found_)
        at->bound = bound =
            std::max(bound, stage_planner<Axes>(*state, terms).least_seconds_within(memory_, best_.step.total()));
      search_limited(*state, terms, at->overhead, bound);
    }
  }

  /// Further plans without a limit: the next best ones.
  void search_further(open_cell<Axes> const& open) {
    std::optional<cell_state<Axes>> state;
    std::vector<staged_plan<Axes>> plans;
    for (auto const& [level, fits, overhead, bound] : open.levels) {
      if (is_hopeless(bound)) continue;
      if (!state) {
        state = state_of(open.cell);
        plans = stage_planner<Axes>(*state, terms_of(open.cell, 0, open.recompute)).candidates(request_.plans);
      }
      simulate_level(*state, plans, level, open);
    }
  }

  /// More parts than those of a cell of one stage are of no use.
  void settle(device_cell<Axes> const& cell) {
    if (cell.stages == 1) settled_[sizes_of(cell.mesh)] = true;
  }
  bool has_blocks(cell_state<Axes> const& state) const {
    return device_part<Axes>(state.graph, {}, 0, std::max(1, static_cast<int>(state.graph.nodes.back().parts.size())))
        .has_blocks();
  }

  /// Plans with a limit. Workspace and buckets depend on the plan: as much as the last one had is left for them, until
  /// that is enough, and no less would be.
  void search_limited(cell_state<Axes>& state, device_terms const& terms, std::vector<index_t> overhead, double bound) {
    bool raised = false;
    for (int attempt = 0; attempt < 6 && !is_hopeless(bound); ++attempt) {
      std::vector<index_t> limits;
      for (const index_t bytes : overhead) limits.push_back(memory_ - bytes);
      bool possible = true;
      const auto plan = stage_planner<Axes>(state, terms).limited(limits, request_.tolerance, possible);
      if (!plan) return;
      const cell_step<Axes> out = simulate(state, *plan, terms);
      offer(state, terms, out);
      bool again = false;
      for (std::size_t s = 0; s < overhead.size(); ++s) {
        device_memory const& m = out.steps[s].memory;
        if (possible && m.total() > memory_) {
          overhead[s] += m.total() - memory_;
          again = raised = true;
        } else if (!raised && m.workspace + m.buckets < overhead[s]) {
          overhead[s] = m.workspace + m.buckets;
          again = true;
        }
      }
      if (!again || (raised && out.fits(memory_))) return;
    }
  }

  void offer(cell_state<Axes> const& state, device_terms const& terms, cell_step<Axes> const& out) {
    if (!out.fits(memory_)) {
      if (least_bytes_ < 0 || out.fullest().total() < least_bytes_) {
        least_bytes_ = out.fullest().total();
        describe(least_, state, terms, out);
        fullest_ = fullest_layer(state, terms, out);
      }
      return;
    }
    if (found_ && out.seconds() >= best_.step.total()) return;
    found_ = true;
    describe(best_, state, terms, out);
  }

  [[noreturn]] void refuse() const {
    if (least_bytes_ < 0)
      throw error("a model that has no plan: layers that share a weight cut it in no common way", "another one",
                  "let one stage have all of them");
    device_plan const& p = least_;
    std::string how;
    for (planned_axis const& axis : p.mesh) how += (how.empty() ? "" : "x") + std::to_string(axis.size);
    const auto counted = [](int number, char const* what) {
      return std::to_string(number) + ' ' + what + (number == 1 ? "" : "s");
    };
    how = (how.empty() ? "one device" : how + " devices") + " a stage, " + counted(p.stages, "stage") + ", " +
          counted(p.parts, "part") + ", level " + std::to_string(p.level) + (p.recompute ? ", blocks recomputed" : "");
    throw error(std::to_string(memory_) + " bytes of memory a device, into which none of " +
                    std::to_string(best_.combinations) + " combinations on " + std::to_string(best_.devices) +
                    " devices fits; the smallest plan that was looked at (" + how + ") needs " +
                    std::to_string(least_bytes_) + ", " + std::to_string(least_bytes_ - memory_) + " more; " + fullest_,
                std::to_string(least_bytes_) + " bytes, or a little less with another plan",
                "use devices with as much memory, more devices, or a smaller batch");
  }

  machine_description machine_;
  device_request request_;
  index_t memory_;
  pricing price_;
  std::unique_ptr<device_graph<Axes>> whole_{};  ///< on one device
  device_plan best_{};
  bool found_ = false;
  index_t least_bytes_ = -1;
  device_plan least_{};
  std::string fullest_{};
  std::map<std::vector<int>, bool> settled_{};
  std::vector<open_cell<Axes>> open_{};
};

}  // namespace tessera::detail
