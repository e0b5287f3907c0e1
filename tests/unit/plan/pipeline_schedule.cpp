#include <tessera/plan/pipeline_schedule.hpp>

#include <doctest/doctest.h>

// The schedules of pipelines: complete, free of deadlock, with the published bubbles and live activations.

namespace {

using namespace tessera;
using pass = pipeline_action::pass;

template <class Schedule>
void check_complete(int devices, int parts) {
  for (int device = 0; device < devices; ++device) {
    // Passes seen of each chunk: parts go through it in order, backward after forward.
    int forward[Schedule::chunks] = {};
    int backward[Schedule::chunks] = {};
    for (auto const& a : Schedule::actions(devices, device, parts)) {
      REQUIRE(a.chunk < Schedule::chunks);
      CHECK(a.part == (a.kind == pass::forward ? forward : backward)[a.chunk]++);
      CHECK(backward[a.chunk] <= forward[a.chunk]);
    }
    for (int c = 0; c < Schedule::chunks; ++c) {
      CHECK(forward[c] == parts);
      CHECK(backward[c] == parts);
    }
  }
}

template <class Schedule>
void check_bubble(int devices, int parts) {
  const double formula = static_cast<double>(devices - 1) / static_cast<double>(Schedule::chunks * parts + devices - 1);
  CHECK(bubble<Schedule>(devices, parts) == doctest::Approx(formula).epsilon(1e-12));
}

template <class... Schedules, class F>
void for_each_schedule(F f) {
  (f(Schedules{}), ...);
}

}  // namespace

TEST_CASE("a schedule has every pass once, and its devices never wait for each other") {
  for_each_schedule<gpipe, one_forward_one_backward, interleaved<2>, interleaved<3>, interleaved<4>>([](auto schedule) {
    using kind = decltype(schedule);
    for (int devices = 1; devices <= 6; ++devices)
      for (int parts = 1; parts <= 19; ++parts) {
        CAPTURE(devices);
        CAPTURE(parts);
        check_complete<kind>(devices, parts);
        CHECK_NOTHROW(simulate(all_actions<kind>(devices, parts)));
      }
  });
}

TEST_CASE("bubbles are the published ones") {
  for (int devices = 1; devices <= 6; ++devices)
    for (int parts = 1; parts <= 19; ++parts) {
      CAPTURE(devices);
      CAPTURE(parts);
      check_bubble<gpipe>(devices, parts);
      check_bubble<one_forward_one_backward>(devices, parts);
      if (parts % devices != 0) continue;
      check_bubble<interleaved<2>>(devices, parts);
      check_bubble<interleaved<4>>(devices, parts);
    }
  static_assert(bubble<gpipe>(4, 4) > 3 / 7. - 1e-12 && bubble<gpipe>(4, 4) < 3 / 7. + 1e-12);
}

TEST_CASE("live activations are bounded by the devices behind, but for GPipe") {
  for (int devices = 1; devices <= 6; ++devices)
    for (int parts = 1; parts <= 19; ++parts)
      for (int device = 0; device < devices; ++device) {
        CHECK(peak_live<gpipe>(devices, device, parts) == parts);
        CHECK(peak_live<one_forward_one_backward>(devices, device, parts) == std::min(parts, devices - device));
        if (parts % devices == 0)
          CHECK(peak_live<interleaved<3>>(devices, device, parts) ==
                std::min(3 * parts, 2 * (devices - device - 1) + 2 * devices + 1));
      }
}

TEST_CASE("one forward, one backward on the second of three devices, by hand") {
  const std::vector<pipeline_action> wanted{{pass::forward, 0, 0},  {pass::forward, 0, 1},  {pass::backward, 0, 0},
                                            {pass::forward, 0, 2},  {pass::backward, 0, 1}, {pass::forward, 0, 3},
                                            {pass::backward, 0, 2}, {pass::backward, 0, 3}};
  CHECK(one_forward_one_backward::actions(3, 1, 4) == wanted);
}

namespace {
/// Its last device wants the backward passes before the forward passes.
struct reversed {
  static constexpr int chunks = 1;
  static constexpr std::vector<pipeline_action> actions(int devices, int device, int parts) {
    auto list = gpipe::actions(devices, device, parts);
    if (device + 1 == devices) std::reverse(list.begin(), list.end());
    return list;
  }
};
}  // namespace

TEST_CASE("a schedule that would never end is refused") {
  CHECK_THROWS_WITH_AS(
      simulate(all_actions<reversed>(2, 3)),
      "tessera: a pipeline schedule whose devices wait for each other: 9 passes are left; wanted a pass "
      "whose input exists; order the passes of the schedule so that one can always run",
      error);
}
