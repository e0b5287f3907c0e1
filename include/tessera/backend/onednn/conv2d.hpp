#pragma once

#include <tessera/backend/eigen/workspace.hpp>
#include <tessera/backend/geometry.hpp>
#include <tessera/backend/onednn/product.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace tessera::detail::onednn_kernels {

/// The three tensors of a convolution: images x, weights w and results y.
struct convolution_data {
  block<float, 4> x;
  block<float, 4> w;
  block<float, 4> y;
};

/// Which of them is computed, from the two others. The data of these are only read.
enum class convolved : index_t { results, images, weights };

/// Padding behind the images that gives these results: 0 where rows are left over by the stride alone, negative where
/// more are to be left out.
constexpr index_t padding_behind(index_t input, index_t output, index_t kernel, index_t stride, index_t dilation,
                                 index_t before) {
  const index_t exact = (output - 1) * stride + dilation * (kernel - 1) + 1 - input - before;
  return exact < 0 && exact + stride > 0 ? 0 : exact;
}

/// One convolution of the library for given extents: images and results channels last, as blocks are, weights in the
/// format that it likes best.
///
/// Weights are brought to that format in each call: a training step reads them once forward and once backward, in two
/// formats, and then changes them. That costs 2 % of the convolutions of ResNet-50 at a batch of 8.
class convolution {
 public:
  /// None where the library has nothing for it but loops: paddings are negative, or the processor has no vector code.
  static std::optional<convolution> make(dnnl::engine const& on, convolved what, convolution_data const& of,
                                         conv2d_geometry const& g) {
    using dims = dnnl::memory::dims;
    const auto pair = [](pair2d const& p) { return dims{p[0], p[1]}; };
    pair2d after;
    for (std::size_t d = 0; d < 2; ++d) {
      const int dim = static_cast<int>(d) + 2;
      after[d] = padding_behind(of.x.extent(dim), of.y.extent(dim), of.w.extent(dim), g.stride[d], g.dilation[d],
                                g.padding_before[d]);
    }
    if (std::min({g.padding_before[0], g.padding_before[1], after[0], after[1]}) < 0) return {};
    const dims stride = pair(g.stride);
    const dims dilation{g.dilation[0] - 1, g.dilation[1] - 1};
    const dims before = pair(g.padding_before);
    const dims behind = pair(after);
    const auto x = images(of.x.extents);
    const auto y = images(of.y.extents);
    const auto ours = weights(of.w.extents, g.groups);
    const dnnl::memory::desc w(weight_dims(of.w.extents, g.groups), element, dnnl::memory::format_tag::any);
    constexpr auto direct = dnnl::algorithm::convolution_direct;
    const auto forward = describe<dnnl::convolution_forward>(on, dnnl::prop_kind::forward_training, direct, x, w, y,
                                                             stride, dilation, before, behind);
    if (!worthwhile(forward)) return {};
    if (what == convolved::results)
      return convolution(on, dnnl::convolution_forward(forward), {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, x,
                         forward.weights_desc(), y, ours, what);
    if (what == convolved::images) {
      const auto gradient = describe_gradient<dnnl::convolution_backward_data>(on, forward, direct, x, w, y, stride,
                                                                               dilation, before, behind);
      if (!worthwhile(gradient)) return {};
      return convolution(on, dnnl::convolution_backward_data(gradient),
                         {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}, x, gradient.weights_desc(), y, ours,
                         what);
    }
    const auto gradient = describe_gradient<dnnl::convolution_backward_weights>(on, forward, direct, x, w, y, stride,
                                                                                dilation, before, behind);
    if (!worthwhile(gradient)) return {};
    return convolution(on, dnnl::convolution_backward_weights(gradient),
                       {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}, x, gradient.diff_weights_desc(), y,
                       ours, what);
  }

  void run(convolution_data const& of, dnnl::stream& stream, eigen_kernels::workspace& scratch) {
    dnnl::memory& w = arguments_.at(names_[1]);
    arguments_.at(names_[0]).set_data_handle(of.x.data);
    arguments_.at(names_[2]).set_data_handle(of.y.data);
    if (!reorders_) {
      w.set_data_handle(of.w.data);
      compute_.execute(stream, arguments_);
    } else {
      ours_.set_data_handle(of.w.data);
      w.set_data_handle(scratch.get<std::byte>(0, weight_bytes_));
      if (makes_weights_) {
        compute_.execute(stream, arguments_);
        reorder_.execute(stream, w, ours_);
      } else {
        reorder_.execute(stream, ours_, w);
        compute_.execute(stream, arguments_);
      }
    }
    stream.wait();
  }

 private:
  static constexpr auto element = dnnl::memory::data_type::f32;

  static dnnl::memory::desc images(shape<4> const& s) {
    return {{s[0], s[1], s[2], s[3]}, element, dnnl::memory::format_tag::nhwc};
  }
  static dnnl::memory::dims weight_dims(shape<4> const& w, index_t groups) {
    if (groups == 1) return {w[0], w[1], w[2], w[3]};
    return {groups, w[0] / groups, w[1], w[2], w[3]};
  }
  /// Weights as blocks have them.
  static dnnl::memory::desc weights(shape<4> const& w, index_t groups) {
    const auto s = strides_of<storage_order::channels_last>(w);
    dnnl::memory::dims strides{s[0], s[1], s[2], s[3]};
    if (groups > 1) strides.insert(strides.begin(), w[0] / groups * s[0]);
    return {weight_dims(w, groups), element, strides};
  }

  convolution(dnnl::engine const& on, dnnl::primitive compute, std::array<int, 3> const& names,
              dnnl::memory::desc const& x, dnnl::memory::desc const& w, dnnl::memory::desc const& y,
              dnnl::memory::desc const& ours, convolved what)
      : compute_(std::move(compute)),
        names_(names),
        ours_(ours, on, nullptr),
        weight_bytes_(static_cast<index_t>(w.get_size())),
        reorders_(w != ours),
        makes_weights_(what == convolved::weights) {
    arguments_.emplace(names[0], dnnl::memory(x, on, nullptr));
    arguments_.emplace(names[1], dnnl::memory(w, on, nullptr));
    arguments_.emplace(names[2], dnnl::memory(y, on, nullptr));
    if (!reorders_) return;
    dnnl::memory& theirs = arguments_.at(names[1]);
    reorder_ = makes_weights_ ? dnnl::reorder(theirs, ours_) : dnnl::reorder(ours_, theirs);
  }

  dnnl::primitive compute_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::array<int, 3> names_;  ///< of x, w and y
  dnnl::memory ours_;         ///< weights as blocks have them
  dnnl::reorder reorder_;
  index_t weight_bytes_;
  bool reorders_;
  bool makes_weights_;
};

/// Whether a convolution is one matrix product of pixels and weights.
inline bool pointwise(convolution_data const& of, conv2d_geometry const& g) {
  return of.w.extent(2) == 1 && of.w.extent(3) == 1 && g.groups == 1 && g.stride == pair2d{1, 1} &&
         g.padding_before == pair2d{0, 0} && of.x.extent(2) == of.y.extent(2) && of.x.extent(3) == of.y.extent(3);
}

/// Such a convolution: no format is better for it than that of the blocks.
inline void multiply_pixels(convolved what, convolution_data const& of) {
  const auto x = as_matrix(of.x);
  const auto y = as_matrix(of.y);
  const block<float, 2> w{of.w.data, {of.w.extent(0), of.w.extent(1)}};
  if (what == convolved::results) return multiply(x, false, w, true, y, false);
  if (what == convolved::images) return multiply(y, false, w, false, x, false);
  multiply(y, true, x, false, w, false);
}

/// The convolutions of one backend, each made when it is first met.
class convolutions {
 public:
  /// Whether it was computed; where it was not, nothing was written.
  bool run(convolved what, convolution_data const& of, conv2d_geometry const& g, eigen_kernels::workspace& scratch) {
    if (of.x.empty() || of.w.empty() || of.y.empty()) return false;
    if (pointwise(of, g)) {
      multiply_pixels(what, of);
      return true;
    }
    auto const& [n, c, h, w] = of.x.extents.extents;
    auto const& [o, i, kh, kw] = of.w.extents.extents;
    const key of_call{static_cast<index_t>(what),
                      n,
                      c,
                      h,
                      w,
                      o,
                      i,
                      kh,
                      kw,
                      of.y.extent(2),
                      of.y.extent(3),
                      g.stride[0],
                      g.stride[1],
                      g.dilation[0],
                      g.dilation[1],
                      g.padding_before[0],
                      g.padding_before[1],
                      g.groups};
    auto found = made_.find(of_call);
    if (found == made_.end()) {
      if (made_.size() == most_kept) made_.clear();
      found = made_.emplace(of_call, convolution::make(engine_, what, of, g)).first;
    }
    if (!found->second) return false;
    found->second->run(of, stream_, scratch);
    make_progress();
    return true;
  }
  /// Forgets what was made, as for another number of threads.
  void clear() { made_.clear(); }

 private:
  using key = std::array<index_t, 18>;
  static constexpr std::size_t most_kept = 1024;

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<key, std::optional<convolution>> made_;
};

}  // namespace tessera::detail::onednn_kernels
