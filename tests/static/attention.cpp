// The collectives of split attention, pinned while compiling.

#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/multi_head_attention.hpp>
#include <tessera/plan/collectives.hpp>

namespace {

using namespace tessera;

struct dp : axis<2> {};
struct tp : axis<4> {};
using world = mesh<dp, tp>;
constexpr axis_set along_tp = world::set_of<tp>;

template <class... Layers>
using model = parallel<chain<linear<16, 16>, Layers..., linear<16, 4>>, input<dynamic, 12, 16>, data_parallel<dp>>;

// Heads cut: one all-reduce of the activations forward, one backward.
constexpr collective_list<model<multi_head_attention<16, 8, split_heads<tp>>>, world> heads;
static_assert(heads.count(phase::forward) == 1 && heads.count(phase::backward) == 1);
static_assert(heads[0].kind == collective::all_reduce && heads[0].group == along_tp);
static_assert(heads[1].kind == collective::all_reduce && heads[1].group == along_tp);
static_assert(heads.bytes(0, 32) == 16 * 12 * 16 * 4 && heads.bytes(1, 32) == 16 * 12 * 16 * 4);

// Positions cut before and after: one all-gather and one reduce-scatter each way, and nothing else.
using positions = layout<shard<0, dp>, shard<1, tp>>;
using positions_between = parallel<chain<positions, linear<16, 16>, layer_norm<16>,
                                         multi_head_attention<16, 8, split_heads<tp>>, positions, linear<16, 4>>,
                                   input<dynamic, 12, 16>, data_parallel<dp>>;
constexpr collective_list<positions_between, world> between;
static_assert(between.count(phase::forward) == 2 && between.count(phase::backward) == 2);
static_assert(between[0].kind == collective::all_gather && between[0].group == along_tp);
static_assert(between[1].kind == collective::reduce_scatter && between[1].group == along_tp);
static_assert(between[2].kind == collective::all_gather && between[2].group == along_tp);
static_assert(between[3].kind == collective::reduce_scatter && between[3].group == along_tp);

// A ring: the blocks of the three other ranks, 3 positions of 16 keys and values each; a causal mask halves them.
constexpr collective_list<model<positions, multi_head_attention<16, 8>>, world> ring;
constexpr collective_list<model<positions, multi_head_attention<16, 8, causal, split_sequence<tp>>>, world> causal_ring;
static_assert(ring.count(phase::forward) == 1 && ring[0].kind == collective::ring && ring[0].group == along_tp);
static_assert(ring.count(collective::ring) == 2);
static_assert(ring.elements(0, 2, {0, 2}) == 3 * (3 * 2 * 16));
static_assert(causal_ring.elements(0, 2, {0, 0}) == 0);
static_assert(causal_ring.elements(0, 2, {0, 2}) == 2 * (3 * 2 * 16));
static_assert(causal_ring.elements(0, 2, {0, 3}) == 3 * (3 * 2 * 16));

}  // namespace
