#pragma once

#include <algorithm>
#include <array>

#include "../double.hpp"

// What pools over windows of the last two of 4 dimensions share.
namespace ascend_double {

struct window {
  std::array<std::int64_t, 2> kernel, stride, padding, dilation;
  std::array<std::int64_t, 2> input, output;
  std::int64_t planes;

  std::int64_t input_plane() const { return input[0] * input[1]; }
  std::int64_t output_plane() const { return output[0] * output[1]; }
};

/// Two numbers, of which a single one given stands for both, and none for `missing`.
inline std::array<std::int64_t, 2> pair(planner& p, aclIntArray const* handle, char const* name, std::int64_t least,
                                        std::optional<std::array<std::int64_t, 2>> missing = std::nullopt) {
  auto given = p.integers(handle, name);
  if (given.empty() && missing) return *missing;
  p.require(given.size() == 1 || given.size() == 2, std::string(name) + " has neither 1 nor 2 elements");
  p.require(given.front() >= least && given.back() >= least, std::string(name) + " is too small");
  return {given.front(), given.back()};
}

inline void images(planner const& p, tensor const& x, char const* name) {
  p.require(x.rank() == 4, std::string(name) + " must have 4 dimensions");
  p.format(x, name, {ACL_FORMAT_NCHW});
}

/// The window over `x`; dilation 1 without one.
inline window window_of(planner& p, tensor const& x, aclIntArray const* kernel, aclIntArray const* stride,
                        aclIntArray const* padding, aclIntArray const* dilation, bool ceil_mode) {
  images(p, x, "self");
  window w{};
  w.kernel = pair(p, kernel, "kernelSize", 1);
  w.stride = pair(p, stride, "stride", 1, w.kernel);
  w.padding = pair(p, padding, "padding", 0);
  w.dilation = dilation ? pair(p, dilation, "dilation", 1) : std::array<std::int64_t, 2>{1, 1};
  w.planes = x.shape[0] * x.shape[1];
  w.input = {x.shape[2], x.shape[3]};
  for (std::size_t d = 0; d < 2; ++d) {
    p.require(2 * w.padding[d] <= w.kernel[d], "padding is more than half of the kernel");
    auto room = w.input[d] + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1;
    p.require(room >= 0, "the kernel is larger than the input");
    auto last = ceil_mode ? (room + w.stride[d] - 1) / w.stride[d] : room / w.stride[d];
    // No window begins in the padding behind the input.
    if (last * w.stride[d] >= w.input[d] + w.padding[d]) --last;
    w.output[d] = last + 1;
  }
  return w;
}

inline extents output_shape(tensor const& x, window const& w) {
  return {x.shape[0], x.shape[1], w.output[0], w.output[1]};
}

/// Calls f(plane, place in its output, element of its input, row-major number in the kernel) for each element that a
/// window covers.
template <class F>
void each_covered(window const& w, F f) {
  for (std::int64_t plane = 0; plane < w.planes; ++plane)
    for (std::int64_t row = 0; row < w.output[0]; ++row)
      for (std::int64_t column = 0; column < w.output[1]; ++column)
        for (std::int64_t i = 0; i < w.kernel[0]; ++i)
          for (std::int64_t j = 0; j < w.kernel[1]; ++j) {
            auto y = row * w.stride[0] - w.padding[0] + i * w.dilation[0];
            auto x = column * w.stride[1] - w.padding[1] + j * w.dilation[1];
            if (y >= 0 && y < w.input[0] && x >= 0 && x < w.input[1])
              f(plane, row * w.output[1] + column, y * w.input[1] + x, i * w.kernel[1] + j);
          }
}

}  // namespace ascend_double
