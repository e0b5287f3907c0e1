#include <tessera/backend/eigen/workspace.hpp>

#include <doctest/doctest.h>

namespace {

using namespace tessera;
using detail::eigen_kernels::workspace;

}  // namespace

TEST_CASE("a slot that grows gives back what it had, and a workspace all of it") {
  const auto before = host_memory::used().live;
  {
    workspace scratch;
    scratch.get<float>(0, 10);
    CHECK(host_memory::used().live == before + 64);
    scratch.get<float>(0, 1000);
    CHECK(host_memory::used().live == before + 4032);
    scratch.get<double>(0, 20);  // has room
    CHECK(host_memory::used().live == before + 4032);
    scratch.get<double>(1, 8);
    CHECK(host_memory::used().live == before + 4096);
  }
  CHECK(host_memory::used().live == before);
}
