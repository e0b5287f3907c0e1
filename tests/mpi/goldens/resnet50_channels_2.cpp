#include "network_case.hpp"

TEST_CASE("a narrow ResNet-50 trains like its reference, the channels cut in two") {
  network_case::test<network_case::narrow_resnet50, 3, 1, 2>("resnet50_narrow");
}
