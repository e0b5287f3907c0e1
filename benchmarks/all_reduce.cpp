// All-reduces of buffers of several sizes in memory that the ranks of a host share, next to MPI's.

#include "support/program.hpp"

#include <string>

namespace {

using namespace comparison;

/// Values that sum to zero over two ranks, so that they do not grow.
void fill(float* data, ts::index_t count, int rank) {
  for (ts::index_t i = 0; i < count; ++i) data[i] = static_cast<float>(rank == 0 ? i % 3 : -(i % 3));
}

/// A way with a buffer of its own, which all ranks reduce.
template <class Reduce>
way in_place(char const* name, ts::tensor<float, 1> memory, int rank, Reduce reduce) {
  fill(memory.data(), memory.size(), rank);
  const auto shared = std::make_shared<ts::tensor<float, 1>>(std::move(memory));
  return {name, [=]() -> results {
            reduce(shared->data(), shared->size());
            return {{shared->data(), static_cast<std::size_t>(shared->size())}};
          }};
}

template <int Ranks>
void add_size(team<Ranks>& where, std::string const& name, ts::index_t bytes) {
  add("all_reduce/" + name, [&where, bytes] {
    auto& all = where.group(ts::mesh<ranks<Ranks>>::all);
    const ts::shape<1> extents{{bytes / static_cast<ts::index_t>(sizeof(float))}};
    ts::memory_handle memory = all.allocate(static_cast<std::size_t>(bytes));
    auto* data = static_cast<float*>(memory.get());
    return std::vector<way>{
        in_place("ours", {std::move(memory), data, extents}, where.rank(),
                 [&all](float* values, ts::index_t count) { all.all_reduce(values, count, ts::reduction::sum); }),
        in_place("one_call", ts::tensor<float, 1>(extents), where.rank(), sum_over_ranks),
        in_place("pieces_1MiB", ts::tensor<float, 1>(extents), where.rank(), [](float* values, ts::index_t count) {
          constexpr ts::index_t most = (ts::index_t{1} << 20) / static_cast<ts::index_t>(sizeof(float));
          for (ts::index_t begin = 0; begin < count; begin += most)
            sum_over_ranks(values + begin, std::min(most, count - begin));
        })};
  });
}

template <int Ranks>
void add_all(team<Ranks>& where) {
  add_size(where, "256B", 256);
  add_size(where, "4KiB", ts::index_t{4} << 10);
  add_size(where, "64KiB", ts::index_t{64} << 10);
  add_size(where, "1MiB", ts::index_t{1} << 20);
  add_size(where, "4MiB", ts::index_t{4} << 20);
  add_size(where, "16MiB", ts::index_t{16} << 20);
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    if constexpr (Ranks > 1) add_all(where);
  });
}
