#include "support/errors.hpp"
#include "support/held.hpp"
#include "support/layouts.hpp"
#include "support/near_and_far.hpp"

#include <tessera/op/activation.hpp>
#include <tessera/op/attention.hpp>
#include <tessera/op/batch_matmul.hpp>
#include <tessera/op/batch_norm.hpp>
#include <tessera/op/broadcast.hpp>
#include <tessera/op/concat.hpp>
#include <tessera/op/conv2d.hpp>
#include <tessera/op/cross_entropy.hpp>
#include <tessera/op/dropout.hpp>
#include <tessera/op/embedding.hpp>
#include <tessera/op/explicit_loss.hpp>
#include <tessera/op/flatten.hpp>
#include <tessera/op/group_norm.hpp>
#include <tessera/op/layer_norm.hpp>
#include <tessera/op/pool2d.hpp>
#include <tessera/op/reduce.hpp>
#include <tessera/op/reshape.hpp>
#include <tessera/op/rms_norm.hpp>
#include <tessera/op/slice.hpp>
#include <tessera/op/softmax.hpp>
#include <tessera/op/transpose.hpp>

// Operators and changes of layout in memory that the host cannot reach give the bits that they give in the host's.

namespace {

using namespace tessera;
using tessera::index_t;
using worlds::near_and_far;
using worlds::values_on;
using worlds::witness;

template <int Size>
struct rows_axis : axis<Size> {};
template <int Size>
struct columns_axis : axis<Size> {};
template <int R, int C>
using world = mesh<rows_axis<R>, columns_axis<C>>;

/// Runs `program.operator()<R, C>(team, witness)` on meshes of one, two and four ranks.
template <class Program>
void on_meshes(Program program) {
  near_and_far<world<1, 1>>([&](auto& team, witness& seen) { program.template operator()<1, 1>(team, seen); });
  near_and_far<world<2, 1>>([&](auto& team, witness& seen) { program.template operator()<2, 1>(team, seen); });
  near_and_far<world<2, 2>>([&](auto& team, witness& seen) { program.template operator()<2, 2>(team, seen); });
}

/// All changes of layout, but for `stride` - 1 of as many.
template <class Mesh, class Team, class T, int Rank>
void change_layouts(Team& team, witness& seen, tensor<T, Rank> const& whole, std::size_t stride) {
  auto& kernels = team.kernels();
  const auto at = team.coordinates();
  const auto layouts = layouts::all<Mesh::axes>(Rank, {reduction::sum, reduction::maximum});
  for (std::size_t pair = 0; pair < layouts.size() * layouts.size(); pair += stride) {
    auto const& from = layouts[pair / layouts.size()];
    auto const& to = layouts[pair % layouts.size()];
    if (!can_reach(from, to)) continue;
    auto local = from_host(kernels, worlds::held<Mesh>(whole, from, at));
    for (auto const& s : find_route(Mesh::value, from, to, Rank))
      local = detail::execute_step<T>(team, s, whole.extents(), std::move(local));
    seen.seen("a change of layout", kernels, local);
  }
}

}  // namespace

TEST_CASE("device memory: changes of layout") {
  on_meshes([]<int R, int C>(auto& team, witness& seen) {
    tensor<float, 4> images(shape<4>{{3, 5, 4, 2}});
    for (index_t i = 0; i < images.size(); ++i) images.data()[i] = static_cast<float>(i + 20);
    change_layouts<world<R, C>>(team, seen, images, 37);
    tensor<std::int64_t, 2> words(shape<2>{{5, 3}});
    for (index_t i = 0; i < words.size(); ++i) words.data()[i] = i + 20;
    change_layouts<world<R, C>>(team, seen, words, 3);
  });
}

TEST_CASE("device memory: functions of elements, repeated operands, sums and maxima") {
  on_meshes([]<int R, int C>(auto& team, witness& seen) {
    using whole = layout<shard<1, columns_axis<C>>, shard<2, rows_axis<R>>>;
    using channels = layout<shard<0, columns_axis<C>>>;
    const auto x = values_on<whole, float>(team, shape<4>{{2, 5, 6, 3}}, 1);
    const auto z = values_on<whole, float>(team, shape<4>{{2, 5, 6, 3}}, 2);
    const auto c = values_on<channels, float>(team, shape<1>{{5}}, 3);
    seen("relu", op::relu_backward(op::relu(x), z));
    seen("gelu", op::gelu_backward(x, z));
    seen("silu", op::silu_backward(x, z));
    seen("sigmoid", op::sigmoid_backward(op::sigmoid(x), z));
    seen("tanh", op::tanh_backward(op::tanh(x), z));
    seen("arithmetic", op::log(op::exp(x + z * x - x / op::exp(z))) + 0.5f);
    seen("along", x * along<1>(c) - along<1>(c) / op::exp(x));
    seen("outer", along<0>(c) * along<1, 2>(op::sum<0, 3>(op::relu(x)) | to<replicated>));
    seen("sums", op::sum_along<1, 2>(x));
    seen("mean", op::mean_backward<1, 3>(x, op::mean<1, 3>(x) | to<layout<shard<1, rows_axis<R>>>>));
    const auto most = op::max<1, 2>(x) | to<replicated>;
    seen("max", most);
    seen("max backward", op::max_backward<1, 2>(x, most, op::scale(most, 2)));
    seen("reduce_sum", op::reduce_sum_backward(x, op::reduce_sum(x) | to<replicated>));
    seen("softmax", op::softmax_backward<1>(op::softmax<1>(x), z));
    seen("log_softmax", op::log_softmax_backward<2>(op::log_softmax<2>(x), z));
  });
}

TEST_CASE("device memory: parts, orders and products") {
  on_meshes([]<int R, int C>(auto& team, witness& seen) {
    using both = layout<shard<0, rows_axis<R>>, shard<1, columns_axis<C>>>;
    const auto x = values_on<both, float>(team, shape<3>{{5, 4, 3}}, 1);
    const auto y = values_on<both, float>(team, shape<3>{{2, 4, 3}}, 2);
    seen("slice", op::slice<0>(x, 1, 3));
    seen("slice backward", op::slice_backward<1>(x, 2, 9));
    seen("concat", op::concat<0>(x, y));
    for (auto const& part : op::concat_backward<0>(x, std::array<index_t, 2>{2, 3})) seen("concat backward", part);
    seen("transpose", op::transpose<2, 0, 1>(x));
    seen("reshape", op::reshape(x | to<layout<shard<0, rows_axis<R>>>>, shape<2>{{5, dynamic}}));
    const auto a = values_on<layout<shard<0, rows_axis<R>>>, float>(team, shape<4>{{4, 3, 2, 5}}, 3);
    const auto b = values_on<layout<shard<0, rows_axis<R>>>, float>(team, shape<4>{{4, 3, 5, 2}}, 4);
    seen("batch_matmul", op::batch_matmul(a, b));
    seen("batch_matmul backward", op::batch_matmul_backward_b(op::batch_matmul(a, b), a, b));
    const auto images = values_on<layout<shard<0, rows_axis<R>>>, float>(team, shape<4>{{4, 3, 2, 5}}, 3);
    seen("flatten", op::flatten<>(images));
    seen("dropout", op::dropout(x, 0.75, philox(3, 4)));
  });
}

TEST_CASE("device memory: images cut by height, with halos") {
  on_meshes([]<int R, int C>(auto& team, witness& seen) {
    using cut_images = layout<shard<2, rows_axis<R>>, shard<3, columns_axis<C>>>;
    const auto x = values_on<cut_images, float>(team, shape<4>{{2, 4, 9, 7}}, 1);
    const auto w = values_on<replicated, float>(team, shape<4>{{3, 4, 3, 3}}, 2);
    const conv2d_geometry windows{.kernel = {3, 3}, .padding_before = {1, 1}, .padding_after = {1, 1}};
    const auto y = op::conv2d(x, w, windows);
    seen("conv2d", y);
    seen("conv2d backward", op::conv2d_backward_input(y, w, x.extents(), windows));
    const pool2d_geometry pools{.kernel = {3, 3}, .stride = {2, 2}, .padding_before = {1, 1}, .padding_after = {1, 1}};
    const auto most = op::max_pool2d(x, pools);
    seen("max_pool2d", most.y);
    seen("max_pool2d backward", op::max_pool2d_backward(most.y, most.argmax, x.extents(), pools));
    seen("avg_pool2d", op::avg_pool2d_backward(op::avg_pool2d(x, pools), x.extents(), pools));
    seen("global_avg_pool", op::global_avg_pool(x));
    seen("adaptive_avg_pool", op::adaptive_avg_pool(x, 2, 3));
    const auto group = op::group_norm<2>(x);
    seen("group_norm", op::group_norm_backward<2>(x, group.y, group.statistics));
    auto mean = values_on<replicated, float>(team, shape<1>{{4}}, 3);
    auto variance = op::exp(values_on<replicated, float>(team, shape<1>{{4}}, 4));
    const auto batch = op::batch_norm_statistics(x, 0.1, 1e-5, mean, variance);
    block<float const, 1> none;
    seen("batch_norm", op::batch_norm(x, batch, none, none));
    seen("running mean", mean);
    seen("running variance", variance);
    // An origin so far away that the statistics are taken more than once.
    auto far_mean = op::scale(mean, 1e12f);
    const auto again = op::batch_norm_statistics(x, 0.1, 1e-5, far_mean, variance);
    seen("batch_norm from afar", op::batch_norm(x, again, none, none));
  });
}

TEST_CASE("device memory: norms whose rows are cut") {
  on_meshes([]<int R, int C>(auto& team, witness& seen) {
    using both = layout<shard<0, rows_axis<R>>, shard<1, columns_axis<C>>>;
    const auto x = values_on<both, float>(team, shape<2>{{5, 6}}, 1);
    const auto weight = values_on<layout<shard<0, columns_axis<C>>>, float>(team, shape<1>{{6}}, 2);
    const auto layer = op::layer_norm(x, weight, weight);
    seen("layer_norm", layer.y);
    seen("layer_norm backward", op::layer_norm_backward(x, op::layer_norm(x).y, op::layer_norm(x).statistics));
    const auto rms = op::rms_norm(x, weight);
    seen("rms_norm", rms.y);
    const auto images = values_on<layout<shard<1, rows_axis<R>>>, float>(team, shape<4>{{2, 4, 3, 5}}, 3);
    const auto of_images = op::layer_norm<3>(images);
    seen("layer_norm of images", op::layer_norm_backward<3>(images, of_images.y, of_images.statistics));
  });
}

TEST_CASE("device memory: attention, with keys that go round and with a mask") {
  on_meshes([]<int R, int C>(auto& team, witness& seen) {
    using sequences = layout<shard<1, columns_axis<C>>, shard<2, rows_axis<R>>>;
    const auto q = values_on<sequences, float>(team, shape<4>{{2, 4, 5, 3}}, 1);
    const auto k = values_on<sequences, float>(team, shape<4>{{2, 4, 5, 3}}, 2);
    const auto v = values_on<sequences, float>(team, shape<4>{{2, 4, 5, 2}}, 3);
    const attention_options causal{.causal = true};
    const auto y = op::scaled_dot_product_attention(q, k, v, causal);
    seen("attention", y.out);
    const auto d = op::scaled_dot_product_attention_backward(q, k, v, y, y.out, causal);
    seen("attention backward", d.q);
    seen("attention backward", d.k);
    seen("attention backward", d.v);
    using heads = layout<shard<1, columns_axis<C>>>;
    const auto mask = values_on<replicated, float>(team, shape<4>{{1, 1, 5, 5}}, 4);
    const auto masked = op::scaled_dot_product_attention(q | to<heads>, k | to<heads>, v | to<heads>, mask);
    seen("masked attention", masked.out);
  });
}

TEST_CASE("device memory: losses and their labels") {
  on_meshes([]<int R, int C>(auto& team, witness& seen) {
    using both = layout<shard<0, rows_axis<R>>, shard<1, columns_axis<C>>>;
    const auto x = values_on<both, float>(team, shape<2>{{6, 5}}, 1);
    const auto targets = op::softmax(values_on<both, float>(team, shape<2>{{6, 5}}, 2));
    auto labels = worlds::rows_of(std::vector<std::int64_t>{0, 4, 2, -100, 1, 3}, x.part()[0]);
    const op::cross_entropy plain(x, labels);
    seen("loss", plain.loss());
    seen("gradient", plain.backward());
    const op::cross_entropy weighted(x, labels, {.label_smoothing = 0.1, .class_weights = {1, 2, 0.5, 1, 3}});
    seen("weighted loss", weighted.loss());
    seen("row losses", weighted.row_losses());
    seen("weighted gradient", weighted.backward());
    const op::cross_entropy rowwise(x, labels, {.reduce = loss_reduction::none});
    seen("gradient by row", rowwise.backward(rowwise.row_losses()));
    const op::cross_entropy probable(x, targets);
    seen("loss of probabilities", probable.loss());
    seen("gradient of probabilities", probable.backward());
    const op::explicit_loss spelt(x, targets, -1.0 / 6, true);
    seen("explicit loss", spelt.loss());
    seen("explicit gradient", spelt.backward());

    labels[0] = 17;
    const auto refused = errors::error_of([&] { op::cross_entropy(x, labels); });
    CHECK(refused.find("label 17 in row 0") != std::string::npos);
    tensor<std::int64_t, 1> words(shape<1>{{3}});
    for (index_t i = 0; i < 3; ++i) words(i) = i == 2 ? 99 : i;
    const auto table = values_on<replicated, float>(team, shape<2>{{4, 3}}, 5);
    const auto unknown = errors::error_of([&] { op::embedding(distribute<replicated>(team, words), table); });
    CHECK(unknown.find("index 99 at [2]") != std::string::npos);
  });
}
