// alone: defines what broadcast.hpp declares
#include "broadcast.hpp"

#include <tessera/op/broadcast.hpp>

namespace {

using namespace tessera;

/// The letters of an operand's dimensions, those of the result being a, b, c, ...
template <char... Letters>
struct dims {
  static constexpr int rank = static_cast<int>(sizeof...(Letters));
  static constexpr char text[] = {Letters..., 0};
  template <class Cuts>
  using layout = typename Cuts::template of<Letters...>;
  template <int ResultRank, class X>
  static decltype(auto) repeat(X const& x) {
    if constexpr (rank == ResultRank)
      return (x);
    else
      return along<(Letters - 'a')...>(x);
  }
  /// The gradient of `repeat`.
  template <int ResultRank, class Dy>
  static auto sum(Dy const& dy) {
    if constexpr (rank == ResultRank)
      return dy;
    else
      return op::sum_along<(Letters - 'a')...>(dy);
  }
};

/// An array without its dimensions of extent 1 that the other operand has larger: those that are repeated.
golden::array squeezed(golden::array a, std::string_view letters, std::size_t rank) {
  std::vector<index_t> kept;
  for (std::size_t d = 0; d < a.extents.size(); ++d)
    if (letters.find(static_cast<char>('a' + (rank - a.extents.size() + d))) != letters.npos)
      kept.push_back(a.extents[d]);
  a.extents = kept;
  return a;
}

/// The letters that an operand has in a result of these extents.
std::string letters_of(golden::array const& a, std::vector<index_t> const& result) {
  std::string letters;
  const std::size_t before = result.size() - a.extents.size();
  for (std::size_t d = 0; d < a.extents.size(); ++d)
    if (a.extents[d] == result[before + d]) letters += static_cast<char>('a' + before + d);
  return letters;
}

/// A gradient has the shape of its operand, whose repeated dimensions have the extent 1.
template <class Y>
void expect_gradient(golden::trial& t, char const* name, char const* of, Y const& y) {
  t.expect(name, t[of].extents, golden::values_of(y));
}

enum class operation { add, sub, mul };

template <operation Operation, class A, class B, char... Result>
struct broadcast_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    constexpr int rank = static_cast<int>(sizeof...(Result));
    const auto put = [&]<class Dims>(Dims, char const* name) {
      return golden::put<T, Dims::rank, typename Dims::template layout<Cuts>>(team,
                                                                              squeezed(t[name], Dims::text, rank));
    };
    const auto a = put(A{}, "a");
    const auto b = put(B{}, "b");
    const auto dy = golden::put<T, rank, typename Cuts::template of<Result...>>(team, t["grad_out"]);
    auto const& wide_a = A::template repeat<rank>(a);
    auto const& wide_b = B::template repeat<rank>(b);
    if constexpr (Operation == operation::mul) {
      golden::expect(t, "out", wide_a * wide_b);
      expect_gradient(t, "grad_a", "a", A::template sum<rank>(dy * wide_b));
      expect_gradient(t, "grad_b", "b", B::template sum<rank>(dy * wide_a));
    } else if constexpr (Operation == operation::sub) {
      golden::expect(t, "out", wide_a - wide_b);
      expect_gradient(t, "grad_a", "a", A::template sum<rank>(dy));
      expect_gradient(t, "grad_b", "b", B::template sum<rank>(op::scale(dy, -1)));
    } else {
      golden::expect(t, "out", wide_a + wide_b);
      expect_gradient(t, "grad_a", "a", A::template sum<rank>(dy));
      expect_gradient(t, "grad_b", "b", B::template sum<rank>(dy));
    }
  }
};

template <operation Operation, class A, class B, char... Result>
bool run_if(golden::teams& all, golden::test_case const& c) {
  auto const& result = c["out"].extents;
  return result.size() == sizeof...(Result) && letters_of(c["a"], result) == A::text &&
         letters_of(c["b"], result) == B::text &&
         golden::run_cuts<broadcast_case<Operation, A, B, Result...>, Result...>(all, c);
}

template <operation Operation>
bool run_pattern(golden::teams& all, golden::test_case const& c) {
  return run_if<Operation, dims<'a', 'c'>, dims<'b'>, 'a', 'b', 'c'>(all, c) ||
         run_if<Operation, dims<'a', 'b', 'c', 'd'>, dims<'b'>, 'a', 'b', 'c', 'd'>(all, c) ||
         run_if<Operation, dims<'a', 'b'>, dims<>, 'a', 'b'>(all, c) ||
         run_if<Operation, dims<'b'>, dims<'a'>, 'a', 'b'>(all, c) ||
         run_if<Operation, dims<'a', 'b'>, dims<'b'>, 'a', 'b'>(all, c);
}

}  // namespace

bool golden::run_broadcast(teams& all, test_case const& c) {
  if (c.op == "mul") return run_pattern<operation::mul>(all, c);
  if (c.op == "add") return run_pattern<operation::add>(all, c);
  return c.op == "sub" && run_if<operation::sub, dims<'a', 'c'>, dims<'b'>, 'a', 'b', 'c'>(all, c);
}
