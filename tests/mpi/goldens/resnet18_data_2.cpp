#include "network_case.hpp"

TEST_CASE("a small ResNet-18 trains like its reference, the batch cut in two") {
  network_case::test<network_case::small_resnet18, 1, 2, 1>("resnet18_small");
}
