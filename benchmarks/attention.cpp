// Self-attention of 2 samples with 1024 positions in 8 heads of 64, and its gradient, cut by heads (no messages) and by
// positions: then keys and values travel while ranks work (a ring). By hand all scores of a head are in memory, forward
// keeps the probabilities for backward, and under a cut of positions keys and values are gathered first, their
// gradients summed afterwards.

#include "support/heads.hpp"

#include <tessera/op/attention.hpp>

#include <algorithm>
#include <cmath>

namespace {

using namespace comparison;

constexpr ts::shape<5> extents{{2, 1024, 3, 8, 64}};
constexpr ts::index_t width = extents[4];

/// What forward leaves for backward.
struct kept {
  std::vector<matrix> probabilities;
  array keys_values;  // [B, S, 2, H, D] of all ranks, where positions are cut
};

/// The keys and values of all positions: whole samples, ranks in order.
template <int Ranks, class X>
void gather_positions(X const& qkv, array& all) {
  const auto e = qkv.local().extents();
  const ts::index_t row = 2 * e[3] * width;
  array own(e[1] * row);
  all.resize(e[0] * Ranks * e[1] * row);
  for (ts::index_t b = 0; b < e[0]; ++b) {
    for (ts::index_t s = 0; s < e[1]; ++s)
      std::copy_n(qkv.read().data + ((b * e[1] + s) * 3 + 1) * e[3] * width, row, own.data() + s * row);
    MPI_Allgather(own.data(), static_cast<int>(own.size()), MPI_FLOAT, all.data() + b * Ranks * own.size(),
                  static_cast<int>(own.size()), MPI_FLOAT, MPI_COMM_WORLD);
  }
}

/// Calls `f(number, q, k, v, place of q, place of k and v)` for each head of each sample of this rank.
template <class X, class F>
void for_each_head(X const& qkv, kept const& all, F f) {
  const auto e = qkv.local().extents();
  const bool gathered = all.keys_values.size() > 0;
  const ts::index_t keys = gathered ? extents[1] : e[1];
  const ts::index_t projections = gathered ? 2 : 3;
  float const* from = gathered ? all.keys_values.data() : qkv.read().data + e[3] * width;
  const head_stride query(3 * e[3] * width);
  const head_stride key(projections * e[3] * width);
  for (ts::index_t b = 0; b < e[0]; ++b)
    for (ts::index_t h = 0; h < e[3]; ++h) {
      const ts::index_t q = b * e[1] * 3 * e[3] * width + h * width;
      const ts::index_t k = b * keys * projections * e[3] * width + h * width;
      f(b * e[3] + h, const_head(qkv.read().data + q, e[1], width, query), const_head(from + k, keys, width, key),
        const_head(from + k + e[3] * width, keys, width, key), q, k);
    }
}

template <class Layout, int Ranks>
void add_split(std::string const& name, team<Ranks>& where) {
  constexpr bool ring = Ranks > 1 && ts::placements_of<ts::mesh<ranks<Ranks>>, Layout>.shard_axes(1) != 0;
  const auto forward_by_hand = [](auto const& qkv, kept& all, array& y) {
    const auto e = qkv.local().extents();
    if (ring) gather_positions<Ranks>(qkv, all.keys_values);
    all.probabilities.resize(static_cast<std::size_t>(e[0] * e[3]));
    for_each_head(qkv, all,
                  [&](ts::index_t i, auto const& q, auto const& k, auto const& v, ts::index_t at, ts::index_t) {
                    const ts::index_t sample = i / e[3] * e[1] * e[3] * width;
                    attend(q, k, v, all.probabilities[static_cast<std::size_t>(i)],
                           head(y.data() + sample + at % (e[3] * width), e[1], width, head_stride(e[3] * width)));
                  });
  };
  const auto prepare = [=, &where] {
    auto qkv = numbers<Layout>(where, extents, 1);
    auto result = ts::op::scaled_dot_product_attention(qkv);
    auto by_hand = std::make_shared<kept>();
    array y(result.out.local().size());
    forward_by_hand(qkv, *by_hand, y);
    ts::shape<5> out = extents;
    out[2] = 1;
    return std::tuple(std::move(qkv), std::move(result), numbers<Layout>(where, out, 2), std::move(by_hand));
  };
  add_operator(
      name + "_forward", prepare,
      [](auto const& qkv, auto const&...) { return ts::op::scaled_dot_product_attention(qkv).out; },
      [=](arrays& out, auto const& qkv, auto const&, auto const&, auto const& by_hand) {
        forward_by_hand(qkv, *by_hand, out[0]);
      });
  add_operator(
      name + "_backward", prepare,
      [](auto const& qkv, auto const& result, auto const& dy, auto const&) {
        return ts::op::scaled_dot_product_attention_backward(qkv, result, dy);
      },
      [](arrays& out, auto const& qkv, auto const&, auto const& dy, auto const& by_hand) {
        const auto e = qkv.local().extents();
        kept const& all = *by_hand;
        array sums(all.keys_values.size());
        float* const gradients = ring ? sums.data() : out[0].data() + e[3] * width;
        const ts::index_t keys = ring ? extents[1] : e[1];
        const head_stride query(3 * e[3] * width);
        const head_stride key((ring ? 2 : 3) * e[3] * width);
        for_each_head(
            qkv, all,
            [&](ts::index_t i, auto const& q, auto const& k, auto const& v, ts::index_t at, ts::index_t key_at) {
              const ts::index_t sample = i / e[3] * e[1] * e[3] * width;
              attend_backward(
                  q, k, v, all.probabilities[static_cast<std::size_t>(i)],
                  const_head(dy.read().data + sample + at % (e[3] * width), e[1], width, head_stride(e[3] * width)),
                  head(out[0].data() + at, e[1], width, query), head(gradients + key_at, keys, width, key),
                  head(gradients + key_at + e[3] * width, keys, width, key));
            });
        if (!ring) return;
        const ts::index_t row = 2 * e[3] * width;
        array own(e[1] * row);
        for (ts::index_t b = 0; b < e[0]; ++b) {
          MPI_Reduce_scatter_block(sums.data() + b * keys * row, own.data(), static_cast<int>(own.size()), MPI_FLOAT,
                                   MPI_SUM, MPI_COMM_WORLD);
          for (ts::index_t s = 0; s < e[1]; ++s)
            std::copy_n(own.data() + s * row, row, out[0].data() + ((b * e[1] + s) * 3 + 1) * e[3] * width);
        }
      });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    using axis = ranks<Ranks>;
    add_split<ts::shard<3, axis>>("attention/heads", where);
    add_split<ts::shard<1, axis>>("attention/positions", where);
  });
}
