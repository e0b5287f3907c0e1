#pragma once

#include "policies.hpp"
#include "transformer_case.hpp"

#include <tessera/train/trainer.hpp>

/// The reference transformer block in halves that policies can be put around.
namespace policies {

/// The mean over all elements of the squares of what is missing to a target.
struct mean_square {
  template <sharded_tensor Y>
  class result {
   public:
    result(Y const& y, golden::array const& target) : missing_(y.where(), y.extents()) {
      const auto wanted = golden::put<float, 3, typename Y::layout_type>(y.where(), target);
      const auto into = missing_.write();
      for (index_t i = 0; i < into.size(); ++i) {
        into.data[i] = y.read().data[i] - wanted.read().data[i];
        loss_ += static_cast<double>(into.data[i]) * static_cast<double>(into.data[i]);
      }
      constexpr axis_set cut = Y::placements.axes_of(placement_kind::shard);
      if (Y::mesh::group_size(cut) > 1) y.where().group(cut).all_reduce(&loss_, 1, reduction::sum);
      loss_ /= divisor();
    }
    double loss() const { return loss_; }
    double divisor() const { return static_cast<double>(missing_.extents().size()); }
    Y backward(double scale = 1) const {
      Y dy(missing_.where(), missing_.extents());
      const auto into = dy.write();
      for (index_t i = 0; i < into.size(); ++i)
        into.data[i] = static_cast<float>(2 * scale / divisor()) * missing_.read().data[i];
      return dy;
    }

   private:
    Y missing_;
    double loss_ = 0;
  };
  template <sharded_tensor Y>
  result<Y> operator()(Y const& y, golden::array const& target) const {
    return {y, target};
  }
};

/// The halves of the block, cut by heads and in the wide layer where there is an axis.
template <class... Tp>
using attention = residual<chain<layer_norm<32>, multi_head_attention<32, 4, split_if<split_heads, Tp...>>>>;
template <class... Tp>
using wide = residual<chain<layer_norm<32>, linear<32, 128, split_if<split_output, Tp...>>, gelu,
                            linear<128, 32, split_if<split_input, Tp...>>>>;
template <class... Tp>
using both_halves = chain<attention<Tp...>, wide<Tp...>>;
template <class... Tp>
using staged = chain<stage<0>, attention<Tp...>, stage<1>, wide<Tp...>>;
template <class... Tp>
using recomputed = chain<recompute<attention<Tp...>>, recompute<wide<Tp...>>>;

/// Trains the block of the case under policies and compares losses and parameters.
template <class Mesh, class Model, class... Policies>
void check_transformer(golden::test_case const& t, char const* name, int parts = 1, options const& choice = {}) {
  if (worlds::size() != Mesh::devices) return;
  golden::trial trial(t, {"float", Mesh::devices, name});
  whole_model<parallel<both_halves<>, input<dynamic, 16, 32>>> whole;
  whole.net.for_each_parameter([&](std::string const& place, auto& value) {
    auto const& start = t[transformer_case::given_name(place)];
    for (index_t i = 0; i < value.read().size(); ++i)
      value.write().data[i] = static_cast<float>(start.values[static_cast<std::size_t>(i)]);
  });
  whole.save();
  const auto losses = train<parallel<Model, input<dynamic, 16, 32>, Policies...>, Mesh, 3>(
      whole, t["x"], parts, static_cast<index_t>(t.given.number("steps")), mean_square{}, adam{t.given.number("lr")},
      choice, [&](auto&, interval part) { return rows(t["target"], part); });
  trial.expect("losses", t["losses"].extents, losses);
  whole.load();
  transformer_case::expect_final(trial, whole.net);
}

/// Calls `f(case)` for each case of the block.
template <class F>
void for_transformers(F f) {
  golden::run("transformer_block", [&](golden::teams&, golden::test_case const& t) {
    f(t);
    return true;
  });
}

}  // namespace policies
