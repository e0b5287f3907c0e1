#include "network_case.hpp"

TEST_CASE("a narrow ResNet-50 trains like its reference, the batch cut in two") {
  network_case::test<network_case::narrow_resnet50, 3, 2, 1>("resnet50_narrow");
}
