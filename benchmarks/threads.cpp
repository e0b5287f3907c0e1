// Kernels on two threads beside the same kernels on one, on one rank: a convolution and its gradients, a matrix
// product, batch norm and gelu. A ratio of 0.5 is perfect.

#include "support/program.hpp"

#include <tessera/backend/eigen.hpp>

namespace {

using namespace comparison;

template <int Rank>
ts::tensor<float, Rank> random_block(ts::shape<Rank> const& extents, std::uint64_t stream) {
  ts::tensor<float, Rank> t(extents);
  const ts::philox draw(1, stream);
  for (ts::index_t i = 0; i < t.size(); ++i)
    t.data()[i] = static_cast<float>(2 * draw.uniform(static_cast<std::uint64_t>(i)) - 1);
  return t;
}

/// `kernel(backend, out)` on two threads and on one; `extents` are those of `out`.
template <int Rank, class Kernel>
void add_threads(std::string const& name, ts::shape<Rank> const& extents, Kernel kernel) {
  add("threads/" + name, [=] {
    const auto with = [=](int threads) {
      const auto backend = std::make_shared<ts::eigen>(threads);
      const auto out = std::make_shared<ts::tensor<float, Rank>>(extents);
      return [=] {
        kernel(*backend, out->view());
        return results{{out->data(), static_cast<std::size_t>(out->size())}};
      };
    };
    return std::vector<way>{{"two_threads", with(2)}, {"one_thread", with(1)}};
  });
}

void add_all() {
  const ts::conv2d_geometry g{.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}};
  const auto x = random_block<4>({{16, 64, 56, 56}}, 1);
  const auto w = random_block<4>({{64, 64, 3, 3}}, 2);
  const auto dy = random_block<4>(x.extents(), 3);
  add_threads("conv2d_forward", x.extents(), [=](auto& k, auto out) { k.conv2d_forward(x.read(), w.read(), out, g); });
  add_threads("conv2d_backward_input", x.extents(),
              [=](auto& k, auto out) { k.conv2d_backward_input(w.read(), dy.read(), out, g); });
  add_threads("conv2d_backward_weight", w.extents(),
              [=](auto& k, auto out) { k.conv2d_backward_weight(x.read(), dy.read(), out, g); });

  const auto a = random_block<2>({{1024, 1024}}, 4);
  const auto b = random_block<2>({{1024, 1024}}, 5);
  add_threads("matmul", a.extents(), [=](auto& k, auto out) { k.matmul(a.read(), false, b.read(), false, out); });

  const auto matrix = as_matrix(x.read());
  const auto gamma = random_block<1>({{64}}, 6);
  const auto statistics = std::make_shared<ts::tensor<double, 2>>(ts::shape<2>{64, 3}, 0.0);
  const auto mean = std::make_shared<ts::tensor<double, 1>>(ts::shape<1>{64}, 0.0);
  const auto inv_std = std::make_shared<ts::tensor<double, 1>>(ts::shape<1>{64}, 0.0);
  add_threads("batch_norm", matrix.extents, [=](auto& k, auto out) {
    k.batch_norm_moments(as_matrix(x.read()), statistics->view());
    k.batch_norm_finish(statistics->read(), 1e-5, mean->view(), inv_std->view());
    k.batch_norm_normalize(as_matrix(x.read()), mean->read(), inv_std->read(), gamma.read(), gamma.read(), out);
  });
  const auto flat = reinterpret_shape<1>(x.read(), ts::shape<1>{x.size()});
  add_threads("gelu", flat.extents,
              [=](auto& k, auto out) { k.gelu_forward(reinterpret_shape<1>(x.read(), ts::shape<1>{x.size()}), out); });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>&) {
    if constexpr (Ranks == 1) add_all();
  });
}
