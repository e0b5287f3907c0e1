#include "listed_calls.hpp"

#include <tessera/layer/dropout.hpp>
#include <tessera/layer/linear.hpp>

namespace {

using namespace against_serial;

template <class A, class B>
using dropped = parallel<
    chain<dropout<keep_of<std::ratio<3, 4>>>, linear<6, 140, split_output<B>>, dropout<keep_of<std::ratio<1, 2>>>,
          linear<140, 9, split_input<B>>, dropout<keep_of<std::ratio<9, 10>>>>,
    input<dynamic, 6>, data_parallel<A>>;
template <class A, class B>
using dropped_images =
    parallel<chain<layout<shard<0, A>, shard<2, B>>, dropout<keep_of<std::ratio<1, 3>>>>, input<dynamic, 3, 5, 4>>;

}  // namespace

TEST_CASE("a split model drops what the serial one drops") {
  on_meshes<dropped>(shape<2>{13, 6});
  on_meshes<dropped_images>(shape<4>{3, 3, 5, 4});
  check_all_calls<dropped>(shape<2>{13, 6});
}

TEST_CASE("dropout drops anew in each step and layer, scales what it keeps, and is off in evaluation") {
  worlds::serial_team<mesh<>> alone{serial_comm{}};
  using layer = dropout<keep_of<std::ratio<1, 2>>>;
  auto net = alone.make<parallel<chain<layer, layer>, input<dynamic, 1000>>>(seed{7});
  auto other = alone.make<parallel<layer, input<dynamic, 1000>>>(seed{8});
  const auto x = distribute<replicated>(alone, tensor<float, 2>({3, 1000}, 1.0f));
  const auto first_step = net.forward(x).local().clone();
  net.backward(x);
  const auto second_step = net.forward(x).local().clone();
  const auto by_other = other.forward(x).local().clone();
  const auto evaluated = net.forward(x, false);
  int kept = 0;
  int both = 0;
  int alike = 0;
  for (index_t i = 0; i < 3000; ++i) {
    const float value = first_step.data()[i];
    CHECK((value == 0 || value == 4));
    CHECK(evaluated.local().data()[i] == 1);
    kept += value != 0;
    both += value != 0 && second_step.data()[i] != 0;
    alike += by_other.data()[i] != 0 && value != 0;
  }
  // Independent halves: a quarter is kept by two layers, a sixteenth in two steps, an eighth by one more layer.
  CHECK(std::abs(kept - 750) < 100);
  CHECK(std::abs(both - 188) < 60);
  CHECK(std::abs(alike - 375) < 80);
}
