#pragma once

#include <tessera/redistribute/halo_plan.hpp>

#include <cstdint>

/// Windows of all kinds in a reproducible order, the same on every rank. One in `odds` has more padding than it
/// reaches.
struct random_windows {
  tessera::index_t odds;
  std::uint64_t state = 1;

  tessera::index_t draw(tessera::index_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<tessera::index_t>((state >> 33) % static_cast<std::uint64_t>(below));
  }
  tessera::halo_window window(tessera::index_t extent) {
    for (;;) {
      tessera::halo_window w{1 + draw(7), 1 + draw(3), draw(4), draw(4), 1 + draw(2)};
      if (draw(odds) == 0) w.padding_before += w.reach();
      if (draw(odds) == 0) w.padding_after += w.reach();
      if (w.output_extent(extent) > 0) return w;
    }
  }
};
