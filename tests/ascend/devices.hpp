#pragma once

#include "ascend/chip.hpp"
#include "ascend/job.hpp"

#include <tessera/train/session.hpp>

#include <functional>

namespace job {

/// A team of the job's ranks, each on its device: `devices<Mesh> team{team_world()}`.
template <class Mesh, class Comm = tessera::hccl_comm>
using devices = tessera::team<Mesh, Comm, tessera::ascend<chip_here>>;

/// Makes the communicator of a team of all ranks, which `wrap` may wrap.
template <class Wrap>
auto team_world(Wrap wrap) {
  auto& all = world();  // opens the device before the backend does
  return [&all, wrap](auto&) { return wrap(all.split(0, all.rank())); };
}
inline auto team_world() { return team_world(std::identity{}); }

}  // namespace job
