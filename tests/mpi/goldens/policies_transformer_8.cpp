#include "policies_transformer.hpp"

using namespace policies;
using world = mesh<a, b, c>;

TEST_CASE("a transformer block trains like its reference with data, model and pipeline parallelism on eight ranks") {
  for_transformers([](golden::test_case const& t) {
    check_transformer<world, staged<b>, data_parallel<c>, pipeline<a>>(t, "stages, heads, data", 2);
    check_transformer<world, chain<cut_along<1, c>, recompute<attention<b>>, recompute<wide<b>>>, data_parallel<a>,
                      optimizer_parallel<a, 2>>(t, "data, heads, positions, recomputed, level 2");
  });
}
