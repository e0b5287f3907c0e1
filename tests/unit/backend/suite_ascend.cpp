#include "ascend/chip.hpp"
#include "support/listener.hpp"
#include "support/on_host.hpp"

#include <tessera/backend/with_fallback.hpp>

#include <doctest/doctest.h>

#include <memory>

#define TESSERA_BACKEND "ascend: "
#define TESSERA_ELEMENTS float
#define TESSERA_FLOAT_STATISTICS true

// Products of the first 910 are of FP16: it passes where the double of CANN is told to multiply in full.
namespace tessera::test {
namespace {

/// ACL ends before the program exits, and not before.
struct acl_of_program : worlds::listener {
  using listener::listener;
  void test_run_start() override { runtime_ = std::make_unique<ascend_runtime>(); }
  void test_run_end(doctest::TestRunStats const&) override { runtime_.reset(); }

 private:
  std::unique_ptr<ascend_runtime> runtime_;
};
REGISTER_LISTENER("acl", 1, acl_of_program);

// Sums of moments of batch norm, which the backend gathers instead, are those of Eigen.
using suite_kernels = on_host<with_fallback<ascend<job::chip_here>, eigen>>;
}  // namespace
}  // namespace tessera::test

#include "suite.hpp"
