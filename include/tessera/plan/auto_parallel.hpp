#pragma once

#include <tessera/plan/parallel.hpp>
#include <tessera/plan/search/found.hpp>
#include <tessera/plan/search/kept_bytes.hpp>
#include <tessera/plan/search/limited_plan.hpp>
#include <tessera/plan/search/model_search.hpp>

#include <limits>

namespace tessera {

namespace detail {
struct first_axis : axis<1> {};
}  // namespace detail

/// A search may cut what these split words name, and nothing else: `only<split_batch, split_output>`.
template <template <class...> class... Words>
struct only {
  static constexpr bool allows(std::string_view word) { return ((Words<detail::first_axis>::word == word) || ...); }
};

/// A search finds a plan of which each device keeps no more than so many bytes:
///
///     auto_parallel<model, input<64, 1024>, world, machine, memory_limit<2'000'000'000, adam>>
///
/// Bytes are those of parameters, states, gradients, what an `Optimizer` remembers (as it is made by default; void:
/// plain gradient descent), and of all that layers keep from forward to backward, as if no two of them kept the same
/// block: an upper bound. A recomputed part keeps its input only. What a pass has at one time beside these (scratch,
/// gradients of activations, what a recomputed part makes again) is not among them; `training_memory` of what is found
/// counts all.
template <index_t Bytes, class Optimizer = void>
struct memory_limit {
  static_assert(Bytes > 0, "tessera: a memory limit is 1 byte or more; state what a device may keep");
  using optimizer = Optimizer;
  template <class Machine>
  static constexpr index_t bytes = Bytes;
};
/// The same of what a device of the machine has (`machine_description::memory`), or so many percent of it.
template <class Optimizer = void, int Percent = 100>
struct machine_memory {
  static_assert(Percent > 0 && Percent <= 100,
                "tessera: a search may use from 1 to 100 percent of a device's memory; state such a share");
  using optimizer = Optimizer;
  template <class Machine>
  static constexpr index_t bytes = description_of<Machine>.memory / 100 * Percent;
};

namespace detail {

struct allow_all {
  static constexpr bool allows(std::string_view) { return true; }
};
template <class Option>
struct is_only : std::false_type {};
template <template <class...> class... Words>
struct is_only<only<Words...>> : std::true_type {};

struct no_limit {};
template <class Option>
struct is_limit : std::false_type {};
template <index_t Bytes, class Optimizer>
struct is_limit<memory_limit<Bytes, Optimizer>> : std::true_type {};
template <class Optimizer, int Percent>
struct is_limit<machine_memory<Optimizer, Percent>> : std::true_type {};
/// How many values an optimizer remembers of each parameter.
template <class Optimizer>
constexpr index_t copies_of() {
  if constexpr (std::is_void_v<Optimizer>)
    return 0;
  else
    return Optimizer{}.values_per_element();
}

template <class Model>
struct without_policies {
  using type = Model;
};
template <class Model, class... Policies>
struct without_policies<parallel<Model, Policies...>> {
  using type = Model;
};

/// What a search without a limit found, as types.
template <class Problem, class Serial, class Search>
struct unlimited_plan {
  using mesh = typename Problem::mesh;
  using front = typename Search::front;
  using edge = typename Search::edge;
  static constexpr int axes = mesh::axes;
  using path = chain_path<front, Search::best.made>;
  static constexpr auto input_layout =
      layout_of_edge<axes>(front::template before<0>::edge::made[path::template at<0>()]);
  static constexpr search_time time = Search::best.time - axes_that_replicate(input_layout);
  static constexpr auto output_layout = layout_of_edge<axes>(edge::taken[Search::best.taken]);
  using word_at_end =
      word_if<!(output_layout == dual(layout_of_edge<axes>(edge::made[Search::best.made]))), mesh, output_layout>;
  using pieces = typename rebuilt<built_nodes<Problem, front, 1, Search::best.made>, 0, bare<Serial>>::type;
};

/// The model of a plan: its pieces are one node.
template <class Plan>
struct model_of_plan {
  template <class... Nodes>
  static auto finish(built<chain<Nodes...>>) {
    using end = decltype(built<Nodes...>{} + typename Plan::word_at_end{});
    return std::type_identity<decltype(chain_of(end{}))>{};
  }
  template <class... Nodes>
  static auto finish(built<Nodes...>) {
    return finish(built<chain<Nodes...>>{});
  }
  using type = typename decltype(finish(typename Plan::pieces{}))::type;
};
/// What it keeps, counted as a limit counts.
template <class Problem, class Input, index_t Copies, class Plan>
inline constexpr index_t bytes_of_plan =
    kept_bytes<Problem, Copies,
               tessera::bind<typename model_of_plan<Plan>::type, typename Problem::mesh,
                             flow<Input::extents, Plan::input_layout>>>::count(false, 1);

/// Says that nothing fits, and nothing else: the rest compiles.
template <class Free, class Refusal>
struct refused_plan : Free, Refusal {};

/// The plan of a search under a limit, or that without one where it fits.
template <class Problem, class Serial, class Input, index_t Limit, index_t Copies, class Free>
constexpr auto plan_within() {
  if constexpr (bytes_of_plan<Problem, Input, Copies, Free> <= Limit) {
    return std::type_identity<Free>{};
  } else {
    using limited = limited_plan<Problem, Serial, Input, Limit, Copies, model_search<Problem, Serial, Input>::ties>;
    if constexpr (limited::fit) {
      return std::type_identity<typename limited::result>{};
    } else {
      return std::type_identity<refused_plan<Free, typename limited::template refusal<>>>{};
    }
  }
}

}  // namespace detail

/// A search for the splits that take a model the least time on a mesh of a machine's devices, and what it found. All of
/// it is known while compiling.
///
/// `Options`: `only<...>` to search fewer splits; `memory_limit<...>` or `machine_memory<...>` to find the plan of
/// least time that fits. Layers keep the split words that they have, and layout words stay.
template <class Model, class Input, device_mesh Mesh, computing_machine Machine, class... Options>
struct auto_parallel_search {
  static_assert(std::is_same_v<Model, typename detail::without_policies<Model>::type>,
                "tessera: this model has policies, which a search would lose; search the model inside, and write "
                "parallel<...> around auto_parallel_search<...>::model");
  static_assert(detail::is_input<Input>::value,
                "tessera: a search needs the extents of the model's input; name them, as in input<256, 3, 224, 224>");
  static_assert(
      ((detail::is_only<Options>::value || detail::is_limit<Options>::value) && ...),
      "tessera: this is no option of auto_parallel; it has only<split_batch, ...> to search fewer splits, and "
      "memory_limit<bytes> and machine_memory<> for plans that fit");
  static_assert((0 + ... + int{detail::is_only<Options>::value}) < 2,
                "tessera: a search has one only<...>; name all split words in it");
  static_assert((0 + ... + int{detail::is_limit<Options>::value}) < 2,
                "tessera: a search has one memory limit; state one memory_limit<...> or machine_memory<...>");
  using input = Input;
  using allowed = detail::option_or_t<detail::is_only, detail::allow_all, Options...>;
  using limit = detail::option_or_t<detail::is_limit, detail::no_limit, Options...>;
  using problem = search_problem<Mesh, Machine, float, allowed, 100>;
  using serial = typename detail::without_policies<Model>::type;
  static_assert(detail::ties_can_be_searched<detail::nodes_of<serial>>(),
                "tessera: a search takes one weight that layers share, all of them in the outermost chain; leave out "
                "tied<...>, or name the splits of this model by hand");
  /// Without a limit.
  using search = typename detail::model_search<problem, serial, Input>::type;
  static_assert(search::best.made >= 0,
                "tessera: no plan of this model uses only the splits that are allowed, with the words that its layers "
                "have; allow more in only<...>");

  /// How many values the optimizer of the limit remembers of each parameter.
  static constexpr index_t copies = [] {
    if constexpr (std::is_same_v<limit, detail::no_limit>)
      return index_t{0};
    else
      return detail::copies_of<typename limit::optimizer>();
  }();
  /// What a device may keep.
  static constexpr index_t most_bytes = [] {
    if constexpr (std::is_same_v<limit, detail::no_limit>)
      return std::numeric_limits<index_t>::max();
    else
      return limit::template bytes<Machine>;
  }();

 private:
  static constexpr auto choose() {
    using free = detail::unlimited_plan<problem, serial, search>;
    if constexpr (std::is_same_v<limit, detail::no_limit>)
      return std::type_identity<free>{};
    else
      return detail::plan_within<problem, serial, Input, most_bytes, copies, free>();
  }
  using chosen = typename decltype(choose())::type;

 public:
  /// The time of a step on the additive cost model: kernels, routes, collectives, and reductions of gradients as if
  /// nothing hid them.
  static constexpr search_time time = chosen::time;
  static constexpr double seconds = static_cast<double>(time) * 1e-12;
  /// What the device with the largest blocks keeps, counted as for `memory_limit`, with its optimizer.
  static constexpr index_t bytes = detail::bytes_of_plan<problem, Input, copies, chosen>;

  /// The model with its splits, without policies.
  using model = typename detail::model_of_plan<chosen>::type;
  using type = parallel<model, Input, tessera::input_layout<layout_of<Mesh, chosen::input_layout>>>;
};

/// The model with the splits that take the least time on a machine: an ordinary model type.
///
///     using found = auto_parallel<model::resnet50<1000>, input<256, 3, 224, 224>, mesh<dp, tp>,
///     machine::ascend_910_server>;
template <class Model, class Input, device_mesh Mesh, computing_machine Machine, class... Options>
using auto_parallel = typename auto_parallel_search<Model, Input, Mesh, Machine, Options...>::type;

}  // namespace tessera
