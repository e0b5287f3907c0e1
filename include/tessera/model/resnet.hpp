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

/// Residual networks (K. He, X. Zhang, S. Ren and J. Sun, CVPR 2016). `Tp...` are the mesh axes that split channels;
/// with none the model is serial or purely data parallel.
namespace tessera::model {

/// y = relu(x + bn(conv(relu(bn(conv(x)))))), 3x3 convolutions of C channels.
///
/// With axes, the first convolution is cut by output channels and the second by input channels, so that what is between
/// them is cut too: one all_reduce forward and one backward (M. Shoeybi et al., "Megatron-LM", 2019, for matrices).
template <int C, mesh_axis... Tp>
struct residual_block
    : chain<residual<chain<conv2d<C, C, window<3, 1, 1>, no_bias, split_if<split_output, Tp...>>, batch_norm2d<C>, relu,
                           conv2d<C, C, window<3, 1, 1>, no_bias, split_if<split_input, Tp...>>, batch_norm2d<C>>>,
            relu> {};

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

}  // namespace tessera::model
