#include "../src/double.hpp"

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>

#include "operators.hpp"

// What operators of the double are written with, tried with operators that only these tests have.

namespace {

using namespace ascend_double;

// Runs a case to its end, in a program that puts everything back.
void well(environment const& variables, std::function<void(session&)> const& run) {
  auto result = in_child(variables, [&] {
    {
      session s;
      run(s);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
  CHECK_MESSAGE(result.code == 0, result.errors);
}

void dies(std::string const& words, std::function<void(session&)> const& run) {
  auto result = in_child({}, [&] {
    session s;
    run(s);
  });
  CHECK(result.code != 0);
  CHECK_MESSAGE(result.says("ascend double: " + words), result.errors);
}

using description = std::function<std::function<void()>(planner&)>;

aclnnStatus phase_1(description const& describe, std::uint64_t& bytes, aclOpExecutor*& executor) {
  return plan("probe", &bytes, &executor, describe);
}

// What phase 1 says; nothing is left of it.
aclnnStatus refused(description const& describe) {
  std::uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  auto status = phase_1(describe, bytes, executor);
  if (status == 0) EXPECT(aclDestroyAclOpExecutor(executor) == 0);
  return status;
}

void run(session& s, description const& describe) {
  std::uint64_t bytes = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT(phase_1(describe, bytes, executor) == 0 && bytes == 0);
  EXPECT(execute("probe", nullptr, 0, executor, s.stream) == 0);
  EXPECT(aclrtSynchronizeStream(s.stream) == ACL_SUCCESS);
}

// A tensor for as long as it is in scope.
class held_tensor {
 public:
  held_tensor(void* address, extents const& shape, aclDataType type, aclFormat format = ACL_FORMAT_ND,
              extents strides = {}, std::int64_t offset = 0) {
    if (strides.empty()) strides = contiguous_strides(shape);
    std::int64_t stored = 4096;
    handle_ = aclCreateTensor(shape.data(), shape.size(), type, strides.data(), offset, format, &stored, 1, address);
    EXPECT(handle_);
  }
  ~held_tensor() { EXPECT(aclDestroyTensor(handle_) == 0); }
  held_tensor(held_tensor const&) = delete;
  held_tensor& operator=(held_tensor const&) = delete;
  aclTensor* get() const { return handle_; }

 private:
  aclTensor* handle_;
};

description with_workspace(std::uint64_t bytes) {
  return [=](planner& p) {
    p.workspace(bytes);
    return [] {};
  };
}

}  // namespace

TEST_CASE("elements are read through strides, offsets and broadcasts, and written back") {
  well({}, [](session& s) {
    device_values<float> in({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), out(std::vector<float>(12, -1));
    // Columns 1 and 3 of a matrix of 3 rows, transposed.
    held_tensor columns(in.get(), {2, 3}, ACL_FLOAT, ACL_FORMAT_ND, {2, 4}, 1);
    held_tensor behind(out.get(), {2, 3}, ACL_FLOAT, ACL_FORMAT_ND, {1, 2}, 6);
    run(s, [&](planner& p) -> std::function<void()> {
      auto x = p.input(columns.get(), "x");
      auto y = p.output(behind.get(), "y");
      return [=] {
        auto values = load<float>(x);
        EXPECT((values == std::vector<float>{1, 5, 9, 3, 7, 11}));
        EXPECT((load<double>(x, {2, 2, 3}) == std::vector<double>{1, 5, 9, 3, 7, 11, 1, 5, 9, 3, 7, 11}));
        store(y, values);
      };
    });
    EXPECT((out.read() == std::vector<float>{-1, -1, -1, -1, -1, -1, 1, 3, 5, 7, 9, 11}));
    held_tensor one(in.get(), {1, 1}, ACL_FLOAT, ACL_FORMAT_ND, {1, 1}, 7);
    run(s, [&](planner& p) -> std::function<void()> {
      auto x = p.input(one.get(), "x");
      return [=] { EXPECT((load<std::int64_t>(x, {3, 2}) == std::vector<std::int64_t>(6, 7))); };
    });
  });
}

TEST_CASE("element types convert") {
  well({{"CHIP", "910b"}}, [](session& s) {
    device_values<std::uint64_t> memory(std::vector<std::uint64_t>(512));
    constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
    auto there_and_back = [&](aclDataType type, std::vector<float> const& values, std::vector<double> const& wanted) {
      held_tensor tensor_of_type(memory.get(), {static_cast<std::int64_t>(values.size())}, type);
      run(s, [&](planner& p) -> std::function<void()> {
        auto x = p.output(tensor_of_type.get(), "x", any_type);
        return [=] {
          store(x, values);
          EXPECT(load<double>(x) == wanted);
        };
      });
    };
    there_and_back(ACL_FLOAT, {1.25f, -3e30f}, {1.25, double{-3e30f}});
    there_and_back(ACL_DOUBLE, {1.25f, -3e30f}, {1.25, double{-3e30f}});
    there_and_back(ACL_FLOAT16, {1.0f + 1.0f / 4096, 65504, 1e6f}, {1, 65504, std::numeric_limits<double>::infinity()});
    there_and_back(ACL_BF16, {1.0f + 1.0f / 512, 1.0f + 3.0f / 256}, {1, 1.015625});
    there_and_back(ACL_INT32, {2.9f, -2.9f, nan, 1e20f}, {2, -2, 0, 2147483647});
    there_and_back(ACL_INT8, {300, -300, 5}, {127, -128, 5});
    there_and_back(ACL_UINT8, {300, -1, 5}, {255, 0, 5});
    there_and_back(ACL_INT64, {-7, 8}, {-7, 8});
    there_and_back(ACL_BOOL, {0, 0.5f, nan}, {0, 1, 1});
  });
}

TEST_CASE("shapes broadcast and types promote") {
  CHECK(broadcast({2, 1, 3}, {4, 1}) == extents{2, 4, 3});
  CHECK(broadcast({}, {2}) == extents{2});
  CHECK(broadcast({0, 2}, {1}) == extents{0, 2});
  CHECK(!broadcast({2}, {3}));
  CHECK(promote(ACL_FLOAT16, ACL_FLOAT) == ACL_FLOAT);
  CHECK(promote(ACL_FLOAT16, ACL_BF16) == ACL_FLOAT);
  CHECK(promote(ACL_INT64, ACL_FLOAT16) == ACL_FLOAT16);
  CHECK(promote(ACL_INT32, ACL_INT64) == ACL_INT64);
  CHECK(promote(ACL_BOOL, ACL_INT8) == ACL_INT8);
  CHECK(dimension(-1, 3) == 2);
  CHECK(dimension(-1, 0) == 0);
  CHECK_THROWS_AS(dimension(3, 3), refusal);
}

TEST_CASE("the cube rounds its operands") {
  auto rounded = [](operands precision, float value) {
    std::vector<float> values{value};
    round_operands(precision, values);
    return values[0];
  };
  CHECK(rounded(operands::kept, 1.0f + 0x1p-20f) == 1.0f + 0x1p-20f);
  CHECK(rounded(operands::half, 1.0f + 0x1p-11f) == 1);
  CHECK(rounded(operands::half, 1e6f) == std::numeric_limits<float>::infinity());
  CHECK(rounded(operands::hf32, 1.0f + 0x1p-11f) == 1.0f + 0x1p-11f);
  CHECK(rounded(operands::hf32, 1.0f + 0x1p-12f) == 1);
  CHECK(rounded(operands::hf32, 1.0f + 0x1.8p-11f) == 1.0f + 0x1p-10f);
  for (bool exact : {false, true})
    well({{"EXACT_PRODUCTS", exact ? "1" : "0"}}, [=](session&) {
      auto precision = operands::hf32;
      EXPECT(refused([&](planner& p) -> std::function<void()> {
               precision = p.cube(ACL_FLOAT, 1);
               return [] {};
             }) == 0);
      EXPECT(precision == (exact ? operands::kept : operands::half));
    });
}

TEST_CASE("what each chip multiplies") {
  struct rule {
    char const* chip;
    aclDataType type;
    std::int8_t cube_math_type;
    aclnnStatus status;
  };
  for (auto const& r : std::initializer_list<rule>{{"910", ACL_FLOAT, 0, 161002},
                                                   {"910", ACL_FLOAT, 1, 0},
                                                   {"910", ACL_FLOAT, 2, 0},
                                                   {"910", ACL_FLOAT, 3, 161002},
                                                   {"910", ACL_FLOAT16, 0, 0},
                                                   {"910", ACL_FLOAT16, 3, 161002},
                                                   {"910", ACL_BF16, 0, 161002},
                                                   {"910", ACL_DOUBLE, 0, 161002},
                                                   {"910b", ACL_FLOAT, 0, 0},
                                                   {"910b", ACL_FLOAT, 3, 0},
                                                   {"910b", ACL_FLOAT, 9, 161002},
                                                   {"910b", ACL_BF16, 0, 0},
                                                   {"910b", ACL_DOUBLE, 0, 161002}}) {
    CAPTURE(r.chip);
    CAPTURE(int{r.type});
    CAPTURE(int{r.cube_math_type});
    well({{"CHIP", r.chip}}, [&](session&) {
      device_values<float> values({1, 2, 3, 4});
      held_tensor matrix(values.get(), {1, 2}, r.type);
      EXPECT(refused([&](planner& p) -> std::function<void()> {
               p.cube(p.input(matrix.get(), "self").type, r.cube_math_type);
               return [] {};
             }) == r.status);
    });
  }
}

TEST_CASE("phase 1 refuses") {
  well({}, [](session&) {
    device_values<float> values(std::vector<float>(16));
    held_tensor image(values.get(), {1, 2, 2, 2}, ACL_FLOAT, ACL_FORMAT_NCHW);
    held_tensor plain(values.get(), {1, 2, 2, 2}, ACL_FLOAT);
    held_tensor brain(values.get(), {4}, ACL_BF16);
    held_tensor wide(values.get(), {4}, ACL_DOUBLE);
    auto status = [&](std::function<void(planner&)> const& check) {
      return refused([&](planner& p) -> std::function<void()> {
        check(p);
        return [] {};
      });
    };
    EXPECT(status([&](planner& p) { p.format(p.input(image.get(), "x"), "x", {ACL_FORMAT_NCHW}); }) == 0);
    EXPECT(status([&](planner& p) { p.format(p.input(plain.get(), "x"), "x", {ACL_FORMAT_NCHW}); }) ==
           invalid_parameter);
    EXPECT(status([&](planner& p) { p.input(brain.get(), "x"); }) == invalid_parameter);
    EXPECT(std::string(aclGetRecentErrMsg()) == "probe: x: no BF16 on the 910");
    EXPECT(status([&](planner& p) { p.input(wide.get(), "x"); }) == invalid_parameter);
    EXPECT(status([&](planner& p) { p.input(wide.get(), "x", any_type); }) == 0);
    EXPECT(status([&](planner& p) { p.not_on(chip::ascend_910); }) == no_kernel);
    EXPECT(status([&](planner& p) { p.not_on(chip::ascend_910b); }) == 0);
    EXPECT(status([&](planner& p) { p.integers(nullptr, "dims"); }) == null_parameter);
    EXPECT(status([&](planner& p) { EXPECT(!p.optional_input(nullptr, "bias")); }) == 0);
    bool two[] = {true, false};
    auto* mask = aclCreateBoolArray(two, 2);
    EXPECT(status([&](planner& p) { EXPECT((p.flags(mask, "mask", 2) == std::vector<bool>{true, false})); }) == 0);
    EXPECT(status([&](planner& p) { p.flags(mask, "mask", 3); }) == invalid_parameter);
    EXPECT(aclDestroyBoolArray(mask) == 0);
  });
}

TEST_CASE("an operator that fails on the device fails its stream") {
  well({}, [](session& s) {
    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    bool later = false;
    auto fails = [](planner&) -> std::function<void()> { return [] { throw std::runtime_error("index 7 of 3"); }; };
    EXPECT(phase_1(fails, bytes, executor) == 0 && execute("probe", nullptr, 0, executor, s.stream) == 0);
    auto notes = [&](planner&) -> std::function<void()> { return [&] { later = true; }; };
    EXPECT(phase_1(notes, bytes, executor) == 0 && execute("probe", nullptr, 0, executor, s.stream) == 0);
    EXPECT(aclrtSynchronizeStream(s.stream) == ACL_ERROR_RT_AICORE_EXCEPTION);
    EXPECT(std::string(aclGetRecentErrMsg()) == "index 7 of 3" && !later);
  });
}

TEST_CASE("streams work while the program goes on") {
  well({}, [](session& s) {
    std::atomic<bool> open{false};
    auto gate = [&](planner&) -> std::function<void()> {
      return [&] {
        while (!open) std::this_thread::yield();
      };
    };
    aclrtStream other = nullptr;
    aclrtEvent event = nullptr;
    void *memory = nullptr, *pinned = nullptr;
    EXPECT(aclrtCreateStream(&other) == ACL_SUCCESS);
    EXPECT(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC) == ACL_SUCCESS);
    EXPECT(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    EXPECT(aclrtMallocHost(&pinned, 64) == ACL_SUCCESS);
    std::memset(pinned, 1, 64);

    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT(phase_1(gate, bytes, executor) == 0 && execute("probe", nullptr, 0, executor, s.stream) == 0);
    EXPECT(aclrtMemsetAsync(memory, 64, 2, 64, s.stream) == ACL_SUCCESS);
    EXPECT(aclrtRecordEvent(event, s.stream) == ACL_SUCCESS);
    EXPECT(aclrtStreamWaitEvent(other, event) == ACL_SUCCESS);
    EXPECT(aclrtMemcpyAsync(pinned, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST, other) == ACL_SUCCESS);

    for (auto stream : {s.stream, other}) {
      aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
      EXPECT(aclrtStreamQuery(stream, &status) == ACL_SUCCESS && status == ACL_STREAM_STATUS_NOT_READY);
      EXPECT(aclrtSynchronizeStreamWithTimeout(stream, 5) == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    }
    auto recorded = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    EXPECT(aclrtQueryEventStatus(event, &recorded) == ACL_SUCCESS && recorded == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    EXPECT(aclrtSynchronizeEventWithTimeout(event, 5) == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    EXPECT(*static_cast<char*>(pinned) == 1);

    open = true;
    EXPECT(aclrtSynchronizeStream(other) == ACL_SUCCESS);  // and so what it waited for
    EXPECT(*static_cast<char*>(pinned) == 2);
    EXPECT(aclrtFree(memory) == ACL_SUCCESS && aclrtFreeHost(pinned) == ACL_SUCCESS);
    EXPECT(aclrtDestroyEvent(event) == ACL_SUCCESS && aclrtDestroyStream(other) == ACL_SUCCESS);
  });
}

TEST_CASE("phase 2 checks its workspace") {
  well({}, [](session& s) {
    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT(phase_1(with_workspace(64), bytes, executor) == 0 && bytes == 64);
    device_values<float> scratch(std::vector<float>(32, 1));
    auto* shifted = static_cast<char*>(scratch.get()) + 16;
    EXPECT(execute("probe", nullptr, 64, executor, s.stream) == null_parameter);
    EXPECT(execute("probe", scratch.get(), 63, executor, s.stream) == invalid_parameter);
    EXPECT(execute("probe", shifted, 64, executor, s.stream) == invalid_parameter);
    EXPECT(execute("probe", scratch.get(), 64, executor, nullptr) == runtime_failure);
    EXPECT(execute("probe", scratch.get(), 64, executor, s.stream) == 0);
    EXPECT(aclrtSynchronizeStream(s.stream) == ACL_SUCCESS);
    auto values = scratch.read();
    EXPECT(values[15] != 1 && values[16] == 1);  // written over, and no more than was asked for
  });
}

TEST_CASE("a workspace in use is nobody else's") {
  dies("aclrtFree: probe", [](session& s) {
    void* scratch = nullptr;
    EXPECT(aclrtMalloc(&scratch, 64, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT(phase_1(with_workspace(64), bytes, executor) == 0);
    EXPECT(execute("probe", scratch, bytes, executor, s.stream) == 0);
    aclrtFree(scratch);
  });
  dies("probe on stream", [](session& s) {
    aclrtStream other = nullptr;
    EXPECT(aclrtCreateStream(&other) == ACL_SUCCESS);
    void* scratch = nullptr;
    EXPECT(aclrtMalloc(&scratch, 64, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    for (auto stream : {s.stream, other}) {
      std::uint64_t bytes = 0;
      aclOpExecutor* executor = nullptr;
      EXPECT(phase_1(with_workspace(64), bytes, executor) == 0);
      execute("probe", scratch, bytes, executor, stream);
    }
  });
  dies("probe: 64 bytes", [](session& s) {
    void* scratch = nullptr;
    EXPECT(aclrtMalloc(&scratch, 32, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT(phase_1(with_workspace(64), bytes, executor) == 0);
    execute("probe", scratch, bytes, executor, s.stream);
  });
}
