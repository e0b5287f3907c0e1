#include "support/worlds.hpp"

#include <tessera/model/resnet.hpp>
#include <tessera/train/trainer.hpp>

#include <map>

namespace {

using namespace tessera;
using tessera::index;

template <int Size>
struct data_axis : axis<Size> {};
template <int Size>
struct tensor_axis : axis<Size> {};

constexpr index rows = 13;  // not divisible by any axis
constexpr index steps = 20;

/// The losses of some steps, and the whole parameters after them.
template <class T>
struct run_result {
  std::vector<double> losses;
  std::map<std::string, std::vector<T>> parameters;
};

template <class T, class Model, class Team, class Start>
run_result<T> train(Team& team, Start const& whole_input, index classes) {
  auto net = team.template make<Model, T>(seed{7});
  trainer fit(net, cross_entropy{}, momentum{0.05, 0.9});
  using input_type = typename decltype(net)::input_type;
  run_result<T> result;
  for (index s = 0; s < steps; ++s) {
    const auto images = worlds::values<T>(whole_input, static_cast<std::uint64_t>(s));
    const auto x = distribute<typename input_type::layout_type>(team, images);
    const auto labels = worlds::rows_of(worlds::labels(rows, classes, static_cast<std::uint64_t>(s)), x.part()[0]);
    result.losses.push_back(fit.step(x, labels));
  }
  net.for_each_parameter([&](std::string const& name, auto const& value) {
    const auto whole = gather(value);
    result.parameters[name].assign(whole.read().begin(), whole.read().end());
  });
  return result;
}

/// Trains `Model<Dp, Tp>` on a mesh of these sizes and serially, and compares.
///
/// Bound: a step sums a few thousand terms in another order, which moves a float sum by about 1e-6 of its size; twenty
/// steps of a network that amplifies by a small factor stay below 2e-4 in float, and 1e-11 in double.
template <class T, template <class, class> class Model, int Dp, int Tp>
void compare(auto const& input, index classes) {
  if (worlds::size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  using serial_dp = data_axis<1>;
  using serial_tp = tensor_axis<1>;
  worlds::serial_team<mesh<serial_dp, serial_tp>> alone{serial_comm{}};
  const auto wanted = train<T, Model<serial_dp, serial_tp>>(alone, input, classes);
  worlds::parallel_team<mesh<data_axis<Dp>, tensor_axis<Tp>>> team{mpi_comm{}};
  const auto found = train<T, Model<data_axis<Dp>, tensor_axis<Tp>>>(team, input, classes);

  const double bound = std::is_same_v<T, float> ? 2e-4 : 1e-11;
  REQUIRE(found.losses.size() == wanted.losses.size());
  for (std::size_t s = 0; s < wanted.losses.size(); ++s) {
    CAPTURE(s);
    CHECK(std::abs(found.losses[s] - wanted.losses[s]) <= bound * (1 + std::abs(wanted.losses[s])));
  }
  CHECK(wanted.losses.front() != wanted.losses.back());
  REQUIRE(found.parameters.size() == wanted.parameters.size());
  for (auto const& entry : wanted.parameters) {
    std::string const& name = entry.first;
    auto const& value = entry.second;
    CAPTURE(name);
    auto const& other = found.parameters.at(name);
    REQUIRE(other.size() == value.size());
    double most = 1e-3;
    double apart = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(value[i])));
      apart = std::max(apart, std::abs(static_cast<double>(value[i]) - static_cast<double>(other[i])));
    }
    CHECK(apart <= bound * most);
  }
}

template <class Dp, class Tp>
using mlp = parallel<chain<linear<12, 20, split_output<Tp>>, relu, linear<20, 9, split_input<Tp>>, relu,
                           linear<9, 7, split_output<Tp>>>,
                     data_parallel<Dp>, fuse::at<2>>;

template <class Dp, class Tp>
using resnet = parallel<model::resnet_small<10, Tp>, input<dynamic, 1, 12, 12>, data_parallel<Dp>>;

template <class T, template <class, class> class Model>
void compare_all(auto const& input, index classes) {
  compare<T, Model, 1, 1>(input, classes);
  compare<T, Model, 2, 1>(input, classes);
  compare<T, Model, 1, 2>(input, classes);
  compare<T, Model, 4, 1>(input, classes);
  compare<T, Model, 1, 4>(input, classes);
  compare<T, Model, 2, 2>(input, classes);
  compare<T, Model, 8, 1>(input, classes);
  compare<T, Model, 1, 8>(input, classes);
  compare<T, Model, 2, 4>(input, classes);
  compare<T, Model, 4, 2>(input, classes);
}

}  // namespace

TEST_CASE("twenty steps of an MLP with uneven cuts equal the serial run") {
  compare_all<float, mlp>(shape<2>{{rows, 12}}, 7);
  compare_all<double, mlp>(shape<2>{{rows, 12}}, 7);
}

TEST_CASE("twenty steps of the ResNet equal the serial run") {
  compare_all<float, resnet>(shape<4>{{rows, 1, 12, 12}}, 10);
}
