#include "policies_transformer.hpp"

using namespace policies;
using world = mesh<a>;

TEST_CASE("a transformer block trains like its reference under each policy on two ranks") {
  for_transformers([](golden::test_case const& t) {
    check_transformer<world, both_halves<>, data_parallel<a>, fuse::each>(t, "data");
    check_transformer<world, both_halves<>, data_parallel<a>, fuse::automatic>(t, "data, automatic buckets", 1,
                                                                               {.overlap = false});
    check_transformer<world, both_halves<>, data_parallel<a>, optimizer_parallel<a, 1>>(t, "data, level 1");
    check_transformer<world, both_halves<>, data_parallel<a>, optimizer_parallel<a, 2>>(t, "data, level 2", 2);
    check_transformer<world, both_halves<>, data_parallel<a>, optimizer_parallel<a, 3>, fuse::each>(t, "data, level 3");
    check_transformer<world, recomputed<>, data_parallel<a>>(t, "data, recomputed");
    check_transformer<world, staged<>, pipeline<a, gpipe>>(t, "stages, gpipe", 4);
    check_transformer<world, staged<>, pipeline<a>>(t, "stages, 1F1B", 3);
  });
}
