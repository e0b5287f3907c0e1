#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <thread>

#include "operators.hpp"

// What the double refuses although a program may get away with it on a device, most of the time.

namespace {

void dies(environment const& variables, std::string const& words, std::function<void()> const& run) {
  auto result = in_child(variables, run);
  CHECK(result.code != 0);
  CHECK_MESSAGE(result.says("ascend double: "), result.errors);
  CHECK_MESSAGE(result.says(words), result.errors);
}
void dies(std::string const& words, std::function<void()> const& run) { dies({}, words, run); }

void* allocated(std::size_t bytes) {
  void* address = nullptr;
  EXPECT(aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
  return address;
}

}  // namespace

TEST_CASE("the host reads or writes device memory by its address") {
  for (bool write : {false, true}) {
    auto result = in_child({}, [=] {
      session s;
      auto* values = static_cast<float volatile*>(allocated(64));
      if (write)
        values[0] = 1;
      else [[maybe_unused]]
        float value = values[0];
      _exit(0);
    });
    CHECK(result.code != 0);
  }
}

TEST_CASE("memory is freed before the host has waited for what uses it") {
  dies("aclrtFree: aclnnInplaceAdd", [] {
    session s;
    auto* memory = allocated(64);
    auto* x = vector_tensor(memory, 4);
    add_in_place(x, x, 1, s.stream);
    aclrtFree(memory);
  });
  dies("aclrtFreeHost: aclrtMemcpyAsync", [] {
    session s;
    void* pinned = nullptr;
    EXPECT(aclrtMallocHost(&pinned, 64) == ACL_SUCCESS);
    EXPECT(aclrtMemcpyAsync(allocated(64), 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, s.stream) == ACL_SUCCESS);
    aclrtFreeHost(pinned);
  });
}

TEST_CASE("a copy does not wait for the stream that writes or reads the same") {
  dies("aclrtMemcpy: aclrtMemsetAsync", [] {
    session s;
    auto* memory = allocated(64);
    EXPECT(aclrtMemsetAsync(memory, 64, 0, 64, s.stream) == ACL_SUCCESS);
    float value = 0;
    aclrtMemcpy(&value, 4, memory, 4, ACL_MEMCPY_DEVICE_TO_HOST);
  });
}

TEST_CASE("two streams touch the same and neither waits") {
  dies("neither waits for the other", [] {
    session s;
    aclrtStream other = nullptr;
    EXPECT(aclrtCreateStream(&other) == ACL_SUCCESS);
    auto* memory = allocated(64);
    EXPECT(aclrtMemsetAsync(memory, 64, 0, 64, s.stream) == ACL_SUCCESS);
    aclrtEvent event = nullptr;
    EXPECT(aclrtCreateEvent(&event) == ACL_SUCCESS);
    EXPECT(aclrtRecordEvent(event, s.stream) == ACL_SUCCESS);
    EXPECT(aclrtMemsetAsync(memory, 64, 1, 64, s.stream) == ACL_SUCCESS);
    EXPECT(aclrtStreamWaitEvent(other, event) == ACL_SUCCESS);  // does not cover the second
    aclrtMemsetAsync(memory, 64, 0, 64, other);
  });
}

TEST_CASE("memory that is no longer allocated, or never was") {
  dies("device memory that is not allocated", [] {
    session s;
    auto* memory = allocated(64);
    EXPECT(aclrtFree(memory) == ACL_SUCCESS);
    aclrtMemsetAsync(memory, 64, 0, 64, s.stream);
  });
  dies("aclrtFree: not the address of an allocation", [] {
    session s;
    auto* memory = allocated(64);
    EXPECT(aclrtFree(memory) == ACL_SUCCESS);
    aclrtFree(memory);
  });
  dies("go past the end of an allocation of 64", [] {
    session s;
    auto* memory = allocated(64);
    aclrtMemset(memory, 128, 0, 68);
  });
  dies("host memory where device memory is meant", [] {
    session s;
    alignas(32) float values[8] = {};
    auto* x = vector_tensor(values, 8);
    plan_addition(x, x);
  });
  dies("kind says device to host, the addresses are of the host and of the device", [] {
    session s;
    float value = 0;
    aclrtMemcpy(allocated(64), 4, &value, 4, ACL_MEMCPY_DEVICE_TO_HOST);
  });
}

TEST_CASE("memory of another device") {
  dies("memory of device 0 on device 1", [] {
    session zero(0);
    auto* memory = allocated(64);
    session one(1);
    auto* x = vector_tensor(memory, 4);
    plan_addition(x, x);
  });
}

TEST_CASE("a tensor that is not aligned to 32 bytes") {
  auto result = in_child({}, [] {
    session s;
    auto* memory = static_cast<char*>(allocated(128));
    EXPECT(vector_tensor(memory + 16, 4) == nullptr);
    EXPECT(std::string(aclGetRecentErrMsg()).find("32 bytes") != std::string::npos);
    EXPECT(aclrtFree(memory) == ACL_SUCCESS);
  });
  CHECK_MESSAGE(!result.says("not so"), result.errors);
}

TEST_CASE("an executor runs once, with its own operator, while its tensors are there") {
  dies("aclnnInplaceAdd: an aclOpExecutor that was destroyed", [] {
    session s;
    auto* x = vector_tensor(allocated(64), 4);
    auto* executor = plan_addition(x, x);
    EXPECT(aclnnInplaceAdd(nullptr, 0, executor, s.stream) == 0);
    aclnnInplaceAdd(nullptr, 0, executor, s.stream);
  });
  dies("aclnnAdd with the executor of aclnnInplaceAdd", [] {
    session s;
    auto* x = vector_tensor(allocated(64), 4);
    aclnnAdd(nullptr, 0, plan_addition(x, x), s.stream);
  });
  dies("aclnnInplaceAdd: an aclTensor that was destroyed", [] {
    session s;
    auto* x = vector_tensor(allocated(64), 4);
    auto* executor = plan_addition(x, x);
    EXPECT(aclDestroyTensor(x) == 0);
    aclnnInplaceAdd(nullptr, 0, executor, s.stream);
  });
}

TEST_CASE("handles after their end") {
  dies("aclrtSynchronizeStream: a stream that was destroyed", [] {
    session s;
    aclrtStream stream = nullptr;
    EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS && aclrtDestroyStream(stream) == ACL_SUCCESS);
    aclrtSynchronizeStream(stream);
  });
  dies("aclDestroyTensor: an aclTensor that was destroyed", [] {
    session s;
    auto* x = vector_tensor(allocated(64), 4);
    EXPECT(aclDestroyTensor(x) == 0);
    aclDestroyTensor(x);
  });
  dies("aclDestroyTensor: an aclTensor that was destroyed", [] {
    session s;
    aclTensor const* x = vector_tensor(allocated(64), 4);
    auto* list = aclCreateTensorList(&x, 1);
    EXPECT(aclDestroyTensorList(list) == 0);
    aclDestroyTensor(x);
  });
  dies("aclrtRecordEvent: an event that was destroyed", [] {
    session s;
    aclrtEvent event = nullptr;
    EXPECT(aclrtCreateEvent(&event) == ACL_SUCCESS && aclrtDestroyEvent(event) == ACL_SUCCESS);
    aclrtRecordEvent(event, s.stream);
  });
  dies("a stream that nobody made", [] {
    session s;
    int nothing = 0;
    aclrtSynchronizeStream(&nothing);
  });
}

TEST_CASE("what is left at exit makes the program fail") {
  auto leaves = [](std::string const& words, std::function<void(session&)> const& leave) {
    auto result = in_child({}, [&] {
      {
        session s;
        leave(s);
      }
      EXPECT(aclFinalize() == ACL_SUCCESS);
    });
    CHECK(result.code == 99);
    CHECK_MESSAGE(result.says("left at exit: " + words), result.errors);
  };
  leaves("device memory of 64 bytes on device 0", [](session&) { allocated(64); });
  leaves("host memory of 64 bytes", [](session&) {
    void* pinned = nullptr;
    EXPECT(aclrtMallocHost(&pinned, 64) == ACL_SUCCESS);
  });
  leaves("a stream", [](session&) {
    aclrtStream stream = nullptr;
    EXPECT(aclrtCreateStream(&stream) == ACL_SUCCESS);
  });
  leaves("an event", [](session&) {
    aclrtEvent event = nullptr;
    EXPECT(aclrtCreateEvent(&event) == ACL_SUCCESS);
  });
  leaves("an aclTensor", [](session&) { vector_tensor(nullptr, 0); });
  leaves("an aclScalar", [](session&) {
    float one = 1;
    aclCreateScalar(&one, ACL_FLOAT);
  });
  leaves("an aclIntArray", [](session&) {
    std::int64_t one = 1;
    aclCreateIntArray(&one, 1);
  });
  leaves("an aclBoolArray", [](session&) {
    bool one = true;
    aclCreateBoolArray(&one, 1);
  });
  leaves("an aclTensorList", [](session&) { aclCreateTensorList(nullptr, 0); });
  leaves("an aclOpExecutor", [](session&) {
    device_values<float> values({1});
    auto* x = vector_tensor(values.get(), 1);
    plan_addition(x, x);
    EXPECT(aclDestroyTensor(x) == 0);
  });
  leaves("a communicator", [](session&) {
    HcclRootInfo root;
    HcclComm comm = nullptr;
    EXPECT(HcclGetRootInfo(&root) == HCCL_SUCCESS);
    EXPECT(HcclCommInitRootInfo(1, &root, 0, &comm) == HCCL_SUCCESS);
  });
  leaves("device 0, set and not reset", [](session&) { EXPECT(aclrtSetDevice(0) == ACL_SUCCESS); });
  leaves("a context", [](session& s) {
    aclrtContext context = nullptr;
    EXPECT(aclrtCreateContext(&context, 0) == ACL_SUCCESS);
    s.use();
  });
  auto result = in_child({}, [] { session s; });
  CHECK(result.code == 99);
  CHECK_MESSAGE(result.says("aclInit without aclFinalize"), result.errors);
}

TEST_CASE("null and wrong parameters of an operator are statuses") {
  auto result = in_child({}, [] {
    {
      session s;
      device_values<float> values({1, 2, 3, 4});
      auto* x = vector_tensor(values.get(), 4);
      auto* shorter = vector_tensor(values.get(), 3);
      float one = 1;
      auto* alpha = aclCreateScalar(&one, ACL_FLOAT);
      std::uint64_t bytes = 0;
      aclOpExecutor* executor = nullptr;
      EXPECT(aclnnAddGetWorkspaceSize(nullptr, x, alpha, x, &bytes, &executor) == 161001);
      EXPECT(aclnnAddGetWorkspaceSize(x, x, nullptr, x, &bytes, &executor) == 161001);
      EXPECT(aclnnAddGetWorkspaceSize(x, x, alpha, x, nullptr, &executor) == 161001);
      EXPECT(aclnnAddGetWorkspaceSize(x, shorter, alpha, x, &bytes, &executor) == 161002);
      EXPECT(aclnnAddGetWorkspaceSize(x, x, alpha, shorter, &bytes, &executor) == 161002);
      EXPECT(std::string(aclGetRecentErrMsg()) == "aclnnAdd: out has shape [3], not [4]");
      EXPECT(aclDestroyTensor(x) == 0 && aclDestroyTensor(shorter) == 0 && aclDestroyScalar(alpha) == 0);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
  CHECK_MESSAGE(result.code == 0, result.errors);
}
