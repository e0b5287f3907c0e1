#pragma once

#include <tessera/core/sharded.hpp>

#include <initializer_list>
#include <string_view>

namespace tessera {

/// The most operands of an operator or layer (the input, parameters and states).
inline constexpr int max_operands = 6;

/// How an operator may take a partial value.
enum class linearity : std::uint8_t {
  none,  ///< not at all
  each,  ///< in one operand, the others being replicated along that axis (products)
  joint  ///< in all operands together (sums)
};

/// One dimension of an operator that may be cut.
struct index_cut {
  char letter = 0;          ///< its letter in the index text
  std::string_view word{};  ///< the split word that names it: `batch` for `split_batch<...>`
  bool flows = true;        ///< whether an incoming cut of it passes through a layer without being asked for
  bool complete = false;    ///< whether the operator itself sums the gradients of operands that lack the letter
  index_t multiple = 0;     ///< where not 0: only numbers of parts that divide it are possible (groups)
};

/// Position of a letter in a text, or -1.
constexpr int dim_of(std::string_view letters, char letter) {
  // Not string_view::find: under sanitizers g++ 12 takes its check for null for no constant.
  for (std::size_t i = 0; i < letters.size(); ++i)
    if (letters[i] == letter) return static_cast<int>(i);
  return -1;
}

/// How an operator can be split, written as index notation: `nk,ok+o->no`, one letter a dimension, `,` before operands
/// that are multiplied and `+` before those that are added.
///
/// A mesh axis that cuts a letter cuts every operand that has it. A result without the letter is then partial (the
/// letter is summed over). The gradient of an operand without it is partial too, because each rank does a part of the
/// work it takes part in, unless the operator completes it; that of an added operand is whole where the letter is
/// summed over. Only the letters of `cuts` may be cut.
struct index_rules {
  char text[64] = {};
  int length = 0;
  index_cut cuts[8] = {};
  int count = 0;
  linearity partial = linearity::none;

  constexpr index_rules(std::string_view spec, std::initializer_list<index_cut> which,
                        linearity takes_partial = linearity::none)
      : partial(takes_partial) {
    for (const char c : spec) text[length++] = c;
    for (index_cut const& c : which) cuts[count++] = c;
  }

  constexpr std::string_view spec() const { return {text, static_cast<std::size_t>(length)}; }
  constexpr std::string_view result() const { return spec().substr(arrow() + 2); }
  constexpr int operands() const {
    int n = 1;
    for (const char c : spec().substr(0, arrow())) n += c == ',' || c == '+';
    return n;
  }
  /// Whether operand `i` is added to the result (a bias) rather than multiplied into it.
  constexpr bool added(int i) const {
    for (const char c : spec())
      if ((c == ',' || c == '+') && --i == 0) return c == '+';
    return false;
  }
  /// The letters of operand `i`, one a dimension.
  constexpr std::string_view operand(int i) const {
    std::size_t begin = 0;
    for (; i > 0; ++begin) i -= text[begin] == ',' || text[begin] == '+';
    std::size_t end = begin;
    while (end < arrow() && text[end] != ',' && text[end] != '+') ++end;
    return spec().substr(begin, end - begin);
  }
  /// Position of the cut with this letter or word in `cuts`, or -1.
  constexpr int find(char letter) const {
    for (int i = 0; i < count; ++i)
      if (cuts[i].letter == letter) return i;
    return -1;
  }
  constexpr int find(std::string_view word) const {
    for (int i = 0; i < count; ++i)
      if (cuts[i].word == word) return i;
    return -1;
  }

 private:
  constexpr std::size_t arrow() const { return static_cast<std::size_t>(dim_of(spec(), '-')); }
};

/// Rules of an operator that works element by element on `operands` tensors of one shape: every dimension may be cut.
constexpr index_rules elementwise_rules(int rank, int operands, linearity partial = linearity::none) {
  index_rules r("", {}, partial);
  constexpr std::string_view letters = "nchwde";
  constexpr std::string_view words[] = {"batch", "channels", "height", "width", "dim4", "dim5"};
  const auto shape_letters = [&] {
    for (int d = 0; d < rank; ++d) r.text[r.length++] = letters[static_cast<std::size_t>(d)];
  };
  for (int i = 0; i < operands; ++i) {
    if (i > 0) r.text[r.length++] = ',';
    shape_letters();
  }
  r.text[r.length++] = '-';
  r.text[r.length++] = '>';
  shape_letters();
  for (int d = 0; d < rank; ++d) r.cuts[r.count++] = {letters[static_cast<std::size_t>(d)], words[d]};
  return r;
}

namespace detail {

enum class rule_fault : std::uint8_t {
  none,
  partial_operand,
  two_partials,
  mixed_partial,
  cut_differently,
  no_such_split
};

template <int Axes>
struct inferred_result {
  placements<Axes> layout{};
  rule_fault fault = rule_fault::none;
};

/// The layout of an operator's result from those of its operands, or what is wrong with them.
template <int Axes, std::size_t N>
constexpr inferred_result<Axes> infer_result(index_rules const& rules,
                                             std::array<placements<Axes>, N> const& operands) {
  inferred_result<Axes> out;
  for (int a = 0; a < Axes; ++a) {
    std::size_t partials = 0;
    placement cut_by{};
    char letter = 0;
    for (std::size_t i = 0; i < N; ++i) {
      placement const& p = operands[i][a];
      if (p.is_partial()) ++partials;
      if (p.is_shard() && letter == 0) {
        letter = rules.operand(static_cast<int>(i))[static_cast<std::size_t>(p.dim)];
        cut_by = p;
      }
    }
    if (partials > 0) {
      if (rules.partial == linearity::none)
        return inferred_result<Axes>{placements<Axes>{}, rule_fault::partial_operand};
      if (rules.partial == linearity::each && partials > 1)
        return inferred_result<Axes>{placements<Axes>{}, rule_fault::two_partials};
      if (rules.partial == linearity::joint && partials != N)
        return inferred_result<Axes>{placements<Axes>{}, rule_fault::mixed_partial};
      if (letter != 0) return inferred_result<Axes>{placements<Axes>{}, rule_fault::cut_differently};
      for (std::size_t i = 0; i < N; ++i)
        if (operands[i][a].is_partial()) {
          if (operands[i][a].op != reduction::sum)
            return inferred_result<Axes>{placements<Axes>{}, rule_fault::partial_operand};
          out.layout[a] = operands[i][a];
        }
      continue;
    }
    if (letter == 0) continue;
    if (rules.find(letter) < 0) return inferred_result<Axes>{placements<Axes>{}, rule_fault::no_such_split};
    for (std::size_t i = 0; i < N; ++i) {
      const int dim = dim_of(rules.operand(static_cast<int>(i)), letter);
      placement const& p = operands[i][a];
      if (dim < 0 ? !p.is_replicated() : !(p == shard_placement(dim, cut_by.order)))
        return inferred_result<Axes>{placements<Axes>{}, rule_fault::cut_differently};
    }
    const int dim = dim_of(rules.result(), letter);
    out.layout[a] = dim < 0 ? partial_placement() : shard_placement(dim, cut_by.order);
  }
  out.layout = out.layout.normalized();
  return out;
}

template <class First, class... Xs>
inline constexpr bool belong_together = (std::is_same_v<typename First::context_type, typename Xs::context_type> &&
                                         ...) &&
                                        (std::is_same_v<typename First::value_type, typename Xs::value_type> && ...);

/// Whether rules have a letter for each dimension of the operands and of the result.
template <auto const& Rules, int Result, int... Ranks>
constexpr bool letters_match() {
  if (Rules.operands() != sizeof...(Ranks)) return false;
  int operand = 0;
  return static_cast<int>(Rules.result().size()) == Result &&
         ((static_cast<int>(Rules.operand(operand++).size()) == Ranks) && ...);
}

template <class Op, int Rank, class First, class... Xs>
struct result_of {
  static_assert(belong_together<First, Xs...>,
                "tessera: the operands of this operator are on different meshes or hold elements of different types; "
                "make them on one context with one element type");
  static_assert(
      letters_match<Op::rules, Rank, First::rank, Xs::rank...>(),
      "tessera: the rule of this operator gives an operand or the result another number of letters than it has "
      "dimensions, or has another number of operands; write one letter for each dimension");
  static constexpr auto inferred = infer_result(
      Op::rules, std::array<placements<First::mesh::axes>, 1 + sizeof...(Xs)>{First::placements, Xs::placements...});
  static_assert(inferred.fault != rule_fault::partial_operand,
                "tessera: this operator is not linear, so it cannot take a partial value: reduce it first, as in "
                "x | tessera::to<tessera::replicated>");
  static_assert(inferred.fault != rule_fault::two_partials,
                "tessera: the product of two partial sums is not a partial sum of the product: reduce one of them "
                "first, as in x | tessera::to<tessera::replicated>");
  static_assert(inferred.fault != rule_fault::mixed_partial,
                "tessera: a value that is not partial cannot be added to a partial sum, every rank would add it "
                "again: reduce the partial sum first, as in x | tessera::to<tessera::replicated>");
  static_assert(inferred.fault != rule_fault::cut_differently,
                "tessera: the operands of this operator are cut differently along a mesh axis: bring one to the "
                "layout of the other with x | tessera::to<...>");
  static_assert(inferred.fault != rule_fault::no_such_split,
                "tessera: this operator has no split of a dimension that its operand is cut along: undo the cut "
                "first with x | tessera::to<...>, or cut a dimension that its rules list");
  using type = relaid<First, Rank, inferred.layout>;
};

/// Static extents that do not contradict each other: equal, or `dynamic` on one side.
template <int RankA, int RankB>
constexpr bool extents_agree(shape<RankA> const& a, shape<RankB> const& b) {
  if (RankA != RankB) return false;
  for (int d = 0; d < RankA; ++d)
    if (a[d] != b[d] && a[d] != dynamic && b[d] != dynamic) return false;
  return true;
}

/// Throws where an operand's extents are not those the operator needs.
inline void require_extent(index_t found, index_t wanted, char const* what) {
  if (found != wanted)
    throw error(std::string(what) + " is " + std::to_string(found), std::to_string(wanted),
                "check the extents of the operands");
}

/// Throws where the windows of a convolution or pooling do not fit on the images at all.
inline void require_windows(shape<4> const& y, shape<4> const& x) {
  if (y[2] < 1 || y[3] < 1)
    throw error("a window larger than padded images of " + to_string(x), "at least one window an image",
                "make the window smaller, or the images or their padding larger");
}

/// Throws where a gradient's extents are not those of the result it belongs to.
template <int Rank>
void require_shape(shape<Rank> const& found, shape<Rank> const& wanted, char const* what) {
  if (!(found == wanted))
    throw error(std::string(what) + " has the extents " + to_string(found), to_string(wanted),
                "pass the gradient of the operator's result");
}

/// Memory for statistics of a context's backend.
template <class Context, int Rank>
using statistics_tensor = tensor<typename Context::backend::statistic, Rank, typename Context::backend::memory>;

/// Where an operator writes a result that its caller has memory for (a gradient in its bucket).
template <class Wanted, class Given>
constexpr void check_target() {
  static_assert(
      std::is_same_v<Wanted, Given>,
      "tessera: the gradient has another layout than the tensor it is written into; compare the two types "
      "named here: a parameter's gradient is partial over each axis that cuts the work but not the parameter");
}

}  // namespace detail

/// The type of an operator's result. `Op::rules` are its index rules; errors of layout do not compile.
template <class Op, int Rank, sharded_tensor... Xs>
using result_of = typename detail::result_of<Op, Rank, Xs...>::type;

}  // namespace tessera
