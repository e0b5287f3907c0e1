#include "policies_transformer.hpp"

using namespace policies;
using world = mesh<a, b>;

TEST_CASE("a transformer block trains like its reference under pairs of policies on four ranks") {
  for_transformers([](golden::test_case const& t) {
    check_transformer<world, both_halves<b>, data_parallel<a>, optimizer_parallel<a, 2>>(t, "data, heads, level 2");
    check_transformer<world, recomputed<b>, data_parallel<a>, optimizer_parallel<a, 3>>(
        t, "data, heads, recomputed, level 3");
    check_transformer<world, chain<cut_along<1, b>, attention<b>, wide<b>>, data_parallel<a>>(
        t, "data, heads and positions", 2);
    check_transformer<world, staged<>, data_parallel<b>, pipeline<a>>(t, "stages, data", 2);
    check_transformer<world, staged<b>, pipeline<a, gpipe>>(t, "stages, heads", 2);
  });
}
