#pragma once

#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/chain.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/layer/residual.hpp>
#include <tessera/model/repeated.hpp>

namespace tessera::detail {

/// A 1x1 convolution with batch norm that brings the input to the channels and size of the branch.
template <int In, int Out, int Stride, mesh_axis... Tp>
struct resnet_projection : chain<conv2d<In, Out, window<1, Stride>, no_bias, tessera::split_if<split_output, Tp...>>,
                                 batch_norm2d<Out>, whole_along<Tp...>> {};
template <int In, int Out, int Stride, mesh_axis... Tp>
using resnet_shortcut =
    std::conditional_t<In == Out && Stride == 1, identity, resnet_projection<In, Out, Stride, Tp...>>;

}  // namespace tessera::detail

/// Residual networks (K. He, X. Zhang, S. Ren and J. Sun, CVPR 2016). `Tp...` are the mesh axes that split channels;
/// with none the model is serial or purely data parallel.
namespace tessera::model {

/// y = relu(s(x) + bn(conv(relu(bn(conv(x)))))), 3x3 convolutions to Width channels, the first with the stride. The
/// shortcut s is the input itself, or a 1x1 convolution with batch norm where the size or number of channels changes.
///
/// With axes, the first convolution is cut by output channels and the second by input channels, so that what is between
/// them is cut too: one all_reduce forward and one backward (M. Shoeybi et al., "Megatron-LM", 2019, for matrices). The
/// shortcut's convolution is cut by output channels and gathered.
template <int In, int Width, int Stride, mesh_axis... Tp>
struct basic_block
    : chain<residual<chain<conv2d<In, Width, window<3, Stride, 1>, no_bias, split_if<split_output, Tp...>>,
                           batch_norm2d<Width>, relu,
                           conv2d<Width, Width, window<3, 1, 1>, no_bias, split_if<split_input, Tp...>>,
                           batch_norm2d<Width>>,
                     tessera::detail::resnet_shortcut<In, Width, Stride, Tp...>>,
            relu> {};

/// The block that keeps size and number of channels.
template <int C, mesh_axis... Tp>
struct residual_block : basic_block<C, C, 1, Tp...> {};

/// A 3x3 convolution with batch norm and relu, cut by output channels and gathered once at the end.
template <int In, int Out, int Stride, mesh_axis... Tp>
struct conv_unit : chain<conv2d<In, Out, window<3, Stride, 1>, no_bias, split_if<split_output, Tp...>>,
                         batch_norm2d<Out>, relu, whole_along<Tp...>> {};

/// A small residual network for 28 x 28 grey images: 121,274 parameters for 10 classes.
///
/// With axes the classes are cut too, as `cross_entropy` likes them.
template <int Classes, mesh_axis... Tp>
struct resnet_small : chain<conv_unit<1, 16, 1, Tp...>, max_pool2d<window<2, 2>>, residual_block<16, Tp...>,
                            conv_unit<16, 32, 2, Tp...>, residual_block<32, Tp...>, conv_unit<32, 64, 2, Tp...>,
                            residual_block<64, Tp...>, global_avg_pool<>, flatten<>,
                            linear<64, Classes, split_if<split_output, Tp...>>> {};

/// How the first layers of a residual network make features of an image: a 7x7 convolution of stride 2 and a max
/// pooling of stride 2, for large images; or a 3x3 convolution alone, for images of about 32 x 32 pixels.
template <int Channels, int Width, mesh_axis... Tp>
struct large_image_stem : chain<conv2d<Channels, Width, window<7, 2, 3>, no_bias, split_if<split_output, Tp...>>,
                                batch_norm2d<Width>, relu, max_pool2d<window<3, 2, 1>>, whole_along<Tp...>> {};
template <int Channels, int Width, mesh_axis... Tp>
struct small_image_stem : conv_unit<Channels, Width, 1, Tp...> {};

/// The same of a 1x1 convolution to Width channels, a 3x3 one, which has the stride (torchvision's choice; the paper's
/// is the first convolution), and a 1x1 one to 4 * Width channels.
///
/// With axes, the first two convolutions are cut by output channels and the last by input channels: one all_gather and
/// one all_reduce forward, one reduce_scatter and one all_reduce backward.
template <int In, int Width, int Stride, mesh_axis... Tp>
struct bottleneck_block
    : chain<residual<chain<conv2d<In, Width, window<1>, no_bias, split_if<split_output, Tp...>>, batch_norm2d<Width>,
                           relu, conv2d<Width, Width, window<3, Stride, 1>, no_bias, split_if<split_output, Tp...>>,
                           batch_norm2d<Width>, relu,
                           conv2d<Width, 4 * Width, window<1>, no_bias, split_if<split_input, Tp...>>,
                           batch_norm2d<4 * Width>>,
                     tessera::detail::resnet_shortcut<In, 4 * Width, Stride, Tp...>>,
            relu> {};

/// The two kinds of blocks, by their channels at the end for each of their width.
struct basic {
  static constexpr int expansion = 1;
  template <int In, int Width, int Stride, mesh_axis... Tp>
  using block = basic_block<In, Width, Stride, Tp...>;
};
struct bottleneck {
  static constexpr int expansion = 4;
  template <int In, int Width, int Stride, mesh_axis... Tp>
  using block = bottleneck_block<In, Width, Stride, Tp...>;
};

/// `Count` blocks of one width; the first has the stride and takes In channels.
template <class Kind, int Count, int In, int Width, int Stride, mesh_axis... Tp>
struct stage : tessera::detail::blocks_between<
                   tessera::detail::some_layers<typename Kind::template block<In, Width, Stride, Tp...>>,
                   typename Kind::template block<Kind::expansion * Width, Width, 1, Tp...>,
                   std::make_integer_sequence<int, Count - 1>, tessera::detail::some_layers<>>::type {};

/// The four stages of a residual network of A, B, C and D blocks, on the `Width` channels of a stem; then the mean over
/// the image, and classes, which are cut too with axes.
template <class Stem, class Kind, int A, int B, int C, int D, int Width, int Classes, mesh_axis... Tp>
struct resnet
    : chain<Stem, stage<Kind, A, Width, Width, 1, Tp...>, stage<Kind, B, Kind::expansion * Width, 2 * Width, 2, Tp...>,
            stage<Kind, C, Kind::expansion * 2 * Width, 4 * Width, 2, Tp...>,
            stage<Kind, D, Kind::expansion * 4 * Width, 8 * Width, 2, Tp...>, global_avg_pool<>, flatten<>,
            linear<Kind::expansion * 8 * Width, Classes, split_if<split_output, Tp...>>> {
  using kind = Kind;
  static constexpr int blocks[4] = {A, B, C, D};
};

/// ResNet-18 and ResNet-50 of torchvision for colour images, there of 224 x 224 pixels and 1000 classes: 11,689,512 and
/// 25,557,032 parameters. Those `_of_width` have another number of features than 64 after the stem.
template <int Width, int Classes, mesh_axis... Tp>
struct resnet18_of_width : resnet<large_image_stem<3, Width, Tp...>, basic, 2, 2, 2, 2, Width, Classes, Tp...> {};
template <int Width, int Classes, mesh_axis... Tp>
struct resnet50_of_width : resnet<large_image_stem<3, Width, Tp...>, bottleneck, 3, 4, 6, 3, Width, Classes, Tp...> {};
template <int Classes, mesh_axis... Tp>
struct resnet18 : resnet18_of_width<64, Classes, Tp...> {};
template <int Classes, mesh_axis... Tp>
struct resnet50 : resnet50_of_width<64, Classes, Tp...> {};

}  // namespace tessera::model
