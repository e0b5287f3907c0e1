#pragma once

#include <tessera/layer/bind.hpp>
#include <tessera/plan/search/labels.hpp>
#include <tessera/plan/search/problem.hpp>
#include <tessera/plan/search/route_costs.hpp>

namespace tessera::detail {

/// What a search needs of a layer's rules to know its cuts: layers of one kind share it, whatever their extents, and
/// what follows from it is found once for them all.
///
/// (No element is 0: g++ 12 takes template arguments for equal whose arrays differ only in where their zeros are.)
struct cut_rules {
  static constexpr int absent = 1;
  struct one_letter {
    char letter = '-';
    std::int8_t output = absent;  ///< its dimension in the result, and in each operand, plus 2
    std::int8_t operand[max_operands] = {absent, absent, absent, absent, absent, absent};
    std::int8_t complete = 1;  ///< 2: the operator sums the gradients of operands that lack it
    std::int8_t open = 1;      ///< 2: an axis may cut it
    index_t multiple = 1;      ///< numbers of parts divide it, less 1; 1: any number
    friend constexpr bool operator==(one_letter const&, one_letter const&) = default;
  };
  one_letter letters[8] = {};
  std::int8_t added[max_operands] = {1, 1, 1, 1, 1, 1};  ///< 2: the operand is added to the result
  std::int8_t given[8] = {1, 1, 1, 1, 1, 1, 1, 1};       ///< the letter that a word gives an axis, by its place plus 2
  std::int8_t given_order[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  int count = 0;
  int operands = 0;
  bool passes = false;  ///< a partial gradient may pass
  friend constexpr bool operator==(cut_rules const&, cut_rules const&) = default;

  constexpr int find(char letter) const {
    int i = 0;
    while (i < count && letters[i].letter != letter) ++i;
    return i == count ? -1 : i;
  }

  /// `lay_out` of cuts whose orders count from 0 without gaps, in a tenth of the steps.
  template <int Axes>
  constexpr resolved_layer<Axes> lay_out(letter_cuts const& cuts) const {
    resolved_layer<Axes> r;
    for (int a = 0; a < Axes; ++a) {
      r.letter[a] = cuts.letter[a];
      const int i = find(cuts.letter[a]);
      if (i < 0) continue;
      one_letter const& l = letters[i];
      r.output[a] = l.output == absent ? partial_placement() : shard_placement(l.output - 2, cuts.order[a]);
      for (int o = 0; o < operands; ++o) {
        if (l.operand[o] != absent)
          r.gradient[o][a] = r.operand[o][a] = shard_placement(l.operand[o] - 2, cuts.order[a]);
        else if (l.complete == 1 && !(added[o] == 2 && l.output == absent))
          r.gradient[o][a] = partial_placement();
      }
    }
    return r;
  }
};

/// The place of each letter among a tensor's dimensions, plus one; 0 where it has none.
struct letter_places {
  std::int8_t place[128] = {};
  constexpr explicit letter_places(std::string_view letters) {
    for (std::size_t d = letters.size(); d > 0; --d)
      place[static_cast<std::size_t>(letters[d - 1])] = static_cast<std::int8_t>(d);
  }
};
/// The extent that a letter of the rules stands for.
template <class Layer, auto Extents, class... P>
constexpr index_t extent_of_letter(index_rules const& rules, char letter, parameter_list<P...> const*) {
  index_t found = 0;
  const auto look = [&]<int Rank>(std::string_view letters, shape<Rank> const& extents) {
    if (found != 0) return;
    if (const int d = dim_of(letters, letter); d >= 0) found = extents[d];
  };
  look(rules.operand(0), Extents);
  if (found == 0) look(rules.result(), Layer::template output<Extents>());
  int operand = 0;
  ((found == 0 ? look(rules.operand(++operand), P::extents) : void()), ...);
  return found;
}

/// Those of a layer. Letters of one element are not cut.
template <class Problem, class Layer, auto Extents>
constexpr cut_rules cut_rules_of() {
  using mesh = typename Problem::mesh;
  constexpr index_rules rules = Layer::template rules<Extents>();
  constexpr auto named = cuts_named_by<mesh>(typename Layer::words{});
  constexpr auto* parameters = static_cast<typename Layer::parameters const*>(nullptr);
  cut_rules out;
  out.count = rules.count;
  out.operands = rules.operands();
  if constexpr (requires { Layer::gradient_is_linear; }) out.passes = Layer::gradient_is_linear;
  char letters[8] = {};
  for (int i = 0; i < rules.count; ++i) {
    auto& l = out.letters[i];
    letters[i] = l.letter = rules.cuts[i].letter;
    l.complete = rules.cuts[i].complete ? 2 : 1;
    l.open = Problem::allows(rules.cuts[i].word) && extent_of_letter<Layer, Extents>(rules, l.letter, parameters) != 1
                 ? 2
                 : 1;
    if (rules.cuts[i].multiple > 0) l.multiple = rules.cuts[i].multiple + 1;
  }
  const letter_places result(rules.result());
  for (int i = 0; i < rules.count; ++i)
    out.letters[i].output = static_cast<std::int8_t>(result.place[static_cast<std::size_t>(letters[i])] + 1);
  for (int o = 0; o < out.operands; ++o) {
    out.added[o] = rules.added(o) ? 2 : 1;
    const letter_places operand(rules.operand(o));
    for (int i = 0; i < rules.count; ++i)
      out.letters[i].operand[o] = static_cast<std::int8_t>(operand.place[static_cast<std::size_t>(letters[i])] + 1);
  }
  for (int i = 0; i < named.count; ++i) {
    out.given[named.list[i].axis] = static_cast<std::int8_t>(rules.find(named.list[i].word) + 2);
    out.given_order[named.list[i].axis] = static_cast<std::int8_t>(i + 2);
  }
  return out;
}

/// All ways to cut a layer: each axis cuts a letter of its rules or nothing, and axes that cut one letter come in any
/// order. Axes of one device cut nothing; words that are given stay, and cut before others.
template <int Axes>
constexpr std::vector<letter_cuts> ways_to_cut(mesh_sizes<Axes> const& mesh, cut_rules const& rules) {
  letter_cuts nothing;
  for (int a = 0; a < Axes; ++a) nothing.letter[a] = resolved_layer<Axes>::no_letter;
  std::vector<letter_cuts> all{nothing};
  for (int a = 0; a < Axes; ++a) {
    const int given = rules.given[a] - 2;
    if (mesh[a] == 1 && given < 0) continue;
    std::vector<letter_cuts> longer;
    for (letter_cuts const& cuts : all) {
      if (given < 0) longer.push_back(cuts);
      for (int i = 0; i < rules.count; ++i) {
        auto const& l = rules.letters[i];
        if (given < 0 ? l.open == 1 : given != i) continue;
        index_t parts = mesh[a];
        int before = 0;
        int first = 0;  // orders of axes that come before by a word
        int last = 8;
        for (int b = 0; b < a; ++b) {
          if (cuts.letter[b] != l.letter) continue;
          parts *= mesh[b];
          ++before;
          const bool b_first = rules.given[b] > 1 && (given < 0 || rules.given_order[b] < rules.given_order[a]);
          if (b_first && cuts.order[b] >= first) first = cuts.order[b] + 1;
          if (!b_first && given >= 0 && cuts.order[b] < last) last = cuts.order[b];
        }
        if (l.multiple > 1 && (l.multiple - 1) % parts != 0) continue;
        for (int order = first; order <= before && order <= last; ++order) {
          letter_cuts more = cuts;
          for (int b = 0; b < a; ++b)
            if (more.letter[b] == l.letter && more.order[b] >= order) ++more.order[b];
          more.letter[a] = l.letter;
          more.order[a] = order;
          longer.push_back(more);
        }
      }
    }
    all = longer;
  }
  return all;
}

/// A layer in one cut, with the gradient of its output coming back partial along some axes: how it takes its input,
/// where its gradient is wanted and where not, and makes its output; and what it pays to make that gradient whole.
struct cut_variant {
  std::int16_t cut = 0;
  std::int16_t taken = 0;
  std::int16_t taken_unwanted = 0;
  std::int16_t made = 0;
  bool whole = true;  ///< the gradient comes back whole
  link_cost whole_gradient{};
};

/// Calls `f(variant)` for each. `lists` has the places of ways to take the input and of ways to make the output, and
/// what it costs to make a partial gradient of the output whole.
template <int Axes, class Lists, class F>
constexpr void each_variant(mesh_sizes<Axes> const& mesh, resolved_layer<Axes> const& resolved, bool passes, int cut,
                            Lists const& lists, F f) {
  unsigned whole = 0;
  for (int a = 0; a < Axes; ++a)
    if (mesh[a] > 1 && resolved.output[a].is_replicated()) whole |= 1u << a;
  const unsigned partial = resolved.gradient[0].partial_axes();
  cut_variant one;
  one.cut = static_cast<std::int16_t>(cut);
  one.taken_unwanted = static_cast<std::int16_t>(lists.taken(edge_of(resolved.operand[0])));
  for (unsigned set = 0; set < 1u << Axes; ++set) {
    if ((set & ~whole) != 0) continue;
    const edge_code made = edge_of(resolved.output, static_cast<axis_set>(set));
    one.whole = set == 0;
    one.whole_gradient = {};
    if (set != 0 && !passes) one.whole_gradient = lists.whole_gradient(made);
    one.taken = static_cast<std::int16_t>(
        lists.taken(edge_of(resolved.operand[0], static_cast<axis_set>(passes ? partial | set : partial))));
    one.made = static_cast<std::int16_t>(lists.made(made));
    f(one);
  }
}

/// These lists as constants, of a layer from so many dimensions to so many.
template <class Problem, int In, int Out>
struct constant_lists {
  static constexpr auto mesh = Problem::mesh::value;
  static constexpr int taken(edge_code code) { return ways_to_take<mesh, In>.place(code); }
  static constexpr int made(edge_code code) { return ways_to_make<mesh, Out>.place(code); }
  static constexpr link_cost whole_gradient(edge_code code) {
    const placements<Problem::mesh::axes> from = gradient_of_edge<Problem::mesh::axes>(code);
    const auto to = value_of_edge<Problem::mesh::axes>(code);
    return route_pricer<Problem::mesh::axes>(mesh, Problem::costs)
        .cost(cut_places<Problem::mesh::axes>(edge_of(from)), cut_places<Problem::mesh::axes>(to), Out);
  }
};
template <class Problem, int In, int Out, class F>
constexpr void each_variant(resolved_layer<Problem::mesh::axes> const& resolved, bool passes, int cut, F f) {
  each_variant(Problem::mesh::value, resolved, passes, cut, constant_lists<Problem, In, Out>{}, f);
}

/// All of it for the layers of one kind, as constants.
template <class Problem, cut_rules Rules, int In, int Out>
struct layer_cuts {
  static constexpr int axes = Problem::mesh::axes;
  static constexpr std::size_t count = ways_to_cut(Problem::mesh::value, Rules).size();
  struct cut_list {
    letter_cuts list[count] = {};
    resolved_layer<axes> resolved[count] = {};
    /// Cuts of the same letters cost the same, in whatever order: of each cut the place in `priced`, which has the
    /// first of those alike.
    std::int16_t price[count] = {};
    std::int16_t priced[count] = {};
    std::size_t prices = 0;
  };
  static constexpr cut_list cuts = [] {
    constexpr std::size_t numbers = [] {
      std::size_t n = 1;
      for (int a = 0; a < axes; ++a) n *= static_cast<std::size_t>(Rules.count + 1);
      return n;
    }();
    std::int16_t known[numbers] = {};  // plus one
    cut_list out;
    std::size_t i = 0;
    for (letter_cuts const& one : ways_to_cut(Problem::mesh::value, Rules)) {
      out.list[i] = one;
      out.resolved[i] = Rules.template lay_out<axes>(one);
      std::size_t letters = 0;
      for (int a = 0; a < axes; ++a)
        letters = letters * static_cast<std::size_t>(Rules.count + 1) +
                  static_cast<std::size_t>(Rules.find(one.letter[a]) + 1);
      if (known[letters] == 0) {
        out.priced[out.prices] = static_cast<std::int16_t>(i);
        known[letters] = static_cast<std::int16_t>(++out.prices);
      }
      out.price[i++] = static_cast<std::int16_t>(known[letters] - 1);
    }
    return out;
  }();

  // Some cuts at a time, so that no constant takes long to evaluate.
  static constexpr std::size_t at_a_time = 16;
  struct some_variants {
    cut_variant list[at_a_time << axes] = {};
    std::size_t count = 0;
  };
  template <std::size_t First>
  static constexpr some_variants from = [] {
    some_variants out;
    for (std::size_t i = First; i < count && i < First + at_a_time; ++i)
      each_variant<Problem, In, Out>(cuts.resolved[i], Rules.passes, static_cast<int>(i),
                                     [&](cut_variant const& one) { out.list[out.count++] = one; });
    return out;
  }();
  static constexpr std::size_t parts = (count + at_a_time - 1) / at_a_time;
  static constexpr std::size_t variant_count = []<std::size_t... I>(std::index_sequence<I...>) {
    return (std::size_t{0} + ... + from<I * at_a_time>.count);
  }
  (std::make_index_sequence<parts>{});
  static constexpr auto variants = []<std::size_t... I>(std::index_sequence<I...>) {
    std::array<cut_variant, variant_count> out{};
    cut_variant* at = out.data();
    const auto add = [&](some_variants const& some) {
      for (std::size_t i = 0; i < some.count; ++i) *at++ = some.list[i];
    };
    (add(from<I * at_a_time>), ...);
    return out;
  }
  (std::make_index_sequence<parts>{});
};

}  // namespace tessera::detail
