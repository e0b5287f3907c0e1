#include "network_case.hpp"

TEST_CASE("a small ResNet-18 trains like its reference, the channels cut in two") {
  network_case::test<network_case::small_resnet18, 1, 1, 2>("resnet18_small");
}
