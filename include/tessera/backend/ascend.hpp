#pragma once

#include <tessera/backend/ascend/chip.hpp>
#include <tessera/backend/ascend/device.hpp>
#include <tessera/backend/ascend/maximum_members.hpp>
#include <tessera/backend/concept.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tessera {

/// A backend on Ascend processors: kernels are operators of aclnn on one stream of one device, in float.
///
///     ts::session<world, ts::ascend<ts::ascend_910>> session{argc, argv};
///
/// `Chip` is `ascend_910` or `ascend_910b`. Kernels return before they are done and run in order; those that give the
/// host a value, `upload` and `download` wait. Images lie channels first, statistics are float. Results are as `eigen`
/// documents them but for rounding, with these limits:
///
/// - The first 910 multiplies in FP16 (`ascend_910`). Sums of `matmul` with `accumulate` and all that is composed here
///   are the same from run to run; convolutions' gradients, batch norm and `embedding_backward` are so only where CANN
///   is told to be deterministic (`aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1)`).
/// - Float statistics lose what a mean of a million deviations hides, and attention the last three digits where scores
///   are 10^4. Activations at infinity are what aclnn gives.
/// - Attention holds all scores of a block at once.
///
/// Errors of ACL and aclnn are `error` with the library's message. Objects that are made on one thread share its device
/// (`ascend_device`), the communicator its stream. Not part of `tessera.hpp`: link the CMake target `tessera::ascend`,
/// which is there where CANN is found (`ASCEND_HOME_PATH`).
template <class Chip>
class ascend : public detail::ascend_kernels::maximum_members {
 public:
  using memory = ascend_memory;
  static constexpr storage_order order = storage_order::row_major;
  using statistic = float;
  template <class T>
  static constexpr bool holds = std::is_same_v<T, float>;
  /// Products are of float; see the chip.
  template <class Format>
  static constexpr bool computes = std::is_same_v<Format, float>;
  static constexpr bool gathers_statistics = true;

  /// On the device that the calling thread drives, else the environment's `DEVICE_ID`, else 0. Throws `error` where ACL
  /// has no such device, or it is not a `Chip`.
  ascend() : ascend(ascend_device::current()) {}
  explicit ascend(std::shared_ptr<ascend_device> device) : maximum_members(std::move(device), Chip::cube_math_type) {
    char const* name = aclrtGetSocName();
    const std::string_view found = name == nullptr ? "" : name;
    if (!Chip::is(found))
      throw error("the processor " + std::string(found),
                  "one that the backend was made for, " + std::string(Chip::name),
                  "name its own chip: ascend<ascend_910> for the first 910, ascend<ascend_910b> for A2 and A3");
  }
};

}  // namespace tessera
