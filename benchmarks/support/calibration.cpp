#include "calibration.hpp"

#include <tessera/comm/mpi.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/calibration.hpp>
#include <tessera/plan/step_price.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

namespace calibration {

namespace {

namespace ts = tessera;
using ts::index_t;

double over_ranks(double value, MPI_Op how) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, how, MPI_COMM_WORLD);
  return value;
}
/// The lower quartile: other programs on a machine make times longer, never shorter.
double typical(std::vector<double> values) {
  const auto quarter = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), quarter, values.end());
  return *quarter;
}

/// Runs `once` on all ranks at a time, again and again, for so many seconds and at least five times after two that do
/// not count. Calls `done(seconds of the slowest rank)` after each.
template <class Once, class Done>
void repeat(double seconds, Once once, Done done) {
  double spent = 0;
  for (int round = 0; round < 7 || spent < seconds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    once();
    const double time = over_ranks(MPI_Wtime() - begin, MPI_MAX);
    spent += time;
    if (round > 1) done(time);
  }
}
double time_of(double seconds, std::function<void()> const& once) {
  std::vector<double> times;
  repeat(seconds, once, [&](double time) { times.push_back(time); });
  return typical(std::move(times));
}

/// Each rank trains its own copy of a model.
struct alone : ts::axis<1> {};
using one_rank = ts::mesh<alone>;

/// Whether a row of a price is a layer's, which has a span of its own in traces.
template <class Row>
bool is_layer(Row const& row) {
  return row.layer != "layout" && row.layer != "sum" && row.layer != "output";
}

/// A model, and seconds of each of its layers, forward and backward together, and of the update at the end.
template <class Model, class T = float>
class traced {
 public:
  template <int Rank>
  traced(double seconds, ts::shape<Rank> const& extents, index_t targets_of_row = 1) : rows_(extents[0]) {
    using team_type = ts::team<one_rank, ts::mpi_comm>;
    using network_type = ts::network<Model, team_type, T>;
    team_type team(ts::mpi_comm(MPI_COMM_SELF));
    network_type network(team, ts::seed{1});
    ts::trainer trainer{network, ts::cross_entropy{}, optimizer};
    typename network_type::input_type x(team, extents);
    for (index_t i = 0; i < x.local().size(); ++i) x.local().data()[i] = static_cast<T>(i % 17) / 17;
    const std::vector<std::int64_t> labels(static_cast<std::size_t>(rows_ * targets_of_row), 1);

    std::vector<std::vector<double>> times;
    ts::tracer spans;
    repeat(
        seconds,
        [&] {
          spans.clear();
          const ts::trace_into here(&spans);
          trainer.step(x, labels);
        },
        [&](double) {
          const auto found = by_layer(spans);
          times.resize(found.size());
          for (std::size_t i = 0; i < found.size(); ++i) times[i].push_back(found[i]);
        });
    for (auto& of_layer : times) seconds_.push_back(over_ranks(typical(std::move(of_layer)), MPI_MAX));
  }

  std::vector<double> const& seconds() const { return seconds_; }
  /// What a machine says of these.
  std::vector<double> predicted(ts::machine_description const& machine) const {
    const ts::step_settings settings{
        .unknown = rows_, .element_bytes = sizeof(T), .remembered = optimizer.values_per_element()};
    constexpr ts::mesh_costs<1> no_messages{};
    std::vector<double> times;
    for (auto const& row : ts::price_model<Model, one_rank>(machine, no_messages, settings).rows)
      if (is_layer(row)) times.push_back(row.forward + row.backward);
    times.push_back(ts::price_step<Model, one_rank>(machine, no_messages, settings).update);
    return times;
  }

 private:
  static constexpr ts::momentum optimizer{.learning_rate = 1e-3, .momentum = 0.9};

  /// Layers end in order forward and the other way round backward.
  static std::vector<double> by_layer(ts::tracer const& spans) {
    std::vector<double> times;
    std::size_t next = 0;
    double update = 0;
    for (auto const& span : spans.spans()) {
      const double time = 1e-9 * static_cast<double>(span.end - span.begin);
      const std::string_view name = span.name;
      if (name.ends_with(" forward")) {
        times.push_back(time);
        next = times.size();
      } else if (name.ends_with(" backward")) {
        times[--next] += time;
      } else if (name == "update") {
        update = time;
      }
    }
    times.push_back(update);
    return times;
  }

  index_t rows_;
  std::vector<double> seconds_;
};

constexpr int least_width = 64;
using products = ts::chain<ts::linear<16, least_width>, ts::linear<least_width, 128>, ts::linear<128, 256>,
                           ts::linear<256, 512>, ts::linear<512, 1024>, ts::linear<1024, 1024>, ts::linear<1024, 256>>;
constexpr index_t widths[] = {16, least_width, 128, 256, 512, 1024, 1024, 256};

template <class T>
using product_times = traced<ts::parallel<products, ts::input<ts::dynamic, 16>>, T>;

/// A product of each layer: a third of its time. The first layer makes no gradient of its input.
template <class T>
std::vector<ts::timed_work> products_of(double seconds, index_t rows) {
  const product_times<T> found(seconds, ts::shape<2>{{rows, 16}});
  std::vector<ts::timed_work> list;
  for (std::size_t i = 1; i + 1 < std::size(widths); ++i)
    list.push_back({2 * static_cast<double>(rows * widths[i] * widths[i + 1]), found.seconds()[i] / 3});
  return list;
}

using tiny = ts::parallel<ts::chain<ts::linear<4, 16>, ts::relu, ts::relu, ts::relu, ts::linear<16, 4>>,
                          ts::input<ts::dynamic, 4>>;

template <int In, int Out, int Stride>
using conv = ts::conv2d<In, Out, ts::window<3, Stride, 1>, ts::no_bias>;
using images = ts::parallel<
    ts::chain<conv<3, 16, 1>, ts::batch_norm2d<16>, ts::relu, ts::max_pool2d<ts::window<2, 2>>, conv<16, 16, 1>,
              ts::batch_norm2d<16>, ts::relu, conv<16, 32, 2>, ts::batch_norm2d<32>, ts::relu, conv<32, 32, 1>,
              ts::batch_norm2d<32>, ts::relu, conv<32, 64, 2>, ts::batch_norm2d<64>, ts::relu, conv<64, 64, 1>,
              ts::batch_norm2d<64>, ts::relu, ts::global_avg_pool<>, ts::flatten<>, ts::linear<64, 10>>,
    ts::input<ts::dynamic, 3, 32, 32>>;

constexpr int features = 192;
constexpr index_t positions = 96;
using sequences =
    ts::parallel<ts::chain<ts::linear<features, features>, ts::layer_norm<features>,
                           ts::multi_head_attention<features, 3, ts::causal>, ts::layer_norm<features>,
                           ts::linear<features, 4 * features>, ts::gelu, ts::linear<4 * features, features>,
                           ts::layer_norm<features>, ts::linear<features, 64>, ts::flatten<0, 1>>,
                 ts::input<ts::dynamic, positions, features>>;

/// Fits the speed of kernels of one kind to the layers that have some: what these take beside the rest.
template <class... Models>
void fit(ts::machine_description& machine, double ts::kernel_speeds::*kind, Models const&... models) {
  machine.speeds.*kind = 1;
  ts::machine_description half = machine;
  half.speeds.*kind = 0.5;
  std::vector<ts::timed_kernel> kernels;
  const auto add = [&](auto const& model) {
    const auto all = model.predicted(machine);
    const auto more = model.predicted(half);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double own = more[i] - all[i];
      if (!(own > 1e-3 * all[i])) continue;
      // Where the rest was predicted too slow, at least a part is this kind's.
      kernels.push_back({own, std::max(model.seconds()[i] - (all[i] - own), 0.1 * model.seconds()[i])});
    }
  };
  (add(models), ...);
  machine.speeds.*kind = ts::fit_speed(kernels);
}

void measure_device(ts::machine_description& machine, double seconds) {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int sharing = 1;
  MPI_Comm_size(host, &sharing);
  MPI_Comm_free(&host);
  machine.memory = static_cast<index_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / sharing;

  std::vector<ts::timed_work> copies;
  for (const std::size_t floats : {std::size_t{1} << 18, std::size_t{1} << 20, std::size_t{1} << 22}) {
    const std::vector<float> from(floats, 1.0f);
    std::vector<float> to(floats);
    copies.push_back({8.0 * static_cast<double>(floats),
                      time_of(seconds, [&] { std::memcpy(to.data(), from.data(), floats * sizeof(float)); })});
  }
  machine.bytes_per_second = 1 / ts::fit_line(copies).per_unit;

  // Layers of a few numbers, two kernels each, forward and backward.
  const traced<tiny> small(seconds, ts::shape<2>{{4, 4}});
  machine.launch = (small.seconds()[1] + small.seconds()[2] + small.seconds()[3]) / 6;

  std::vector<ts::timed_work> all;
  for (const index_t rows : {32, 512})
    for (auto const& one : products_of<float>(seconds, rows)) all.push_back(one);
  ts::set_products(machine, all);
  // Numbers of 16 bits are computed in float.
  machine.peak.float16 = machine.peak.bfloat16 = machine.peak.float32;
  double float32 = 0;
  double float64 = 0;
  for (auto const& one : products_of<float>(seconds, 256)) float32 += one.seconds;
  for (auto const& one : products_of<double>(seconds, 256)) float64 += one.seconds;
  machine.peak.float64 = machine.peak.float32 * float32 / float64;

  const traced<images> with_windows(2 * seconds, ts::shape<4>{{128, 3, 32, 32}});
  const traced<sequences> with_heads(2 * seconds, ts::shape<3>{{16, positions, features}}, positions);
  using speeds = ts::kernel_speeds;
  for (const auto kind : {&speeds::convolutions, &speeds::attention, &speeds::maps, &speeds::functions, &speeds::norms,
                          &speeds::pooling, &speeds::updates})
    fit(machine, kind, with_windows, with_heads);
}

/// A level of links among the ranks of `group`, while all such groups communicate.
void measure_level(ts::machine_description& machine, int at, MPI_Comm group, char const* name, double seconds) {
  ts::mpi_comm comm(group);
  const int ranks = comm.size();
  ts::link_level& level = machine.levels[at];
  std::copy_n(name, std::strlen(name), level.name);
  if (ranks == 1) return;
  std::vector<ts::timed_work> gathers;
  std::vector<ts::timed_kernel> buckets;
  // As steps of routes do, into memory that is new each time: half of the sizes are large, where that shows.
  using buffer = ts::tensor<float, 1>;
  for (const index_t bytes : {256, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20}) {
    const index_t part = bytes / static_cast<index_t>(sizeof(float)) / ranks;
    const double whole = static_cast<double>(part * ranks) * sizeof(float);
    const std::vector<index_t> counts(static_cast<std::size_t>(ranks), part);
    buffer all(ts::shape<1>{part * ranks});
    buffer own(ts::shape<1>{part});
    gathers.push_back({whole, time_of(seconds, [&] {
                         buffer out(all.extents());
                         comm.all_gather(own.data(), out.data(), counts);
                       })});
    gathers.push_back({whole, time_of(seconds, [&] {
                         buffer out(own.extents());
                         comm.reduce_scatter(all.data(), out.data(), counts, ts::reduction::sum);
                       })});
    gathers.push_back(
        {whole, time_of(seconds, [&] { comm.all_reduce(all.data(), part * ranks, ts::reduction::sum); }) / 2});
    const auto bucket = comm.allocate(static_cast<std::size_t>(part * ranks) * sizeof(float));
    float* const gradients = static_cast<float*>(bucket.get());
    std::fill_n(gradients, part * ranks, 1.0f);
    buckets.push_back(
        {whole, time_of(seconds, [&] { comm.start_all_reduce(gradients, part * ranks, ts::reduction::sum).wait(); })});
  }
  level.link = ts::link_of(ranks, gathers);
  for (auto& b : buckets)
    b.predicted = 2 * (level.link.latency * ts::detail::doubling_rounds(ranks) +
                       level.link.seconds_per_byte * b.predicted * (ranks - 1) / ranks);
  level.buckets = ts::fit_speed(buckets);
}

void measure_links(ts::machine_description& machine, double seconds) {
  int size = 1;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int sharing = 1;
  int place = 0;
  MPI_Comm_size(host, &sharing);
  MPI_Comm_rank(host, &place);
  int level = 0;
  if (sharing == size || sharing > 1) {
    machine.levels[level].ranks = sharing == size ? 0 : sharing;
    measure_level(machine, level++, host, "memory", seconds);
  }
  if (sharing < size) {
    MPI_Comm across = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, place, rank, &across);
    measure_level(machine, level, across, "network", seconds);
    MPI_Comm_free(&across);
  }
  MPI_Comm_free(&host);
}

}  // namespace

ts::machine_description measure(double seconds) {
  ts::machine_description machine;
  measure_device(machine, seconds);
  measure_links(machine, seconds / 4);
  MPI_Bcast(&machine, sizeof machine, MPI_BYTE, 0, MPI_COMM_WORLD);
  return machine;
}

}  // namespace calibration
