// A training step of ResNet-50 at a batch of 8 images of 224 x 224 pixels on one thread, with Eigen's kernels and with
// oneDNN's: what takes how long, beside the convolutions of the step as bare oneDNN primitives, and the memory it
// takes. With the argument `alone` only oneDNN's step, on one rank or on two that share the batch, and the memory of
// the process, for comparisons with other libraries.

#include <tessera/backend/onednn.hpp>
#include <tessera/comm/mpi.hpp>
#include <tessera/comm/mpi_environment.hpp>
#include <tessera/comm/serial.hpp>
#include <tessera/core/trace.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

namespace ts = tessera;
using ts::index_t;

template <int Ranks>
struct ranks : ts::axis<Ranks> {};
constexpr index_t images = 8;
template <int Ranks>
using model =
    ts::parallel<ts::model::resnet50<1000>, ts::input<ts::dynamic, 3, 224, 224>, ts::data_parallel<ranks<Ranks>>>;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The lower quartile: other programs make times longer, never shorter.
double typical(std::vector<double> times) {
  const auto quarter = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
  std::nth_element(times.begin(), quarter, times.end());
  return *quarter;
}

enum pass { forward, backward_input, backward_weight, passes };

/// A convolution that a step has computed.
struct convolution {
  pass what;
  ts::shape<4> x;
  ts::shape<4> w;
  ts::shape<4> y;
  ts::conv2d_geometry geometry;
};

/// The backend B, which notes the convolutions of a step and how long they take.
template <class B>
class noting : public B {
 public:
  template <class T>
  void conv2d_forward(ts::operand<T, 4> x, ts::operand<T, 4> w, ts::block<T, 4> y, ts::conv2d_geometry const& g) {
    const double began = now();
    B::template conv2d_forward<T>(x, w, y, g);
    note({forward, x.extents, w.extents, y.extents, g}, began);
  }
  template <class T>
  void conv2d_backward_input(ts::operand<T, 4> w, ts::operand<T, 4> dy, ts::block<T, 4> dx,
                             ts::conv2d_geometry const& g) {
    const double began = now();
    B::template conv2d_backward_input<T>(w, dy, dx, g);
    note({backward_input, dx.extents, w.extents, dy.extents, g}, began);
  }
  template <class T>
  void conv2d_backward_weight(ts::operand<T, 4> x, ts::operand<T, 4> dy, ts::block<T, 4> dw,
                              ts::conv2d_geometry const& g) {
    const double began = now();
    B::template conv2d_backward_weight<T>(x, dy, dw, g);
    note({backward_weight, x.extents, dw.extents, dy.extents, g}, began);
  }
  void forget() {
    noted_.clear();
    seconds_ = 0;
  }
  std::vector<convolution> const& noted() const { return noted_; }
  double seconds() const { return seconds_; }

 private:
  void note(convolution const& c, double began) {
    seconds_ += now() - began;
    noted_.push_back(c);
  }
  std::vector<convolution> noted_;
  double seconds_ = 0;
};

/// The same convolutions without a library around: primitives on memory that lies as the primitive likes it best, but
/// for images of direct convolutions, which are channels last.
class bare_convolutions {
 public:
  /// By Winograd's method those that the backend computes so, or none.
  bare_convolutions(std::vector<convolution> const& all, bool winograd) {
    using namespace ts::detail::onednn_kernels;
    using tag = dnnl::memory::format_tag;
    using dims = dnnl::memory::dims;
    for (convolution const& c : all) {
      auto const& g = c.geometry;
      const bool tiles = winograd && winograd_pays({{nullptr, c.x}, {nullptr, c.w}, {nullptr, c.y}}, g);
      const auto method = tiles ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
      const tag order = tiles ? tag::any : tag::nhwc;
      const auto of = [](ts::shape<4> const& s, tag order) {
        return dnnl::memory::desc({s[0], s[1], s[2], s[3]}, dnnl::memory::data_type::f32, order);
      };
      const auto x = of(c.x, order);
      const auto w = of(c.w, tag::any);
      const auto y = of(c.y, order);
      const dims stride{g.stride[0], g.stride[1]};
      const dims dilation{0, 0};
      const dims before{g.padding_before[0], g.padding_before[1]};
      const auto behind = [&](std::size_t d) {
        const int dim = static_cast<int>(d) + 2;
        return padding_behind(c.x[dim], c.y[dim], c.w[dim], g.stride[d], 1, g.padding_before[d]);
      };
      const dims after{behind(0), behind(1)};
      const auto hint = describe<dnnl::convolution_forward>(engine_, dnnl::prop_kind::forward_training, method, x, w, y,
                                                            stride, dilation, before, after);
      switch (c.what) {
        case forward:
          add(hint, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
          break;
        case backward_input:
          add(describe_gradient<dnnl::convolution_backward_data>(engine_, hint, method, x, w, y, stride, dilation,
                                                                 before, after),
              {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST});
          break;
        default:
          add(describe_gradient<dnnl::convolution_backward_weights>(engine_, hint, method, x, w, y, stride, dilation,
                                                                    before, after),
              {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST});
      }
    }
  }
  /// Seconds that all of them take.
  double run() {
    const ts::detail::onednn_kernels::on_threads here(1);
    const double began = now();
    for (auto& [compute, arguments] : calls_) compute.execute(stream_, arguments);
    stream_.wait();
    return now() - began;
  }

 private:
  void add(dnnl::primitive_desc const& description, std::array<int, 3> const& arguments) {
    std::unordered_map<int, dnnl::memory> places;
    for (const int name : arguments) {
      const dnnl::memory::desc desc = description.query_md(dnnl::query::exec_arg_md, name);
      // Convolutions of the same extents share their memory, as those of a step share that of the pool.
      const auto size = static_cast<index_t>(desc.get_size() / sizeof(float));
      auto [at, fresh] = memory_.try_emplace({name, size}, ts::shape<1>{{size}}, 0.01f);
      places.emplace(name, dnnl::memory(desc, engine_, at->second.data()));
    }
    calls_.emplace_back(dnnl::primitive(description), std::move(places));
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<std::pair<int, index_t>, ts::tensor<float, 1>> memory_;
  std::vector<std::pair<dnnl::primitive, std::unordered_map<int, dnnl::memory>>> calls_;
};

constexpr std::array<std::string_view, 8> rows{"conv2d", "batch_norm2d",    "relu",   "max_pool2d",
                                               "linear", "global_avg_pool", "update", "step"};
using seconds_by_row = std::map<std::string_view, double>;

/// Steps of the network on one backend. They learn next to nothing: the loss of one batch that is learnt by heart is
/// soon 0, its gradients are subnormal numbers, and some processors take a hundred times as long for these.
template <class Backend, int Ranks = 1>
class work {
  using communicator = std::conditional_t<Ranks == 1, ts::serial_comm, ts::mpi_comm>;
  using team_type = ts::team<ts::mesh<ranks<Ranks>>, communicator, noting<Backend>>;
  using network_type = ts::network<model<Ranks>, team_type>;

 public:
  work() : network_(team_, ts::seed{1}), trainer_(network_, ts::cross_entropy{}, ts::momentum{.learning_rate = 1e-6}) {
    for (index_t i = 0; i < x_.local().size(); ++i) x_.local().data()[i] = static_cast<float>(i % 17) / 17;
  }
  void step() {
    team_.kernels().forget();
    ts::tracer spans;
    const double began = now();
    {
      const ts::trace_into recorded(&spans);
      trainer_.step(x_, labels_);
    }
    seconds_by_row of_step{{"step", now() - began}};
    for (ts::trace_span const& span : spans.spans())
      for (std::string_view row : rows)
        if (span.name.find(row) != std::string::npos) {
          of_step[row] += static_cast<double>(span.end - span.begin) * 1e-9;
          break;
        }
    for (std::string_view row : rows) seconds_[row].push_back(of_step[row]);
    kernels_.push_back(team_.kernels().seconds());
  }
  double seconds(std::string_view row) const { return typical(seconds_.at(row)); }
  /// Of the convolutions' kernels alone.
  double kernels() const { return typical(kernels_); }
  std::vector<convolution> const& noted() { return team_.kernels().noted(); }
  void forget() {
    seconds_.clear();
    kernels_.clear();
  }

 private:
  team_type team_{communicator{}};
  network_type network_;
  ts::trainer<network_type, ts::cross_entropy, ts::momentum> trainer_;
  typename network_type::input_type x_{team_, ts::shape<4>{{images, 3, 224, 224}}};
  std::vector<std::int64_t> labels_ = std::vector<std::int64_t>(static_cast<std::size_t>(images / Ranks), 3);
  std::map<std::string_view, std::vector<double>> seconds_;
  std::vector<double> kernels_;
};

/// For so many seconds, with kernels by oneDNN.
template <int Ranks>
void print_alone(int rank, double seconds) {
  work<ts::onednn, Ranks> steps;
  steps.step();
  steps.step();
  steps.forget();
  // All ranks make as many steps, which wait for each other.
  const double began = now();
  steps.step();
  auto count = static_cast<std::int64_t>(seconds / (now() - began));
  ts::mpi_comm{}.all_reduce(&count, 1, ts::reduction::maximum);
  for (std::int64_t i = 0; i < count; ++i) steps.step();
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  if (rank == 0)
    std::printf("ResNet-50, batch 8, oneDNN, ranks of one thread: %d, step %.1f ms, peak of rank 0 %.0f MiB\n", Ranks,
                1e3 * steps.seconds("step"), static_cast<double>(used.ru_maxrss) / 1024);
}

/// What takes how long on each backend.
void print_table(double seconds) {
  // Memory is that of one network, so they are made one after the other.
  const auto first_steps = [](auto& steps) {
    ts::host_memory::reset_peak();
    const auto before = ts::host_memory::used().live;
    steps.step();
    steps.step();
    steps.forget();
    return ts::host_memory::used().peak - before;
  };
  const auto live = ts::host_memory::used().live;
  work<ts::eigen> plain;
  const auto model_bytes = ts::host_memory::used().live - live;
  const auto plain_peak = first_steps(plain) + model_bytes;
  work<ts::onednn> fast;
  const auto fast_peak = first_steps(fast) + model_bytes;
  fast.step();
  bare_convolutions bare(fast.noted(), true);
  bare_convolutions direct(fast.noted(), false);
  fast.forget();
  bare.run();
  direct.run();
  std::vector<double> of_bare, of_direct;
  const double began = now();
  do {
    plain.step();
    fast.step();
    of_bare.push_back(bare.run());
    of_direct.push_back(direct.run());
  } while (now() - began < seconds || of_bare.size() < 3);

  std::printf("%-32s %10s %10s %10s\n", "ResNet-50, batch 8, one thread", "eigen ms", "onednn ms", "bare ms");
  double accounted[2] = {};
  for (std::string_view row : rows) {
    const double times[] = {plain.seconds(row), fast.seconds(row)};
    if (row == "step")
      std::printf("%-32s %10.1f %10.1f\n", "residual sums, loss, the rest", 1e3 * (times[0] - accounted[0]),
                  1e3 * (times[1] - accounted[1]));
    std::printf("%-32.*s %10.1f %10.1f\n", static_cast<int>(row.size()), row.data(), 1e3 * times[0], 1e3 * times[1]);
    for (int i = 0; i < 2; ++i) accounted[i] += times[i];
  }
  std::printf("%-32s %10.1f %10.1f %10.1f\n", "kernels of the convolutions", 1e3 * plain.kernels(),
              1e3 * fast.kernels(), 1e3 * typical(of_bare));
  std::printf("%-32s %10.2f %10.2f\n", "as many times the bare ones", plain.kernels() / typical(of_bare),
              fast.kernels() / typical(of_bare));
  std::printf("%-32s %10s %10s %10.1f\n", "all direct", "", "", 1e3 * typical(of_direct));
  std::printf("%-32s %10.2f %10.2f\n", "as many times these", plain.kernels() / typical(of_direct),
              fast.kernels() / typical(of_direct));
  std::printf("%-32s %10.0f %10.0f\n", "peak of tensors, MiB", static_cast<double>(plain_peak) / (1 << 20),
              static_cast<double>(fast_peak) / (1 << 20));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const ts::mpi_environment mpi(argc, argv);
    char const* const limit = std::getenv("TESSERA_BENCHMARK_SECONDS");
    const double seconds = 10 * (limit != nullptr ? std::atof(limit) : 1);
    const ts::mpi_comm world;
    const bool alone = argc > 1 && argv[1] == std::string_view("alone");
    if (world.size() > (alone ? 2 : 1))
      throw ts::error(std::to_string(world.size()) + " ranks", "1, or with the argument `alone` 1 or 2",
                      "start it with mpirun -n 1");
    if (!alone)
      print_table(seconds);
    else if (world.size() == 1)
      print_alone<1>(0, seconds);
    else
      print_alone<2>(world.rank(), seconds);
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return EXIT_FAILURE;
  }
}
