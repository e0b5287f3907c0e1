#pragma once

#include <tessera/layer/activation.hpp>
#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/multi_head_attention.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/plan/collectives.hpp>

/// The split layers whose bytes are compared with those of other systems, and how bytes are counted.
namespace split_layers {

using namespace tessera;
using tessera::index_t;

struct x : axis<8> {};
using line = mesh<x>;
struct dp : axis<2> {};
struct tp : axis<4> {};
using grid = mesh<dp, tp>;

/// A layer that learns and sends nothing: those after it hand the gradient of their input on, and it asks for no
/// message that they would not make anyway.
struct first_layer {
  using words = split_words<>;
  struct weight : parameter<zeros, 1> {
    static constexpr std::string_view name = "weight";
  };
  using parameters = parameter_list<weight>;
  template <auto Extents>
  static constexpr index_rules rules() {
    constexpr std::string_view specs[] = {"nc,o->nc", "nch,o->nch", "nchw,o->nchw"};
    index_rules r(specs[Extents.rank - 2], {});
    for (int d = 0; d < Extents.rank; ++d) r.cuts[r.count++] = {r.text[d], "any", true, true};
    return r;
  }
  template <auto Extents>
  static constexpr auto output() {
    return Extents;
  }
};

/// A step of training of layers whose input and output have the layout `Edge`, in one message for all gradients that
/// are reduced over the same axes.
template <class Input, class Edge, class... Layers>
using step = parallel<chain<Edge, first_layer, Layers..., Edge>, Input, fuse::all>;

/// Bytes that a device receives in a collective of a group, whose buffer has so many, where it is a ring on n devices:
/// an all-reduce 2 (n - 1) / n of them, an all-gather or reduce-scatter (n - 1) / n of the whole one.
constexpr index_t received(collective kind, int devices, index_t bytes) {
  switch (kind) {
    case collective::all_reduce: return 2 * bytes * (devices - 1) / devices;
    case collective::all_gather:
    case collective::reduce_scatter: return bytes * (devices - 1) / devices;
    default: return bytes;
  }
}
/// The same of call `i` of a list of a model whose extents are all static, on the device that receives most.
template <class Model, device_mesh Mesh>
constexpr index_t received(collective_list<Model, Mesh> const& list, int i) {
  return received(list[i].kind, Mesh::group_size(list[i].group), list.bytes(i, 1));
}

/// The messages of matrices that are cut along `Axis` too, in their last dimension that no axis cuts: each is brought
/// to the layout that its layer takes by `redistribute` (forward), and its gradient back (gradient).
template <class Model, device_mesh Mesh, class Axis>
constexpr call_list<Mesh::axes> fully_sharded_calls() {
  call_list<Mesh::axes> calls;
  for (auto const& p : plan<Model, Mesh>::trainable()) {
    if (p.rank < 2) continue;
    shape<max_rank> extents;
    for (int d = 0; d < max_rank; ++d) extents[d] = d < p.rank ? p.extents[d] : 1;
    int last = p.rank - 1;
    while (p.layout.cuts(last) > 0) --last;
    auto cut = p.layout;
    cut[Mesh::template index_of<Axis>] = shard_placement(last, 0);
    append_route<Mesh>(calls, phase::forward, extents, cut, p.layout);
    append_route<Mesh>(calls, phase::gradient, extents, p.gradient, cut);
  }
  return calls;
}

// Activations [8, 128, 512] of a Transformer: whole along tp, cut by positions, cut by features.
using sequences = input<8, 128, 512>;
using whole = shard<0, dp>;
using by_position = layout<shard<0, dp>, shard<1, tp>>;
using by_feature = layout<shard<0, dp>, shard<2, tp>>;

using feed_forward = chain<linear<512, 2048, split_output<tp>>, gelu, linear<2048, 512, split_input<tp>>>;
using attention = multi_head_attention<512, 8, no_bias, split_heads<tp>>;
/// Of which `Before` brings the input to the layout in which it is normalised.
template <class... Before>
using transformer = chain<residual<chain<Before..., layer_norm<512>, attention>>,
                          residual<chain<Before..., layer_norm<512>, feed_forward>>>;

template <class Edge>
using mlp_step = step<sequences, Edge, feed_forward>;
template <class Edge>
using attention_step = step<sequences, Edge, attention>;
template <class Edge, class... Before>
using transformer_step = step<sequences, Edge, transformer<Before...>>;
using embedding_step =
    parallel<chain<embedding<8192, 512, split_vocabulary<tp>>, whole>, input<8, 128>, data_parallel<dp>, fuse::all>;

template <class Edge>
using conv_step = step<input<32, 64, 64, 64>, Edge, conv2d<64, 64, window<3, 1, 1>, no_bias>>;
template <class Edge>
using max_pool_step = step<input<32, 64, 64, 64>, Edge, max_pool2d<window<3, 2, 1>>>;
template <class Edge>
using batch_norm_step = step<input<64, 64, 32, 32>, Edge, batch_norm2d<64>>;
template <class Edge>
using layer_norm_step = step<input<1024, 1024>, Edge, layer_norm<1024>>;

/// Images [256, 3, 224, 224] into ResNet-50.
template <class Edge>
using resnet50_step = parallel<chain<Edge, model::resnet50<1000>>, input<256, 3, 224, 224>, fuse::all>;

}  // namespace split_layers
