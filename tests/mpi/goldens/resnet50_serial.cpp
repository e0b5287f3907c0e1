#include "network_case.hpp"

namespace {
const golden::built here("resnet50_narrow");
}

TEST_CASE("a narrow ResNet-50 trains like its reference, serially") {
  network_case::test<network_case::narrow_resnet50, 3, 1, 1>("resnet50_narrow");
}
