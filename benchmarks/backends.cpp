// Each kernel on each backend in one table, and what it costs to call Eigen through typed tensors on one rank, beside
// the same expression of Eigen itself. One rank, one thread. An argument keeps the kernels whose names have it.

#include <tessera/backend/deterministic.hpp>
#include <tessera/backend/rounded.hpp>
#ifdef BENCHMARK_WITH_ONEDNN
#include <tessera/backend/onednn.hpp>
#endif
#include <tessera/comm/serial.hpp>
#include <tessera/op/activation.hpp>
#include <tessera/op/elementwise.hpp>
#include <tessera/op/matmul.hpp>
#include <tessera/op/softmax.hpp>
#include <tessera/train/session.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace ts = tessera;
using ts::block;
using ts::index_t;
using ts::shape;

template <class Work>
double seconds_of(Work const& work, int runs) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / runs;
}

/// How many runs take a few milliseconds.
template <class Work>
int runs_of(Work const& work) {
  work();
  return std::clamp(static_cast<int>(2e-3 / seconds_of(work, 3)), 1, 1000);
}

// Kernels.

/// Seconds of each kernel, by name, on one backend.
using column = std::vector<std::pair<std::string_view, double>>;

template <class B>
class measured {
 public:
  explicit measured(std::string_view only) : only_(only) {}

  column const& all() {
    matrices();
    flat();
    images();
    rows();
    words();
    return times_;
  }

 private:
  template <int Rank>
  using values = ts::tensor<float, Rank, typename B::memory, B::order>;
  template <int Rank>
  using statistics = ts::tensor<typename B::statistic, Rank, typename B::memory, B::order>;

  /// Small numbers of either sign.
  template <int Rank>
  values<Rank> some(shape<Rank> extents) {
    std::vector<float> host(static_cast<std::size_t>(extents.size()));
    const ts::philox draw(1, stream_++);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(2 * draw.uniform(i) - 1);
    values<Rank> t(extents);
    k_.upload(std::as_const(host).data(), t.data(), extents.size());
    return t;
  }
  template <class T, int Rank>
  auto equal(shape<Rank> extents, T value) {
    ts::tensor<T, Rank, typename B::memory, B::order> t(extents);
    k_.fill(block<T, 1>{t.data(), {extents.size()}}, value);
    return t;
  }

  /// The least time of a call, as other programs make times longer only.
  template <class Call>
  void time(std::string_view name, Call const& call) {
    if (name.find(only_) == std::string_view::npos) return;
    const auto work = [&] {
      call();
      k_.synchronize();
    };
    const int runs = runs_of(work);
    double least = seconds_of(work, runs);
    for (int round = 0; round < 8; ++round) least = std::min(least, seconds_of(work, runs));
    times_.emplace_back(name, least);
  }

  void matrices() {
    const auto x = some<2>({{256, 1024}}), w = some<2>({{1024, 1024}});
    auto y = some<2>({{256, 1024}}), dw = some<2>({{1024, 1024}});
    auto bias = some<1>({{1024}});
    time("matmul", [&] { k_.matmul(x.read(), false, w.read(), true, y.view()); });
    time("matmul of gradients", [&] { k_.matmul(y.read(), true, x.read(), false, dw.view()); });
    time("add_bias", [&] { k_.add_bias(y.view(), bias.read()); });
    time("sum_rows", [&] { k_.sum_rows(y.read(), bias.view()); });
    const auto q = some<4>({{8, 8, 128, 64}});
    auto scores = some<4>({{8, 8, 128, 128}});
    time("batch_matmul", [&] { k_.batch_matmul(q.read(), false, q.read(), true, scores.view()); });
  }

  void flat() {
    const auto x = some<1>({{1 << 20}}), dy = some<1>({{1 << 20}});
    auto y = some<1>({{1 << 20}}), m = some<1>({{1 << 20}});
    auto v = equal<float>(shape<1>{{1 << 20}}, 0.5f);
    const auto one = [&](std::string_view name, auto call) { time(name, [&] { call(x.read(), y.view()); }); };
    const auto two = [&](std::string_view name, auto call) {
      time(name, [&] { call(x.read(), dy.read(), y.view()); });
    };
    one("relu_forward", [&](auto a, auto to) { k_.relu_forward(a, to); });
    two("relu_backward", [&](auto a, auto b, auto to) { k_.relu_backward(a, b, to); });
    two("add", [&](auto a, auto b, auto to) { k_.add(a, b, to); });
    two("mul", [&](auto a, auto b, auto to) { k_.mul(a, b, to); });
    one("scale", [&](auto a, auto to) { k_.scale(a, 1.5f, to); });
    one("axpy", [&](auto a, auto to) { k_.axpy(1e-6f, a, to); });
    one("exp", [&](auto a, auto to) { k_.exp(a, to); });
    one("gelu_forward", [&](auto a, auto to) { k_.gelu_forward(a, to); });
    two("gelu_backward", [&](auto a, auto b, auto to) { k_.gelu_backward(a, b, to); });
    one("silu_forward", [&](auto a, auto to) { k_.silu_forward(a, to); });
    one("tanh_forward", [&](auto a, auto to) { k_.tanh_forward(a, to); });
    one("sgd_update", [&](auto g, auto p) { k_.sgd_update(p, g, m.view(), {1e-6, 0.9, 0, 0, false, false}); });
    one("adam_update", [&](auto g, auto p) {
      k_.adam_update(p, g, m.view(), v.view(), ts::adam_step{1e-6, 0.9, 0.999, 1e-8, 0, false, 5});
    });
    time("square_sum", [&] { k_.square_sum(x.read()); });
    time("dropout", [&] { k_.dropout(x.read(), ts::philox(1, 2), index_t{0}, 0.9, y.view()); });
    const shape<6> whole{{1, 1, 1, 1, 1024, 1024}};
    const auto row = some<6>({{1, 1, 1, 1, 1, 1024}}), table = some<6>(whole);
    auto sums = some<6>({{1, 1, 1, 1, 1, 1024}}), result = some<6>(whole);
    time("add_broadcast", [&] { k_.add_broadcast(table.read(), row.read(), result.view()); });
    time("sum_broadcast", [&] { k_.sum_broadcast(table.read(), sums.view()); });
    time("max_broadcast", [&] { k_.max_broadcast(table.read(), sums.view()); });
    time("permute", [&] { k_.permute(table.read(), std::array<int, 6>{0, 1, 2, 3, 5, 4}, result.view()); });
  }

  void images() {
    const ts::conv2d_geometry three{.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}};
    const auto x = some<4>({{8, 64, 28, 28}}), w = some<4>({{64, 64, 3, 3}}), narrow = some<4>({{256, 64, 1, 1}});
    auto y = some<4>({{8, 64, 28, 28}}), dw = some<4>({{64, 64, 3, 3}}), wide = some<4>({{8, 256, 28, 28}});
    time("conv2d_forward 3x3", [&] { k_.conv2d_forward(x.read(), w.read(), y.view(), three); });
    time("conv2d_backward_input 3x3", [&] { k_.conv2d_backward_input(w.read(), x.read(), y.view(), three); });
    time("conv2d_backward_weight 3x3", [&] { k_.conv2d_backward_weight(x.read(), y.read(), dw.view(), three); });
    time("conv2d_forward 1x1", [&] { k_.conv2d_forward(x.read(), narrow.read(), wide.view(), ts::conv2d_geometry{}); });
    const ts::pool2d_geometry half{{3, 3}, {2, 2}, {1, 1}, {1, 1}};
    auto pooled = some<4>({{8, 64, 14, 14}}), mean = some<4>({{8, 64, 1, 1}});
    ts::tensor<std::int32_t, 4, typename B::memory, B::order> places(pooled.extents());
    time("max_pool2d_forward", [&] { k_.max_pool2d_forward(x.read(), pooled.view(), places.view(), half); });
    time("max_pool2d_backward", [&] { k_.max_pool2d_backward(pooled.read(), places.read(), y.view(), half); });
    time("avg_pool2d_forward", [&] { k_.avg_pool2d_forward(x.read(), pooled.view(), half); });
    time("avg_pool2d_backward", [&] { k_.avg_pool2d_backward(pooled.read(), y.view(), half); });
    time("global_avg_pool_forward", [&] { k_.global_avg_pool_forward(x.read(), mean.view(), 784); });
    auto flat = some<2>({{8, 64 * 28 * 28}});
    time("flatten", [&] { k_.flatten(x.read(), flat.view()); });
    time("unflatten", [&] { k_.unflatten(flat.read(), y.view()); });

    auto gamma = some<1>({{64}}), beta = some<1>({{64}}), sums = some<1>({{128}});
    const auto average = equal<typename B::statistic>(shape<1>{{64}}, 0);
    const auto inv_std = equal<typename B::statistic>(shape<1>{{64}}, 1);
    const auto in = pixels(x.read());
    const auto out = pixels(y.view());
    if constexpr (!ts::gathers_statistics<B>) {
      statistics<2> moments(shape<2>{{64, 3}});
      time("batch_norm_moments", [&] { k_.batch_norm_moments(in, moments.view()); });
    }
    time("batch_norm_normalize",
         [&] { k_.batch_norm_normalize(in, average.read(), inv_std.read(), gamma.read(), beta.read(), out); });
    time("batch_norm_backward_sums",
         [&] { k_.batch_norm_backward_sums(in, in, average.read(), inv_std.read(), sums.view()); });
    time("batch_norm_backward_input", [&] {
      k_.batch_norm_backward_input(in, in, average.read(), inv_std.read(), gamma.read(), sums.read(), 6272.0, out);
    });
    auto of_groups = equal<typename B::statistic>(shape<1>{{64}}, 1);
    statistics<2> group_moments(shape<2>{{64, 3}});
    time("group_norm_moments", [&] { k_.group_norm_moments(x.read(), 8, group_moments.view()); });
    time("group_norm_normalize", [&] {
      k_.group_norm_normalize(x.read(), 8, of_groups.read(), of_groups.read(), gamma.read(), beta.read(), y.view());
    });
  }
  /// As batch norm takes images.
  template <class T>
  static auto pixels(block<T, 4, B::order> images) {
    if constexpr (B::order == ts::storage_order::channels_last)
      return as_matrix(images);
    else
      return images;
  }

  void rows() {
    const auto x = some<3>({{512, 1000, 1}}), dy = some<3>({{512, 1000, 1}});
    auto y = some<3>({{512, 1000, 1}});
    time("softmax_forward", [&] { k_.softmax_forward(x.read(), y.view()); });
    time("softmax_backward", [&] { k_.softmax_backward(x.read(), dy.read(), y.view()); });
    time("log_softmax_forward", [&] { k_.log_softmax_forward(x.read(), y.view()); });
    const auto logits = some<2>({{512, 1000}});
    auto gradient = some<2>({{512, 1000}}), sums = equal<float>(shape<2>{{2, 512}}, 500.0f);
    auto most = equal<float>(shape<1>{{512}}, 1.0f);
    auto labels = equal<std::int64_t>(shape<1>{{512}}, 7);
    ts::cross_entropy_part<float> part;
    part.classes = 1000;
    time("row_max", [&] { k_.row_max(logits.read(), most.view()); });
    time("cross_entropy_sums",
         [&] { k_.cross_entropy_sums(logits.read(), labels.read(), most.read(), part, sums.view()); });
    time("cross_entropy_gradient", [&] {
      k_.cross_entropy_gradient(logits.read(), labels.read(), most.read(), sums.read(), part, 1.0,
                                block<float const, 1>{}, gradient.view());
    });
    const auto hidden = some<2>({{1024, 768}}), up = some<2>({{1024, 768}});
    auto to = some<2>({{1024, 768}});
    auto gamma = some<1>({{768}}), beta = some<1>({{768}}), dgamma = some<1>({{768}}), dbeta = some<1>({{768}});
    auto mean = equal<typename B::statistic>(shape<1>{{1024}}, 0);
    auto inv_std = equal<typename B::statistic>(shape<1>{{1024}}, 1);
    time("layer_norm_forward", [&] {
      k_.layer_norm_forward(hidden.read(), 1e-5, gamma.read(), beta.read(), mean.view(), inv_std.view(), to.view());
    });
    time("rms_norm_forward",
         [&] { k_.rms_norm_forward(hidden.read(), 1e-5, gamma.read(), inv_std.view(), to.view()); });
    time("row_normalize_backward", [&] {
      k_.row_normalize_backward(hidden.read(), up.read(), mean.read(), inv_std.read(), gamma.read(), to.view(),
                                dgamma.view(), dbeta.view());
    });
  }

  void words() {
    const auto table = some<2>({{8192, 512}});
    auto found = some<2>({{1024, 512}}), dtable = some<2>({{8192, 512}});
    auto words = equal<std::int64_t>(shape<1>{{1024}}, 77);
    time("embedding_forward", [&] { k_.embedding_forward(words.read(), table.read(), index_t{0}, found.view()); });
    time("embedding_backward",
         [&] { k_.embedding_backward(words.read(), found.read(), index_t{0}, std::int64_t{-1}, dtable.view()); });
    const ts::attention_geometry g{4, 8, 256, 256, 64, 64, 0, 0, true, 0.125};
    const index_t size = 4 * 8 * 256 * 64;
    const auto q = some<1>({{size}}), key = some<1>({{size}}), value = some<1>({{size}}), dy = some<1>({{size}});
    auto y = some<1>({{size}}), dq = some<1>({{size}}), dk = some<1>({{size}}), dv = some<1>({{size}});
    statistics<3> log_sum(shape<3>{{4, 8, 256}}), delta(shape<3>{{4, 8, 256}});
    const auto heads = [](auto* data) { return ts::packed_heads(data, 8, 256, 64); };
    const auto forward = [&] {
      k_.attention_forward(heads(q.data()), heads(key.data()), heads(value.data()), heads(y.data()), log_sum.view(), g);
    };
    forward();
    time("attention_forward", forward);
    k_.attention_delta(heads(std::as_const(y).data()), heads(dy.data()), delta.view(), g);
    time("attention_backward", [&] {
      k_.attention_backward(heads(q.data()), heads(key.data()), heads(value.data()), heads(dy.data()), log_sum.read(),
                            delta.read(), heads(dq.data()), heads(dk.data()), heads(dv.data()), g);
    });
  }

  std::string_view only_;
  std::uint64_t stream_ = 0;
  B k_{};
  column times_;
};

/// A backend and what its column is called.
template <class B>
struct named {
  char const* name;
};

template <class... B>
void print_kernels(std::string_view only, named<B>... backends) {
  std::vector<column> columns;
  (columns.push_back(measured<B>(only).all()), ...);
  std::printf("%-28s", "kernel, milliseconds");
  (std::printf(" %14s", backends.name), ...);
  for (std::size_t i = 0; i < columns[0].size(); ++i) {
    std::printf("\n%-28s", std::string(columns[0][i].first).c_str());
    for (column const& one : columns) std::printf(" %14.4f", 1e3 * one[i].second);
  }
  std::printf("\n");
}

// The trait.

using team = ts::team<ts::mesh<>, ts::serial_comm>;
using map = Eigen::Map<Eigen::Array<float, Eigen::Dynamic, 1>>;
using const_map = Eigen::Map<Eigen::Array<float, Eigen::Dynamic, 1> const>;
using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Prints the median over rounds of the time of `typed` over that of `bare`, which take turns, and of `kernel`, the
/// call of the backend alone.
template <class Typed, class Kernel, class Bare>
void print_overhead(char const* name, index_t bytes, Typed typed, Kernel kernel, Bare bare) {
  const int runs = std::max(runs_of(typed) / 4, 1);
  std::vector<double> of_typed, of_kernel, bares;
  for (int round = 0; round < 101; ++round) {
    const double base = seconds_of(bare, runs);
    of_typed.push_back(seconds_of(typed, runs) / base);
    of_kernel.push_back(seconds_of(kernel, runs) / base);
    bares.push_back(base);
  }
  const auto median = [](std::vector<double>& all) {
    std::nth_element(all.begin(), all.begin() + 50, all.end());
    return all[50];
  };
  std::printf("%-16s %10lld %12.2f %10.3f %10.3f\n", name, static_cast<long long>(bytes), 1e6 * median(bares),
              median(of_typed), median(of_kernel));
}

void print_trait() {
  std::printf("\n%-16s %10s %12s %10s %10s\n", "operator", "bytes", "Eigen, us", "typed", "kernel");
  team where{ts::serial_comm{}};
  auto& k = where.kernels();
  const auto numbers = [&](index_t rows, index_t columns, std::uint64_t stream) {
    ts::tensor<float, 2> t(shape<2>{{rows, columns}});
    const ts::philox draw(1, stream);
    for (index_t i = 0; i < t.size(); ++i)
      t.data()[i] = static_cast<float>(2 * draw.uniform(static_cast<std::uint64_t>(i)) - 1);
    return ts::distribute<ts::replicated>(where, t);
  };
  for (const index_t rows : {128, 512, 1024, 8192}) {
    const auto a = numbers(rows, 256, 1), b = numbers(rows, 256, 2);
    // Each way has memory of its own.
    auto y = numbers(rows, 256, 3), z = numbers(rows, 256, 3);
    using X = decltype(y);
    const index_t size = rows * 256;
    const const_map p(a.read().data, size), q(b.read().data, size);
    map r(z.write().data, size);
    const block<float const, 1> in{a.read().data, {size}}, other{b.read().data, {size}};
    const block<float, 1> out{y.write().data, {size}};
    const auto flat = [&](char const* name, auto typed, auto kernel, auto bare) {
      X result;
      print_overhead(
          name, size * 4, [&] { result = {}, result = typed(); }, kernel, bare);
    };
    flat(
        "add", [&] { return a + b; }, [&] { k.add(in, other, out); }, [&] { r = p + q; });
    flat(
        "mul", [&] { return a * b; }, [&] { k.mul(in, other, out); }, [&] { r = p * q; });
    flat(
        "relu", [&] { return ts::op::relu(a); }, [&] { k.relu_forward(in, out); },
        [&] { r = (p < 0.0f).select(0.0f, p); });
    flat(
        "exp", [&] { return ts::op::exp(a); }, [&] { k.exp(in, out); }, [&] { r = p.exp(); });
    const auto w = numbers(256, 256, 4);
    const Eigen::Map<matrix const> x(a.read().data, rows, 256), m(w.read().data, 256, 256);
    Eigen::Map<matrix> product(z.write().data, rows, 256);
    flat(
        "matmul", [&] { return ts::op::linear_product(a, w); },
        [&] { k.matmul(a.read(), false, w.read(), true, y.write()); }, [&] { product.noalias() = x * m.transpose(); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view only = argc > 1 ? argv[1] : "";
  Eigen::setNbThreads(1);
  print_kernels(only, named<ts::eigen>{"eigen"},
#ifdef BENCHMARK_WITH_ONEDNN
                named<ts::onednn>{"onednn"},
#endif
                named<ts::deterministic<>>{"deterministic"}, named<ts::rounded<ts::eigen, ts::bfloat16>>{"rounded"});
  if (only.empty()) print_trait();
}
