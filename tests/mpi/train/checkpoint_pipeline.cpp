#include "support/checkpoints.hpp"

#include <tessera/train/pipeline.hpp>
#include <tessera/train/weights.hpp>

// Checkpoints of a pipeline, whose ranks hold different parameters, in a model without one and back.

namespace {

using namespace checkpoints;

struct pp : axis<2> {};

template <class Dp, class... Policies>
using net_of = parallel<chain<conv2d<1, 6, window<3, 1, 1>>, batch_norm2d<6>, relu, flatten<>,
                              dropout<keep_of<std::ratio<3, 4>>>, linear<96, 3>>,
                        input<dynamic, 1, 4, 4>, data_parallel<Dp>, Policies...>;

template <int Dp>
void on_mesh() {
  if (worlds::size() != 2 * Dp) return;
  CAPTURE(Dp);
  const shared_folder folder;
  worlds::parallel_team<mesh<pp, dp<Dp>>> team{mpi_comm{}};
  using model = net_of<dp<Dp>, pipeline<pp>>;
  auto net = team.template make<model>(seed{4});
  trainer piped(net, cross_entropy{}, adam{.learning_rate = 0.01}, {.micro_batches = 2});
  piped.fit(batches(), epochs{1}, checkpoint_every{.directory = folder.path() / "piped", .epochs = 1});
  const auto checkpoint = *newest_checkpoint(folder.path() / "piped");

  worlds::serial_team<mesh<dp<1>>> alone{serial_comm{}};
  auto serial = alone.template make<net_of<dp<1>>>(seed{5});
  trainer one(serial, cross_entropy{}, adam{});
  load_checkpoint(one, checkpoint);
  const auto wanted = whole(serial);
  CHECK(net.parameters().size() < wanted.size());
  for (auto const& p : net.parameters())
    CHECK(std::vector<double>(p.value.begin(), p.value.end()) == wanted.at(p.name));
  if (team.rank() == 0) save_checkpoint(one, folder.path() / "serial");
  mpi_comm().barrier();

  auto again = team.template make<model>(seed{6});
  trainer goes_on(again, cross_entropy{}, adam{}, {.micro_batches = 2});
  CHECK(held(goes_on) != held(piped));
  load_checkpoint(goes_on, *newest_checkpoint(folder.path() / "serial"));
  CHECK(held(goes_on) == held(piped));
  CHECK(goes_on.fit(batches(), epochs{1}) == piped.fit(batches(), epochs{1}));

  // The weights alone, whole and by name.
  const auto path = folder.path() / "weights.safetensors";
  export_weights(again, path);
  auto other = alone.template make<net_of<dp<1>>>(seed{7});
  import_weights(other, path);
  const auto exported = whole(other);
  for (auto const& p : again.parameters())
    CHECK(std::vector<double>(p.value.begin(), p.value.end()) == exported.at(p.name));
  auto third = team.template make<model>(seed{8});
  import_weights(third, path);
  for (std::size_t i = 0; i < third.parameters().size(); ++i) {
    const auto found = third.parameters()[i].value;
    CHECK(std::equal(found.begin(), found.end(), again.parameters()[i].value.begin()));
  }
}

}  // namespace

TEST_CASE("a checkpoint of a pipeline loads without one, and back") {
  on_mesh<1>();
  on_mesh<2>();
  on_mesh<4>();
}
