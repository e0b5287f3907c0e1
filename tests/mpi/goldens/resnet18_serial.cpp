#include "network_case.hpp"

namespace {
const golden::built here("resnet18_small");
}

TEST_CASE("a small ResNet-18 trains like its reference, serially") {
  network_case::test<network_case::small_resnet18, 1, 1, 1>("resnet18_small");
}
