// Plans the training of a model on devices that need not be there: the best way to split it, what a step takes, and
// what a device keeps. Needs no launcher.
//
// run: 1 --model resnet50 --machine ascend_910_server --devices 1,8 --element float16
// run: 1 --model gpt2 --devices 4 --machine h100_server --json

#include "tessera_plan/published.hpp"
#include "tessera_plan/report.hpp"

#include <tessera/plan/machine_file.hpp>
#include <tessera/plan/machines/a100_server.hpp>
#include <tessera/plan/machines/ascend_910_server.hpp>
#include <tessera/plan/machines/ascend_910b_server.hpp>
#include <tessera/plan/machines/h100_server.hpp>
#include <tessera/plan/machines/shared_memory.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <utility>

namespace ts = tessera;

namespace {

struct options {
  std::string model = "resnet50";
  std::string machine = "ascend_910_server";
  std::vector<int> devices{8};
  ts::index_t batch = 0;
  ts::index_t batch_per_device = 0;
  std::string element = "float32";
  std::uint64_t memory = 0;
  int stages = 0;
  int parts = 0;
  std::string mesh{};
  int top = 1;
  bool layers = false;
  bool published = false;
  bool json = false;
};

std::vector<known_model> const& models() {
  static const std::vector<known_model> all = [] {
    std::vector<known_model> list;
    for (auto const& some : {models_of_images(), models_of_language(), large_models_of_language()})
      list.insert(list.end(), some.begin(), some.end());
    return list;
  }();
  return all;
}

std::vector<std::pair<std::string, ts::machine_description>> const& machines() {
  static const std::vector<std::pair<std::string, ts::machine_description>> all{
      {"ascend_910_server", ts::machine::ascend_910_server::about},
      {"ascend_910b_server", ts::machine::ascend_910b_server::about},
      {"h100_server", ts::machine::h100_server::about},
      {"a100_server", ts::machine::a100_server::about},
      {"shared_memory", ts::machine::shared_memory::about}};
  return all;
}

template <class List, class Name>
std::string names(List const& list, Name name) {
  std::string text;
  for (auto const& one : list) text += (text.empty() ? "" : ", ") + name(one);
  return text;
}
std::string model_names() {
  return names(models(), [](known_model const& m) { return m.name; });
}
std::string machine_names() {
  return names(machines(), [](auto const& m) { return m.first; });
}

known_model const& model_named(std::string const& name) {
  for (known_model const& model : models())
    if (model.name == name) return model;
  throw ts::error("the model '" + name + "'", "one of " + model_names(),
                  "choose one, or add yours to examples/tessera_plan/");
}

/// A machine by its name, or from a file.
ts::machine_description machine_named(std::string const& name) {
  for (auto const& [known, about] : machines())
    if (known == name) return about;
  if (name.ends_with(".json")) return ts::load_machine(name);
  throw ts::error("the machine '" + name + "'", "one of " + machine_names() + ", or a file that ends in .json",
                  "choose one, or describe yours in a file: docs/how_to/plan_without_devices.md");
}

/// The sizes of a mesh from text such as `8,8`.
std::vector<int> mesh_of(std::string const& text) {
  std::vector<int> sizes;
  char const* at = text.data();
  char const* const end = at + text.size();
  while (sizes.size() < 2) {
    int size = 0;
    const auto [next, fault] = std::from_chars(at, end, size);
    if (fault != std::errc{} || size < 1) break;
    sizes.push_back(size);
    at = next;
    if (sizes.size() < 2 && (at == end || *at++ != ',')) break;
  }
  if (sizes.size() != 2 || at != end)
    throw ts::error("the mesh '" + text + "'", "two numbers of devices with a comma and no space between, as in 8,8",
                    "correct it, or leave out --mesh for what is best");
  return sizes;
}

/// The most samples that are planned for.
constexpr ts::index_t most_samples = ts::index_t{1} << 18;

ts::index_t batch_for(options const& o, known_model const& model, int devices) {
  if (o.batch > 0) return o.batch;
  if (o.batch_per_device > 0) return devices * o.batch_per_device;
  return std::min(most_samples, devices * model.batch);
}

/// The best plan, and of others that are without a pipeline, without recomputation, or of one level of
/// `optimizer_parallel`, the best of each kind: at most `count` together, best first.
std::vector<ts::device_plan> best_plans(question const& asked, int count) {
  std::vector<ts::device_plan> plans{asked.model.plan(asked.about, asked.request)};
  if (count == 1) return plans;
  for (const int most_stages : {std::max(1, asked.request.stages), asked.request.most_stages})
    for (std::size_t level = 0; level < asked.request.levels.size(); ++level)
      for (const bool recompute : {false, true}) {
        ts::device_request request = asked.request;
        request.most_stages = most_stages;
        request.levels = {};
        request.levels[level] = true;
        request.recompute = recompute;
        try {
          ts::device_plan plan = asked.model.plan(asked.about, request);
          const auto same = [&](ts::device_plan const& other) { return text_of(other) == text_of(plan); };
          if (std::none_of(plans.begin(), plans.end(), same)) plans.push_back(std::move(plan));
        } catch (ts::error const&) {
          // No plan of this kind fits.
        }
      }
  std::stable_sort(plans.begin(), plans.end(),
                   [](auto const& a, auto const& b) { return a.step.total() < b.step.total(); });
  if (static_cast<int>(plans.size()) > count) plans.resize(static_cast<std::size_t>(count));
  return plans;
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app{
      "Plans the training of a model on devices that need not be there: how to split it so that a step takes the\n"
      "least time, what that time is, and what the fullest device keeps.\n",
      "tessera-plan"};
  app.add_option("--model", o.model, "The model: " + model_names())->capture_default_str();
  app.add_option("--machine", o.machine, "The machine: " + machine_names() + ", or a file FILE.json that describes one")
      ->capture_default_str();
  app.add_option("--devices", o.devices, "How many devices; several numbers, as in 1,8,64, give a line each")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 16));
  auto* batch =
      app.add_option("--batch", o.batch, "Samples a step, all devices together")->check(CLI::Range(ts::index_t{1}, most_samples));
  app.add_option("--batch-per-device", o.batch_per_device,
                 "Samples a step for each device; without both, what is usual")
      ->check(CLI::Range(1, 1 << 30))
      ->excludes(batch);
  app.add_option("--element", o.element, "Numbers that are computed, kept and sent: float32 or float16")
      ->check(CLI::IsMember({"float32", "float16"}))
      ->capture_default_str();
  app.add_option("--memory", o.memory, "Bytes of a device, as in 24GB; without, what the machine has")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 60));
  app.add_option("--stages", o.stages, "Stages of the pipeline; without, what is best")->check(CLI::Range(1, 1 << 16));
  app.add_option("--mesh", o.mesh, "Devices of a stage along two axes, as in 8,8; without, what is best");
  app.add_option("--parts", o.parts, "Parts of a batch that pass one after the other; without, what is best")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option(
         "--top", o.top,
         "How many plans to print for each number of devices: the best, and the best without a pipeline, without\n"
         "recomputation, or of one level of optimizer_parallel")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_flag("--layers", o.layers, "Print how each layer of the first plan is cut");
  app.add_flag("--published", o.published, "Compare published runs with simulated ones, and print nothing else");
  app.add_flag("--json", o.json, "Print JSON: seconds, bytes, and all layers");
  try {
    app.parse(argc, argv);
    if (o.published) {
      for (CLI::Option const* other : app.get_options())
        if (other->count() > 0 && other->get_name() != "--published" && other->get_name() != "--json")
          throw ts::error("--published beside " + other->get_name(), "--published alone, or with --json",
                          "leave out the others: published runs have models, machines and batches of their own");
      const auto runs = compare_published(model_named, machine_named);
      std::cout << (o.json ? json_of(runs).dump(1) + "\n" : table_of(runs));
      return 0;
    }
    question asked{model_named(o.model), o.machine, machine_named(o.machine), o.element, {}};
    asked.request.element_bytes = o.element == "float32" ? 4 : 2;
    asked.request.remembered = asked.model.remembered;
    asked.request.stages = o.stages;
    asked.request.most_stages = std::max(asked.request.most_stages, o.stages);
    asked.request.parts = o.parts;
    asked.request.most_parts = std::max(asked.request.most_parts, o.parts);
    if (app.count("--mesh") > 0) asked.request.mesh = mesh_of(o.mesh);
    asked.request.memory = o.memory > 0 ? static_cast<ts::index_t>(o.memory) : asked.about.memory;
    std::vector<ts::device_plan> plans;
    for (const int devices : o.devices) {
      asked.request.devices = devices;
      asked.request.batch = batch_for(o, asked.model, devices);
      for (ts::device_plan& plan : best_plans(asked, o.top)) plans.push_back(std::move(plan));
    }
    if (o.json) {
      std::cout << json_of(asked, plans).dump(1) << "\n";
      return 0;
    }
    std::cout << table_of(asked, plans);
    if (o.devices.size() == 1) std::cout << parts_of(plans.front());
    if (o.layers) std::cout << layers_of(plans.front());
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (ts::error const& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
