// Another seed on the last rank: all ranks refuse the model.
// expect: [rank 0] tessera: the plan or the seed of a model differs between ranks

#include <tessera/layer/linear.hpp>
#include <tessera/train/session.hpp>

template <int Size>
struct all : tessera::axis<Size> {};

template <int Size>
void make_different_models() {
  tessera::session<tessera::mesh<all<Size>>> session;
  using model = tessera::parallel<tessera::linear<3, 2>, tessera::data_parallel<all<Size>>>;
  const auto net = session.template make<model>(tessera::seed{session.rank() == Size - 1 ? 2u : 1u});
  std::printf("made %zu parameters\n", net.parameters().size());
}

int main(int argc, char** argv) {
  tessera::program program{argc, argv};
  if (tessera::mpi_comm().size() == 2)
    make_different_models<2>();
  else
    make_different_models<4>();
  return 0;
}
