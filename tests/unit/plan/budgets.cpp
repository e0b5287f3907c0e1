#include "support/peer_cases.hpp"
#include "support/split_layers.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/cross_entropy.hpp>
#include <tessera/train/session.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace {

using namespace split_layers;
using peer_cases::peer_case;
using tessera::index_t;

/// A message of a step, and the bytes that a device receives.
struct sent {
  phase when;
  collective kind;
  axis_set group;
  index_t received;
};
using messages = std::vector<sent>;

template <class Model, class Mesh>
messages of_step() {
  constexpr collective_list<Model, Mesh> list;
  messages all;
  for (int i = 0; i < list.size(); ++i) all.push_back({list[i].when, list[i].kind, list[i].group, received(list, i)});
  return all;
}

/// The same with all matrices cut along `Axis` too: their gradients leave the bucket, which is the last message.
template <class Model, class Mesh, class Axis>
messages of_fully_sharded_step() {
  messages all = of_step<Model, Mesh>();
  messages of_matrices;
  for (auto const& call : fully_sharded_calls<Model, Mesh, Axis>()) {
    const int devices = Mesh::group_size(call.group);
    const index_t bytes = 4 * call.template elements<Mesh>(1, {});
    of_matrices.push_back({call.when, call.kind, call.group, received(call.kind, devices, bytes)});
    if (call.when == phase::gradient) all.back().received -= received(collective::all_reduce, devices, bytes);
  }
  all.insert(all.end(), of_matrices.begin(), of_matrices.end());
  return all;
}

/// Rank 0 of a world whose other ranks are not there. Reductions leave what it has; gathers repeat it.
class lone_rank {
 public:
  using request = serial_request;
  explicit lone_rank(int ranks) : ranks_(ranks) {}
  lone_rank(lone_rank&&) = default;
  lone_rank& operator=(lone_rank&&) = default;
  int rank() const { return 0; }
  int size() const { return ranks_; }
  template <class T>
  void all_reduce(T*, index_t, reduction) {}
  template <class T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    for (const index_t count : counts) receive = std::copy_n(send, count, receive);
  }
  template <class T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction) {
    std::copy_n(send, counts[0], receive);
  }
  template <class T>
  void all_to_all(T const*, std::span<index_t const>, T*, std::span<index_t const>) {}
  template <class T>
  void broadcast(T*, index_t, int) {}
  void barrier() {}
  template <class T>
  request start_all_reduce(T*, index_t, reduction) {
    return {};
  }
  template <class T>
  request start_all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    all_gather(send, receive, counts);
    return {};
  }
  template <class T>
  request start_reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    reduce_scatter(send, receive, counts, op);
    return {};
  }
  template <class T>
  request start_send(T const*, index_t, int, int) {
    return {};
  }
  template <class T>
  request start_receive(T*, index_t, int, int) {
    return {};
  }
  memory_handle allocate(std::size_t bytes) { return host_memory::allocate(bytes); }
  lone_rank split(int, int) const { return lone_rank(ranks_); }
  [[noreturn]] void abort(int code) const { std::_Exit(code); }

 private:
  int ranks_;
};

/// The messages of the loss and the gradient of logits [64, 8000] in a layout, as its code makes them. Labels that are
/// not where the rows of the logits are have four bytes on the way there.
template <class Mesh, class Logits, class Labels>
messages of_cross_entropy() {
  using context = team<Mesh, recording<lone_rank>>;
  context all{recording<lone_rank>(lone_rank(Mesh::devices))};
  const shape<2> extents{{64, 8000}};
  const shape<1> rows{{64}};
  const auto held = local_box<Mesh>(placements_of<Mesh, Logits>, extents, {}).extents();
  const auto given = local_box<Mesh>(placements_of<Mesh, Labels>, rows, {}).extents();
  const sharded<float, 2, Logits, context> logits(all, extents, {held, 0.0f});
  const sharded<std::int32_t, 1, Labels, context> cut_labels(all, rows, {given, 1});
  using row_layout =
      layout_of<Mesh, dual(result_of<tessera::detail::cross_entropy_op, 1, decltype(logits)>::placements)>;
  auto& log = all.group(Mesh::all);
  log.clear();
  const auto of_rows = redistribute<row_layout>(cut_labels);
  const std::vector<std::int64_t> labels(of_rows.local().data(), of_rows.local().data() + of_rows.local().size());
  const op::cross_entropy loss(logits, labels);
  messages made;
  for (auto const& call : log.calls())
    made.push_back(
        {phase::forward, call.kind, call.group,
         received(call.kind, Mesh::group_size(call.group), call.elements * static_cast<index_t>(call.element_bytes))});
  const std::size_t forward = log.calls().size();
  loss.backward();
  CHECK(log.calls().size() == forward);
  return made;
}

/// With the sum of the loss of a batch that these axes cut.
template <class Model, class Mesh>
messages of_training(axis_set batch) {
  messages all = of_step<Model, Mesh>();
  all.push_back({phase::forward, collective::all_reduce, batch,
                 received(collective::all_reduce, Mesh::group_size(batch), sizeof(float))});
  return all;
}

/// By operator and layouts.
std::map<std::string, messages> all_steps() {
  using batch_and_height = layout<shard<0, dp>, shard<2, tp>>;
  using batch_and_second = layout<shard<0, dp>, shard<1, tp>>;
  return {
      {"mlp/tp", of_step<mlp_step<whole>, grid>()},
      {"mlp/tp+sp", of_step<mlp_step<by_position>, grid>()},
      {"mlp/tp_h-shard", of_step<mlp_step<by_feature>, grid>()},
      {"mlp/fsdp+tp", of_fully_sharded_step<mlp_step<whole>, grid, dp>()},
      {"attn/tp", of_step<attention_step<whole>, grid>()},
      {"attn/tp+sp", of_step<attention_step<by_position>, grid>()},
      {"attn/tp_h-shard", of_step<attention_step<by_feature>, grid>()},
      {"embed/vocab-parallel", of_step<embedding_step, grid>()},
      {"layer/tp+sp", of_step<transformer_step<by_position>, grid>()},
      {"layer/tp_h-shard", of_step<transformer_step<by_feature, whole_along<tp>>, grid>()},
      {"layer/fsdp+tp", of_fully_sharded_step<transformer_step<whole>, grid, dp>()},
      {"maxpool3x3s2/H", of_step<max_pool_step<shard<2, x>>, line>()},
      {"maxpool3x3s2/batch", of_step<max_pool_step<shard<0, x>>, line>()},
      {"bn/batch", of_step<batch_norm_step<shard<0, x>>, line>()},
      {"bn/H", of_step<batch_norm_step<shard<2, x>>, line>()},
      {"bn/chan", of_step<batch_norm_step<shard<1, x>>, line>()},
      {"bn/batch+H", of_step<batch_norm_step<batch_and_height>, grid>()},
      {"bn/batch+chan", of_step<batch_norm_step<batch_and_second>, grid>()},
      {"layernorm/feat", of_step<layer_norm_step<shard<1, x>>, line>()},
      {"layernorm/row", of_step<layer_norm_step<shard<0, x>>, line>()},
      {"ce/batch", of_cross_entropy<line, shard<0, x>, shard<0, x>>()},
      {"ce/class", of_cross_entropy<line, shard<1, x>, replicated>()},
      {"ce/class_ybatch", of_cross_entropy<line, shard<1, x>, shard<0, x>>()},
      {"ce/batch+class", of_cross_entropy<grid, batch_and_second, shard<0, dp>>()},
      {"resnet50/dp", of_training<resnet50_step<shard<0, x>>, line>(line::all)},
      {"resnet50/dp2xH4", of_training<resnet50_step<batch_and_height>, grid>(grid::set_of<dp>)},
  };
}

/// `d/bn_onepass/batch` is a case of `bn/batch`, `g/resnet50/dp_syncbn_onepass` one of `resnet50/dp`.
std::string step_of(std::string const& name) {
  const std::size_t slash = name.rfind('/');
  const std::string what = name.substr(2, slash - 2);
  const std::string layouts = name.substr(slash + 1);
  if (what == "resnet50") return what + "/" + layouts.substr(0, layouts.find('_'));
  return what.substr(0, what.find('_')) + "/" + layouts;
}

/// Messages of one kind are counted; halos of windows that need no neighbours are left out.
std::string text_of(messages const& all, phase when, named_mesh<8> const& grid) {
  std::vector<std::pair<std::string, int>> kinds;
  for (auto const& m : all) {
    if (m.when != when || m.received == 0) continue;
    const std::string kind = std::string(to_string(m.kind)) + " " + grid.list(m.group);
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](auto const& k) { return k.first == kind; });
    if (same == kinds.end())
      kinds.push_back({kind, 1});
    else
      ++same->second;
  }
  std::string text;
  for (auto const& [kind, count] : kinds)
    text += (text.empty() ? "" : ", ") + (count > 1 ? std::to_string(count) + " " : "") + kind;
  return text;
}

std::string row_of(peer_case const& c, messages const& all) {
  const bool forward_alone = c.phase == "fwd";
  index_t bytes = 0;
  std::string steps;
  constexpr std::pair<phase, char const*> phases[] = {
      {phase::forward, "forward"}, {phase::backward, "backward"}, {phase::gradient, "gradients"}};
  for (auto const& [when, name] : phases) {
    if (when != phase::forward && forward_alone) continue;
    for (auto const& m : all)
      if (m.when == when) bytes += m.received;
    if (const std::string text = text_of(all, when, c.grid); !text.empty())
      steps += (steps.empty() ? "" : "; ") + std::string(name) + ": " + text;
  }
  peer_cases::check_bytes(c, bytes);
  return "| `" + c.name + "` | " + c.phase + " | " + c.bytes_text(bytes) + " | " + c.best_peer_text() + " | " + steps +
         " |\n";
}

}  // namespace

TEST_CASE("split layers take no more bytes than the best peer's") {
  const auto steps = all_steps();
  std::string table = "| step | phase | bytes | best peer | messages |\n|---|---|---|---|---|\n";
  int read = 0;
  for (char const* const group : {"b/", "c/maxpool", "d/", "e/", "g/"})
    for (auto const& c : peer_cases::read(group)) {
      // Batch norm is always of the whole batch.
      if (c.name.find("localbn") != std::string::npos) continue;
      CAPTURE(c.name);
      const auto found = steps.find(step_of(c.name));
      REQUIRE(found != steps.end());
      table += row_of(c, found->second);
      ++read;
    }
  if (read > 0) peer_cases::check_page("layers", table);
}

TEST_CASE("a cross-entropy makes these messages") {
  const auto of = [](messages const& all) {
    std::vector<std::pair<collective, index_t>> list;
    for (auto const& m : all) list.push_back({m.kind, m.received});
    return list;
  };
  using wanted = std::vector<std::pair<collective, index_t>>;
  // The loss; maxima of 64 rows, and two sums of each.
  CHECK(of(of_cross_entropy<line, shard<0, x>, shard<0, x>>()) == wanted{{collective::all_reduce, 4 * 14 / 8}});
  CHECK(of(of_cross_entropy<line, shard<1, x>, replicated>()) ==
        wanted{{collective::all_reduce, 256 * 14 / 8}, {collective::all_reduce, 512 * 14 / 8}});
}
