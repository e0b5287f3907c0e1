// Softmax cross-entropy of 1024 rows and 8192 classes with labels, mean loss and gradient, cut by batch and by classes.

#include "support/program.hpp"

#include <tessera/op/cross_entropy.hpp>

#include <cmath>

namespace {

using namespace comparison;

constexpr ts::index_t rows = 1024;
constexpr ts::index_t classes = 8192;

struct losses {
  float ours = 0;
  float by_hand = 0;
};

template <class Layout, int Ranks>
void add_split(char const* name, team<Ranks>& where) {
  constexpr auto layout = ts::placements_of<ts::mesh<ranks<Ranks>>, Layout>;
  constexpr bool cut_batch = Ranks > 1 && layout.shard_axes(0) != 0;
  constexpr bool cut_classes = Ranks > 1 && layout.shard_axes(1) != 0;
  add(name, [&where] {
    const auto x = numbers<Layout>(where, ts::shape<2>{{rows, classes}}, 1);
    std::vector<std::int64_t> labels;
    const ts::interval mine = x.part()[0];
    for (ts::index_t r = mine.begin; r < mine.end(); ++r) labels.push_back(r * 7919 % classes);
    const auto dx = std::make_shared<std::remove_const_t<decltype(x)>>();
    const auto loss = std::make_shared<losses>();
    const auto dx_by_hand = std::make_shared<matrix>(mine.size, x.local().extent(1));
    const auto maxima = std::make_shared<array>(mine.size);
    // Sums of exponentials, then logits of the labels.
    const auto sums = std::make_shared<array>(2 * mine.size);
    const ts::index_t first_class = x.part()[1].begin;

    return std::vector<way>{
        {"ours",
         [=] {
           *dx = {};
           const ts::op::cross_entropy<std::remove_const_t<decltype(x)>> forward(x, labels);
           loss->ours = static_cast<float>(forward.loss());
           *dx = forward.backward();
           return results{values(*dx), {&loss->ours, 1}};
         }},
        {"by_hand", [=] {
           const const_matrix_map logits = map(x);
           const ts::index_t local = logits.rows();
           array& most = *maxima;
           array& sum = *sums;
           sum.setZero();
           const auto exponentials = [&](ts::index_t r) { return (logits.row(r).array() - most[r]).exp(); };
           const auto label_of = [&](ts::index_t r) { return labels[static_cast<std::size_t>(r)] - first_class; };
           const auto add_row = [&](ts::index_t r) {
             sum[r] = exponentials(r).sum();
             if (label_of(r) >= 0 && label_of(r) < logits.cols()) sum[local + r] = logits(r, label_of(r)) - most[r];
           };
           if (cut_classes) {
             for (ts::index_t r = 0; r < local; ++r) most[r] = logits.row(r).maxCoeff();
             MPI_Allreduce(MPI_IN_PLACE, most.data(), static_cast<int>(local), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
             for (ts::index_t r = 0; r < local; ++r) add_row(r);
             sum_over_ranks(sum.data(), sum.size());
           } else {
             for (ts::index_t r = 0; r < local; ++r) {
               most[r] = logits.row(r).maxCoeff();
               add_row(r);
             }
           }
           double total = (sum.head(local).log() - sum.tail(local)).sum();
           if (cut_batch) MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
           loss->by_hand = static_cast<float>(total / rows);
           for (ts::index_t r = 0; r < local; ++r) {
             dx_by_hand->row(r).array() = exponentials(r) * (1 / (sum[r] * static_cast<float>(rows)));
             if (label_of(r) >= 0 && label_of(r) < logits.cols())
               (*dx_by_hand)(r, label_of(r)) -= 1 / static_cast<float>(rows);
           }
           return results{values(*dx_by_hand), {&loss->by_hand, 1}};
         }}};
  });
}

}  // namespace

int main(int argc, char** argv) {
  return comparison::main(argc, argv, []<int Ranks>(team<Ranks>& where) {
    using axis = ranks<Ranks>;
    add_split<ts::row<axis>>("cross_entropy/batch", where);
    add_split<ts::column<axis>>("cross_entropy/classes", where);
  });
}
