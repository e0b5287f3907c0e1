// A chain of 150 layers, no two alike, forward and backward.

#include <tessera/tessera.hpp>

#include <utility>

namespace ts = tessera;

struct dp : ts::axis<2> {};

template <class Sequence>
struct deep;
template <int... I>
struct deep<std::integer_sequence<int, I...>> : ts::chain<ts::linear<I + 1, I + 2>...> {};
using model = ts::parallel<deep<std::make_integer_sequence<int, 150>>, ts::data_parallel<dp>>;

int main(int argc, char** argv) {
  ts::session<ts::mesh<dp>> session{argc, argv};
  auto network = session.make<model>();
  decltype(network)::input_type x(session, {{8, 1}});
  network.backward(network.forward(x));
}
