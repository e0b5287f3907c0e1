#include <tessera/core/memory.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace {

using tessera::host_memory;
using tessera::memory_handle;

std::size_t live() { return host_memory::used().live; }

/// Counts what comes back.
struct counting_source : memory_handle::source {
  void take_back(void* data, std::size_t bytes) noexcept override {
    CHECK(data == this);
    returned.push_back(bytes);
  }
  std::vector<std::size_t> returned;
};

}  // namespace

TEST_CASE("a block goes back with its last owner, to where it came from") {
  const auto from = std::make_shared<counting_source>();
  memory_handle one(from, from.get(), 24);
  CHECK(one.get() == from.get());
  CHECK(one.unique());
  CHECK(from.use_count() == 2);
  {
    memory_handle two = one;
    CHECK_FALSE(one.unique());
    memory_handle three(std::move(two));
    CHECK(two.get() == nullptr);
    one = three;
    one = std::move(three);
    CHECK(one.unique());
  }
  CHECK(from->returned.empty());
  one = {};
  CHECK(one.get() == nullptr);
  CHECK_FALSE(one.unique());
  CHECK(from->returned == std::vector<std::size_t>{24});
  CHECK(from.use_count() == 1);
}

TEST_CASE("host memory is aligned, counted in whole pieces, and handed out again by size") {
  host_memory::trim();
  host_memory::reset_peak();
  const std::size_t before = live();
  auto a = host_memory::allocate(100);
  auto b = host_memory::allocate(100);
  CHECK(reinterpret_cast<std::uintptr_t>(a.get()) % host_memory::alignment == 0);
  CHECK(a.get() != b.get());
  CHECK(live() == before + 256);
  void* const of_a = a.get();
  a = {};
  CHECK(live() == before + 128);
  const auto other = host_memory::allocate(200);
  CHECK(other.get() != of_a);
  a = host_memory::allocate(65);  // as many pieces
  CHECK(a.get() == of_a);
  CHECK(live() == before + 128 + 128 + 256);
  CHECK(host_memory::used().peak == live());
  a = b = {};
  CHECK(live() == before + 256);
  CHECK(host_memory::used().peak == before + 512);
  host_memory::reset_peak();
  CHECK(host_memory::used().peak == before + 256);
}

TEST_CASE("sizes that are many keep their blocks apart") {
  std::vector<std::pair<memory_handle, int>> all;
  for (int round = 0; round < 3; ++round) {
    for (int i = 1; i <= 300; ++i) {
      all.emplace_back(host_memory::allocate(static_cast<std::size_t>(i) * 64), i % 256);
      std::memset(all.back().first.get(), all.back().second, static_cast<std::size_t>(i) * 64);
    }
    for (auto const& [block, value] : all) {
      auto const* bytes = static_cast<unsigned char const*>(block.get());
      CHECK(bytes[0] == value);
      CHECK(bytes[63] == value);
    }
    if (round == 1) host_memory::trim();
    all.erase(all.begin() + 100, all.end());
  }
}

TEST_CASE("an allocation of nothing has no address and counts for nothing") {
  const std::size_t before = live();
  const auto none = host_memory::allocate(0);
  CHECK(none.get() == nullptr);
  CHECK(none.unique());
  CHECK(live() == before);
}

TEST_CASE("a block outlives the thread that it was allocated on") {
  const std::size_t before = live();
  memory_handle one, two;
  std::thread([&] {
    one = host_memory::allocate(1000);
    two = host_memory::allocate(1000);
    auto unused = host_memory::allocate(5000);
    std::memset(one.get(), 7, 1000);
    CHECK(live() == 1024 + 1024 + 5056);
  }).join();
  CHECK(live() == before);  // each thread counts its own
  CHECK(static_cast<unsigned char const*>(one.get())[999] == 7);
  void* const of_one = one.get();
  one = {};
  CHECK(host_memory::allocate(1000).get() != of_one);
  two = {};
}
