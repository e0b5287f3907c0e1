#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "hccl.hpp"

namespace ascend_double {

namespace {

std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

block_lock::block_lock(meeting_block& block)
    : block_(block), deadline_(now() + configuration().timeout * std::int64_t{1'000'000'000}) {
  if (pthread_mutex_lock(&block_.mutex) == EOWNERDEAD) {
    pthread_mutex_consistent(&block_.mutex);
    fail(HCCL_E_REMOTE, "a rank died");
  }
}

block_lock::~block_lock() { pthread_mutex_unlock(&block_.mutex); }

void block_lock::notify() { pthread_cond_broadcast(&block_.changed); }

void block_lock::fail(HcclResult result, std::string const& reason) {
  if (block_.failure != HCCL_SUCCESS) return;
  block_.failure = result;
  auto length = std::min(reason.size(), sizeof block_.reason - 1);
  std::memcpy(block_.reason, reason.data(), length);
  block_.reason[length] = '\0';
  notify();
}

bool block_lock::wait_for_change() {
  timespec until{deadline_ / 1'000'000'000, deadline_ % 1'000'000'000};
  auto status = pthread_cond_timedwait(&block_.changed, &block_.mutex, &until);
  if (status == EOWNERDEAD) {
    pthread_mutex_consistent(&block_.mutex);
    fail(HCCL_E_REMOTE, "a rank died");
  }
  return status != ETIMEDOUT;
}

}  // namespace ascend_double
