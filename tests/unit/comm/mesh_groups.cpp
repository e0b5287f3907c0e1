#include <doctest/doctest.h>

#include <tessera/comm/mesh_groups.hpp>
#include <tessera/comm/recording.hpp>
#include <tessera/comm/serial.hpp>

namespace {

struct one : tessera::axis<1> {};
struct also_one : tessera::axis<1> {};
struct eight : tessera::axis<8> {};

TEST_CASE("a mesh of one device has one group, whatever the axes") {
  tessera::mesh_groups<tessera::mesh<one, also_one>, tessera::recording<tessera::serial_comm>> groups{
      tessera::recording{tessera::serial_comm{}}};
  CHECK(groups.group(0).size() == 1);
  CHECK(&groups.group(3) == &groups.group(0));
  CHECK(groups.coordinates() == std::array<int, 2>{0, 0});
  groups.group(3).barrier();
  CHECK(groups.group(0).calls().at(0).group == 0);
  tessera::mesh_groups<tessera::mesh<>, tessera::serial_comm> none{tessera::serial_comm{}};
  CHECK(none.group(0).size() == 1);
}

TEST_CASE("a mesh that does not fit the world is refused") {
  const tessera::serial_comm world;
  using groups = tessera::mesh_groups<tessera::mesh<one, eight>, tessera::serial_comm>;
  CHECK_THROWS_WITH_AS(groups{world},
                       "tessera: mesh needs 8 devices, world has 1; wanted one rank for each device of the mesh; start "
                       "the program with 8 ranks (mpirun -n 8) or change the sizes of the mesh axes",
                       tessera::error);
}

}  // namespace
