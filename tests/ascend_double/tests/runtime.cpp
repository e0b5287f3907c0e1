#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "operators.hpp"

// That the double does what CANN says it does.

namespace {

void well(environment const& variables, std::function<void()> const& run) {
  auto result = in_child(variables, run);
  CHECK_MESSAGE(result.code == 0, result.errors);
}

}  // namespace

TEST_CASE("a program that puts everything back ends well") {
  well({}, [] {
    { session s; }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}

TEST_CASE("initialization is once per process and before all else") {
  well({}, [] {
    EXPECT(aclrtSetDevice(0) == ACL_ERROR_UNINITIALIZE);
    EXPECT(aclFinalize() == ACL_ERROR_UNINITIALIZE);
    EXPECT(aclInit(nullptr) == ACL_SUCCESS);
    EXPECT(aclInit(nullptr) == ACL_ERROR_REPEAT_INITIALIZE);
    EXPECT(aclFinalize() == ACL_SUCCESS);
    EXPECT(aclFinalize() == ACL_ERROR_REPEAT_FINALIZE);
  });
}

TEST_CASE("the device is a thread's, and counted") {
  well({{"DEVICES", "2"}}, [] {
    EXPECT(aclInit(nullptr) == ACL_SUCCESS);
    std::uint32_t count = 0;
    EXPECT(aclrtGetDeviceCount(&count) == ACL_SUCCESS && count == 2);
    EXPECT(aclrtSetDevice(2) == ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT(aclrtSetDevice(1) == ACL_SUCCESS);
    std::int32_t device = -1;
    EXPECT(aclrtGetDevice(&device) == ACL_SUCCESS && device == 1);
    aclrtContext mine = nullptr;
    EXPECT(aclrtGetCurrentContext(&mine) == ACL_SUCCESS);
    std::thread([&] {
      std::int32_t none = -1;
      EXPECT(aclrtGetDevice(&none) == ACL_ERROR_RT_CONTEXT_NULL);
      void* memory = nullptr;
      EXPECT(aclrtMalloc(&memory, 32, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_ERROR_RT_CONTEXT_NULL);
      EXPECT(aclrtSetDevice(1) == ACL_SUCCESS);
      aclrtContext shared = nullptr;
      EXPECT(aclrtGetCurrentContext(&shared) == ACL_SUCCESS && shared == mine);
      EXPECT(aclrtResetDevice(1) == ACL_SUCCESS);
    }).join();
    EXPECT(aclrtGetDevice(&device) == ACL_SUCCESS);
    EXPECT(aclrtResetDevice(1) == ACL_SUCCESS);
    EXPECT(aclrtResetDevice(1) == ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}

TEST_CASE("the message of an error is read once, on its thread") {
  well({}, [] {
    EXPECT(aclGetRecentErrMsg() == nullptr);
    EXPECT(aclrtSetDevice(0) == ACL_ERROR_UNINITIALIZE);
    std::thread([] { EXPECT(aclGetRecentErrMsg() == nullptr); }).join();
    EXPECT(std::string(aclGetRecentErrMsg()).find("aclInit") != std::string::npos);
    EXPECT(aclGetRecentErrMsg() == nullptr);
  });
}

TEST_CASE("memory: alignment, contents, exhaustion, release") {
  well({{"MEMORY", "1000000"}}, [] {
    {
      session s;
      void *a = nullptr, *b = nullptr;
      EXPECT(aclrtMalloc(&a, 0, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_ERROR_RT_PARAM_INVALID);
      EXPECT(aclrtMalloc(&a, 100, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
      EXPECT(aclrtMalloc(&b, 900000, ACL_MEM_MALLOC_NORMAL_ONLY) == ACL_SUCCESS);
      EXPECT(reinterpret_cast<std::uintptr_t>(a) % 64 == 0 && reinterpret_cast<std::uintptr_t>(b) % 64 == 0);
      float unwritten = 0;
      EXPECT(aclrtMemcpy(&unwritten, 4, a, 4, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS && std::isnan(unwritten));
      void* c = nullptr;
      EXPECT(aclrtMalloc(&c, 200000, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_ERROR_RT_MEMORY_ALLOCATION);
      std::size_t free = 0, total = 0;
      EXPECT(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total) == ACL_SUCCESS && total == 1000000 && free < 100000);
      EXPECT(aclrtFree(b) == ACL_SUCCESS);
      EXPECT(aclrtMalloc(&c, 200000, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS && c != b);
      EXPECT(aclrtFree(nullptr) == ACL_ERROR_RT_PARAM_INVALID);
      EXPECT(aclrtFree(c) == ACL_SUCCESS && aclrtFree(a) == ACL_SUCCESS);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}

TEST_CASE("copies and fills") {
  well({}, [] {
    {
      session s;
      device_values<int> a({1, 2, 3, 4}), b({0, 0, 0, 0});
      EXPECT(aclrtMemcpy(b.get(), 8, a.get(), 16, ACL_MEMCPY_DEVICE_TO_DEVICE) == ACL_ERROR_RT_PARAM_INVALID);
      EXPECT(aclrtMemcpy(b.get(), 16, a.get(), 16, ACL_MEMCPY_DEFAULT) == ACL_SUCCESS);
      EXPECT((b.read() == std::vector<int>{1, 2, 3, 4}));
      EXPECT(aclrtMemset(b.get(), 16, 1, 4) == ACL_SUCCESS);
      EXPECT((b.read() == std::vector<int>{0x01010101, 2, 3, 4}));
      std::vector<int> pageable{5, 6, 7, 8};
      EXPECT(aclrtMemcpyAsync(b.get(), 16, pageable.data(), 16, ACL_MEMCPY_HOST_TO_DEVICE, s.stream) == ACL_SUCCESS);
      EXPECT((b.read() == std::vector<int>{5, 6, 7, 8}));  // done when the call returned
      EXPECT(aclrtMemsetAsync(b.get(), 16, 0, 16, s.stream) == ACL_SUCCESS);
      EXPECT(aclrtMemcpyAsync(pageable.data(), 16, b.get(), 16, ACL_MEMCPY_DEVICE_TO_HOST, s.stream) == ACL_SUCCESS);
      EXPECT((pageable == std::vector<int>{0, 0, 0, 0}));
      int more = 0;
      EXPECT(aclrtMemcpyAsync(&more, 4, pageable.data(), 4, ACL_MEMCPY_HOST_TO_HOST, s.stream) ==
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}

TEST_CASE("tasks of a stream run in order") {
  well({{"DELAY", "2000"}}, [] {
    {
      session s;
      device_values<float> values({1, 2, 3, 4});
      auto* tensor = vector_tensor(values.get(), 4);
      for (int i = 0; i < 20; ++i) {
        add_in_place(tensor, tensor, 1, s.stream);
        if (i == 9) EXPECT(aclrtMemsetAsync(values.get(), 4, 0, 4, s.stream) == ACL_SUCCESS);
      }
      EXPECT(aclDestroyTensor(tensor) == 0);
      EXPECT(aclrtSynchronizeStream(s.stream) == ACL_SUCCESS);
      EXPECT((values.read() == std::vector<float>{0, 2097152, 3145728, 4194304}));
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}

TEST_CASE("events order streams") {
  for (int repeat = 0; repeat < 3; ++repeat)
    well({{"DELAY", "3000"}}, [] {
      {
        session s;
        aclrtStream other = nullptr;
        EXPECT(aclrtCreateStream(&other) == ACL_SUCCESS);
        aclrtEvent there = nullptr, back = nullptr;
        EXPECT(aclrtCreateEventWithFlag(&there, ACL_EVENT_SYNC) == ACL_SUCCESS);
        EXPECT(aclrtCreateEvent(&back) == ACL_SUCCESS);
        aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
        EXPECT(aclrtQueryEventStatus(there, &status) == ACL_SUCCESS && status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
        device_values<float> a({1, 2}), b({10, 20});
        auto* x = vector_tensor(a.get(), 2);
        auto* y = vector_tensor(b.get(), 2);
        for (int i = 0; i < 5; ++i) {
          add_in_place(x, y, 1, s.stream);
          EXPECT(aclrtRecordEvent(there, s.stream) == ACL_SUCCESS);
          EXPECT(aclrtStreamWaitEvent(other, there) == ACL_SUCCESS);
          add_in_place(y, x, 1, other);
          EXPECT(aclrtRecordEvent(back, other) == ACL_SUCCESS);
          EXPECT(aclrtStreamWaitEvent(s.stream, back) == ACL_SUCCESS);
        }
        EXPECT(aclrtSynchronizeEvent(back) == ACL_SUCCESS);
        float first = 1, second = 10;
        for (int i = 0; i < 5; ++i) {
          first += second;
          second += first;
        }
        EXPECT(a.read()[0] == first && b.read()[0] == second);
        float milliseconds = -1;
        EXPECT(aclrtEventElapsedTime(&milliseconds, there, back) == ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
        EXPECT(aclrtEventElapsedTime(&milliseconds, back, back) == ACL_SUCCESS && milliseconds == 0);
        EXPECT(aclDestroyTensor(x) == 0 && aclDestroyTensor(y) == 0);
        EXPECT(aclrtDestroyEvent(there) == ACL_SUCCESS && aclrtDestroyEvent(back) == ACL_SUCCESS);
        EXPECT(aclrtDestroyStream(other) == ACL_SUCCESS);
      }
      EXPECT(aclFinalize() == ACL_SUCCESS);
    });
}

TEST_CASE("a stream belongs to a context") {
  well({}, [] {
    {
      session one(1), zero(0);
      EXPECT(aclrtSynchronizeStream(nullptr) == ACL_ERROR_RT_PARAM_INVALID);
      EXPECT(aclrtSynchronizeStream(one.stream) == ACL_ERROR_RT_STREAM_CONTEXT);
      EXPECT(aclrtDestroyStream(one.stream) == ACL_ERROR_RT_STREAM_CONTEXT);
      aclrtContext context = nullptr;
      EXPECT(aclrtCreateContext(&context, 1) == ACL_SUCCESS);
      EXPECT(aclrtSynchronizeStream(one.stream) == ACL_ERROR_RT_STREAM_CONTEXT);
      EXPECT(aclrtDestroyContext(context) == ACL_SUCCESS);
      one.use();
      EXPECT(aclrtSynchronizeStream(one.stream) == ACL_SUCCESS);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}

TEST_CASE("devices copy to each other once access is enabled") {
  well({}, [] {
    {
      session zero(0), one(1);
      device_values<int> b({0, 0});
      zero.use();
      device_values<int> a({1, 2});
      EXPECT(aclrtMemcpy(b.get(), 8, a.get(), 8, ACL_MEMCPY_DEVICE_TO_DEVICE) == ACL_ERROR_RT_PARAM_INVALID);
      std::int32_t can = 0;
      EXPECT(aclrtDeviceCanAccessPeer(&can, 0, 1) == ACL_SUCCESS && can == 1);
      EXPECT(aclrtDeviceEnablePeerAccess(1, 0) == ACL_SUCCESS);
      EXPECT(aclrtMemcpy(b.get(), 8, a.get(), 8, ACL_MEMCPY_DEVICE_TO_DEVICE) == ACL_SUCCESS);
      EXPECT((b.read() == std::vector<int>{1, 2}));
      EXPECT(aclrtDeviceDisablePeerAccess(1) == ACL_SUCCESS);
      EXPECT(aclrtDeviceDisablePeerAccess(1) == ACL_ERROR_RT_PARAM_INVALID);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}

TEST_CASE("tensors are views of storage") {
  well({}, [] {
    {
      session s;
      device_values<float> values({0, 1, 2, 3, 4, 5, 6, 7});
      std::int64_t shape[] = {2, 2}, strides[] = {1, 4}, storage = 8, tight = 7;
      EXPECT(!aclCreateTensor(shape, 2, ACL_FLOAT, strides, 2, ACL_FORMAT_ND, &tight, 1, values.get()));
      auto* view = aclCreateTensor(shape, 2, ACL_FLOAT, strides, 2, ACL_FORMAT_ND, &storage, 1, values.get());
      EXPECT(view);
      auto* ones = vector_tensor(values.get(), 1, 1);
      add_in_place(view, ones, 100, s.stream);  // broadcasts
      EXPECT(aclrtSynchronizeStream(s.stream) == ACL_SUCCESS);
      EXPECT((values.read() == std::vector<float>{0, 1, 102, 103, 4, 5, 106, 107}));
      EXPECT(aclDestroyTensor(view) == 0 && aclDestroyTensor(ones) == 0);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}

TEST_CASE("an executor that was made repeatable runs again") {
  well({}, [] {
    {
      session s;
      device_values<float> values({1, 2});
      auto* x = vector_tensor(values.get(), 2);
      float one = 1;
      auto* alpha = aclCreateScalar(&one, ACL_FLOAT);
      std::uint64_t bytes = 0;
      aclOpExecutor* executor = nullptr;
      EXPECT(aclnnInplaceAddGetWorkspaceSize(x, x, alpha, &bytes, &executor) == 0);
      EXPECT(aclSetAclOpExecutorRepeatable(executor) == 0);
      for (int i = 0; i < 3; ++i) EXPECT(aclnnInplaceAdd(nullptr, 0, executor, s.stream) == 0);
      EXPECT(aclDestroyAclOpExecutor(executor) == 0);
      EXPECT(aclrtSynchronizeStream(s.stream) == ACL_SUCCESS);
      EXPECT((values.read() == std::vector<float>{8, 16}));
      EXPECT(aclDestroyTensor(x) == 0 && aclDestroyScalar(alpha) == 0);
    }
    EXPECT(aclFinalize() == ACL_SUCCESS);
  });
}
