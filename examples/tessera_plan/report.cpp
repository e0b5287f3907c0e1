#include "report.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <utility>

namespace ts = tessera;

namespace {

double gigabytes(ts::index_t bytes) { return static_cast<double>(bytes) * 1e-9; }

/// What the layers of a plan cut along an axis, by the share of time of those layers: `batch 97 %, output 3 %`.
std::string cuts_along(ts::device_plan const& plan, std::size_t axis) {
  std::map<std::string, double> seconds;
  double sum = 0;
  for (ts::planned_cut const& layer : plan.layers) {
    seconds[axis < layer.words.size() ? layer.words[axis] : ""] += layer.seconds;
    sum += layer.seconds;
  }
  std::vector<std::pair<double, std::string>> order;
  for (auto const& [word, part] : seconds) order.emplace_back(part, word.empty() ? "nothing" : word);
  std::sort(order.rbegin(), order.rend());
  std::string text;
  for (auto const& [part, word] : order)
    if (part > 0.005 * sum) text += (text.empty() ? "" : ", ") + word + format(" %.0f %%", 100 * part / sum);
  return text;
}

}  // namespace

std::string format(char const* text, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(line, sizeof line, text, arguments);
  va_end(arguments);
  return line;
}

std::string text_of(ts::device_plan const& plan) {
  std::string text;
  if (plan.stages > 1) text = std::to_string(plan.stages) + " stages";
  for (ts::planned_axis const& axis : plan.mesh)
    if (axis.size > 1) text += (text.empty() ? "" : " x ") + std::to_string(axis.size) + " (" + axis.level + ")";
  if (text.empty()) text = "one device";
  if (plan.parts > 1) text += ", " + std::to_string(plan.parts) + " parts";
  if (plan.level > 0) text += ", optimizer level " + std::to_string(plan.level);
  if (plan.recompute) text += ", recompute";
  return text;
}

std::string table_of(question const& asked, std::vector<ts::device_plan> const& plans) {
  std::string out = asked.model.name + " (" + asked.model.about + ") in " + asked.element + " on " + asked.machine +
                    format(", %.1f GB a device\n\n", gigabytes(asked.request.memory));
  out += format("%7s %8s %10s %13s %10s %7s  %s\n", "devices", "batch", "ms a step",
                (asked.model.samples + "/s").c_str(), "efficiency", "GB", "plan");
  for (ts::device_plan const& plan : plans)
    out += format("%7d %8lld %10.2f %13.1f %8.1f %% %7.2f  ", plan.devices, static_cast<long long>(plan.batch),
                  1e3 * plan.step.total(), plan.samples_per_second(), 100 * plan.efficiency(),
                  gigabytes(plan.memory.total())) +
           text_of(plan) + "\n";
  return out;
}

std::string parts_of(ts::device_plan const& plan) {
  const double all = plan.step.total();
  std::string out = "\na step: ";
  const auto part = [&](char const* name, double seconds) {
    return format("%s %.2f ms (%.1f %%)", name, 1e3 * seconds, 100 * seconds / all);
  };
  out += part("kernels", plan.step.compute) + ", " + part("messages", plan.step.communication) + ",\n  " +
         part("reductions after backward", plan.step.exposed) + ", " + part("update", plan.step.update) + ", " +
         part("bubble", plan.step.bubble) + "\n";
  ts::device_memory const& m = plan.memory;
  out += format(
             "a device: %.2f GB of parameters, %.2f of gradients, %.2f of the optimizer, %.2f kept for backward, "
             "%.2f at work",
             gigabytes(m.parameters), gigabytes(m.gradients), gigabytes(m.optimizer), gigabytes(m.activations),
             gigabytes(m.workspace + m.buckets)) +
         "\n";
  for (std::size_t a = 0; a < plan.mesh.size(); ++a)
    if (plan.mesh[a].size > 1)
      out += format("the axis of %d (%s) cuts, by time of layers: ", plan.mesh[a].size, plan.mesh[a].level.c_str()) +
             cuts_along(plan, a) + "\n";
  return out;
}

std::string layers_of(ts::device_plan const& plan) {
  std::string out = format("\n%-5s %-24s %-36s %9s  %s\n", "stage", "layer", "", "ms", "cuts");
  for (ts::planned_cut const& layer : plan.layers) {
    std::string cuts;
    for (std::size_t a = 0; a < layer.words.size(); ++a)
      if (!layer.words[a].empty() && plan.mesh[a].size > 1)
        cuts += (cuts.empty() ? "" : ", ") + layer.words[a] + " by " + std::to_string(plan.mesh[a].size);
    out += format("%5d %-24s %-36.36s %9.3f  %s\n", layer.stage, layer.path.c_str(), layer.layer.c_str(),
                  1e3 * layer.seconds, cuts.empty() ? "-" : cuts.c_str());
  }
  return out;
}

nlohmann::ordered_json json_of(ts::device_plan const& plan) {
  using json = nlohmann::ordered_json;
  json mesh = json::array();
  for (ts::planned_axis const& axis : plan.mesh) mesh.push_back({{"size", axis.size}, {"level", axis.level}});
  json layers = json::array();
  for (ts::planned_cut const& layer : plan.layers)
    layers.push_back({{"path", layer.path},
                      {"layer", layer.layer},
                      {"stage", layer.stage},
                      {"cuts", layer.words},
                      {"seconds", layer.seconds}});
  ts::device_memory const& m = plan.memory;
  return {{"devices", plan.devices},
          {"batch", plan.batch},
          {"stages", plan.stages},
          {"mesh", mesh},
          {"parts", plan.parts},
          {"optimizer_level", plan.level},
          {"recompute", plan.recompute},
          {"fusion", plan.fusion},
          {"reductions", plan.buckets},
          {"plan", text_of(plan)},
          {"seconds", plan.step.total()},
          {"samples_per_second", plan.samples_per_second()},
          {"efficiency", plan.efficiency()},
          {"step",
           {{"compute", plan.step.compute},
            {"communication", plan.step.communication},
            {"exposed", plan.step.exposed},
            {"bubble", plan.step.bubble},
            {"update", plan.step.update}}},
          {"bytes", m.total()},
          {"memory",
           {{"parameters", m.parameters},
            {"gradients", m.gradients},
            {"optimizer", m.optimizer},
            {"activations", m.activations},
            {"workspace", m.workspace},
            {"buckets", m.buckets}}},
          {"layers", layers}};
}

nlohmann::ordered_json json_of(question const& asked, std::vector<ts::device_plan> const& plans) {
  nlohmann::ordered_json out{
      {"model", asked.model.name}, {"samples", asked.model.samples},       {"machine", asked.machine},
      {"element", asked.element},  {"memory_limit", asked.request.memory}, {"plans", nlohmann::ordered_json::array()}};
  for (ts::device_plan const& plan : plans) out["plans"].push_back(json_of(plan));
  return out;
}
