#include <doctest/doctest.h>

#include <tessera/backend/concept.hpp>
#include <tessera/backend/deterministic.hpp>
#include <tessera/core/random.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

// Each kernel on all rows at once, against the same kernel on the parts that 2, 4 and 8 ranks have, put together as
// ranks do: rows one behind the other, sums in pairs.

namespace {

using namespace tessera;
using tessera::index_t;
using values = std::vector<float>;

static_assert(backend<deterministic<>> && backend<deterministic<1>>);
static_assert(deterministic_backend<deterministic<4>> && !deterministic_backend<eigen>);

constexpr index_t batch = 24;

values drawn(index_t count, std::uint64_t stream) {
  const philox draw(5, stream);
  values v;
  for (index_t i = 0; i < count; ++i)
    v.push_back(static_cast<float>(2 * draw.uniform(static_cast<std::uint64_t>(i)) - 1));
  return v;
}

/// Memory one element behind a cache line, as blocks of rows may lie.
class displaced {
 public:
  explicit displaced(index_t size) : memory_(shape<1>{{size + 1}}) {}
  /// The rows of one of so many ranks.
  displaced(values const& whole, int rank, int ranks) : displaced(static_cast<index_t>(whole.size()) / ranks) {
    const index_t size = memory_.size() - 1;
    std::copy_n(whole.begin() + rank * size, size, data());
  }
  float* data() { return memory_.data() + 1; }
  values all() { return {data(), data() + memory_.size() - 1}; }

 private:
  tensor<float, 1> memory_;
};

template <int Ranks, class Run>
std::vector<values> of_ranks(Run const& run) {
  std::vector<values> parts;
  for (int r = 0; r < Ranks; ++r) {
    deterministic<8> kernels(1 + r % 2, 1);  // on any number of threads
    kernels.begin_batch<Ranks>(batch, true);
    parts.push_back(run(kernels, r, Ranks));
  }
  return parts;
}

values joined(std::vector<values> const& parts) {
  values all;
  for (auto const& p : parts) all.insert(all.end(), p.begin(), p.end());
  return all;
}
values added(std::vector<values> parts) {
  for (std::size_t apart = 1; apart < parts.size(); apart *= 2)
    for (std::size_t r = 0; r + apart < parts.size(); r += 2 * apart)
      for (std::size_t i = 0; i < parts[r].size(); ++i) parts[r][i] += parts[r + apart][i];
  return parts[0];
}

/// `run(kernels, rank, ranks)` gives the result of a rank's rows.
template <class Run, class Join>
void same_on_all_ranks(Run const& run, Join const& join) {
  const values wanted = join(of_ranks<1>(run));
  REQUIRE(!wanted.empty());
  CHECK(join(of_ranks<2>(run)) == wanted);
  CHECK(join(of_ranks<4>(run)) == wanted);
  CHECK(join(of_ranks<8>(run)) == wanted);
}

}  // namespace

TEST_CASE("products of rows, and sums of products over rows") {
  for (const index_t inner : {1, 2, 5, 37}) {
    for (const index_t outer : {1, 3, 50}) {
      CAPTURE(inner);
      CAPTURE(outer);
      const values x = drawn(batch * inner, 1);
      const values dy = drawn(batch * outer, 2);
      values w = drawn(inner * outer, 3);
      const auto forward = [&](auto& kernels, int rank, int ranks) {
        displaced from(x, rank, ranks);
        displaced to(batch / ranks * outer);
        kernels.template matmul<float>({from.data(), {batch / ranks, inner}}, false, {w.data(), {outer, inner}}, true,
                                       block<float, 2>{to.data(), {{batch / ranks, outer}}});
        return to.all();
      };
      const auto weights = [&](auto& kernels, int rank, int ranks) {
        displaced from(x, rank, ranks);
        displaced gradient(dy, rank, ranks);
        displaced to(inner * outer);
        kernels.template matmul<float>({gradient.data(), {batch / ranks, outer}}, true,
                                       {from.data(), {batch / ranks, inner}}, false,
                                       block<float, 2>{to.data(), {{outer, inner}}});
        return to.all();
      };
      const auto bias = [&](auto& kernels, int rank, int ranks) {
        displaced gradient(dy, rank, ranks);
        displaced to(outer);
        kernels.template sum_rows<float>({gradient.data(), {batch / ranks, outer}},
                                         block<float, 1>{to.data(), {{outer}}});
        return to.all();
      };
      same_on_all_ranks(forward, joined);
      same_on_all_ranks(weights, added);
      same_on_all_ranks(bias, added);
    }
  }
}

TEST_CASE("a product that is added to what is there") {
  deterministic<4> kernels;
  kernels.begin_batch<1>(4, true);
  values x = {1, 2, 3, 4};
  values dy = {1, 10, 100, 1000};
  values dw = {0.5f};
  kernels.matmul<float>({dy.data(), {4, 1}}, true, {x.data(), {4, 1}}, false, block<float, 2>{dw.data(), {{1, 1}}},
                        true);
  CHECK(dw[0] == 4321.5f);
}

TEST_CASE("rows of exponentials") {
  constexpr index_t classes = 11;
  const values x = drawn(batch * classes, 1);
  same_on_all_ranks(
      [&](auto& kernels, int rank, int ranks) {
        displaced from(x, rank, ranks);
        displaced to(batch / ranks * classes);
        kernels.template softmax_forward<float>({from.data(), {batch / ranks, classes, 1}},
                                                block<float, 3>{to.data(), {{batch / ranks, classes, 1}}});
        return to.all();
      },
      joined);
}

TEST_CASE("sums of embedding gradients over places, and of broadcast operands") {
  constexpr index_t words = 5;
  constexpr index_t features = 3;
  const values dy = drawn(batch * features, 2);
  std::vector<std::int64_t> indices;
  for (index_t i = 0; i < batch; ++i) indices.push_back(i * i % words);
  same_on_all_ranks(
      [&](auto& kernels, int rank, int ranks) {
        displaced gradient(dy, rank, ranks);
        displaced to(words * features);
        kernels.template embedding_backward<float>({indices.data() + rank * (batch / ranks), {batch / ranks}},
                                                   {gradient.data(), {batch / ranks, features}}, 0, -1,
                                                   block<float, 2>{to.data(), {{words, features}}});
        return to.all();
      },
      added);
  same_on_all_ranks(
      [&](auto& kernels, int rank, int ranks) {
        displaced gradient(dy, rank, ranks);
        displaced to(features);
        kernels.template sum_broadcast<float>({gradient.data(), {1, 1, 1, batch / ranks, 1, features}},
                                              block<float, 6>{to.data(), {{1, 1, 1, 1, 1, features}}});
        return to.all();
      },
      added);
}

TEST_CASE("products of many matrices with one, and their sum") {
  constexpr index_t m = 3;
  constexpr index_t k = 5;
  const values x = drawn(batch * m * k, 1);
  values w = drawn(k * k, 3);
  const auto images = [&](auto& kernels, int rank, int ranks, bool sum) {
    displaced from(x, rank, ranks);
    displaced to(sum ? k * k : batch / ranks * m * k);
    if (sum)
      kernels.template batch_matmul<float>({from.data(), {batch / ranks, 1, m, k}}, true,
                                           {from.data(), {batch / ranks, 1, m, k}}, false,
                                           block<float, 4>{to.data(), {{1, 1, k, k}}});
    else
      kernels.template batch_matmul<float>({from.data(), {batch / ranks, 1, m, k}}, false, {w.data(), {1, 1, k, k}},
                                           false, block<float, 4>{to.data(), {{batch / ranks, 1, m, k}}});
    return to.all();
  };
  same_on_all_ranks([&](auto& kernels, int rank, int ranks) { return images(kernels, rank, ranks, false); }, joined);
  same_on_all_ranks([&](auto& kernels, int rank, int ranks) { return images(kernels, rank, ranks, true); }, added);
}

TEST_CASE("a training batch has as many rows in each block") {
  deterministic<8> kernels;
  CHECK_THROWS_WITH_AS(
      kernels.begin_batch<2>(20, true),
      "tessera: a batch of 20 rows in 8 blocks; wanted blocks of as many rows each, the same for any "
      "number of ranks; choose a batch size that is a multiple of 8 and leave out a smaller last batch "
      "(sampler_options::drop_last), or choose another number of blocks, as in deterministic<4>",
      error);
  kernels.begin_batch<2>(20, false);  // evaluation: one block a rank
  CHECK(kernels.blocks() == 1);
  kernels.begin_batch<2>(40, false);
  CHECK(kernels.blocks() == 4);
}
