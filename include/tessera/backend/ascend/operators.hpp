#pragma once

#include <tessera/backend/ascend/device.hpp>
#include <tessera/backend/ascend/handle.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::detail::ascend_kernels {

/// The two phases of an operator, as `operators::run` wants them.
#define TESSERA_ACLNN(NAME) aclnn##NAME##GetWorkspaceSize, aclnn##NAME

/// The name of the function that is the template's argument.
template <auto Function>
std::string name_of() {
  const std::string_view text = __PRETTY_FUNCTION__;
  const std::size_t begin = text.rfind("aclnn");
  const std::size_t end = text.find_first_of(";]) ,", begin);
  return std::string(text.substr(begin, end - begin));
}

template <class T>
T const& raw(T const& argument) {
  return argument;
}
template <class T, auto Destroy>
T* raw(handle<T, Destroy> const& argument) {
  return argument.get();
}

/// Memory of the device until the kernels that were called in its lifetime are done.
template <class T>
struct temporary {
  memory_handle memory{};
  T* data = nullptr;
};

/// What all kernels stand on: the device, and how its matrix unit multiplies.
class operators {
 public:
  operators(std::shared_ptr<ascend_device> device, std::int8_t cube) : device_(std::move(device)), cube_(cube) {}

  /// The device that the kernels run on, and its stream.
  ascend_device& device() const { return *device_; }
  aclrtStream stream() const { return device_->stream(); }

 protected:
  /// Gives the operator to the stream: asks it how much workspace it wants, then calls it. The workspace goes back to
  /// the pool at once, whose next user runs later on the same stream.
  template <auto Prepare, auto Execute, class... Args>
  void run(Args const&... args) const {
    std::uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    const int prepared = Prepare(raw(args)..., &bytes, &executor);
    if (prepared != ACL_SUCCESS) check(prepared, name_of<Prepare>());
    const memory_handle workspace = bytes > 0 ? device_->allocate(bytes) : memory_handle{};
    const int executed = Execute(workspace.get(), bytes, executor, device_->stream());
    if (executed != ACL_SUCCESS) check(executed, name_of<Execute>());
  }

  template <class T = float>
  temporary<T> scratch(index_t count) const {
    temporary<T> made;
    made.memory = device_->allocate(static_cast<std::size_t>(count) * sizeof(T));
    made.data = static_cast<T*>(made.memory.get());
    return made;
  }
  /// What products of float are computed in: `cubeMathType` of the operators.
  std::int8_t cube() const { return cube_; }

 private:
  std::shared_ptr<ascend_device> device_;
  std::int8_t cube_;
};

}  // namespace tessera::detail::ascend_kernels
