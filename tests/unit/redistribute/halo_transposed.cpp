#include <doctest/doctest.h>

#include <tessera/redistribute/halo_plan.hpp>

// Windows that walk the gradient of a convolution's output, against counting.

namespace {

using namespace tessera;
using tessera::index_t;

struct line : axis<3> {};
using three_ranks = mesh<line>;

/// Whether output `x` takes something from row `row` of these.
bool takes(halo_window const& w, index_t x, index_t row) {
  for (index_t k = 0; k < w.kernel; ++k)
    if (row * w.stride - w.padding_before + k * w.dilation == x) return true;
  return false;
}

void check_outputs(halo_window const& w, index_t extent, interval outputs) {
  CAPTURE(to_string(shape<2>{outputs.begin, outputs.size}));
  const interval rows = w.read(outputs, extent);
  if (rows.size > 0) CHECK((rows.begin >= 0 && rows.end() <= extent));
  for (index_t row = 0; row < extent; ++row) {
    bool taken = false;
    for (index_t x = outputs.begin; x < outputs.end(); ++x) taken = taken || takes(w, x, row);
    const bool read = row >= rows.begin && row < rows.end();
    if (taken) CHECK(read);
    // Without dilation a row between the first and the last is always taken, but for strides that jump over outputs.
    if (w.dilation == 1 && w.stride <= w.kernel && outputs.size >= w.stride) CHECK(read == taken);
  }
  // A kernel over these rows, with this padding, finds the same rows for each output.
  if (rows.size == 0) return;
  halo_window local = w;
  local.padding_before = w.before(outputs, rows);
  for (index_t x = 0; x < outputs.size; ++x)
    for (index_t row = 0; row < rows.size; ++row)
      CHECK(takes(local, x, row) == takes(w, outputs.begin + x, rows.begin + row));
}

void check_computable(halo_window const& w, index_t extent, interval outputs, interval rows) {
  const interval found = w.computable(outputs, rows, extent);
  for (index_t x = outputs.begin; x < outputs.end(); ++x) {
    if (x < found.begin || x >= found.end()) continue;
    for (index_t row = 0; row < extent; ++row)
      if (takes(w, x, row)) CHECK((row >= rows.begin && row < rows.end()));
  }
}

}  // namespace

TEST_CASE("a transposed window reads the rows that its outputs take something from") {
  for (index_t kernel = 1; kernel <= 4; ++kernel)
    for (index_t stride = 1; stride <= 3; ++stride)
      for (index_t dilation = 1; dilation <= 2; ++dilation)
        for (index_t padding = 0; padding <= 2; ++padding)
          for (const index_t images : {1, 2, 7, 12}) {
            halo_window w{kernel, stride, padding, padding, dilation};
            const index_t extent = w.output_extent(images);
            if (extent == 0) continue;
            w.transposed_outputs = images;
            CAPTURE(kernel);
            CAPTURE(stride);
            CAPTURE(dilation);
            CAPTURE(padding);
            CAPTURE(images);
            CHECK(w.output_extent(extent) == images);
            for (int r = 0; r < 3; ++r) {
              const interval outputs = cut({0, images}, 3, r);
              check_outputs(w, extent, outputs);
              check_computable(w, extent, outputs, cut({0, extent}, 3, r));
            }
          }
}

TEST_CASE("what ranks send is what others receive") {
  for (const index_t stride : {1, 2, 3})
    for (const index_t images : {3, 8, 13}) {
      halo_window w{3, stride, 1, 1, 1};
      const index_t extent = w.output_extent(images);
      w.transposed_outputs = images;
      index_t sent = 0;
      index_t received = 0;
      for (int r = 0; r < 3; ++r) {
        const halo_plan<three_ranks, 1, 0> plan({{shard_placement(0)}}, {{extent}}, {{w}}, {{r}});
        sent += plan.sent().elements;
        received += plan.received().elements;
        CHECK(plan.outputs()[0] == cut({0, images}, 3, r));
      }
      CHECK(sent == received);
    }
  // A window of 3 with stride 2 over 16 rows: 8 rows of its gradient, of which each device lacks the next one.
  constexpr halo_window w{3, 2, 1, 1, 1, 16};
  constexpr halo_plan<mesh<line>, 1, 0> first({{shard_placement(0)}}, {{8}}, {{w}}, {{0}});
  static_assert(first.received() == halo_traffic{1, 1});
}
