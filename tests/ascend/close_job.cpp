#include "job.hpp"
#include "support/listener.hpp"

namespace {

/// Closes the device before the program ends.
struct close_job : worlds::listener {
  using listener::listener;
  void test_run_end(doctest::TestRunStats const&) override { job::instance().reset(); }
};
REGISTER_LISTENER("close_job", 2, close_job);

}  // namespace
