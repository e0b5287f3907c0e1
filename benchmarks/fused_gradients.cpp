// The gradients of ResNet-50, summed over two ranks: the library's buckets next to the plain ways of doing it with MPI.

#include "support/program.hpp"

#include <tessera/plan/fusion.hpp>

namespace {

using namespace comparison;

/// Extents of the parameters of ResNet-50 for 1000 classes (K. He et al., CVPR 2016), in order of definition: each
/// convolution's weight is followed by scale and shift of its batch norm.
struct parameter_table {
  static constexpr int count = 161;
  ts::index_t extents[count][4] = {};
  int rank[count] = {};
  int size = 0;

  constexpr void add(int dims, ts::index_t a, ts::index_t b = 1, ts::index_t c = 1, ts::index_t d = 1) {
    rank[size] = dims;
    const ts::index_t all[4] = {a, b, c, d};
    for (int i = 0; i < 4; ++i) extents[size][i] = all[i];
    ++size;
  }
  constexpr void add_convolution(ts::index_t out, ts::index_t in, ts::index_t kernel) {
    add(4, out, in, kernel, kernel);
    add(1, out);
    add(1, out);
  }
  constexpr ts::index_t elements() const {
    ts::index_t sum = 0;
    for (int i = 0; i < size; ++i) sum += extents[i][0] * extents[i][1] * extents[i][2] * extents[i][3];
    return sum;
  }
};

constexpr parameter_table resnet50() {
  parameter_table table;
  table.add_convolution(64, 3, 7);
  constexpr int blocks[4] = {3, 4, 6, 3};
  ts::index_t in = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const ts::index_t width = ts::index_t{64} << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      table.add_convolution(width, in, 1);
      table.add_convolution(width, width, 3);
      table.add_convolution(4 * width, width, 1);
      if (block == 0) table.add_convolution(4 * width, in, 1);
      in = 4 * width;
    }
  }
  table.add(2, 1000, in);
  table.add(1, 1000);
  return table;
}

constexpr parameter_table table = resnet50();
static_assert(table.size == parameter_table::count && table.elements() == 25'557'032);

/// The parameters as a data-parallel model has them: whole, their gradients partial.
std::vector<ts::parameter_info<1>> parameters() {
  std::vector<ts::parameter_info<1>> all;
  for (int i = 0; i < table.size; ++i) {
    ts::parameter_info<1>& p = all.emplace_back();
    p.rank = table.rank[i];
    std::copy_n(table.extents[i], 4, p.extents);
    p.gradient[0] = ts::partial_placement();
  }
  return all;
}

/// Memory of all gradients in one piece, and where each begins (its end: the next one's begin).
struct gradients {
  ts::tensor<float, 1> memory;
  std::vector<ts::index_t> begins{0};

  explicit gradients(int rank) : memory(ts::shape<1>{{table.elements()}}) {
    for (ts::index_t i = 0; i < memory.size(); ++i) memory.data()[i] = static_cast<float>(rank == 0 ? i % 3 : -(i % 3));
    for (int i = 0; i < table.size; ++i) {
      auto const& e = table.extents[i];
      begins.push_back(begins.back() + e[0] * e[1] * e[2] * e[3]);
    }
  }
  results all() const { return {{memory.data(), static_cast<std::size_t>(memory.size())}}; }
};

/// A way with gradients of its own. They begin as sums that are zero over both ranks, so that they do not grow.
template <class Reduce>
way plain(char const* name, int rank, Reduce reduce) {
  const auto g = std::make_shared<gradients>(rank);
  return {name, [=] {
            reduce(*g);
            return g->all();
          }};
}

void sum_in_pieces(gradients& g, ts::index_t bytes) {
  const ts::index_t most = bytes / static_cast<ts::index_t>(sizeof(float));
  for (ts::index_t begin = 0; begin < g.memory.size(); begin += most)
    sum_over_ranks(g.memory.data() + begin, std::min(most, g.memory.size() - begin));
}

template <int Ranks>
void add_all(team<Ranks>& where) {
  add("fused_gradients/resnet50", [&where] {
    const int rank = where.rank();
    const auto buckets = ts::fuse_gradients<ts::mesh<ranks<Ranks>>, ts::fuse::bytes<(ts::index_t{4} << 20)>>(
        parameters(), sizeof(float));
    return std::vector<way>{
        // As `network` does it: a bucket is one range of memory, in the order in which backward makes the gradients.
        plain("ours", rank,
              [=, &where](gradients& g) {
                ts::index_t end = g.memory.size();
                for (ts::gradient_bucket const& bucket : buckets) {
                  const ts::index_t begin = g.begins[static_cast<std::size_t>(bucket.last)];
                  where.group(bucket.axes).all_reduce(g.memory.data() + begin, end - begin, ts::reduction::sum);
                  end = begin;
                }
              }),
        plain("each_tensor", rank,
              [](gradients& g) {
                for (std::size_t i = g.begins.size() - 1; i-- > 0;)
                  sum_over_ranks(g.memory.data() + g.begins[i], g.begins[i + 1] - g.begins[i]);
              }),
        plain("one_call", rank, [](gradients& g) { sum_over_ranks(g.memory.data(), g.memory.size()); }),
        plain("pieces_1MiB", rank, [](gradients& g) { sum_in_pieces(g, ts::index_t{1} << 20); }),
        plain("pieces_25MiB", rank, [](gradients& g) { sum_in_pieces(g, ts::index_t{25} << 20); }),
        plain("nonblocking", rank, [](gradients& g) {
          std::vector<MPI_Request> requests(g.begins.size() - 1);
          for (std::size_t i = requests.size(); i-- > 0;)
            MPI_Iallreduce(MPI_IN_PLACE, g.memory.data() + g.begins[i], static_cast<int>(g.begins[i + 1] - g.begins[i]),
                           MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
          MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        })};
  });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    if constexpr (Ranks > 1) add_all(where);
  });
}
