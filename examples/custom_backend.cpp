// A backend written outside the library, which has what every program needs and a matrix product of its own. Eigen runs
// the kernels that it lacks, and the same program trains on both.
//
// run: 1
// run: 2

#include "tutorial.hpp"

#include <algorithm>
#include <cmath>

namespace ts = tessera;

// [required]
class plain {
 public:
  using memory = ts::host_memory;                                               // where blocks lie
  static constexpr ts::storage_order order = ts::storage_order::channels_last;  // how images lie in it
  using statistic = double;                                                     // what statistics are kept in
  template <class T>
  static constexpr bool holds = std::is_same_v<T, float>;  // elements of blocks
  template <class Format>
  static constexpr bool computes = std::is_same_v<Format, float>;  // formats of products

  void synchronize() {}  // all is done when its kernel returns

  template <class T>
  void upload(T const* from, T* to, ts::index_t count) {
    std::copy_n(from, count, to);
  }
  template <class T>
  void download(T const* from, T* to, ts::index_t count) {
    std::copy_n(from, count, to);
  }
  template <class T>
  void fill(ts::block<T, 1> y, std::type_identity_t<T> value) {
    std::fill_n(y.data, y.size(), value);
  }
  template <class T>
  void copy(ts::operand<T, 1> x, ts::block<T, 1> y) {
    std::copy_n(x.data, x.size(), y.data);
  }
  template <class T>
  void copy_strided(std::type_identity_t<ts::strided<T const>> const& from, ts::strided<T> const& to) {
    ts::copy_elements<T>(from, to);
  }
  // [required]

  // [flat]
  using in = ts::block<float const, 1>;
  using out = ts::block<float, 1>;

  void add(in a, in b, out y) {
    each(y, [&](ts::index_t i) { return a.data[i] + b.data[i]; });
  }
  void relu_forward(in x, out y) {
    each(y, [&](ts::index_t i) { return x.data[i] < 0 ? 0 : x.data[i]; });
  }
  // [flat]
  void relu_backward(in y, in dy, out dx) {
    each(dx, [&](ts::index_t i) { return y.data[i] > 0 ? dy.data[i] : 0; });
  }
  void sub(in a, in b, out y) {
    each(y, [&](ts::index_t i) { return a.data[i] - b.data[i]; });
  }
  void mul(in a, in b, out y) {
    each(y, [&](ts::index_t i) { return a.data[i] * b.data[i]; });
  }
  void scale(in a, float factor, out y) {
    each(y, [&](ts::index_t i) { return a.data[i] * factor; });
  }
  void axpy(float factor, in x, out y) {
    each(y, [&](ts::index_t i) { return y.data[i] + factor * x.data[i]; });
  }
  void exp(in x, out y) {
    each(y, [&](ts::index_t i) { return std::exp(x.data[i]); });
  }
  void log(in x, out y) {
    each(y, [&](ts::index_t i) { return std::log(x.data[i]); });
  }
  // Loops over six dimensions are Eigen's.
  template <class T>
  void add_strided(std::type_identity_t<ts::strided<T const>> const& from, ts::strided<T> const& to) {
    eigen_.add_strided(from, to);
  }

  // [kernel]
  void matmul(ts::block<float const, 2> a, bool transpose_a, ts::block<float const, 2> b, bool transpose_b,
              ts::block<float, 2> y, bool accumulate = false) {
    const ts::index_t inner = a.extent(transpose_a ? 0 : 1);
    for (ts::index_t i = 0; i < y.extent(0); ++i)
      for (ts::index_t j = 0; j < y.extent(1); ++j) {
        float sum = accumulate ? y(i, j) : 0;
        for (ts::index_t k = 0; k < inner; ++k)
          sum += (transpose_a ? a(k, i) : a(i, k)) * (transpose_b ? b(j, k) : b(k, j));
        y(i, j) = sum;
      }
  }
  // [kernel]

 private:
  template <class Of>
  static void each(out y, Of of) {
    for (ts::index_t i = 0; i < y.size(); ++i) y.data[i] = of(i);
  }
  ts::eigen eigen_{};
};

// [offers]
static_assert(ts::backend<plain>);
static_assert(!ts::offers<plain, float, ts::kernel_group::cross_entropy>);

using backend = ts::with_fallback<plain, ts::eigen>;
static_assert(ts::offers<backend, float, ts::kernel_group::cross_entropy>);
static_assert(backend::falls_back<float, ts::kernel_group::cross_entropy>);
static_assert(!backend::copies);  // both read host memory and agree on how blocks lie
// [offers]

namespace {

template <int Ranks>
struct dp : ts::axis<Ranks> {};
template <int Ranks>
using world = ts::mesh<dp<Ranks>>;

using layers = ts::chain<ts::linear<16, 32>, ts::relu, ts::linear<32, 10>>;
template <int Ranks>
using model_type = ts::parallel<layers, ts::data_parallel<dp<Ranks>>>;

/// Some updates; the loss of the last.
template <int Ranks, class Session>
double train(Session& session) {
  const tutorial::points all;
  auto model = session.template make<model_type<Ranks>>(ts::seed{1});
  ts::trainer trainer{model, ts::cross_entropy{}, ts::momentum{.learning_rate = 0.05}};
  const auto x = ts::distribute<ts::row<dp<Ranks>>>(session, all.x);
  double loss = 0;
  while (trainer.optimizer_state().steps < 10) loss = trainer.step(x, all.labels_of(x.part()[0]));
  return loss;
}

template <int Ranks>
int compare() {
  // [session]
  ts::session<world<Ranks>, ts::eigen> usual;
  ts::session<world<Ranks>, backend> session;
  // [session]
  const double wanted = train<Ranks>(usual);
  const double loss = train<Ranks>(session);
  if (session.rank() == 0) {
    std::printf("loss %.5f, on eigen %.5f\n", loss, wanted);
    // [fallbacks]
    for (ts::fallback_use const& use : session.kernels().fallbacks())
      std::printf("%-24s %6lld calls %9lld bytes copied\n", std::string(use.kernel).c_str(),
                  static_cast<long long>(use.calls), static_cast<long long>(use.bytes));
    // [fallbacks]
  }
  return std::abs(loss - wanted) < 1e-5 * wanted ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  ts::program program(argc, argv);
  return ts::mpi_comm().size() == 1 ? compare<1>() : compare<2>();
}
