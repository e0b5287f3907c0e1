// C49: one rank throws while the others wait for it in a collective: its number and message are printed, all ranks end.
// expect: [rank 1] tessera: something that only this rank sees; wanted a message; print it and end all ranks

#include <tessera/train/session.hpp>

template <int Size>
struct all : tessera::axis<Size> {};

template <int Size>
void wait_for_rank_1() {
  tessera::session<tessera::mesh<all<Size>>> session;
  if (session.rank() == 1)
    throw tessera::error("something that only this rank sees", "a message", "print it and end all ranks");
  float value = 0;
  session.group(1).all_reduce(&value, 1, tessera::reduction::sum);
}

int main(int argc, char** argv) {
  tessera::program program{argc, argv};
  if (tessera::mpi_comm().size() == 2)
    wait_for_rank_1<2>();
  else
    wait_for_rank_1<4>();
  return 0;
}
