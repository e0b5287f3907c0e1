#pragma once

#include <tessera/train/checkpoint_entry.hpp>
#include <tessera/train/network.hpp>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera::detail {

/// Begins the names of what optimizers remember, which no parameter has.
inline constexpr char const* state_prefix = "optimizer/";

/// Tensors of a model in a checkpoint. Where they lie in a device's memory, entries name copies in host memory: `read`
/// brings the elements there, `write` takes them back.
template <class Backend, class T>
class tensor_entries {
 public:
  explicit tensor_entries(Backend& kernels) : kernels_(&kernels) {}

  /// A parameter or state, or other numbers of its kind.
  void add(parameter_view<T> const& p, std::string name, T* data) {
    checkpoint_entry entry{std::move(name), safetensors_type_of<T>, p.extents, {p.part, {}, p.range}, data};
    constexpr auto stored = stored_dims<4, Backend::order>();
    if (p.extents.size() == stored.size()) entry.part.order.assign(stored.begin(), stored.end());
    if constexpr (!on_host) {
      copies_.push_back({data, tensor<T, 1>(shape<1>{{p.value.size()}})});
      entry.data = copies_.back().host.data();
    }
    list_.push_back(std::move(entry));
  }
  std::vector<checkpoint_entry> const& list() const { return list_; }

  void read() {
    for (copy& c : copies_) kernels_->download(static_cast<T const*>(c.data), c.host.data(), c.host.size());
  }
  void write() {
    for (copy& c : copies_) kernels_->upload(static_cast<T const*>(c.host.data()), c.data, c.host.size());
  }

 private:
  static constexpr bool on_host = Backend::memory::on_host;
  struct copy {
    T* data;
    tensor<T, 1> host;
  };

  Backend* kernels_;
  std::vector<checkpoint_entry> list_{};
  std::vector<copy> copies_{};
};

/// The parameters and states of a model.
template <class Network>
auto model_entries(Network const& model) {
  using backend = typename std::remove_reference_t<decltype(model.where())>::backend;
  tensor_entries<backend, typename Network::value_type> entries(model.where().kernels());
  for (auto const& p : model.parameters()) entries.add(p, p.name, p.value.data);
  return entries;
}

}  // namespace tessera::detail
