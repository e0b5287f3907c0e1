#include "published.hpp"

#include "report.hpp"

#include <algorithm>

namespace ts = tessera;

namespace {

/// All in mixed precision. MindSpore tells the batch of one device; those of several are taken for as many times it.
std::vector<published_run> published_runs() {
  const std::string mindspore = "MindSpore documentation, \"Benchmarks\" (version 0.5.0-beta)";
  const std::string megatron = "Megatron-LM, README, \"GPT-3 Example\" (32 s a step of 1536)";
  return {{"resnet50", "ascend_910_server", 1, 256, 2115, mindspore},
          {"resnet50", "ascend_910_server", 8, 8 * 256, 16600, mindspore},
          {"resnet50", "ascend_910_server", 16, 16 * 256, 32768, mindspore},
          {"bert-large-zh", "ascend_910_server", 1, 96, 269, mindspore},
          {"bert-large-zh", "ascend_910_server", 8, 8 * 96, 2069, mindspore},
          {"gpt3", "a100_server", 1024, 1536, 1536 / 32.0, megatron, 16, 192, {8, 8}}};
}

ts::device_plan plan_of(published_run const& run, known_model const& model, ts::machine_description const& machine) {
  ts::device_request request;
  request.devices = run.devices;
  request.batch = run.batch;
  request.element_bytes = 2;
  request.remembered = model.remembered;
  request.stages = run.stages;
  request.parts = run.parts;
  request.most_parts = std::max(request.most_parts, run.parts);
  request.mesh = run.mesh;
  return model.plan(machine, request);
}

/// A machine whose devices, not its links, are so many times as fast.
ts::machine_description faster(ts::machine_description machine, double factor) {
  for (double* rate : {&machine.peak.float64, &machine.peak.float32, &machine.peak.float16, &machine.peak.bfloat16,
                       &machine.bytes_per_second})
    *rate *= factor;
  machine.launch /= factor;
  return machine;
}

}  // namespace

std::vector<compared_run> compare_published(std::function<known_model const&(std::string const&)> const& model,
                                            std::function<ts::machine_description(std::string const&)> const& machine) {
  std::vector<compared_run> out;
  for (published_run const& run : published_runs()) {
    compared_run one{run, plan_of(run, model(run.model), machine(run.machine))};
    for (compared_run const& other : out)
      if (other.run.model == run.model && other.run.devices == 1)
        one.factor = other.run.samples_per_second / other.plan.samples_per_second();
    if (one.factor > 0)
      one.calibrated = plan_of(run, model(run.model), faster(machine(run.machine), one.factor)).samples_per_second();
    out.push_back(std::move(one));
  }
  return out;
}

std::string table_of(std::vector<compared_run> const& runs) {
  std::string out =
      "Samples a second of published runs and of the planner's simulated steps, in numbers of 16 bits.\n\n";
  out += format("%-14s %-18s %7s %10s %10s %8s %11s %8s  %s\n", "model", "machine", "devices", "published", "simulated",
                "error", "calibrated", "error", "plan");
  for (compared_run const& one : runs) {
    out += format("%-14s %-18s %7d %10.1f %10.1f %+7.1f%%", one.run.model.c_str(), one.run.machine.c_str(),
                  one.run.devices, one.run.samples_per_second, one.plan.samples_per_second(), 100 * one.error());
    out += one.factor > 0 ? format(" %11.1f %+7.1f%%  ", one.calibrated, 100 * one.calibrated_error())
                          : format(" %11s %8s  ", "-", "-");
    out += text_of(one.plan) + "\n";
  }
  out +=
      "\nSimulated: the best plan on the machine as its header describes it, estimates included; of gpt3, the best\n"
      "with the published 16 stages of 8 x 8 devices and one sequence a pass, where the published run did every\n"
      "forward pass twice. Without the loss, dropout, loading of data and what the host does.\n"
      "Calibrated: the device (not its links) slowed down or sped up by one factor for each model, so that its run on\n"
      "one device is as published; what is left is the error of scaling. The factors:";
  for (compared_run const& one : runs)
    if (one.factor > 0 && one.run.devices > 1 && (&one == &runs.front() || (&one - 1)->run.devices == 1))
      out += format(" %s %.2f;", one.run.model.c_str(), one.factor);
  out.back() = '.';
  out += "\nSources:\n";
  std::string last;
  for (compared_run const& one : runs)
    if (one.run.source != last) out += "  " + (last = one.run.source) + "\n";
  return out;
}

nlohmann::ordered_json json_of(std::vector<compared_run> const& runs) {
  using json = nlohmann::ordered_json;
  json out = json::array();
  for (compared_run const& one : runs) {
    json row{{"model", one.run.model},
             {"machine", one.run.machine},
             {"devices", one.run.devices},
             {"batch", one.run.batch},
             {"source", one.run.source},
             {"published", one.run.samples_per_second},
             {"simulated", one.plan.samples_per_second()},
             {"error", one.error()},
             {"calibration", nullptr}};
    if (one.factor > 0)
      row["calibration"] = {{"factor", one.factor}, {"simulated", one.calibrated}, {"error", one.calibrated_error()}};
    row["plan"] = json_of(one.plan);
    row["plan"].erase("layers");
    out.push_back(std::move(row));
  }
  return out;
}
