#include "against_serial.hpp"

#include <tessera/layer/chain.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/layer/residual.hpp>

namespace {

using namespace against_serial;
using against_serial::index_t;

using plain = parallel<chain<linear<6, 8>, relu, residual<chain<linear<8, 8>, relu>>, linear<8, 3>>>;
template <class A, class B>
using words_between = parallel<chain<shard<0, A>, linear<6, 8>, shard<1, B>, relu, replicated,
                                  residual<chain<shard<0, B>, linear<8, 8>, relu>>, linear<8, 3>>,
                            input<dynamic, 6>>;

/// Names and whole first values of all parameters.
template <class Model, class Team>
std::map<std::string, std::vector<double>> first_values(Team& team) {
  auto net = team.template make<Model, double>(seed{5});
  std::map<std::string, std::vector<double>> all;
  net.for_each_parameter([&](std::string const& name, auto const& value) { all[name] = list<double>(gather(value)); });
  return all;
}

template <int A, int B>
void check() {
  if (worlds::size() != A * B) return;
  worlds::serial_team<mesh<first<1>, second<1>>> alone{serial_comm{}};
  worlds::parallel_team<mesh<first<A>, second<B>>> team{mpi_comm{}};
  const auto wanted = first_values<plain>(alone);
  CHECK(wanted.count("2.branch.0.weight") == 1);
  CHECK((first_values<words_between<first<A>, second<B>>>(team)) == wanted);
}

}  // namespace

TEST_CASE("layout words change neither the names nor the first values of parameters") {
  check<1, 1>();
  check<2, 1>();
  check<1, 2>();
  check<2, 2>();
}

TEST_CASE("a model with layout words computes what the model without them computes") {
  if (worlds::size() == 2) {
    worlds::serial_team<mesh<first<1>, second<1>>> alone{serial_comm{}};
    worlds::parallel_team<mesh<first<2>, second<1>>> team{mpi_comm{}};
    compare(pass<words_between<first<2>, second<1>>, double>(team, shape<2>{{5, 6}}),
            pass<plain, double>(alone, shape<2>{{5, 6}}), 1e-12);
  }
}
