// A label that is no class: only the last stage of a pipeline sees it, while the others wait for gradients. All end.
// expect: tessera: label 10 in row 1 of the batch; wanted 0 to 9, or -100 to ignore the row

#include <tessera/layer/linear.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>

template <int Size>
struct stages : tessera::axis<Size> {};

using layers =
    tessera::chain<tessera::linear<4, 8>, tessera::linear<8, 8>, tessera::linear<8, 8>, tessera::linear<8, 10>>;

template <int Size>
double step_on_a_bad_batch() {
  tessera::session<tessera::mesh<stages<Size>>> session;
  auto net = session.template make<tessera::parallel<layers, tessera::pipeline<stages<Size>>>>();
  tessera::trainer trainer(net, tessera::cross_entropy{}, tessera::sgd(0.1));
  const auto x =
      tessera::distribute<tessera::replicated>(session, tessera::tensor<float, 2>(tessera::shape<2>{{2, 4}}, 1.0f));
  return trainer.step(std::vector{x, x}, std::vector<std::vector<std::int64_t>>{{1, 2}, {3, 10}});
}

int main(int argc, char** argv) {
  tessera::program program{argc, argv};
  const double loss = tessera::mpi_comm().size() == 2 ? step_on_a_bad_batch<2>() : step_on_a_bad_batch<4>();
  std::printf("loss %g\n", loss);
  return 0;
}
