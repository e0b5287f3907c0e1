#include "models.hpp"

#include <tessera/model/resnet.hpp>
#include <tessera/plan/plan_devices.hpp>

namespace ts = tessera;

std::vector<known_model> models_of_images() {
  // [models]
  using colour = ts::input<ts::dynamic, 3, 224, 224>;
  using grey = ts::input<ts::dynamic, 1, 28, 28>;
  return {{"resnet18", "ResNet-18, colour images of 224 x 224, 1000 classes", "images", 256, 1,
           ts::plan_devices<ts::model::resnet18<1000>, colour>},
          {"resnet50", "ResNet-50, colour images of 224 x 224, 1000 classes", "images", 256, 1,
           ts::plan_devices<ts::model::resnet50<1000>, colour>},
          {"resnet-small", "that of train_fashion_mnist, grey images of 28 x 28", "images", 128, 1,
           ts::plan_devices<ts::model::resnet_small<10>, grey>}};
  // [models]
}
