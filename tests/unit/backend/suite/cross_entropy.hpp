#pragma once

#include "../reference.hpp"

#include <vector>

namespace tessera::test::cross_entropy_suite {
namespace {

constexpr std::int64_t ignored = -100;

/// A loss of each row and its gradient, by the definition: -sum_c target(r, c) * log p(r, c).
struct wanted {
  tensor<double, 1> loss;
  tensor<double, 2> gradient;

  template <class T, class Target>
  wanted(tensor<T, 2> const& logits, Target target)
      : loss(shape<1>{logits.extent(0)}, 0.0), gradient(logits.extents(), 0.0) {
    const index_t classes = logits.extent(1);
    for (index_t r = 0; r < logits.extent(0); ++r) {
      double most = -INFINITY;
      for (index_t c = 0; c < classes; ++c) most = std::max(most, static_cast<double>(logits(r, c)));
      double sum = 0;
      for (index_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(logits(r, c)) - most);
      double all = 0;
      for (index_t c = 0; c < classes; ++c) {
        all += target(r, c);
        loss(r) -= target(r, c) * (static_cast<double>(logits(r, c)) - most - std::log(sum));
      }
      for (index_t c = 0; c < classes; ++c)
        gradient(r, c) = all * std::exp(static_cast<double>(logits(r, c)) - most) / sum - target(r, c);
    }
  }
};

template <class T>
tensor<T, 2> columns_of(tensor<T, 2> const& x, index_t begin, index_t end) {
  tensor<T, 2> p(shape<2>{x.extent(0), end - begin});
  for (index_t r = 0; r < x.extent(0); ++r)
    for (index_t c = begin; c < end; ++c) p(r, c - begin) = x(r, c);
  return p;
}

/// Runs the kernels on `cuts` parts of the classes and checks loss, row losses and gradients.
template <class T, class Sums, class Loss, class Gradient>
void check_parts(tensor<T, 2> const& logits, std::vector<index_t> const& cuts, cross_entropy_part<T> part,
                 index_t fields, T const* weights, wanted const& w, tensor<T, 1> const& row_scale, Sums sums_of,
                 Loss loss_of, Gradient gradient_of) {
  suite_kernels k;
  const index_t rows = logits.extent(0);
  tensor<T, 1> maximum(shape<1>{rows}, -std::numeric_limits<T>::infinity());
  tensor<T, 2> sums(shape<2>{fields, rows}, T{0});
  const auto for_parts = [&](auto with) {
    for (std::size_t p = 0; p + 1 < cuts.size(); ++p) {
      part.class_offset = cuts[p];
      part.class_weights = weights == nullptr ? nullptr : weights + cuts[p];
      with(columns_of(logits, cuts[p], cuts[p + 1]), cuts[p], cuts[p + 1]);
    }
  };
  for_parts([&](tensor<T, 2> const& local, index_t, index_t) {
    auto m = unwritten<T>(shape<1>{rows});
    k.row_max(local.read(), m.view());
    for (index_t r = 0; r < rows; ++r) maximum(r) = std::max(maximum(r), m(r));
  });
  for_parts([&](tensor<T, 2> const& local, index_t begin, index_t end) {
    auto s = unwritten<T>(sums.extents());
    sums_of(k, local, begin, end, maximum, part, s);
    for (index_t i = 0; i < s.size(); ++i) sums.data()[i] += s.data()[i];
  });
  auto row_loss = unwritten<T>(shape<1>{rows});
  const cross_entropy_totals totals = loss_of(k, sums, part, row_loss);
  double all = 0;
  for (index_t r = 0; r < rows; ++r) all += w.loss(r);
  CHECK(worst(row_loss, w.loss) < tolerance<T>);
  CHECK(totals.loss == doctest::Approx(all).epsilon(tolerance<T>));
  CHECK(loss_of(k, sums, part, tensor<T, 1>{}).loss == totals.loss);
  for_parts([&](tensor<T, 2> const& local, index_t begin, index_t end) {
    auto d = unwritten<T>(local.extents());
    gradient_of(k, local, begin, end, maximum, sums, part, d);
    auto d_wanted = columns_of(w.gradient, begin, end);
    for (index_t r = 0; r < rows; ++r)
      for (index_t c = 0; c < end - begin; ++c)
        d_wanted(r, c) *= 0.5 * (row_scale.size() == 0 ? 1 : static_cast<double>(row_scale(r)));
    CHECK(worst(d, d_wanted) < tolerance<T>);
  });
}

template <class T>
void check(index_t rows, index_t classes, bool weighted, double smoothing, double factor,
           std::vector<index_t> const& cuts) {
  auto logits = random_values<T>(shape<2>{rows, classes}, 1);
  for (T& v : logits.view()) v = static_cast<T>(static_cast<double>(v) * factor);
  std::vector<T> weights;  // one more than there are: parts without classes begin at an element too
  for (index_t c = 0; c <= classes; ++c) weights.push_back(static_cast<T>(0.25 * static_cast<double>(c % 7 + 1)));
  const auto weight = [&](index_t c) {
    return weighted ? static_cast<double>(weights[static_cast<std::size_t>(c)]) : 1.0;
  };
  cross_entropy_part<T> part;
  part.classes = classes;
  part.label_smoothing = smoothing;
  part.class_weights = weighted ? weights.data() : nullptr;
  T const* weights_or_null = part.class_weights;
  const double each = smoothing / static_cast<double>(classes);

  std::vector<std::int64_t> labels;
  for (index_t r = 0; r < rows; ++r) labels.push_back(r % 5 == 3 ? ignored : (r * 7) % classes);
  const block<std::int64_t const, 1> label_block{labels.data(), {rows}};
  const wanted by_label(logits, [&](index_t r, index_t c) {
    const std::int64_t label = labels[static_cast<std::size_t>(r)];
    return label == ignored ? 0.0 : (c == label ? (1 - smoothing) * weight(c) : 0.0) + each * weight(c);
  });
  for (const bool scaled_rows : {false, true}) {
    const auto row_scale = random_values<T>(shape<1>{scaled_rows ? rows : 0}, 5);
    double weight_sum = 0;
    for (std::int64_t label : labels) weight_sum += label == ignored ? 0 : weight(label);
    check_parts<T>(
        logits, cuts, part, part.sums(), weights_or_null, by_label, row_scale,
        [&](auto& k, auto const& local, index_t, index_t, auto const& maximum, auto const& p, auto& sums) {
          k.cross_entropy_sums(local.read(), label_block, maximum.read(), p, sums.view());
        },
        [&](auto& k, auto const& sums, auto const& p, tensor<T, 1> row_loss) {
          const auto totals = k.cross_entropy_loss(sums.read(), label_block, p, row_loss.view());
          CHECK(totals.weight == doctest::Approx(weight_sum));
          return totals;
        },
        [&](auto& k, auto const& local, index_t, index_t, auto const& maximum, auto const& sums, auto const& p,
            auto& d) {
          k.cross_entropy_gradient(local.read(), label_block, maximum.read(), sums.read(), p, 0.5, row_scale.read(),
                                   d.view());
        });

    auto targets = random_values<T>(shape<2>{rows, classes}, 3);
    for (T& t : targets.view()) t = std::abs(t);
    const wanted by_probability(logits, [&](index_t r, index_t c) {
      return ((1 - smoothing) * static_cast<double>(targets(r, c)) + each) * weight(c);
    });
    check_parts<T>(
        logits, cuts, part, cross_entropy_part<T>::probability_sums(), weights_or_null, by_probability, row_scale,
        [&](auto& k, auto const& local, index_t begin, index_t end, auto const& maximum, auto const& p, auto& sums) {
          k.cross_entropy_probability_sums(local.read(), columns_of(targets, begin, end).read(), maximum.read(), p,
                                           sums.view());
        },
        [&](auto& k, auto const& sums, auto const&, tensor<T, 1> row_loss) {
          const auto totals = k.cross_entropy_probability_loss(sums.read(), row_loss.view());
          CHECK(totals.weight == static_cast<double>(rows));
          return totals;
        },
        [&](auto& k, auto const& local, index_t begin, index_t end, auto const& maximum, auto const& sums,
            auto const& p, auto& d) {
          k.cross_entropy_probability_gradient(local.read(), columns_of(targets, begin, end).read(), maximum.read(),
                                               sums.read(), p, 0.5, row_scale.read(), d.view());
        });
  }
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "cross-entropy and its gradient, for classes whole and cut", T, TESSERA_ELEMENTS) {
  for (const bool weighted : {false, true}) {
    for (const double smoothing : {0.0, 0.1}) {
      CAPTURE(weighted);
      CAPTURE(smoothing);
      check<T>(13, 10, weighted, smoothing, 1, {0, 10});
      check<T>(13, 10, weighted, smoothing, 1, {0, 3, 3, 10});
      check<T>(6, 133, weighted, smoothing, 3, {0, 70, 133});
      check<T>(4, 1, weighted, smoothing, 1, {0, 1, 1});
      check<T>(0, 5, weighted, smoothing, 1, {0, 5});
    }
  }
  check<T>(9, 10, false, 0, 10'000, {0, 4, 10});
}

TEST_CASE(TESSERA_BACKEND "ignored rows have gradient 0 even if the scale is infinite") {
  const std::vector<std::int64_t> labels{ignored, ignored};
  const block<std::int64_t const, 1> label_block{labels.data(), {2}};
  const auto logits = random_values<float>(shape<2>{2, 5}, 1);
  const tensor<float, 1> maximum(shape<1>{2}, 1.0f);
  const tensor<float, 2> sums(shape<2>{2, 2}, 1.0f);
  auto d = unwritten<float>(shape<2>{2, 5});
  cross_entropy_part<float> part;
  part.classes = 5;
  suite_kernels k;
  k.cross_entropy_gradient(logits.read(), label_block, maximum.read(), sums.read(), part, INFINITY,
                           block<float const, 1>{}, d.view());
  CHECK(worst(d, tensor<double, 2>(shape<2>{2, 5}, 0.0)) == 0);
  CHECK(k.cross_entropy_loss(sums.read(), label_block, part, block<float, 1>{}).weight == 0);
}

TEST_CASE(TESSERA_BACKEND "the first label out of range is found") {
  suite_kernels k;
  const std::vector<std::int64_t> labels{0, 9, ignored, 10, -1};
  const auto first = [&](index_t begin, index_t end) {
    return k.first_bad_label(block<std::int64_t const, 1>{labels.data() + begin, {end - begin}}, 10, ignored);
  };
  CHECK(first(0, 0) == -1);
  CHECK(first(0, 3) == -1);
  CHECK(first(0, 5) == 3);
  CHECK(first(4, 5) == 0);
}

}  // namespace tessera::test::cross_entropy_suite
