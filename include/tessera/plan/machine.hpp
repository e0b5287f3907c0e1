#pragma once

#include <tessera/core/error.hpp>
#include <tessera/layer/kernel_kind.hpp>
#include <tessera/redistribute/cost.hpp>

#include <concepts>
#include <limits>
#include <numeric>
#include <string>

namespace tessera {

/// Links of one kind among groups of consecutive ranks: those of a host, say.
struct link_level {
  int ranks = 0;       ///< in a group: a multiple of the level below; 0 for all there are, on the last level only
  link_cost link{};    ///< of one message that a rank receives while all ranks of the group communicate
  char name[16] = "";  ///< for tables
  bool pairs = false;  ///< whether each two ranks have a link of their own, so that one hears from all others at once
  /// How many times as fast buckets of gradients are all-reduced as these messages say: ranks of one host reduce them
  /// in memory that they share.
  double buckets = 1;
};

/// Floating-point operations per second of matrix products by the type of their elements, 0 where there are none.
struct peak_rates {
  double float64 = 0;
  double float32 = 0;
  double float16 = 0;
  double bfloat16 = 0;
};

/// How fast kernels of each kind are, as multiples of what the rates of products and of memory say: 1 where nothing is
/// known.
struct kernel_speeds {
  double convolutions = 1;
  double attention = 1;
  double maps = 1;
  double functions = 1;
  double norms = 1;
  double pooling = 1;
  double updates = 1;

  constexpr double of(kernel_kind kind) const {
    switch (kind) {
      case kernel_kind::convolution: return convolutions;
      case kernel_kind::attention: return attention;
      case kernel_kind::map: return maps;
      case kernel_kind::function: return functions;
      case kernel_kind::norm: return norms;
      case kernel_kind::pooling: return pooling;
      case kernel_kind::update: return updates;
      default: return 1;
    }
  }
};

/// One kind of device and the links between devices, in seconds, bytes and floating-point operations.
///
/// A machine is a type that has one: `struct cluster { static constexpr tessera::machine_description about{...}; };`.
struct machine_description {
  static constexpr int most_levels = 4;

  peak_rates peak{};
  double reachable = 1;  ///< the share of the peak that the largest products reach
  /// The operations of a product that reaches half of that rate. A product of w operations runs at `w / (w + half)` of
  /// it, R. Hockney's curve (R. Hockney and C. Jesshope, "Parallel Computers 2", 1988).
  double half = 0;
  double bytes_per_second = 0;          ///< through a device's memory
  index_t memory = 0;                   ///< bytes of a device
  double launch = 0;                    ///< seconds that each kernel takes beside its work
  kernel_speeds speeds{};               ///< of kernels that reach other shares of these rates
  link_level levels[most_levels] = {};  ///< innermost first; unused ones at the end have no name

  /// Operations per second of products of elements of so many bytes; of the two formats of 2 bytes, of the faster one.
  ///
  /// Throws where the device has none of them.
  constexpr double rate(index_t element_bytes) const {
    const double two = peak.float16 > peak.bfloat16 ? peak.float16 : peak.bfloat16;
    const double found = element_bytes == 8 ? peak.float64 : element_bytes == 4 ? peak.float32 : two;
    if (!(found > 0) || (element_bytes != 8 && element_bytes != 4 && element_bytes != 2))
      throw error(
          "products of elements of " + std::to_string(element_bytes) + " bytes on a machine without a rate for them",
          "a rate above 0", "choose another element type, or give the machine the peak of this one");
    return found * reachable;
  }

  /// Seconds of a kernel that does so many operations of matrix products and moves so many bytes: the longer of the two
  /// times by the speed of its kind, after the launch.
  constexpr double seconds(double flops, double bytes, index_t element_bytes,
                           kernel_kind kind = kernel_kind::plain) const {
    const double moving = bytes / bytes_per_second;
    const double computing = flops > 0 ? (flops + half) / rate(element_bytes) : 0;
    return launch + (computing > moving ? computing : moving) / speeds.of(kind);
  }

  constexpr int level_count() const {
    int n = 0;
    while (n < most_levels && levels[n].name[0] != 0) ++n;
    return n;
  }

  /// How many of the ranks of a group along `axes` lie in one group of a level, whichever group it is. The outermost
  /// level holds all.
  template <int Axes>
  constexpr int ranks_inside(int level, mesh_sizes<Axes> const& mesh, axis_set axes) const {
    const int ranks = levels[level].ranks;
    // Few ranks lie in the first group, whether they divide it or not.
    if (level + 1 >= level_count() || mesh.group_size((1u << Axes) - 1) <= ranks) return mesh.group_size(axes);
    int inside = 1;
    int stride = 1;
    for (int a = Axes - 1; a >= 0 && stride < ranks; --a) {
      if ((axes >> a & 1) != 0 && ranks % stride == 0) inside *= std::gcd(mesh[a], ranks / stride);
      stride *= mesh[a];
    }
    return inside;
  }

  /// The links along each axis of a mesh whose ranks are those of this machine in order, last axis fastest: those of
  /// the outermost level that the axis crosses.
  template <int Axes>
  constexpr mesh_links<Axes> links(mesh_sizes<Axes> const& mesh) const {
    mesh_links<Axes> out;
    for (int a = 0; a < Axes; ++a) {
      int below = 1;
      for (int level = 0; level < level_count(); ++level) {
        const int inside = ranks_inside(level, mesh, static_cast<axis_set>(1u << a));
        if (inside > below) {
          out.along[a] = levels[level].link;
          if (levels[level].pairs) out.along[a].seconds_per_byte /= inside / below - 1;
        }
        below = inside;
      }
    }
    return out;
  }
};

/// What is wrong with a description, for the text of errors; nothing where it can be used.
enum class machine_fault : std::uint8_t { none, rates, memory, levels, links };

constexpr machine_fault fault_of(machine_description const& m) {
  constexpr double most = std::numeric_limits<double>::max();
  const auto positive = [](double x) { return x > 0 && x <= most; };
  const auto not_negative = [](double x) { return x >= 0 && x <= most; };
  for (const double rate : {m.peak.float64, m.peak.float32, m.peak.float16, m.peak.bfloat16})
    if (!not_negative(rate)) return machine_fault::rates;
  if (!positive(m.reachable) || m.reachable > 1 || !not_negative(m.half) || !not_negative(m.launch))
    return machine_fault::rates;
  for (int kind = 0; kind < kernel_kinds; ++kind)
    if (!positive(m.speeds.of(static_cast<kernel_kind>(kind)))) return machine_fault::rates;
  if (!positive(m.bytes_per_second) || m.memory <= 0) return machine_fault::memory;
  const int count = m.level_count();
  for (int i = 0; i < count; ++i) {
    if (!is_valid(m.levels[i].link) || !positive(m.levels[i].buckets)) return machine_fault::links;
    const bool last = i + 1 == count;
    if (m.levels[i].ranks < (last ? 0 : 1)) return machine_fault::levels;
    if (i > 0 && m.levels[i].ranks % m.levels[i - 1].ranks != 0) return machine_fault::levels;
  }
  return count > 0 ? machine_fault::none : machine_fault::levels;
}

/// A machine that describes its devices and links.
template <class Machine>
concept described_machine = requires {
  { Machine::about } -> std::convertible_to<machine_description>;
};

/// A machine that says how fast one rank computes: a described one, or one with `operations_per_second` of matrix
/// products and `bytes_per_second` that go through memory, both positive (and `along<Axis>` for its links).
template <class Machine>
concept computing_machine = described_machine<Machine> || requires {
  { Machine::operations_per_second } -> std::convertible_to<double>;
  { Machine::bytes_per_second } -> std::convertible_to<double>;
  requires(Machine::operations_per_second > 0 && Machine::bytes_per_second > 0);
};

namespace detail {

template <class Machine>
constexpr machine_description describe() {
  if constexpr (described_machine<Machine>) {
    constexpr machine_fault fault = fault_of(Machine::about);
    static_assert(fault != machine_fault::rates,
                  "tessera: this machine has a peak, half or launch that is negative, infinite or no number, a "
                  "reachable share that is not above 0 and at most 1, or a speed that is not above 0; correct its "
                  "description");
    static_assert(fault != machine_fault::memory,
                  "tessera: this machine has no memory or no bandwidth of it; give it bytes_per_second and memory");
    static_assert(fault != machine_fault::levels,
                  "tessera: this machine has no levels of links, or one whose groups are not made of whole groups of "
                  "the level before; name them innermost first, each a multiple of the one before");
    static_assert(fault != machine_fault::links,
                  "tessera: this machine has a link whose latency or seconds_per_byte is negative, infinite or no "
                  "number, or whose factor for buckets is not above 0; give both in seconds, 0 or more");
    return Machine::about;
  } else {
    constexpr double rate = Machine::operations_per_second;
    machine_description m;
    m.peak = {rate, rate, rate, rate};
    m.bytes_per_second = Machine::bytes_per_second;
    m.memory = std::numeric_limits<index_t>::max();
    return m;
  }
}

}  // namespace detail

/// A machine as a value. One that has no levels of links keeps its own `along<Axis>`.
template <computing_machine Machine>
inline constexpr machine_description description_of = detail::describe<Machine>();

}  // namespace tessera
