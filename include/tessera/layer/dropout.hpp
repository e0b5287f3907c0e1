#pragma once

#include <tessera/layer/kernel_kind.hpp>
#include <tessera/layer/node.hpp>
#include <tessera/op/dropout.hpp>

#include <array>

namespace tessera {

/// The share of elements that a dropout keeps, as `std::ratio<9, 10>`.
template <class Ratio>
struct keep_of {
  static_assert(Ratio::num > 0 && Ratio::num <= Ratio::den,
                "tessera: a dropout keeps a share above 0 and up to 1; name the probability that an element is kept");
  static constexpr double value = static_cast<double>(Ratio::num) / static_cast<double>(Ratio::den);
};

namespace detail {
template <class X>
struct is_keep : std::false_type {};
template <class R>
struct is_keep<keep_of<R>> : std::true_type {};

/// Three random whole numbers below 2^24, which float holds exactly, then zeros.
struct dropout_start {
  static double value(philox const& draw, index_t i, fans) {
    return i < 3 ? static_cast<double>(draw(static_cast<std::uint64_t>(i))[0] >> 8) : 0.0;
  }
};
}  // namespace detail

/// Dropout (N. Srivastava and others, JMLR 15, 2014): in training x / keep with the probability of `Keep`, as in
/// `dropout<keep_of<std::ratio<9, 10>>>`, else 0; in evaluation x itself.
///
/// Which elements are kept is a function of the model's seed, the layer's place in the model, the number of the step
/// and the element's number in the whole, so a split model keeps what the serial one keeps. The layer counts the steps
/// in its state `random`, which is stored with the parameters: a run that is taken up again goes on with its numbers.
/// Every cut flows through, and a partial gradient passes. No collectives.
template <class Keep>
struct dropout {
  static_assert(detail::is_keep<Keep>::value,
                "tessera: dropout names the share that it keeps, as in dropout<keep_of<std::ratio<9, 10>>>");
  using words = split_words<>;
  static constexpr kernel_kind kernels = kernel_kind::function;
  static constexpr bool gradient_is_linear = true;

  /// A key in words of 24 bits, then the number of steps, low and high: whole numbers that float holds.
  struct random : state<detail::dropout_start, 5> {
    static constexpr std::string_view name = "random";
  };
  using parameters = parameter_list<random>;

  template <auto Extents>
  static constexpr index_rules rules() {
    index_rules r = elementwise_rules(Extents.rank, 1);
    index_rules with_state("", {});
    const auto write = [&](std::string_view text) {
      for (const char c : text) with_state.text[with_state.length++] = c;
    };
    write(r.operand(0));
    write(",r->");
    write(r.result());
    for (int c = 0; c < r.count; ++c) with_state.cuts[with_state.count++] = r.cuts[c];
    return with_state;
  }
  template <auto Extents>
  static constexpr auto output() {
    return Extents;
  }

  template <class X>
  struct saved {
    philox draw{0, 0};
  };
  static constexpr kept_memory keeps{};
  template <class Env, class Saved, class X, class R>
  static X forward(Env const& env, Saved& saved, X const& x, R& random) {
    if (!env.training) return x;
    auto& kernels = x.where().kernels();
    std::array<typename R::value_type, 5> word{};
    kernels.download(random.local().data(), word.data(), 5);
    const auto at = [&](int i) { return static_cast<std::uint64_t>(word[static_cast<std::size_t>(i)]); };
    saved.draw = philox(at(0) | at(1) << 24 | at(2) << 48, at(2) >> 16 | (at(3) | at(4) << 24) << 8);
    word[3] += 1;
    if (at(3) == 1 << 24) {
      word[3] = 0;
      word[4] += 1;
    }
    kernels.upload(word.data(), random.local().data(), 5);
    return op::dropout(x, Keep::value, saved.draw);
  }
  template <class Env, class Saved, class Dy, class Gradients, class R>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&, R const&) {
    return op::dropout(dy, Keep::value, saved.draw);
  }
};

}  // namespace tessera
