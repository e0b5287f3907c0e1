// A run that saves, one that goes on from there, and the same weights in another split and in one file.
//
// run: 4

#include <tessera/tessera.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace ts = tessera;

struct dp : ts::axis<2> {};
struct tp : ts::axis<2> {};
using world = ts::mesh<dp, tp>;

template <class... Split>
using body = ts::chain<ts::flatten<>, ts::linear<16, 32, Split...>, ts::relu,
                       ts::dropout<ts::keep_of<std::ratio<3, 4>>>, ts::linear<32, 3>>;
using split_model = ts::parallel<body<ts::split_output<tp>>, ts::input<ts::dynamic, 1, 4, 4>, ts::data_parallel<dp>>;
using serial_model = ts::parallel<body<>, ts::input<ts::dynamic, 1, 4, 4>>;

/// 50 small images whose brightness is their class.
ts::image_dataset images() {
  ts::image_dataset data{{{50, 1, 4, 4}}, {}, {}, 3};
  for (int n = 0; n < 50; ++n) data.labels.push_back(n % 3);
  for (int p = 0; p < 50 * 16; ++p) data.pixels.push_back(static_cast<std::uint8_t>(p / 16 % 3 * 80 + p * p % 70));
  return data;
}

template <class Session>
std::vector<double> train(Session& session, std::filesystem::path const& folder, ts::index_t epochs) {
  const auto data = images();
  const ts::image_batches batches{data, 10, 0.5f, 0.25f};
  // [train]
  auto model = session.template make<split_model>(ts::seed{42});
  ts::trainer trainer{model, ts::cross_entropy{}, ts::adam{.learning_rate = 0.01}};
  return trainer.fit(batches, ts::epochs{epochs}, ts::resume{folder},
                     ts::checkpoint_every{.directory = folder, .steps = 3, .keep = 2}, ts::loss_monitor{});
  // [train]
}

template <class Session>
bool weights_agree(Session& session, std::filesystem::path const& folder) {
  // [weights]
  // The parameters alone, from any split into any other.
  const auto newest = ts::newest_checkpoint(folder);
  auto model = session.template make<split_model>();
  ts::load_weights(model, newest.value());

  // One file of whole tensors, for other programs: PyTorch reads it with safetensors.torch.load_file.
  const auto file = folder / "weights.safetensors";
  ts::export_weights(model, file);

  // And back, here into the serial model on each rank.
  ts::team<ts::mesh<>, ts::serial_comm> alone{ts::serial_comm{}};
  auto serial = alone.make<serial_model>();
  ts::import_weights(serial, file);
  // [weights]
  bool same = true;
  model.for_each_parameter([&](std::string const& name, auto const& value) {
    const auto whole = ts::gather(value);
    for (auto const& p : serial.parameters())
      if (p.name == name) same = same && std::equal(p.value.begin(), p.value.end(), whole.data());
  });
  return same;
}

int main(int argc, char** argv) {
  ts::session<world> session{argc, argv};
  const auto folder = std::filesystem::temp_directory_path() / "tessera-checkpoint-example";
  if (session.rank() == 0) std::filesystem::remove_all(folder);
  session.group(world::all).barrier();

  const auto whole = train(session, folder / "whole", 4);
  train(session, folder / "parts", 2);  // stops here
  const auto parts = train(session, folder / "parts", 4);
  const bool same = whole == parts && weights_agree(session, folder / "parts");
  if (session.rank() == 0)
    std::printf("mean loss of the last epoch %.17g, without interruption %.17g\n", parts.back(), whole.back());
  session.group(world::all).barrier();
  if (session.rank() == 0) std::filesystem::remove_all(folder);
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
