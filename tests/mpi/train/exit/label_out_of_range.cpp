// A label that is no class, among the rows of the last rank only: every rank learns of it, one line names both.
// expect: [rank 0] tessera: label 10 in row 7 of the batch; wanted 0 to 9, or -100 to ignore the row

#include <tessera/op/cross_entropy.hpp>
#include <tessera/train/session.hpp>

template <int Size>
struct all : tessera::axis<Size> {};

template <int Size>
double loss_of_a_bad_batch() {
  tessera::session<tessera::mesh<all<Size>>> session;
  const auto logits = tessera::distribute<tessera::row<all<Size>>>(
      session, tessera::tensor<float, 2>(tessera::shape<2>{{8, 10}}, 0.0f));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(logits.local().extent(0)), 0);
  if (session.rank() == Size - 1) labels.back() = 10;
  return tessera::op::cross_entropy<std::remove_const_t<decltype(logits)>>(logits, labels).loss();
}

int main(int argc, char** argv) {
  tessera::program program{argc, argv};
  const double loss = tessera::mpi_comm().size() == 2 ? loss_of_a_bad_batch<2>() : loss_of_a_bad_batch<4>();
  std::printf("loss %g\n", loss);
  return 0;
}
