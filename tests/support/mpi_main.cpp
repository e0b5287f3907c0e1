#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <tessera/comm/mpi.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <ostream>
#include <streambuf>
#include <string>
#include <utility>

namespace {

/// Writes whole lines to standard output at once, each with a prefix, so that ranks do not mix within a line and
/// nothing is lost if the program hangs later.
class line_buffer : public std::streambuf {
 public:
  explicit line_buffer(std::string prefix) : prefix_(std::move(prefix)) {}
  ~line_buffer() override {
    if (!line_.empty()) overflow('\n');
  }

 protected:
  int_type overflow(int_type c) override {
    line_ += traits_type::to_char_type(c);
    if (c != '\n') return c;
    const std::string whole = prefix_ + line_;
    std::fwrite(whole.data(), 1, whole.size(), stdout);
    std::fflush(stdout);
    line_.clear();
    return c;
  }

 private:
  std::string prefix_;
  std::string line_;
};

/// Ends all ranks after a test case that this rank left early (a failed REQUIRE, an exception): the others would wait
/// in its collectives for ever.
class early_exit : public doctest::IReporter {
 public:
  explicit early_exit(doctest::ContextOptions const&) {}
  void log_assert(doctest::AssertData const& a) override {
    if (a.m_failed && (a.m_at & doctest::assertType::is_require) != 0) left_ = true;
  }
  void test_case_exception(doctest::TestCaseException const&) override { left_ = true; }
  void test_case_end(doctest::CurrentTestCaseStats const&) override {
    int running = 0;
    int ranks = 1;
    MPI_Initialized(&running);
    if (running != 0) MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (left_ && ranks > 1) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  void report_query(doctest::QueryData const&) override {}
  void test_run_start() override {}
  void test_run_end(doctest::TestRunStats const&) override {}
  void test_case_start(doctest::TestCaseData const&) override {}
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_message(doctest::MessageData const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}

 private:
  bool left_ = false;
};
REGISTER_LISTENER("early_exit", 1, early_exit);

/// Whether the tests passed on all ranks. Rank 0 prints failures and the summary, the others their failures only.
bool run(int argc, char** argv) {
  tessera::mpi_comm world;
  const int rank = world.rank();
  line_buffer lines(world.size() > 1 ? "[rank " + std::to_string(rank) + "] " : "");
  std::ostream out(&lines);
  doctest::Context context(argc, argv);
  context.setCout(&out);
  context.setOption("no-colors", true);
  if (rank != 0) context.setOption("minimal", true);
  std::int32_t failed = context.run() != 0 ? 1 : 0;
  world.all_reduce(&failed, 1, tessera::reduction::sum);
  if (rank == 0 && failed != 0) out << "tests failed on " << failed << " of " << world.size() << " ranks" << std::endl;
  return failed == 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    tessera::mpi_environment environment(argc, argv);
    return run(argc, argv) ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return EXIT_FAILURE;
  }
}
