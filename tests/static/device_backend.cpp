// Models on a backend as a device has it: memory of its own, images with channels first, float alone, statistics of
// batch norm that are gathered. Each kernel is asked whether the blocks that it is given are such.

#include <tessera/backend/kernel_members.hpp>
#include <tessera/layer/group_norm.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/train/adam.hpp>
#include <tessera/train/checkpoint.hpp>
#include <tessera/train/image_batches.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/token_batches.hpp>
#include <tessera/train/trainer.hpp>

namespace device_backend {

using namespace tessera;
using tessera::index_t;

struct device_memory {
  static constexpr bool on_host = false;
  static memory_handle allocate(std::size_t);
};

template <class T>
inline constexpr bool held_element =
    std::is_same_v<T, float> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>;
template <class Argument>
inline constexpr bool right_argument = true;
template <class T, int Rank, storage_order Order>
inline constexpr bool right_argument<block<T, Rank, Order>> = held_element<std::remove_const_t<T>> &&
                                                              (Order == storage_order::row_major) == (Rank == 4);
template <class T>
inline constexpr bool right_argument<head_rows<T>> = std::is_same_v<std::remove_const_t<T>, float>;
template <class T>
inline constexpr bool right_argument<cross_entropy_part<T>> = std::is_same_v<T, float>;
/// Addresses are only those of blocks.
template <class T>
inline constexpr bool right_argument<T*> = false;

struct device_base {
  using memory = device_memory;
  using statistic = float;
  static constexpr storage_order order = storage_order::row_major;
  static constexpr bool gathers_statistics = true;
  template <class T>
  static constexpr bool holds = std::is_same_v<T, float>;
  template <class Format>
  static constexpr bool computes = std::is_same_v<Format, float>;

  void synchronize();
  template <class T>
  void upload(T const*, T*, index_t) {
    static_assert(held_element<T>);
  }
  template <class T>
  void download(T const*, T*, index_t) {
    static_assert(held_element<T>);
  }
  template <class T>
  void fill(block<T, 1>, std::type_identity_t<T>) {
    static_assert(held_element<T>);
  }
  template <class T>
  void copy(operand<T, 1>, block<T, 1>) {
    static_assert(held_element<T>);
  }
  template <class T>
  void copy_strided(std::type_identity_t<strided<T const>> const&, strided<T> const&) {
    static_assert(held_element<T>);
  }
};

struct device : detail::kernel_members<device, device_base> {
  template <detail::kernel Name, class... Args>
  auto run(Args const&...) {
    static_assert((right_argument<Args> && ...));
    using enum detail::kernel;
    if constexpr (Name == first_bad_label || Name == first_bad_index) return index_t{};
    if constexpr (Name == square_sum) return double{};
    if constexpr (Name == moments_from_sums || Name == rms_norm_finish) return bool{};
    if constexpr (Name == cross_entropy_loss) return cross_entropy_totals{};
  }
};

/// Its communicator: of addresses on the device, with one beside it for values of the host.
class device_comm : public serial_comm {
 public:
  device_comm split(int, int) const { return {}; }
  serial_comm& host() { return host_; }

 private:
  serial_comm host_{};
};
static_assert(communicator<device_comm>);

template <int Size>
struct data : axis<Size> {};
template <int Size>
struct parts : axis<Size> {};
using world = mesh<data<2>, parts<2>>;
using device_team = team<world, device_comm, device>;

template <class Model, class Optimizer, class Batches>
void trains(device_team& here, Batches const& batches) {
  auto net = here.template make<Model>(seed{});
  trainer fit(net, cross_entropy{}, Optimizer{}, {.clip_norm = 1, .loss_scale = dynamic_scale{}});
  fit.fit(batches, epochs{1}, checkpoint_every{"checkpoints", 1}, resume{"checkpoints"});
  fit.evaluate(batches);
}

using images = parallel<model::resnet_small<10, parts<2>>, input<dynamic, 1, 12, 12>, data_parallel<data<2>>>;
using cut_images = parallel<chain<conv2d<1, 4, window<3, 1, 1>, split_height<parts<2>>>, batch_norm2d<4>, relu,
                                  group_norm<2, 4>, avg_pool2d<window<2, 2>>, flatten<>, linear<144, 10>>,
                            input<dynamic, 1, 12, 12>, data_parallel<data<2>>>;
using words =
    parallel<model::gpt<11, 9, 8, 4, 2, parts<2>>, input<8, 7>, data_parallel<data<2>>, optimizer_parallel<data<2>, 3>>;
using staged_words = parallel<model::gpt<11, 9, 8, 4, 2>, input<8, 7>, data_parallel<data<2>>, pipeline<parts<2>>>;

template void trains<images, momentum>(device_team&, image_batches const&);
template void trains<cut_images, momentum>(device_team&, image_batches const&);
template void trains<words, adamw>(device_team&, token_batches const&);
template void trains<staged_words, adam>(device_team&, token_batches const&);

}  // namespace device_backend
