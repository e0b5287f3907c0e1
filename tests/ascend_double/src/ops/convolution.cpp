#include "aclnnop/aclnn_convolution.h"

#include <algorithm>

#include "aclnnop/aclnn_convolution_backward.h"
#include "elementwise.hpp"
#include "gemm.hpp"

using namespace ascend_double;

namespace {

using values = std::vector<float>;

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

// A convolution from `wide` [batch, channels_in, h, w] to `narrow` [batch, channels_out, rows, columns]. Transposed
// ones are the gradient of one: they go from `narrow` to `wide`.
struct convolution {
  std::int64_t batch, groups;
  std::int64_t in, h, w;            // channels and extents of wide
  std::int64_t out, rows, columns;  // of narrow
  std::int64_t kernel_h, kernel_w;
  std::int64_t stride_h, stride_w, top, left, dilation_h, dilation_w;

  std::int64_t wide_count() const { return batch * in * h * w; }
  std::int64_t narrow_count() const { return batch * out * rows * columns; }
  std::int64_t patch() const { return in / groups * kernel_h * kernel_w; }
  std::int64_t weight_count() const { return out * patch(); }
  std::int64_t places() const { return rows * columns; }
};

// Calls f(element of wide or nullptr beyond its edge, row of the patch, place in narrow) for one group of one sample.
template <class T, class F>
void each_pair(convolution const& c, T* wide, F f) {
  std::int64_t row = 0;
  for (std::int64_t channel = 0; channel < c.in / c.groups; ++channel)
    for (std::int64_t i = 0; i < c.kernel_h; ++i)
      for (std::int64_t j = 0; j < c.kernel_w; ++j, ++row)
        for (std::int64_t y = 0; y < c.rows; ++y)
          for (std::int64_t x = 0; x < c.columns; ++x) {
            auto at_h = y * c.stride_h - c.top + i * c.dilation_h;
            auto at_w = x * c.stride_w - c.left + j * c.dilation_w;
            bool within = at_h >= 0 && at_h < c.h && at_w >= 0 && at_w < c.w;
            f(within ? wide + (channel * c.h + at_h) * c.w + at_w : nullptr, row, y * c.columns + x);
          }
}

// The patches of one group of one sample: [patch, places].
void gather_patches(convolution const& c, float const* wide, values& patches) {
  each_pair(c, wide, [&](float const* from, std::int64_t row, std::int64_t place) {
    patches[size(row * c.places() + place)] = from ? *from : 0;
  });
}

// Calls f(group of wide, group of narrow, group of the weight) for each group of each sample.
template <class F>
void each_group(convolution const& c, F f) {
  for (std::int64_t n = 0; n < c.batch; ++n)
    for (std::int64_t g = 0; g < c.groups; ++g) {
      auto group = n * c.groups + g;
      f(group * (c.in / c.groups) * c.h * c.w, group * (c.out / c.groups) * c.places(),
        g * (c.out / c.groups) * c.patch());
    }
}

values to_narrow(convolution const& c, values const& wide, values const& weight) {
  values narrow(size(c.narrow_count()));
  values patches(size(c.patch() * c.places()));
  each_group(c, [&](std::int64_t from, std::int64_t to, std::int64_t by) {
    gather_patches(c, wide.data() + from, patches);
    multiply({weight.data() + by}, {patches.data()}, c.out / c.groups, c.patch(), c.places(), narrow.data() + to);
  });
  return narrow;
}

values to_wide(convolution const& c, values const& narrow, values const& weight) {
  values wide(size(c.wide_count()));
  values patches(size(c.patch() * c.places()));
  each_group(c, [&](std::int64_t to, std::int64_t from, std::int64_t by) {
    multiply({weight.data() + by, true}, {narrow.data() + from}, c.patch(), c.out / c.groups, c.places(),
             patches.data());
    each_pair(c, wide.data() + to, [&](float* at, std::int64_t row, std::int64_t place) {
      if (at) *at += patches[size(row * c.places() + place)];
    });
  });
  return wide;
}

values to_weight(convolution const& c, values const& wide, values const& narrow) {
  values weight(size(c.weight_count()));
  values patches(size(c.patch() * c.places()));
  each_group(c, [&](std::int64_t of_wide, std::int64_t of_narrow, std::int64_t to) {
    gather_patches(c, wide.data() + of_wide, patches);
    multiply({narrow.data() + of_narrow}, {patches.data(), true}, c.out / c.groups, c.places(), c.patch(),
             weight.data() + to, true);
  });
  return weight;
}

struct parameters {
  aclIntArray const *stride, *padding, *dilation;
  bool transposed;
  aclIntArray const* output_padding;
  std::int64_t groups;
};

// Refuses what does not fit; the shape that the output must have.
std::pair<convolution, extents> describe(planner& p, tensor const& input, tensor const& weight,
                                         parameters const& with) {
  auto spatial = input.rank() - 2;
  p.require(input.rank() == 3 || input.rank() == 4, "input must have 3 or 4 dimensions");
  p.require(weight.rank() == input.rank(), "input and weight differ in dimensions");
  for (auto const* each : {&input, &weight})
    p.format(*each, each == &input ? "input" : "weight", {spatial == 1 ? ACL_FORMAT_NCL : ACL_FORMAT_NCHW});
  auto list = [&](aclIntArray const* handle, char const* name, std::int64_t least) {
    auto given = p.integers(handle, name);
    p.require(given.size() == spatial || (spatial == 2 && given.size() == 4 && handle == with.padding),
              std::string(name) + " has " + std::to_string(given.size()) + " elements");
    p.require(*std::min_element(given.begin(), given.end()) >= least, std::string(name) + " is too small");
    if (spatial == 1) given.insert(given.begin(), least);
    return given;
  };
  auto stride = list(with.stride, "stride", 1);
  auto padding = list(with.padding, "padding", 0);
  auto dilation = list(with.dilation, "dilation", 1);
  auto output_padding = list(with.output_padding, "outputPadding", 0);
  extents sides = padding.size() == 4 ? padding : extents{padding[0], padding[0], padding[1], padding[1]};
  p.require(with.groups >= 1, "groups is not positive");

  auto x = input.shape, k = weight.shape;
  if (spatial == 1) {
    x.insert(x.begin() + 2, 1);
    k.insert(k.begin() + 2, 1);
  }
  p.require(k[0] % with.groups == 0, "the output channels are not a multiple of groups");
  p.require(k[0] > 0 && k[1] > 0 && k[2] > 0 && k[3] > 0, "weight is empty");
  p.require(k[2] <= 255 && k[3] <= 255, "a kernel is wider than 255");
  auto reach = [&](std::size_t d) { return dilation[d] * (k[2 + d] - 1) + 1; };
  auto edges = [&](std::size_t d) { return sides[2 * d] + sides[2 * d + 1]; };
  convolution c{x[0], with.groups, k[1] * with.groups, x[2],      x[3],     k[0],     0,           0,
                k[2], k[3],        stride[0],          stride[1], sides[0], sides[2], dilation[0], dilation[1]};
  std::int64_t other[2];
  for (std::size_t d = 0; d < 2; ++d) {
    auto extent = x[2 + d];
    if (with.transposed) {
      p.require(output_padding[d] < std::max(stride[d], dilation[d]), "outputPadding is too large");
      other[d] = (extent - 1) * stride[d] - edges(d) + reach(d) + output_padding[d];
    } else {
      p.require(extent + edges(d) >= reach(d), "the kernel is larger than the input");
      other[d] = (extent + edges(d) - reach(d)) / stride[d] + 1;
    }
    p.require(other[d] > 0, "the output would be empty");
  }
  p.require(x[1] == (with.transposed ? c.out : c.in), "the channels of input and weight differ");
  if (with.transposed) {
    c.rows = x[2], c.columns = x[3];
    c.h = other[0], c.w = other[1];
  } else {
    c.rows = other[0], c.columns = other[1];
  }
  extents result{x[0], with.transposed ? c.in : c.out, other[0], other[1]};
  if (spatial == 1) result.erase(result.begin() + 2);
  return {c, result};
}

values load_rounded(tensor const& from, operands precision) {
  auto result = load<float>(from);
  round_operands(precision, result);
  return result;
}

}  // namespace

aclnnStatus aclnnConvolutionGetWorkspaceSize(const aclTensor* input, const aclTensor* weight, const aclTensor* bias,
                                             const aclIntArray* stride, const aclIntArray* padding,
                                             const aclIntArray* dilation, bool transposed,
                                             const aclIntArray* outputPadding, const int64_t groups, aclTensor* output,
                                             int8_t cubeMathType, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnConvolution", workspaceSize, executor, [&](planner& p) {
    auto x = p.input(input, "input");
    auto k = p.input(weight, "weight", {x.type});
    auto b = p.optional_input(bias, "bias", {x.type});
    auto y = p.output(output, "output", {x.type});
    auto [c, shape] = describe(p, x, k, {stride, padding, dilation, transposed, outputPadding, groups});
    p.shape(y, "output", shape);
    p.format(y, "output", {x.format});
    if (b) {
      p.shape(*b, "bias", {shape[1]});
      p.format(*b, "bias", {ACL_FORMAT_ND});
    }
    auto precision = p.cube(x.type, cubeMathType);
    return [=, c = c] {
      auto from = load_rounded(x, precision), by = load_rounded(k, precision);
      auto to = transposed ? to_wide(c, from, by) : to_narrow(c, from, by);
      if (b) {
        auto added = load<float>(*b);
        auto plane = to.size() / std::max<std::size_t>(size(y.shape[0] * y.shape[1]), 1);
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += added[i / plane % added.size()];
      }
      store(y, to);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnConvolution)

aclnnStatus aclnnConvolutionBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* input,
                                                     const aclTensor* weight, const aclIntArray* biasSizes,
                                                     const aclIntArray* stride, const aclIntArray* padding,
                                                     const aclIntArray* dilation, bool transposed,
                                                     const aclIntArray* outputPadding, int groups,
                                                     const aclBoolArray* outputMask, int8_t cubeMathType,
                                                     aclTensor* gradInput, aclTensor* gradWeight, aclTensor* gradBias,
                                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnConvolutionBackward", workspaceSize, executor, [&](planner& p) {
    auto dy = p.input(gradOutput, "gradOutput");
    auto x = p.input(input, "input", {dy.type});
    auto k = p.input(weight, "weight", {dy.type});
    auto [c, shape] = describe(p, x, k, {stride, padding, dilation, transposed, outputPadding, groups});
    p.shape(dy, "gradOutput", shape);
    p.format(dy, "gradOutput", {x.format});
    auto wanted = p.flags(outputMask, "outputMask", 3);
    std::optional<tensor> dx, dk, db;
    if (wanted[0]) {
      dx = p.output(gradInput, "gradInput", {dy.type});
      p.shape(*dx, "gradInput", x.shape);
      p.format(*dx, "gradInput", {x.format});
    }
    if (wanted[1]) {
      dk = p.output(gradWeight, "gradWeight", {dy.type});
      p.shape(*dk, "gradWeight", k.shape);
      p.format(*dk, "gradWeight", {x.format});
    }
    if (wanted[2]) {
      p.require(p.integers(biasSizes, "biasSizes") == extents{shape[1]}, "biasSizes is not the output channels");
      db = p.output(gradBias, "gradBias", {dy.type});
      p.shape(*db, "gradBias", {shape[1]});
      p.format(*db, "gradBias", {ACL_FORMAT_ND});
    }
    auto precision = p.cube(dy.type, cubeMathType);
    return [=, c = c] {
      auto gradient = load<float>(dy);
      values bias;
      if (db) {
        bias.resize(size(db->count()));
        auto plane = gradient.size() / std::max<std::size_t>(size(dy.shape[0] * dy.shape[1]), 1);
        for (std::size_t i = 0; i < gradient.size(); ++i) bias[i / plane % bias.size()] += gradient[i];
      }
      round_operands(precision, gradient);
      auto from = load_rounded(x, precision);
      auto by = load_rounded(k, precision);
      if (dx) store(*dx, transposed ? to_narrow(c, gradient, by) : to_wide(c, gradient, by));
      if (dk) store(*dk, transposed ? to_weight(c, gradient, from) : to_weight(c, from, gradient));
      if (db) store(*db, bias);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnConvolutionBackward)
