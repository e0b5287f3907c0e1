#pragma once

#include <tessera/plan/machine.hpp>

namespace calibration {

/// Measures the machine that the ranks of MPI_COMM_WORLD are, all of them working at a time: products, copies and
/// layers of each kind in training steps on each rank, and the collectives of training between them. About `seconds`
/// for each of some twenty measurements. Collective; the same on all ranks.
tessera::machine_description measure(double seconds);

}  // namespace calibration
