#include "support/layouts.hpp"

#include <tessera/core/layout_text.hpp>

#include <doctest/doctest.h>

#include <set>

namespace {

using namespace tessera;

struct dp : axis<2> {};
namespace inner {
struct tp : axis<4> {};
}  // namespace inner
struct outer {
  struct pp : axis<3> {};
};

template <class... Parts>
struct joined : axis<2> {};
template <int Size>
struct sized : axis<Size> {};

using texts = std::vector<std::string>;

/// The text of the error that a call throws.
template <class Call>
std::string fault(Call call) {
  try {
    call();
  } catch (error const& e) {
    return e.what();
  }
  return "nothing was thrown";
}

std::string layout_fault(std::string const& text) {
  return fault([&] { (void)parse_layout(parse_mesh("x=2,y=4"), text); });
}
std::string mesh_fault(std::string const& text) {
  return fault([&] { (void)parse_mesh(text); });
}
std::string shape_fault(std::string const& text) {
  return fault([&] { (void)parse_shape(text); });
}

TEST_CASE("axes have the names of their tags, wherever those lie") {
  struct local : axis<5> {};
  static_assert(axis_name<dp>() == "dp");
  static_assert(axis_name<inner::tp>() == "tp");
  static_assert(axis_name<outer::pp>() == "pp");
  CHECK(axis_name<local>() == "local");
  const auto mesh = named<tessera::mesh<dp, inner::tp, outer::pp>>();
  CHECK(mesh.sizes == mesh_sizes<3>{{2, 4, 3}});
  CHECK(mesh.names == std::array<std::string, 3>{"dp", "tp", "pp"});
  CHECK(mesh.list(0b101) == "dp,pp");
  CHECK(to_string(mesh) == "dp=2,tp=4,pp=3");
  CHECK(to_string(named<tessera::mesh<>>()) == "");
}

TEST_CASE("a mesh is read and written") {
  const auto mesh = parse_mesh(" x=2, y_1 = 4 ");
  CHECK(to_string(mesh) == "x=2,y_1=4");
  CHECK(mesh.sizes == mesh_sizes<8>{{2, 4, 1, 1, 1, 1, 1, 1}});
  CHECK(mesh.find("y_1") == 1);
  CHECK(mesh.find("y") == -1);
  CHECK(mesh.find("") == -1);
  CHECK(parse_mesh("").sizes.devices() == 1);
  for (std::string const& text : texts{"x=1", "a=1,b=2,c=3,d=1,e=1,f=1,g=1,h=7", "x=2147483647,y=1", ""}) {
    CHECK(to_string(parse_mesh(text)) == text);
    CHECK(parse_mesh(to_string(parse_mesh(text))) == parse_mesh(text));
  }
}

TEST_CASE("the names of templates are read as they are written") {
  using templates = tessera::mesh<sized<4>, joined<dp, sized<3>>, joined<>>;
  const auto mesh = named<templates>();
  CHECK(mesh.name(0) == "sized<4>");
  CHECK(mesh.name(2) == "joined<>");
  const auto read = parse_mesh(to_string(mesh));
  CHECK(to_string(read) == to_string(mesh));
  const auto layout =
      placements_of<templates, tessera::layout<shard<1, joined<>, sized<4>>, partial<joined<dp, sized<3>>>>>;
  const std::string text = to_string(mesh, layout, 2);
  CHECK(to_string(read, parse_layout(read, text).value, 2) == text);
  CHECK(parse_layout(read, text).rank == 2);

  CHECK(parse_mesh("a<(1>2),b<c>>=2,d=3").name(0) == "a<(1>2),b<c>>");
  CHECK(mesh_fault("x<a=2") ==
        "tessera: '<' at character 2 of the mesh \"x<a=2\"; wanted a > for this <; write the whole name of the axis "
        "tag, as in ranks<2>");
}

TEST_CASE("faults of a mesh name the place") {
  const std::string form = "; wanted the name of an axis; write each axis as NAME=SIZE, as in x=2,y=4";
  CHECK(mesh_fault("=2") == "tessera: '=' at character 1 of the mesh \"=2\"" + form);
  CHECK(mesh_fault("x=2,") == "tessera: the end of the mesh \"x=2,\"" + form);
  CHECK(mesh_fault("2x=2") == "tessera: '2x' at character 1 of the mesh \"2x=2\"" + form);
  CHECK(mesh_fault("x") ==
        "tessera: the end of the mesh \"x\"; wanted = and a size; write each axis as NAME=SIZE, as in "
        "x=2,y=4");
  CHECK(mesh_fault("x=2,x=4") ==
        "tessera: 'x' at character 5 of the mesh \"x=2,x=4\"; wanted each axis once; give each "
        "axis a name of its own");
  CHECK(mesh_fault("x=2 y=4") ==
        "tessera: 'y' at character 5 of the mesh \"x=2 y=4\"; wanted a comma or the end; write "
        "axes apart with commas, as in x=2,y=4");
  const std::string size =
      "; wanted a size from 1 to 2147483647; say how many devices lie along the axis; all axes together have at most "
      "2147483647";
  for (std::string const& bad : texts{"0", "-1", "two", "99999999999", "+2"})
    CHECK(mesh_fault("x=" + bad).ends_with(" at character 3 of the mesh \"x=" + bad + "\"" + size));
  CHECK(mesh_fault("x=") == "tessera: the end of the mesh \"x=\"" + size);
  CHECK(mesh_fault("x=65536,y=65536").starts_with("tessera: '65536' at character 11 of the mesh "));
  CHECK(
      mesh_fault("a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1") ==
      "tessera: 'i' at character 33 of the mesh \"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1\"; wanted at most 8 axes; merge "
      "some of them");
}

TEST_CASE("a layout is read") {
  const auto mesh = parse_mesh("x=2,y=4,z=2");
  placements<8> value;
  value[0] = shard_placement(0);
  CHECK(parse_layout(mesh, "[x,-]") == parsed_layout{value, 2});
  value[1] = shard_placement(0, 1);
  CHECK(parse_layout(mesh, "[(x*y),-]") == parsed_layout{value, 2});
  value[2] = partial_placement(reduction::maximum);
  CHECK(parse_layout(mesh, "[(x*y)] partial(z,max)") == parsed_layout{value, 1});
  CHECK(parse_layout(mesh, "  [ ( x * y ) ]partial( z , max ) ") == parsed_layout{value, 1});
  CHECK(parse_layout(mesh, "[]") == parsed_layout{{}, 0});
  CHECK(parse_layout(mesh, "[-,-,-,-,-,-]") == parsed_layout{{}, 6});
  value = placements<8>{};
  value[1] = partial_placement();
  CHECK(parse_layout(mesh, "partial(y)") == parsed_layout{value, -1});
  CHECK(parse_layout(mesh, "partial(y,sum)") == parsed_layout{value, -1});
  CHECK(parse_layout(mesh, "[]partial(y)") == parsed_layout{value, 0});
}

TEST_CASE("every layout of three axes and up to three dimensions is written and read back, each as a text of its own") {
  const auto mesh = parse_mesh("x=2,y=3,z=4");
  const named_mesh<3> named{{{2, 3, 4}}, {"x", "y", "z"}};
  std::set<std::string> all;
  for (int rank = 0; rank <= 3; ++rank)
    for (auto const& layout : layouts::all<3>(rank, {reduction::sum, reduction::maximum})) {
      const std::string text = to_string(named, layout, rank);
      CAPTURE(text);
      CHECK(all.insert(text).second);
      const parsed_layout read = parse_layout(mesh, text);
      CHECK(read.rank == rank);
      for (int a = 0; a < 8; ++a) CHECK(read.value[a] == (a < 3 ? layout[a] : replicated_placement()));
      CHECK(to_string(mesh, read.value, rank) == text);
    }
  CHECK(all.size() > 500);
  placements<3> terms;
  terms[2] = terms[0] = partial_placement();
  CHECK(to_string(named, terms, -1) == "partial(x) partial(z)");
}

TEST_CASE("faults of a layout name the place") {
  const auto at = [](std::string const& what, int place, std::string const& text) {
    return "tessera: '" + what + "' at character " + std::to_string(place) + " of the layout \"" + text + "\"; wanted ";
  };
  const auto at_end = [](std::string const& text) {
    return "tessera: the end of the layout \"" + text + "\"; wanted ";
  };
  const std::string forms = "; write a dimension as -, as x, or as (x*y), and the rest as partial(x)";
  CHECK(layout_fault("") == at_end("") + "a layout; write one as in [x,-], [] or partial(x)");
  CHECK(layout_fault("[z,-]") == at("z", 2, "[z,-]") + "an axis of the mesh x=2,y=4; name one of its axes");
  CHECK(layout_fault("[-] partial(z)") ==
        at("z", 13, "[-] partial(z)") + "an axis of the mesh x=2,y=4; name one of its axes");
  for (std::string const& twice : texts{"[x,x]", "[(x*x)]", "[x] partial(x)", "partial(x) partial(x,max)"})
    CHECK(layout_fault(twice) ==
          at("x", static_cast<int>(twice.rfind('x', twice.find(",max"))) + 1, twice) +
              "each axis once; let an axis cut one dimension, or make the value partial along it");
  CHECK(layout_fault("[") == at_end("[") + "an axis, - or (" + forms);
  CHECK(layout_fault("[x,]") == at("]", 4, "[x,]") + "an axis, - or (" + forms);
  CHECK(layout_fault("[,x]") == at(",", 2, "[,x]") + "an axis, - or (" + forms);
  CHECK(layout_fault("[2]") == at("2", 2, "[2]") + "an axis, - or (" + forms);
  CHECK(layout_fault("[é]") == at("é", 2, "[é]") + "an axis, - or (" + forms);
  CHECK(layout_fault("[()]") == at(")", 3, "[()]") + "an axis" + forms);
  CHECK(layout_fault("[(x*)]") == at(")", 5, "[(x*)]") + "an axis" + forms);
  CHECK(layout_fault("partial()") == at(")", 9, "partial()") + "an axis" + forms);
  const std::string close = "a comma or ]; close the dimensions with ], as in [x,-]; put (x*y) in parentheses";
  CHECK(layout_fault("[x,-") == at_end("[x,-") + close);
  CHECK(layout_fault("[x*y]") == at("*", 3, "[x*y]") + close);
  CHECK(layout_fault("[--]") == at("-", 3, "[--]") + close);
  CHECK(layout_fault("[(x*y]") == at("]", 6, "[(x*y]") + "* or ); write several axes of one dimension as (x*y)");
  CHECK(layout_fault("[-,-,-,-,-,-,-]") == at("-", 14, "[-,-,-,-,-,-,-]") + "at most 6 dimensions; merge some of them");
  const std::string parts =
      "; write a layout as in [x,-], then partial(y) for each axis that the value is partial along";
  CHECK(layout_fault("x,-") == at("x", 1, "x,-") + "[ or partial(" + parts);
  CHECK(layout_fault("[x]]") == at("]", 4, "[x]]") + "partial( or the end" + parts);
  CHECK(layout_fault("[x] part(y)") == at("part", 5, "[x] part(y)") + "partial( or the end" + parts);
  CHECK(layout_fault("partial(y,min)") ==
        at("min", 11, "partial(y,min)") +
            "sum or max; write partial(x), or partial(x,max); several axes as partial(x) partial(y)");
  CHECK(layout_fault("partial(y") == at_end("partial(y") + "); write partial(x), or partial(x,max)");
}

TEST_CASE("a shape is read") {
  CHECK(parse_shape("1024x768") == std::vector<index_t>{1024, 768});
  CHECK(parse_shape(" 1 x 2 x 3x4x5x6 ") == std::vector<index_t>{1, 2, 3, 4, 5, 6});
  CHECK(parse_shape("scalar").empty());
  CHECK(parse_shape("").empty());
  CHECK(parse_shape("9223372036854775807") == std::vector<index_t>{std::numeric_limits<index_t>::max()});
}

TEST_CASE("faults of a shape name the place") {
  const std::string form = "; write a shape as in 1024x1024, or scalar";
  const std::string extent = "; wanted an extent from 1 to 9223372036854775807" + form;
  for (std::string const& bad : texts{"0x8", "x8", "-8", "vector", "99999999999999999999"}) {
    CHECK(shape_fault(bad).find("' at character 1 of the shape \"" + bad + "\"" + extent) != std::string::npos);
  }
  CHECK(shape_fault("8x") ==
        "tessera: the end of the shape \"8x\"; wanted an extent from 1 to 1152921504606846975" + form);
  CHECK(shape_fault("8,8") == "tessera: ',' at character 2 of the shape \"8,8\"; wanted x or the end" + form);
  CHECK(shape_fault("4294967296x4294967296").starts_with("tessera: '4294967296' at character 12 of the shape "));
  CHECK(shape_fault("1x1x1x1x1x1x1") ==
        "tessera: '1' at character 13 of the shape \"1x1x1x1x1x1x1\"; wanted at most 6 dimensions; merge some of them");
}

}  // namespace
