#pragma once

#include <tessera/plan/machine.hpp>

#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// A measurement: how much was done (operations, bytes), and how long it took.
struct timed_work {
  double work = 0;
  double seconds = 0;
};

/// seconds = fixed + per_unit * work.
struct straight_line {
  double fixed = 0;
  double per_unit = 0;
};

/// The line with the least squares of relative errors, neither of whose numbers is below 0: what takes microseconds
/// counts as much as what takes seconds. Throws for fewer than two different amounts of work, and times of 0 or less.
constexpr straight_line fit_line(std::span<timed_work const> measured) {
  double w = 0, wx = 0, wxx = 0, y = 0, xy = 0;
  double least = 0, most = 0;
  for (timed_work const& m : measured) {
    if (!(m.seconds > 0) || !(m.work >= 0))
      throw error("a measurement of " + std::to_string(m.seconds) + " s for " + std::to_string(m.work) + " units",
                  "times above 0 of work of 0 or more", "measure longer");
    const double weight = 1 / (m.seconds * m.seconds);
    w += weight;
    wx += weight * m.work;
    wxx += weight * m.work * m.work;
    y += 1 / m.seconds;
    xy += m.work / m.seconds;
    least = &m == measured.data() || m.work < least ? m.work : least;
    most = m.work > most ? m.work : most;
  }
  if (measured.size() < 2 || !(least < most))
    throw error(std::to_string(measured.size()) + " measurements of the same work", "two different amounts of work",
                "measure several sizes");
  const double determinant = w * wxx - wx * wx;
  const straight_line free{(y * wxx - xy * wx) / determinant, (w * xy - wx * y) / determinant};
  if (free.fixed < 0) return {0, xy / wxx};
  if (free.per_unit < 0) return {y / w, 0};
  return free;
}

/// Sets `half` and the peak of elements of 4 bytes, with all of it reachable, from products of so many operations:
/// launch + (work + half) / peak seconds. `launch` is set before.
constexpr void set_products(machine_description& machine, std::span<timed_work const> products) {
  const straight_line line = fit_line(products);
  if (!(line.per_unit > 0))
    throw error("products that take no longer for more operations", "larger ones that take longer",
                "measure larger products");
  machine.reachable = 1;
  machine.peak.float32 = 1 / line.per_unit;
  machine.half = line.fixed > machine.launch ? (line.fixed - machine.launch) / line.per_unit : 0;
}

/// The link of a level that joins `ranks` of them, from all-gathers of so many bytes gathered (half the time of an
/// all-reduce is one too): after `mesh_costs`, latency * log2(ranks) + seconds_per_byte * bytes * (ranks - 1) / ranks.
constexpr link_cost link_of(int ranks, std::span<timed_work const> gathers) {
  if (ranks < 2) throw error(std::to_string(ranks) + " ranks", "2 or more", "measure links between ranks");
  const straight_line line = fit_line(gathers);
  return {line.fixed / detail::doubling_rounds(ranks), line.per_unit * ranks / (ranks - 1)};
}

/// A kernel, or several, whose time was predicted with a speed of 1, and measured.
struct timed_kernel {
  double predicted = 0;
  double measured = 0;
};

/// The speed with which all of these kernels together take as long as they did; 1 without any.
constexpr double fit_speed(std::span<timed_kernel const> kernels) {
  timed_kernel all;
  for (timed_kernel const& k : kernels) {
    if (!(k.predicted > 0) || !(k.measured > 0))
      throw error("a kernel of " + std::to_string(k.predicted) + " s predicted and " + std::to_string(k.measured) +
                      " s measured",
                  "times above 0", "measure longer");
    all.predicted += k.predicted;
    all.measured += k.measured;
  }
  return kernels.empty() ? 1 : all.predicted / all.measured;
}

/// A header that defines `tessera::machine::NAME` with this description, as `calibrated`. `remark`: one line for its
/// comment. Throws where the description has a fault.
inline std::string machine_header(machine_description const& machine, std::string_view name, std::string_view remark) {
  if (fault_of(machine) != machine_fault::none)
    throw error("a machine whose description has a fault", "one that can be used", "measure again, or correct it");
  const auto number = [](double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.4g", value);
    return std::string(digits);
  };
  const auto field = [](char const* label, std::string const& value) {
    return "." + std::string(label) + " = " + value;
  };
  std::string text = "#pragma once\n\n#include <tessera/plan/machine.hpp>\n\nnamespace tessera::machine {\n\n/// ";
  text.append(remark).append("\nstruct ").append(name).append(" {\n  static constexpr machine_description about{\n");
  const auto line = [&](std::string const& content) { text += "      " + content + ",\n"; };
  line(field("peak", "{" + field("float64", number(machine.peak.float64)) + ", " +
                         field("float32", number(machine.peak.float32)) + ", " +
                         field("float16", number(machine.peak.float16)) + ", " +
                         field("bfloat16", number(machine.peak.bfloat16)) + "}"));
  line(field("reachable", number(machine.reachable)));
  line(field("half", number(machine.half)));
  line(field("bytes_per_second", number(machine.bytes_per_second)));
  line(field("memory", std::to_string(machine.memory)));
  line(field("launch", number(machine.launch)));
  kernel_speeds const& s = machine.speeds;
  line(field("speeds", "{" + field("convolutions", number(s.convolutions)) + ", " +
                           field("attention", number(s.attention)) + ", " + field("maps", number(s.maps)) + ", " +
                           field("functions", number(s.functions)) + ", " + field("norms", number(s.norms)) + ",\n" +
                           std::string(17, ' ') + field("pooling", number(s.pooling)) + ", " +
                           field("updates", number(s.updates)) + "}"));
  std::string levels;
  for (int i = 0; i < machine.level_count(); ++i) {
    link_level const& l = machine.levels[i];
    levels += (i == 0 ? "{" : ",\n" + std::string(17, ' ')) + "{" + field("ranks", std::to_string(l.ranks)) + ", " +
              field("link", "{" + field("latency", number(l.link.latency)) + ", " +
                                field("seconds_per_byte", number(l.link.seconds_per_byte)) + "}") +
              ",\n" + std::string(18, ' ') + field("name", "\"" + std::string(l.name) + "\"") + ", " +
              field("pairs", l.pairs ? "true" : "false") + ", " + field("buckets", number(l.buckets)) + "}";
  }
  line(field("levels", levels + "}"));
  text.resize(text.size() - 2);  // the last comma
  return text + "};\n};\n\n}  // namespace tessera::machine\n";
}

}  // namespace tessera
