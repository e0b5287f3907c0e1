// A chain of 150 layers that repeat, forward and backward.

#include <tessera/tessera.hpp>

#include <type_traits>
#include <utility>

namespace ts = tessera;

struct dp : ts::axis<2> {};

template <class Sequence>
struct repeated;
template <int... I>
struct repeated<std::integer_sequence<int, I...>>
    : ts::chain<std::conditional_t<I % 2 == 0, ts::linear<64, 64>, ts::relu>...> {};
using model = ts::parallel<repeated<std::make_integer_sequence<int, 150>>, ts::data_parallel<dp>>;

int main(int argc, char** argv) {
  ts::session<ts::mesh<dp>> session{argc, argv};
  auto network = session.make<model>();
  decltype(network)::input_type x(session, {{8, 64}});
  network.backward(network.forward(x));
}
