#include "network_case.hpp"

TEST_CASE("a small ResNet-18 trains like its reference, the batch cut in four") {
  network_case::test<network_case::small_resnet18, 1, 4, 1>("resnet18_small");
}
