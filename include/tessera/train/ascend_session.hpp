#pragma once

#include <tessera/backend/ascend/device.hpp>
#include <tessera/comm/ascend_environment.hpp>
#include <tessera/comm/hccl.hpp>
#include <tessera/comm/processors.hpp>
#include <tessera/train/session.hpp>

#include <algorithm>
#include <concepts>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

namespace tessera {

namespace detail {

/// Whether kernels of the backend work on the memory of an Ascend device, as those of `ascend` and wrappers of it do.
template <class Backend>
concept on_ascend = std::same_as<typename Backend::memory, ascend_memory>;

}  // namespace detail

/// The start of a program on Ascend: reads which rank this is (`ascend_environment`) and opens its device, for the
/// backends that this thread makes. No MPI.
///
/// An exception that nobody catches is printed (by rank 0, and half a second later by others that are still there) and
/// ends the process with a non-zero exit code. The launcher ends the other ranks, or HCCL, when they wait for this one.
class ascend_program {
 public:
  ascend_program() {
    std::set_terminate(end_rank);
    place_ = ascend_environment::read();
    rank_of_process() = place_.rank;
    device_ = ascend_device::open(place_.device);
    here() = this;
  }
  ascend_program(int&, char**&) : ascend_program() {}
  ascend_program(ascend_program const&) = delete;
  ascend_program& operator=(ascend_program const&) = delete;
  ~ascend_program() { here() = nullptr; }

  /// The program that this thread has begun.
  static ascend_program const& current() {
    if (here() == nullptr)
      throw error("a session on Ascend before its program", "an ascend_program on this thread", "declare one first");
    return *here();
  }
  hccl_comm world() const { return hccl_comm(device_, place_); }
  /// How many ranks share this server's processors.
  int ranks_of_server() const {
    if (!place_.table) return 1;
    auto const& all = place_.table->devices();
    const int server = all[static_cast<std::size_t>(place_.rank)].server;
    return static_cast<int>(std::count_if(all.begin(), all.end(), [&](auto const& d) { return d.server == server; }));
  }

 private:
  static int& rank_of_process() {
    static int one = 0;
    return one;
  }
  static ascend_program*& here() {
    thread_local ascend_program* one = nullptr;
    return one;
  }
  [[noreturn]] static void end_rank() {
    detail::print_reason(rank_of_process());
    std::_Exit(EXIT_FAILURE);
  }

  ascend_environment place_{};
  std::shared_ptr<ascend_device> device_{};
};

/// Sessions whose backend is on Ascend: HCCL, among the ranks that the environment names.
///
///     int main(int argc, char** argv) {
///       ts::session<world, ts::ascend<ts::ascend_910>> session{argc, argv};
template <detail::on_ascend Backend>
struct communicator_for<Backend> {
  using type = hccl_comm;
  using program = ascend_program;

  static type world(Backend&, session_options const&) { return ascend_program::current().world(); }
  /// Every rank of a server may run on all its processors, unless it is bound to some.
  static int processors() {
    const std::vector<int> own = detail::own_processors();
    const auto usable = static_cast<std::size_t>(std::count(own.begin(), own.end(), 1));
    return share_of_processors(std::vector<int>(usable, ascend_program::current().ranks_of_server()));
  }
};

}  // namespace tessera
