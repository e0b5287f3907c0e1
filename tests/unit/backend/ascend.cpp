#include "ascend/chip.hpp"
#include "reference.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

// What the suite of kernels does not ask of the backend for Ascend: memory, devices, errors, statistics of several
// ranks.

namespace tessera::test {
namespace {

using backend_here = ascend<job::chip_here>;
static_assert(backend_for<backend_here, float>);
static_assert(backend<backend_here> && gathers_statistics<backend_here> && !backend_here::memory::on_host);
static_assert(!holds_elements<backend_here, double>);

/// A block in the device's memory, behind `before` other elements.
template <class T>
struct on_device {
  memory_handle memory;
  T* data;

  on_device(backend_here& kernels, std::vector<T> const& values, index_t before = 0)
      : memory(ascend_memory::allocate((values.size() + static_cast<std::size_t>(before)) * sizeof(T))),
        data(static_cast<T*>(memory.get()) + before) {
    kernels.upload(values.data(), data, static_cast<index_t>(values.size()));
  }
  block<T, 1> all(index_t count) const { return {data, {{count}}}; }
};
template <class T>
std::vector<T> from_device(backend_here& kernels, T const* data, index_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  kernels.download(data, values.data(), count);
  return values;
}
template <class T>
std::vector<T> numbers(index_t count, index_t first = 0) {
  std::vector<T> values;
  for (index_t i = 0; i < count; ++i) values.push_back(static_cast<T>(first + i));
  return values;
}
/// The text of what a call throws.
template <class Call>
std::string said_by(Call call) {
  try {
    call();
  } catch (error const& e) {
    return e.what();
  }
  return "";
}
bool says(std::string const& text, std::string const& words) { return text.find(words) != std::string::npos; }

template <class T>
void check_memory_kernels() {
  backend_here kernels;
  const std::vector<T> values = numbers<T>(60);
  // Elements lie where 32 bytes do not begin, too.
  for (const index_t before : {0, 1, 7}) {
    const on_device<T> x(kernels, values, before);
    const on_device<T> y(kernels, std::vector<T>(60, T{100}), before);
    CHECK(from_device(kernels, x.data, 60) == values);
    kernels.copy(x.all(11), y.all(11));
    CHECK(from_device(kernels, y.data, 12) ==
          std::vector<T>{T{0}, T{1}, T{2}, T{3}, T{4}, T{5}, T{6}, T{7}, T{8}, T{9}, T{10}, T{100}});
    kernels.fill(y.all(60), T{3});
    CHECK(from_device(kernels, y.data, 60) == std::vector<T>(60, T{3}));
    // Rows 1 and 3, columns 2 to 4 of [6, 10], transposed.
    const strided<T const> from{x.data + 12, {{1, 1, 1, 1, 3, 2}}, {0, 0, 0, 0, 1, 20}};
    kernels.copy_strided(from, strided<T>{y.data + 1, {{1, 1, 1, 1, 3, 2}}, {0, 0, 0, 0, 4, 2}});
    const std::vector<T> copied = from_device(kernels, y.data, 12);
    CHECK(copied == std::vector<T>{T{3}, T{12}, T{3}, T{32}, T{3}, T{13}, T{3}, T{33}, T{3}, T{14}, T{3}, T{34}});
  }
  kernels.fill(block<T, 1>{}, T{1});
  kernels.copy(block<T const, 1>{}, block<T, 1>{});
}

}  // namespace

TEST_CASE("ascend: elements come, go and move, wherever they lie") {
  check_memory_kernels<float>();
  check_memory_kernels<std::int64_t>();
  check_memory_kernels<std::int32_t>();
  backend_here kernels;
  const on_device<float> x(kernels, numbers<float>(12));
  const on_device<float> y(kernels, numbers<float>(12, 100));
  kernels.add_strided(strided<float const>{x.data, {{1, 1, 1, 1, 2, 3}}, {0, 0, 0, 0, 6, 2}},
                      strided<float>{y.data, {{1, 1, 1, 1, 2, 3}}, {0, 0, 0, 0, 3, 1}});
  CHECK(from_device(kernels, y.data, 7) == std::vector<float>{100, 103, 106, 109, 112, 115, 106});
}

TEST_CASE("ascend: memory that comes back is handed out again, and goes back to the device when asked") {
  const backend_here kernels;
  ascend_memory::trim();
  const std::size_t live = ascend_memory::used().live;
  void* first = nullptr;
  {
    const memory_handle block = ascend_memory::allocate(1000);
    first = block.get();
    CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
    CHECK(ascend_memory::used().live >= live + 1000);
  }
  CHECK(ascend_memory::used().live == live);
  CHECK(ascend_memory::allocate(1001).get() == first);
  ascend_memory::trim();
  CHECK(ascend_memory::allocate(1001).get() != first);
  CHECK(ascend_memory::allocate(0).get() == nullptr);
  ascend_memory::reset_peak();
  CHECK(ascend_memory::used().peak == ascend_memory::used().live);
}

TEST_CASE("ascend: memory of other sizes is given up before the device is said to be full") {
  const backend_here kernels;
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total) == ACL_SUCCESS);
  { const memory_handle most = ascend_memory::allocate(total / 4 * 3); }
  const memory_handle half = ascend_memory::allocate(total / 2);
  CHECK(half.get() != nullptr);
  CHECK(says(said_by([&] { ascend_memory::allocate(total / 4 * 3); }), "has no " + std::to_string(total / 4 * 3)));
}

TEST_CASE("ascend: a thread drives one device, others theirs") {
  CHECK(ascend_device::current()->number() == 0);
  const backend_here kernels;
  CHECK(ascend_device::current().get() == &kernels.device());
  CHECK(says(said_by([] { ascend_device::open(1); }), "a thread that drives device 0"));
  std::vector<float> found;
  std::thread([&] {
    const auto device = ascend_device::open(1);
    backend_here other;
    CHECK(other.device().number() == 1);
    const on_device<float> x(other, numbers<float>(3));
    other.scale(x.all(3), 2, x.all(3));
    found = from_device(other, x.data, 3);
  }).join();
  CHECK(found == std::vector<float>{0, 2, 4});
  CHECK(says(said_by([] { std::thread([] {}).join(), ascend_device::open(99); }), "device 99"));
}

TEST_CASE("ascend: a device that is not there, another chip and wrong operands are errors that say so") {
  CHECK(says(said_by([] { ascend_device::open(99); }), "aclrtSetDevice(99)"));
  const std::string first = said_by([] { ascend<ascend_910>{}; });
  const std::string second = said_by([] { ascend<ascend_910b>{}; });
  CHECK(first.empty() != second.empty());
  CHECK(says(first + second, "name its own chip: ascend<ascend_910>"));
  backend_here kernels;
  const on_device<float> x(kernels, numbers<float>(12));
  const block<float, 2> wide{x.data, {{2, 3}}};
  const std::string text = said_by([&] {
    kernels.matmul(wide, false, wide, false, block<float, 2>{x.data + 6, {{2, 3}}});
  });
  CHECK(says(text, "aclnnMmGetWorkspaceSize"));
  CHECK(says(text, "161002"));
}

TEST_CASE("ascend: chips are known by the names that ACL has for them") {
  for (char const* name :
       {"Ascend910", "Ascend910A", "Ascend910B", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA"}) {
    CAPTURE(name);
    CHECK(ascend_910::is(name));
    CHECK(!ascend_910b::is(name));
  }
  for (char const* name : {"Ascend910B1", "Ascend910B4", "Ascend910B2C", "Ascend910_9391"}) {
    CAPTURE(name);
    CHECK(!ascend_910::is(name));
    CHECK(ascend_910b::is(name));
  }
  CHECK(!ascend_910::is("Ascend310P3"));
  CHECK(!ascend_910b::is("Ascend310P3"));
}

TEST_CASE("ascend: statistics that ranks gather are those of all values, also where a rank has none") {
  backend_here kernels;
  constexpr double epsilon = 1e-5;
  constexpr double momentum = 0.1;
  constexpr index_t channels = 3;
  const std::vector<index_t> images{2, 0, 5, 1};
  constexpr index_t pixels = 4;
  const auto x = random_values<float>(shape<1>{8 * channels * pixels}, 1);
  std::vector<index_t> counts;
  std::vector<float> all;
  index_t begin = 0;
  for (const index_t some : images) {
    const index_t size = some * channels * pixels;
    const on_device<float> part(kernels, {x.data() + begin, x.data() + begin + size});
    const on_device<float> own(kernels, std::vector<float>(2 * channels, 9.0f));
    kernels.batch_norm_local({part.data, {{some, channels, 2, 2}}}, epsilon, {own.data, {{2, channels}}});
    for (const float value : from_device(kernels, own.data, 2 * channels)) all.push_back(value);
    counts.push_back(some * pixels);
    begin += size;
  }
  const on_device<float> gathered(kernels, all);
  const on_device<float> running_mean(kernels, {1, 2, 3});
  const on_device<float> running_variance(kernels, {4, 5, 6});
  const on_device<float> mean(kernels, {0, 0, 0});
  const on_device<float> inv_std(kernels, {0, 0, 0});
  kernels.batch_norm_gathered({gathered.data, {{4, 2, channels}}}, counts, momentum, epsilon, running_mean.all(3),
                              running_variance.all(3), mean.all(3), inv_std.all(3));
  const auto mean_found = from_device(kernels, mean.data, 3);
  const auto inv_found = from_device(kernels, inv_std.data, 3);
  const auto running_found = from_device(kernels, running_mean.data, 3);
  const auto variance_found = from_device(kernels, running_variance.data, 3);
  for (index_t c = 0; c < channels; ++c) {
    const auto i = static_cast<std::size_t>(c);
    const auto at = [&](index_t n, index_t p) {
      return static_cast<double>(x.data()[(n * channels + c) * pixels + p]);
    };
    double sum = 0;
    double squares = 0;
    for (index_t n = 0; n < 8; ++n)
      for (index_t p = 0; p < pixels; ++p) sum += at(n, p) / 32;
    for (index_t n = 0; n < 8; ++n)
      for (index_t p = 0; p < pixels; ++p) squares += std::pow(at(n, p) - sum, 2);
    CHECK(mean_found[i] == doctest::Approx(sum).epsilon(1e-5));
    CHECK(inv_found[i] == doctest::Approx(1 / std::sqrt(squares / 32 + epsilon)).epsilon(1e-5));
    CHECK(running_found[i] == doctest::Approx((1 - momentum) * static_cast<double>(c + 1) + momentum * sum));
    CHECK(variance_found[i] ==
          doctest::Approx((1 - momentum) * static_cast<double>(c + 4) + momentum * squares / 31).epsilon(1e-5));
  }
}

TEST_CASE("ascend: a mask hides keys whatever their scores, and is added to those of others") {
  backend_here kernels;
  const attention_geometry g{1, 2, 3, 4, 2, 2, 0, 0, false, 0.5};
  const float hidden = -std::numeric_limits<float>::infinity();
  auto q = random_values<float>(shape<1>{12}, 1);
  auto k = random_values<float>(shape<1>{16}, 2);
  const auto v = random_values<float>(shape<1>{16}, 3);
  auto mask = random_values<float>(shape<1>{12}, 4);
  k(2) = std::numeric_limits<float>::quiet_NaN();  // of key 1 of head 0
  for (index_t i = 0; i < 3; ++i) mask(4 * i + 1) = hidden;
  for (index_t j = 0; j < 4; ++j) mask(8 + j) = hidden;  // query 2 sees nothing
  const auto vector = [](tensor<float, 1> const& t) { return std::vector<float>(t.data(), t.data() + t.size()); };
  eigen wanted_by;
  std::vector<float> wanted(12);
  tensor<double, 3> wanted_logs(shape<3>{{1, 2, 3}});
  const auto rows = [](float* data, index_t n) { return packed_heads(data, 2, n, 2); };
  const auto all_heads = [](float* data) { return head_rows<float>{data, 0, 0, 4}; };
  auto values = v.clone();
  wanted_by.attention_forward(rows(q.data(), 3), rows(k.data(), 4), rows(values.data(), 4), rows(wanted.data(), 3),
                              wanted_logs.view(), g, false, all_heads(mask.data()));
  const on_device<float> dq(kernels, vector(q)), dk(kernels, vector(k)), dv(kernels, vector(v)),
      dm(kernels, vector(mask)), y(kernels, std::vector<float>(12, 7.0f)), logs(kernels, std::vector<float>(6, 7.0f));
  kernels.attention_forward(rows(dq.data, 3), rows(dk.data, 4), rows(dv.data, 4), rows(y.data, 3),
                            {logs.data, {{1, 2, 3}}}, g, false, all_heads(dm.data));
  const auto found = from_device(kernels, y.data, 12);
  const auto found_logs = from_device(kernels, logs.data, 6);
  for (std::size_t i = 0; i < 12; ++i) CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-3));
  for (std::size_t i = 0; i < 6; ++i) {
    const double log_wanted = wanted_logs.data()[i];
    CHECK((static_cast<double>(found_logs[i]) == log_wanted ||
           found_logs[i] == doctest::Approx(log_wanted).epsilon(1e-3)));
  }
}

}  // namespace tessera::test
