// The serial model and its training, on one device.
//
// run: 1

#include "tutorial.hpp"

// [begin]
#include <tessera/tessera.hpp>

namespace ts = tessera;
// [begin]

// [model]
struct mlp : ts::chain<ts::linear<16, 32>, ts::relu,
                       ts::linear<32, 64>, ts::relu,
                       ts::linear<64, 10>> {};
// [model]

int main() {
  // [main]
  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  const auto result = tutorial::train<mlp>(alone);
  for (std::size_t step = 0; step < result.losses.size(); step += 5)
    std::printf("step %zu: loss %.4f\n", step, result.losses[step]);
  // [main]
  std::printf("%zu parameters\n", result.parameters.size());
  return result.losses.back() < 0.1 * result.losses.front() ? 0 : 1;
}
