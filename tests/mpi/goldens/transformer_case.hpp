#pragma once

#include "support/golden_worlds.hpp"

#include <tessera/layer/activation.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/multi_head_attention.hpp>
#include <tessera/layer/residual.hpp>

/// The reference case of a transformer block: its model, and its names for parameters.
namespace transformer_case {

using namespace tessera;
using tessera::index_t;

/// The block of the case, before it a layout word, and the words that split its heads and its wide layer.
template <class Before, class Heads = no_split, class Up = no_split, class Down = no_split>
struct block_model : chain<Before, residual<chain<layer_norm<32>, multi_head_attention<32, 4, Heads>>>,
                           residual<chain<layer_norm<32>, linear<32, 128, Up>, gelu, linear<128, 32, Down>>>> {};

/// Names of the case for those of the model.
inline std::string given_name(std::string const& name) {
  static std::map<std::string, std::string> const names{{"0.branch.0.weight", "ln1_weight"},
                                                        {"0.branch.0.bias", "ln1_bias"},
                                                        {"0.branch.1.in_proj_weight", "attn_in_proj_weight"},
                                                        {"0.branch.1.in_proj_bias", "attn_in_proj_bias"},
                                                        {"0.branch.1.out_proj_weight", "attn_out_proj_weight"},
                                                        {"0.branch.1.out_proj_bias", "attn_out_proj_bias"},
                                                        {"1.branch.0.weight", "ln2_weight"},
                                                        {"1.branch.0.bias", "ln2_bias"},
                                                        {"1.branch.1.weight", "fc1_weight"},
                                                        {"1.branch.1.bias", "fc1_bias"},
                                                        {"1.branch.3.weight", "fc2_weight"},
                                                        {"1.branch.3.bias", "fc2_bias"}};
  return names.at(name);
}

/// An array with the extents of a tensor that holds its elements in the same order.
template <int Rank>
golden::array shaped(golden::array a, shape<Rank> const& extents) {
  a.extents.assign(extents.extents.begin(), extents.extents.end());
  return a;
}

template <class Network>
void expect_final(golden::trial& t, Network& net) {
  net.for_each_parameter([&](std::string const& name, auto const& value) {
    const std::string as = given_name(name);
    const auto found = golden::values_of(value);
    if (as != "attn_in_proj_bias") return t.expect("final_" + as, t["final_" + as].extents, found);
    // The gradient of the bias of keys is zero up to rounding, so its steps have any sign.
    t.expect("final_attn_in_proj_bias_q", {32}, {found.begin(), found.begin() + 32});
    t.expect("final_attn_in_proj_bias_v", {32}, {found.end() - 32, found.end()});
  });
}

}  // namespace transformer_case
