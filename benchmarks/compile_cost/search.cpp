// A search for the splits of a large model on 2 x 4 devices (SEARCHED=1), or that model alone, to be taken off it
// (SEARCHED=0). MODEL: resnet50, gpt24 or gpt96.

#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/auto_parallel.hpp>

namespace ts = tessera;

struct outer : ts::axis<2> {};
struct inner : ts::axis<4> {};
using world = ts::mesh<outer, inner>;

// Two groups of 4 devices.
struct groups {
  static constexpr ts::machine_description about{
      .peak = {.float64 = 0, .float32 = 1e13, .float16 = 2.5e14, .bfloat16 = 0},
      .reachable = 0.5,
      .half = 1e9,
      .bytes_per_second = 1e12,
      .memory = ts::index_t{32} << 30,
      .launch = 1e-5,
      .levels = {{.ranks = 4, .link = {2e-6, 1 / 30e9}, .name = "group", .pairs = true},
                 {.ranks = 0, .link = {5e-6, 1 / 32e9}, .name = "groups"}}};
};

template <class Model, class Input>
struct searched {
  using model = Model;
  using input = Input;
};
template <int Blocks>
using language_model = searched<ts::model::gpt<50304, 1024, 2048, 16, Blocks>, ts::input<64, 1024>>;
using resnet50 = searched<ts::model::resnet50<1000>, ts::input<256, 3, 224, 224>>;
using gpt24 = language_model<24>;
using gpt96 = language_model<96>;

using serial = ts::plan<ts::parallel<MODEL::model, MODEL::input>, world>;
static_assert(serial::output::rank > 0);
#if SEARCHED
using found = ts::auto_parallel_search<MODEL::model, MODEL::input, world, groups>;
static_assert(found::time > 0);
using type = found::type;
#endif
