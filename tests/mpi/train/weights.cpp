#include "support/checkpoints.hpp"

#include <tessera/train/weights.hpp>

#include <fstream>
#include <iterator>

// Weights as one safetensors file: whole tensors under their names, from any mesh and into any.

namespace {

using namespace checkpoints;

std::string bytes_of_file(std::filesystem::path const& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Rank 0 writes a file of zeros for all.
void write_zeros(std::filesystem::path const& path, std::vector<safetensors_tensor> const& tensors) {
  mpi_comm world;
  world.barrier();
  if (world.rank() == 0) {
    safetensors_writer out(path, tensors);
    for (safetensors_tensor const& t : tensors) out.append(std::vector<std::byte>(t.bytes()));
    out.finish();
  }
  world.barrier();
}

template <int Dp, int Tp>
void on_mesh() {
  const mpi_comm world;
  if (world.size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  const shared_folder folder;
  if (world.rank() == 0) std::filesystem::create_directories(folder.path());
  worlds::parallel_team<mesh<dp<Dp>, tp<Tp>>> team{mpi_comm{}};
  using model = by_output<dp<Dp>, tp<Tp>>;
  auto net = team.template make<model>(seed{4});
  trainer(net, cross_entropy{}, sgd(0.1)).fit(batches(), epochs{1});
  const auto path = folder.path() / "weights.safetensors";
  export_weights(net, path);
  CHECK(!std::filesystem::exists(folder.path() / "weights.safetensors.tmp"));

  // Each tensor whole, in logical row-major order.
  const auto wanted = whole(net);
  const safetensors_file file(path);
  CHECK(file.tensors().size() == wanted.size());
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.at("0.weight").extents == std::vector<index_t>{6, 1, 3, 3});
  for (auto const& entry : wanted) {
    const auto read = file.read<float>(entry.first);
    CHECK(std::vector<double>(read.begin(), read.end()) == entry.second);
  }

  worlds::serial_team<mesh<dp<1>, tp<1>>> alone{serial_comm{}};
  auto serial = alone.template make<by_input<dp<1>, tp<1>>>(seed{5});
  import_weights(serial, path);
  CHECK(whole(serial) == wanted);
  // The same file from another split.
  const auto again = folder.path() / ("again-" + std::to_string(world.rank()));
  export_weights(serial, again);
  CHECK(bytes_of_file(again) == bytes_of_file(path));

  auto other = team.template make<model>(seed{6});
  CHECK(whole(other) != wanted);
  import_weights(other, path);
  CHECK(whole(other) == wanted);

  // What differs is named, on all ranks, and nothing is changed.
  const auto fault = [&](std::vector<safetensors_tensor> const& tensors) {
    const auto broken = folder.path() / "broken.safetensors";
    write_zeros(broken, tensors);
    const std::string text = error_of([&] { import_weights(other, broken); });
    CHECK(whole(other) == wanted);
    says(text, broken.string());
    return text;
  };
  auto tensors = file.tensors();
  const auto at = [&](std::string const& name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](auto const& t) { return t.name == name; });
  };
  at("0.bias")->name = "0.bais";
  says(fault(tensors), "no tensor \"0.bias\"");
  at("0.bais")->name = "0.bias";
  tensors.push_back({"9.weight", safetensors_type::f32, {2}});
  says(fault(tensors), "also has tensor \"9.weight\"");
  tensors.pop_back();
  at("0.weight")->extents = {6, 1, 9};
  at("0.bias")->type = safetensors_type::i32;
  const std::string both = fault(tensors);
  says(both, "tensor \"0.weight\" of [6, 1, 9] F32, not [6, 1, 3, 3] F32");
  says(both, "tensor \"0.bias\" of [6] I32, not [6] F32");
  says(error_of([&] { import_weights(other, folder.path() / "none.safetensors"); }), "none.safetensors");
  says(error_of([&] { export_weights(other, folder.path() / "none" / "a.safetensors"); }), "cannot create");
}

}  // namespace

TEST_CASE("weights leave any mesh as one file of whole tensors and enter any other") {
  on_mesh<1, 1>();
  on_mesh<1, 2>();
  on_mesh<2, 2>();
  on_mesh<2, 4>();
}
