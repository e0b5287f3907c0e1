#include "job.hpp"

namespace {

/// Closes the device before the program ends.
class close_job : public doctest::IReporter {
 public:
  explicit close_job(doctest::ContextOptions const&) {}
  void test_run_end(doctest::TestRunStats const&) override { job::instance().reset(); }
  void report_query(doctest::QueryData const&) override {}
  void test_run_start() override {}
  void test_case_start(doctest::TestCaseData const&) override {}
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void test_case_end(doctest::CurrentTestCaseStats const&) override {}
  void test_case_exception(doctest::TestCaseException const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_assert(doctest::AssertData const&) override {}
  void log_message(doctest::MessageData const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}
};
REGISTER_LISTENER("close_job", 2, close_job);

}  // namespace
