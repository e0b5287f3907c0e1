// alone: includes code that is spelled
#include <tessera/layer/activation.hpp>
#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/auto_parallel.hpp>
#include <tessera/plan/spell.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

// The files of the folder `spelled` are the texts of models: they are compared with what `spell` writes, and compiled.

namespace spelled_here {

namespace ts = tessera;

struct dp : ts::axis<2> {};
struct tp : ts::axis<2> {};

/// Computes fast and talks slowly, so that a search has something to weigh.
struct cluster {
  static constexpr ts::machine_description about{
      .peak = {.float64 = 0, .float32 = 1e12, .float16 = 0, .bfloat16 = 0},
      .bytes_per_second = 1e11,
      .memory = 1'000'000'000,
      .levels = {{.ranks = 0, .link = {.latency = 1e-6, .seconds_per_byte = 1e-10}, .name = "net"}}};
};

struct block : ts::chain<ts::linear<512, 2048>, ts::gelu, ts::linear<2048, 8>> {};
// Weights are large and the batch is small.
using found = ts::auto_parallel<ts::recompute<block>, ts::input<8, 512>, ts::mesh<tp>, cluster>;

template <int Rows, ts::mesh_axis... Axes>
struct rows_of_mine : ts::chain<ts::cut_along<0, Axes...>, ts::linear<Rows, Rows>> {};
enum class taste : int { sweet, sour };
template <taste Taste>
struct flavoured : ts::relu {};
namespace {
struct unnamed_place : ts::relu {};
}  // namespace

using by_hand = ts::parallel<
    ts::chain<ts::conv2d<3, 8, ts::window<3>, ts::groups<1>, ts::no_bias, ts::split_height<dp>, ts::no_split>,
              ts::conv2d<8, 8, ts::window2d<3, 1, 1, 1, 1>, ts::weight_init<ts::kaiming_normal<ts::fan::out>>>,
              ts::shard<0, tp, dp>, ts::batch_norm2d<8, ts::momentum_of<std::ratio<1, 3>>>, unnamed_place,
              ts::residual<ts::relu, ts::chain<ts::relu>>, ts::layout<ts::partial<tp>, ts::shard<1, dp>>,
              ts::max_pool2d<ts::window<2, 2>, ts::ceil_mode>, ts::global_avg_pool<>, ts::flatten<>,
              ts::recompute<rows_of_mine<8, dp, tp>>, ts::stage<1>, flavoured<taste::sour>,
              ts::linear<8, 4, ts::bias_init<ts::kaiming_uniform<>>, ts::tied<block>, ts::split_output<tp, dp>>>,
    ts::input<ts::dynamic, 3, 32, ts::dynamic>, ts::data_parallel<dp>, ts::fuse::at<2, 5>,
    ts::optimizer_parallel<ts::axis_list<dp, tp>, 2>, ts::pipeline<tp, ts::interleaved<2>>>;

using language = ts::model::gpt<100, 16, 32, 4, 1, tp>::composition;

// What the files say compiles to the types.
using found_again =
#include "spelled/found.txt"
    ;
static_assert(std::is_same_v<found_again, found>);
using by_hand_again =
#include "spelled/by_hand.txt"
    ;
static_assert(std::is_same_v<by_hand_again, by_hand>);
using language_again =
#include "spelled/language.txt"
    ;
static_assert(std::is_same_v<language_again, language>);

std::string text_of(char const* name) {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "spelled" / name);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

template <class Model>
std::string spelled_inside() {
  std::string text = tessera::spell<Model>("ts::");
  // The files are read inside the namespace.
  for (std::size_t at = 0; (at = text.find("spelled_here::", at)) != std::string::npos;) text.erase(at, 14);
  return text;
}

}  // namespace spelled_here

TEST_CASE("the text of a model compiles to its type") {
  using namespace spelled_here;
  CHECK(spelled_inside<found>() == text_of("found.txt"));
  CHECK(spelled_inside<by_hand>() == text_of("by_hand.txt"));
  CHECK(spelled_inside<language>() == text_of("language.txt"));
}

TEST_CASE("names of the library stand where the caller says, and a model that is a struct by its name") {
  using namespace spelled_here;
  struct local : tessera::axis<2> {};
  CHECK(tessera::spell<ts::linear<1, 2, ts::split_output<local>>>("") == "linear<1, 2, split_output<local>>");
  CHECK(tessera::spell<ts::linear<1, 2>>("tessera::") == "tessera::linear<1, 2>");
  CHECK(tessera::spell<block>() == "spelled_here::block");
  CHECK(tessera::spell<block::composition>("") == "chain<\n  linear<512, 2048>,\n  gelu,\n  linear<2048, 8>>");
  CHECK(tessera::spell<ts::model::resnet50<1000>>("") == "model::resnet50<1000>");
}
