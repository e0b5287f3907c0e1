#include <doctest/doctest.h>

#include <tessera/comm/checked.hpp>
#include <tessera/comm/mesh_groups.hpp>
#include <tessera/comm/mpi.hpp>
#include <tessera/comm/recording.hpp>

namespace {

using tessera::axis_set;
using tessera::index_t;
using tessera::mesh;
using tessera::mpi_comm;

struct one : tessera::axis<1> {};
struct two : tessera::axis<2> {};
struct also_two : tessera::axis<2> {};
struct three : tessera::axis<3> {};

/// Checks that every group of the mesh holds the ranks that `Mesh::group_member` says, in that order.
template <class Mesh>
void check_groups() {
  mpi_comm world;
  if (world.size() != Mesh::devices) return;
  tessera::mesh_groups<Mesh, mpi_comm> groups(world);
  CHECK(groups.coordinates() == Mesh::coordinates(world.rank()));
  for (int bits = 0; bits <= Mesh::all; ++bits) {
    const auto set = static_cast<axis_set>(bits);
    CAPTURE(bits);
    auto& group = groups.group(set);
    REQUIRE(group.size() == Mesh::group_size(set));
    CHECK(group.rank() == Mesh::group_rank(set, groups.coordinates()));
    std::vector<int> members(static_cast<std::size_t>(group.size()));
    const std::vector<index_t> one_each(members.size(), 1);
    const int own = world.rank();
    group.all_gather(&own, members.data(), one_each);
    for (int r = 0; r < group.size(); ++r)
      CHECK(members[static_cast<std::size_t>(r)] ==
            Mesh::group_rank(Mesh::all, Mesh::group_member(set, groups.coordinates(), r)));
  }
}

TEST_CASE("groups of meshes hold the ranks along their axes, in mesh order") {
  check_groups<mesh<>>();
  check_groups<mesh<one>>();
  check_groups<mesh<two>>();
  check_groups<mesh<three>>();
  check_groups<mesh<one, two>>();
  check_groups<mesh<two, also_two>>();
  check_groups<mesh<two, one, also_two>>();
}

TEST_CASE("axes of one device make no difference") {
  mpi_comm world;
  if (world.size() != 2) return;
  tessera::mesh_groups<mesh<one, two>, mpi_comm> groups(world);
  CHECK(&groups.group(3) == &groups.group(2));
  CHECK(&groups.group(1) == &groups.group(0));
}

TEST_CASE("recording groups are labelled with their axes") {
  tessera::recording world{tessera::checked{mpi_comm{}}};
  if (world.size() != 4) return;
  tessera::mesh_groups<mesh<two, also_two>, decltype(world)> groups(world);
  for (const axis_set set : {axis_set{1}, axis_set{2}, axis_set{3}}) {
    double value = 1;
    groups.group(set).all_reduce(&value, 1, tessera::reduction::sum);
    CHECK(value == groups.group(set).size());
    CHECK(world.calls().back().group == set);
  }
  CHECK(world.calls().size() == 3);
}

TEST_CASE("a mesh of another size than the world is refused on all ranks") {
  const mpi_comm world;
  using groups = tessera::mesh_groups<mesh<three, two>, mpi_comm>;
  const std::string text = "tessera: mesh needs 6 devices, world has " + std::to_string(world.size()) +
                           "; wanted one rank for each device of the mesh; start the program with 6 ranks (mpirun -n "
                           "6) or change the sizes of the mesh axes";
  CHECK_THROWS_WITH_AS(groups{world}, text.c_str(), tessera::error);
}

}  // namespace
