// The small ResNet, data parallel on two ranks, trained: what a user's first program costs to compile.

#include <tessera/tessera.hpp>

namespace ts = tessera;

struct dp : ts::axis<2> {};
using model = ts::parallel<ts::model::resnet_small<10>, ts::input<ts::dynamic, 1, 28, 28>, ts::data_parallel<dp>>;

int main(int argc, char** argv) {
  ts::session<ts::mesh<dp>> session{argc, argv};
  const auto images = ts::load_fashion_mnist(argv[1], ts::dataset_part::train);
  auto network = session.make<model>(ts::seed{1});
  ts::trainer trainer{network, ts::cross_entropy{}, ts::momentum{.learning_rate = 0.1}};
  trainer.fit({images, 256}, ts::epochs{2}, ts::loss_monitor{});
}
