#pragma once

#include <tessera/layer/option.hpp>
#include <tessera/op/rules.hpp>

namespace tessera {

/// A layer on a mesh: which letter of its rules each axis cuts, and the layouts that follow.
template <int Axes>
struct resolved_layer {
  static constexpr char no_letter = '-';
  /// By axis; `no_letter` where the axis cuts nothing.
  char letter[8] = {no_letter, no_letter, no_letter, no_letter, no_letter, no_letter, no_letter, no_letter};
  placements<Axes> operand[max_operands] = {};   ///< 0 is the input, then the parameters
  placements<Axes> gradient[max_operands] = {};  ///< as backward leaves them, before any reduction
  placements<Axes> output{};

  /// The axes that cut one of the letters.
  constexpr axis_set axes_cutting(std::string_view letters) const {
    unsigned set = 0;
    for (int a = 0; a < Axes; ++a)
      if (letter[a] != no_letter && dim_of(letters, letter[a]) >= 0) set |= 1u << a;
    return static_cast<axis_set>(set);
  }
};

namespace detail {

/// An axis that a split word names.
struct named_cut {
  int axis = -1;
  std::string_view word{};
  int order = 0;
};

template <int Axes>
struct named_cuts {
  named_cut list[8] = {};
  int count = 0;
  bool distinct = true;
};

template <class Mesh, class... Axes>
constexpr void name_axes(named_cuts<Mesh::axes>& out, std::string_view word, split_word<Axes...> const*) {
  const auto one = [&](int axis) {
    for (int i = 0; i < out.count; ++i) out.distinct = out.distinct && out.list[i].axis != axis;
    if (out.count < 8) out.list[out.count] = {axis, word, out.count};
    ++out.count;
  };
  (one(Mesh::template index_of<Axes>), ...);
}

/// The axes that a layer's split words name, in the order of the words.
template <class Mesh, class... Words>
constexpr named_cuts<Mesh::axes> cuts_named_by(word_list<Words...>) {
  named_cuts<Mesh::axes> out;
  (name_axes<Mesh>(out, Words::word, static_cast<Words const*>(nullptr)), ...);
  return out;
}

/// Whether each word names a cut of the rules, and cuts of counted things (groups) come out even.
template <class Mesh>
constexpr bool words_known(index_rules const& rules, named_cuts<Mesh::axes> const& named) {
  for (int i = 0; i < named.count; ++i)
    if (rules.find(named.list[i].word) < 0) return false;
  return true;
}

/// Whether cutting `letter` into `parts` is one of the cuts that the layer takes.
constexpr bool divides(index_cut const& c, index_t parts) { return c.multiple == 0 || c.multiple % parts == 0; }

template <class Mesh>
constexpr bool words_divide(index_rules const& rules, named_cuts<Mesh::axes> const& named) {
  for (int i = 0; i < named.count; ++i) {
    index_t parts = 1;
    for (int j = 0; j < named.count; ++j)
      if (named.list[j].word == named.list[i].word) parts *= Mesh::sizes[static_cast<std::size_t>(named.list[j].axis)];
    if (!divides(rules.cuts[rules.find(named.list[i].word)], parts)) return false;
  }
  return true;
}

/// Which letter each axis cuts, and in which order axes that cut one letter do.
struct letter_cuts {
  char letter[8] = {};  ///< by axis; `resolved_layer<>::no_letter` where the axis cuts nothing
  int order[8] = {};
};

/// All layouts of a layer whose rules are cut in this way.
template <int Axes>
constexpr resolved_layer<Axes> lay_out(index_rules const& rules, letter_cuts const& cuts) {
  resolved_layer<Axes> r;
  for (int a = 0; a < Axes; ++a) {
    r.letter[a] = cuts.letter[a];
    if (r.letter[a] == r.no_letter) continue;
    const bool complete = rules.cuts[rules.find(r.letter[a])].complete;
    const int out = dim_of(rules.result(), r.letter[a]);
    r.output[a] = out < 0 ? partial_placement() : shard_placement(out, cuts.order[a]);
    for (int i = 0; i < rules.operands(); ++i) {
      const int dim = dim_of(rules.operand(i), r.letter[a]);
      if (dim >= 0) {
        r.operand[i][a] = shard_placement(dim, cuts.order[a]);
        r.gradient[i][a] = r.operand[i][a];
      } else if (!complete && !(rules.added(i) && out < 0)) {
        r.gradient[i][a] = partial_placement();
      }
    }
  }
  r.output = r.output.normalized();
  for (int i = 0; i < rules.operands(); ++i) {
    r.operand[i] = r.operand[i].normalized();
    r.gradient[i] = r.gradient[i].normalized();
  }
  return r;
}

/// Which letter each axis cuts for an input that arrives in layout `incoming`.
///
/// Axes that a split word names cut what it names. Another axis keeps cutting the input as it does where that cut
/// flows through the layer; else the input is made whole along it. A partial input is reduced.
template <class Mesh>
constexpr letter_cuts cuts_for(index_rules const& rules, placements<Mesh::axes> const& incoming,
                               named_cuts<Mesh::axes> const& named) {
  constexpr int axes = Mesh::axes;
  constexpr char no_letter = resolved_layer<axes>::no_letter;
  letter_cuts r;
  for (int a = 0; a < axes; ++a) r.letter[a] = no_letter;
  for (int i = 0; i < named.count; ++i) {
    r.letter[named.list[i].axis] = rules.cuts[rules.find(named.list[i].word)].letter;
    r.order[named.list[i].axis] = 16 + named.list[i].order;
  }
  const std::string_view input = rules.operand(0);
  for (int d = 0; d < static_cast<int>(input.size()); ++d) {
    index_t parts = 1;
    for (int a = 0; a < axes; ++a)
      if (r.letter[a] == input[static_cast<std::size_t>(d)]) parts *= Mesh::sizes[static_cast<std::size_t>(a)];
    for (int cut = 0; cut < incoming.cuts(d); ++cut) {
      const int a = incoming.axis_cutting(d, cut);
      const int rule = rules.find(input[static_cast<std::size_t>(d)]);
      if (r.letter[a] != no_letter || rule < 0 || !rules.cuts[rule].flows) continue;
      parts *= Mesh::sizes[static_cast<std::size_t>(a)];
      if (!divides(rules.cuts[rule], parts)) break;
      r.letter[a] = rules.cuts[rule].letter;
      r.order[a] = cut;
    }
  }
  return r;
}

/// All layouts of a layer for an input that arrives in layout `incoming`; see `cuts_for`.
template <class Mesh>
constexpr resolved_layer<Mesh::axes> resolve(index_rules const& rules, placements<Mesh::axes> const& incoming,
                                             named_cuts<Mesh::axes> const& named) {
  return lay_out<Mesh::axes>(rules, cuts_for<Mesh>(rules, incoming, named));
}

}  // namespace detail

/// The layout in which the gradient of a value is handed to the value's producer.
///
/// `value` is the value's layout, `used` the layout in which the consumer took it, `gradient` what the consumer's
/// backward left. Cut values get cut gradients (so a partial gradient of a gathered value is reduce-scattered);
/// partial values get replicated ones; along other axes a partial gradient stays partial, to be reduced later.
template <int Axes>
constexpr placements<Axes> gradient_for(placements<Axes> const& value, placements<Axes> const& gradient) {
  placements<Axes> out = value;
  for (int a = 0; a < Axes; ++a)
    if (!value[a].is_shard())
      out[a] = value[a].is_replicated() && gradient[a].is_partial() ? gradient[a] : replicated_placement();
  return out;
}

}  // namespace tessera
