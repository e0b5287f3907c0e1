#include "support/errors.hpp"
#include "support/scratch_file.hpp"

#include <tessera/layer/activation.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/strategy_file.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace strategies {

using namespace tessera;
using errors::error_of;

struct dp : axis<2> {};
struct tp : axis<2> {};
using world = mesh<dp, tp>;
using other_world = mesh<tp, dp>;

template <class First, class Second, class... More>
using two = parallel<chain<linear<8, 16, First>, residual<chain<linear<16, 16>, relu>>, linear<16, 4, Second>, More...>,
                     data_parallel<dp>>;
using pairs = two<split_output<tp>, split_input<tp>>;
using copies = two<no_split, no_split>;
using longer = two<split_output<tp>, split_input<tp>, gelu, linear<4, 4>>;

using ::scratch_files::has;
using ::scratch_files::replaced;

struct scratch : ::scratch_files::file {
  scratch() : file("strategy") {}
};

}  // namespace strategies

TEST_CASE("a strategy says what a model's layers cut, and in which layouts") {
  using namespace strategies;
  const strategy s = strategy_of<pairs, world>();
  CHECK(s.mesh == "dp=2,tp=2");
  CHECK(s.extents == std::vector<tessera::index_t>{dynamic, 8});
  CHECK(s.input == "[dp,-]");
  REQUIRE(s.layers.size() == 6);
  using split = std::vector<std::pair<std::string, std::string>>;
  CHECK(s.layers[0] ==
        layer_strategy{"0", "linear<8, 16>", split{{"dp", "batch"}, {"tp", "output"}}, "[dp,-]", "[dp,tp]"});
  CHECK(s.layers[1].path == "1.branch.0");
  CHECK(s.layers[2].layer == "relu");
  CHECK(s.layers[3].layer == "sum");
  CHECK(s.layers[4] ==
        layer_strategy{"2", "linear<16, 4>", split{{"dp", "batch"}, {"tp", "input"}}, "[dp,tp]", "[dp,-] partial(tp)"});
  CHECK(s.layers[5] == layer_strategy{"", "output", {}, "[dp,-] partial(tp)", "[dp,-]"});
}

TEST_CASE("a file comes back as it was, in any order of the mesh") {
  using namespace strategies;
  const scratch file;
  save_strategy<pairs, world>(file.path);
  CHECK(load_strategy(file.path) == strategy_of<pairs, world>());
  CHECK_NOTHROW(check_strategy<pairs, world>(file.path));
  // Axes that JSON sorts otherwise than the mesh, and a dimension that two of them cut.
  using cut_twice = parallel<chain<shard<0, tp, dp>, linear<8, 16>>, input<12, 8>>;
  save_strategy<cut_twice, other_world>(file.path);
  CHECK(load_strategy(file.path) == strategy_of<cut_twice, other_world>());
  CHECK(!std::filesystem::exists(file.path.string() + ".part"));
}

TEST_CASE("differences name the layer, what was found and what was wanted") {
  using namespace strategies;
  const auto a = strategy_of<pairs, world>();
  CHECK(difference(a, a).empty());
  const auto cuts = difference(strategy_of<copies, world>(), a);
  REQUIRE(cuts.size() == 4);
  CHECK(cuts[0] ==
        "layer 0 linear<8, 16>: found batch by dp: [dp,-] to [dp,-]; wanted batch by dp, output by tp: "
        "[dp,-] to [dp,tp]");
  CHECK(has(cuts[1], "layer 1 sum: found [dp,-] to [dp,-]; wanted [dp,tp] to [dp,tp]"));
  CHECK(has(cuts[2], "layer 2 linear<16, 4>"));
  CHECK(has(cuts[3], "layer output"));

  // Layers more or less move no others.
  const auto more = difference(strategy_of<longer, world>(), a);
  REQUIRE(more.size() == 3);
  CHECK(more[0] == "layer 3 gelu: found, not wanted");
  CHECK(more[1] == "layer 4 linear<4, 4>: found, not wanted");
  CHECK(difference(a, strategy_of<longer, world>())[0] == "layer 3 gelu: not found, wanted");

  auto changed = a;
  changed.layers[2].layer = "gelu";
  CHECK(difference(changed, a) == std::vector<std::string>{"layer: found 1.branch.1 gelu; wanted 1.branch.1 relu"});

  const auto meshes = difference(strategy_of<pairs, other_world>(), a);
  CHECK(meshes.front() == "mesh: found tp=2,dp=2; wanted dp=2,tp=2");
  auto batch = a;
  batch.extents = {32, 8};
  CHECK(difference(batch, a) == std::vector<std::string>{"extents of the input: found 32 x 8; wanted ? x 8"});
}

TEST_CASE("a program with another strategy than a file's is told where") {
  using namespace strategies;
  const scratch file;
  save_strategy<copies, world>(file.path);
  const std::string text = error_of([&] { check_strategy<pairs, world>(file.path); });
  CHECK(has(text, file.path.string()));
  CHECK(has(text, "layer 2 linear<16, 4>: found batch by dp: [dp,-] to [dp,-]; wanted batch by dp, input by tp"));
  save_strategy<pairs, other_world>(file.path);
  CHECK(has(error_of([&] { check_strategy<pairs, world>(file.path); }), "mesh: found tp=2,dp=2; wanted dp=2,tp=2"));
}

TEST_CASE("a file with other layers or another input than the program's is told where") {
  using namespace strategies;
  const scratch file;
  const auto check = [&](strategy const& s) {
    save_strategy(s, file.path);
    return error_of([&] { check_strategy<pairs, world>(file.path); });
  };
  const auto good = strategy_of<pairs, world>();
  CHECK(check(good) == "no error");

  CHECK(has(check(strategy_of<longer, world>()), "\n  layer 3 gelu: found, not wanted\n  layer 4 linear<4, 4>: found"));
  auto s = good;
  s.layers.erase(s.layers.begin() + 1);
  CHECK(has(check(s), ":\n  layer 1.branch.0 linear<16, 16>: not found, wanted\n;"));
  s = good;
  s.layers[1].layer = "conv3d<16, 16>";  // of a library to come
  CHECK(has(check(s), ":\n  layer: found 1.branch.0 conv3d<16, 16>; wanted 1.branch.0 linear<16, 16>\n;"));
  s = good;
  s.layers[0].split.pop_back();
  CHECK(has(check(s), "layer 0 linear<8, 16>: found batch by dp: [dp,-] to [dp,tp]; wanted batch by dp, output by tp"));
  s = good;
  s.mesh = "dp=2,tp=4";
  CHECK(has(check(s), ":\n  mesh: found dp=2,tp=4; wanted dp=2,tp=2\n;"));
  s = good;
  s.extents[0] = 64;
  CHECK(has(check(s), ":\n  extents of the input: found 64 x 8; wanted ? x 8\n;"));
  s = good;
  s.input = "[-,dp]";
  CHECK(has(check(s), ":\n  layout of the input: found [-,dp]; wanted [dp,-]\n;"));

  // Of many lines the first eight, and how many there are.
  s = good;
  for (int i = 0; i < 9; ++i) s.layers.push_back({std::to_string(7 + i), "relu", {}, "[dp,-]", "[dp,-]"});
  CHECK(has(check(s), "layer 14 relu: found, not wanted\n  and 1 more\n"));
}

TEST_CASE("files that are no strategies are refused with what is wrong") {
  using namespace strategies;
  const scratch file;
  const auto load = [&] { return error_of([&] { load_strategy(file.path); }); };
  CHECK(has(load(), "no strategy file"));
  save_strategy<pairs, world>(file.path);
  const std::string good = file.text();
  const auto load_text = [&](std::string const& text) {
    file.write(text);
    const std::string fault = load();
    CHECK(has(fault, file.path.string()));
    return fault;
  };
  CHECK(load() == "no error");
  // Cut off anywhere.
  for (std::size_t size = 0; size + 1 < good.size(); size += 7) CHECK(has(load_text(good.substr(0, size)), "no JSON"));
  CHECK(has(load_text("[]"), "no object"));
  CHECK(has(load_text("{}"), "it has no \"format\""));
  CHECK(has(load_text(replaced(good, "tessera strategy", "safetensors")), "another format"));
  CHECK(has(load_text(replaced(good, "\"version\": 1", "\"version\": 2")), "version 2"));
  CHECK(has(load_text(replaced(good, "\"version\": 1", "\"version\": \"1\"")), "no whole number"));
  CHECK(has(load_text(replaced(good, "dp=2,tp=2", "dp=2,tp=")), "mesh"));
  CHECK(has(load_text(replaced(good, "\"dp\": \"batch\"", "\"pp\": \"batch\"")), "\"pp\""));
  CHECK(has(load_text(replaced(good, "\"dp\": \"batch\"", "\"dp\": 3")), "no text"));
  CHECK(has(load_text(replaced(good, "[dp,tp]", "[dp,dp]")), "[dp,dp]"));
  CHECK(has(load_text(replaced(good, "\"path\": \"0\"", "\"place\": \"0\"")), "it has no \"path\""));
  CHECK(has(load_text(replaced(good, "\"layers\": [", "\"layers\": [3, ")), "no object"));
  CHECK(has(load_text(replaced(good, "\"layers\": [", "\"layers\": {}, \"rows\": [")), "its \"layers\" is no list"));
  CHECK(has(load_text(replaced(good, "\"extents\": [", "\"extents\": [-1, ")), "no whole number"));
  CHECK(has(load_text(replaced(good, "\"extents\": [", "\"extents\": [3, ")),
            "has 3 extents, and a layout of 2 dimensions"));
  CHECK(has(load_text(replaced(good, "\"dp\": \"batch\"", "\"tp\": \"batch\"")), "twice"));
  CHECK(has(load_text(std::string(100, '\0')), "no JSON"));
  CHECK(has(load_text(std::string(100, '[')), "nested"));
  file.clear();
  std::filesystem::create_directory(file.path);
  CHECK(has(load(), "no strategy file"));
  CHECK(has(error_of([&] { save_strategy<pairs, world>(file.path / "missing" / "file.json"); }), "cannot create"));
}
