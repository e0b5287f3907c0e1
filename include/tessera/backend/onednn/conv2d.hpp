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

/// The same in height and width.
inline pair2d padding_behind(convolution_data const& of, conv2d_geometry const& g) {
  pair2d behind;
  for (std::size_t d = 0; d < 2; ++d) {
    const int dim = static_cast<int>(d) + 2;
    behind[d] = padding_behind(of.x.extent(dim), of.y.extent(dim), of.w.extent(dim), g.stride[d], g.dilation[d],
                               g.padding_before[d]);
  }
  return behind;
}

/// Whether Winograd's method (A. Lavin and S. Gray, CVPR 2016), tiles of 4 x 4 results from 36 products instead of 144,
/// takes less time, with images brought to the library's format and back: 3 x 3 windows that touch, and enough tiles to
/// make up for the weights, which it transforms in each call. Padding is the same on both sides: with other padding the
/// library's input gradient is wrong (2.6.3).
inline bool winograd_pays(convolution_data const& of, conv2d_geometry const& g) {
  constexpr pair2d one{1, 1};
  if (of.w.extent(2) != 3 || of.w.extent(3) != 3 || g.groups != 1 || g.stride != one || g.dilation != one) return false;
  if (padding_behind(of, g) != g.padding_before) return false;
  // Of fewer results a side most of a tile is thrown away, and errors weigh more.
  if (std::min(of.y.extent(2), of.y.extent(3)) < 4) return false;
  const index_t tiles = of.y.extent(0) * ((of.y.extent(2) + 3) / 4) * ((of.y.extent(3) + 3) / 4);
  return std::min(of.w.extent(0), of.w.extent(1)) >= 32 && tiles >= 64;
}

/// One convolution of the library for given extents: images and results channels last, as blocks are, weights in the
/// format that it likes best.
///
/// Weights are brought to that format in each call: a training step reads them once forward and once backward, in two
/// formats, and then changes them. That costs 2 % of the convolutions of ResNet-50 at a batch of 8. By Winograd's
/// method images and results are too.
class convolution {
 public:
  /// None where the library has nothing for it but loops: paddings are negative, or the processor has no vector code.
  static std::optional<convolution> make(dnnl::engine const& on, convolved what, convolution_data const& of,
                                         conv2d_geometry const& g, bool winograd) {
    const pair2d behind = padding_behind(of, g);
    if (std::min({g.padding_before[0], g.padding_before[1], behind[0], behind[1]}) < 0) return {};
    if (winograd && winograd_pays(of, g))
      if (auto made = make(on, what, of, g, behind, dnnl::algorithm::convolution_winograd, format::any)) return made;
    return make(on, what, of, g, behind, dnnl::algorithm::convolution_direct, format::nhwc);
  }

  void run(convolution_data const& of, dnnl::stream& stream, eigen_kernels::workspace& scratch) {
    float* const data[] = {of.x.data, of.w.data, of.y.data};
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      tensor_of_call& t = tensors_[i];
      t.ours.set_data_handle(data[i]);
      dnnl::memory& theirs = arguments_.at(t.name);
      theirs.set_data_handle(t.reorders ? scratch.get<std::byte>(static_cast<int>(i), t.bytes)
                                        : static_cast<void*>(data[i]));
      if (t.reorders && i != result_) t.reorder.execute(stream, t.ours, theirs);
    }
    compute_.execute(stream, arguments_);
    tensor_of_call& result = tensors_[result_];
    if (result.reorders) result.reorder.execute(stream, arguments_.at(result.name), result.ours);
    stream.wait();
  }

 private:
  using format = dnnl::memory::format_tag;
  static constexpr auto element = dnnl::memory::data_type::f32;

  static dnnl::memory::desc images(shape<4> const& s, format order) {
    return {{s[0], s[1], s[2], s[3]}, element, order};
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

  /// By one method, images in one format: none where the library does not have that.
  static std::optional<convolution> make(dnnl::engine const& on, convolved what, convolution_data const& of,
                                         conv2d_geometry const& g, pair2d const& padding_after,
                                         dnnl::algorithm method, format order) {
    using dims = dnnl::memory::dims;
    const auto pair = [](pair2d const& p) { return dims{p[0], p[1]}; };
    const dims stride = pair(g.stride);
    const dims dilation{g.dilation[0] - 1, g.dilation[1] - 1};
    const dims before = pair(g.padding_before);
    const dims behind = pair(padding_after);
    const auto x = images(of.x.extents, order);
    const auto y = images(of.y.extents, order);
    const dnnl::memory::desc w(weight_dims(of.w.extents, g.groups), element, format::any);
    const std::array<dnnl::memory::desc, 3> ours{images(of.x.extents, format::nhwc), weights(of.w.extents, g.groups),
                                                 images(of.y.extents, format::nhwc)};
    const auto forward = describe<dnnl::convolution_forward>(on, dnnl::prop_kind::forward_training, method, x, w, y,
                                                             stride, dilation, before, behind);
    if (!worthwhile(forward)) return {};
    if (what == convolved::results)
      return convolution(on, forward, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, ours, 2);
    if (what == convolved::images) {
      const auto gradient = describe_gradient<dnnl::convolution_backward_data>(on, forward, method, x, w, y, stride,
                                                                               dilation, before, behind);
      if (!worthwhile(gradient)) return {};
      return convolution(on, gradient, {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}, ours, 0);
    }
    const auto gradient = describe_gradient<dnnl::convolution_backward_weights>(on, forward, method, x, w, y, stride,
                                                                                dilation, before, behind);
    if (!worthwhile(gradient)) return {};
    return convolution(on, gradient, {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}, ours, 1);
  }

  /// `names` are those of x, w and y as arguments, `ours` their formats as blocks have them.
  convolution(dnnl::engine const& on, dnnl::primitive_desc const& description, std::array<int, 3> const& names,
              std::array<dnnl::memory::desc, 3> const& ours, std::size_t result)
      : compute_(description), result_(result) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      tensor_of_call& t = tensors_[i];
      const dnnl::memory::desc theirs = description.query_md(dnnl::query::exec_arg_md, names[i]);
      t.name = names[i];
      t.ours = dnnl::memory(ours[i], on, nullptr);
      t.bytes = static_cast<index_t>(theirs.get_size());
      t.reorders = theirs != ours[i];
      dnnl::memory& in_call = arguments_.emplace(names[i], dnnl::memory(theirs, on, nullptr)).first->second;
      if (t.reorders) t.reorder = i == result ? dnnl::reorder(in_call, t.ours) : dnnl::reorder(t.ours, in_call);
    }
  }

  /// One of x, w and y.
  struct tensor_of_call {
    int name = 0;       ///< as an argument of the primitive
    dnnl::memory ours;  ///< as blocks have it
    dnnl::reorder reorder;
    index_t bytes = 0;  ///< in the primitive's format
    bool reorders = false;
  };
  dnnl::primitive compute_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::array<tensor_of_call, 3> tensors_;
  std::size_t result_;
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
      found = made_.emplace(of_call, convolution::make(engine_, what, of, g, winograd_)).first;
    }
    if (!found->second) return false;
    found->second->run(of, stream_, scratch);
    make_progress();
    return true;
  }
  /// Forgets what was made, as for another number of threads.
  void clear() { made_.clear(); }
  /// Whether Winograd's method may be taken.
  void use_winograd(bool use) {
    if (use != winograd_) made_.clear();
    winograd_ = use;
  }

 private:
  using key = std::array<index_t, 18>;
  static constexpr std::size_t most_kept = 1024;

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<key, std::optional<convolution>> made_;
  bool winograd_ = true;
};

}  // namespace tessera::detail::onednn_kernels
