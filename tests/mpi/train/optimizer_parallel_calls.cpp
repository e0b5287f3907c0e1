#include "shared_parameters.hpp"
#include "support/listed_calls.hpp"

#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>

#include <functional>

// What models with `optimizer_parallel` send, when, and that no memory is used before it is there or free.

namespace {

using namespace shared_parameters;

template <class Dp, class Tp, class... Policies>
using mlp = parallel<chain<linear<12, 23, split_output<Tp>>, relu, linear<23, 9, split_input<Tp>>, relu, linear<9, 9>,
                           linear<9, 8>, linear<8, 5>>,
                     data_parallel<Dp>, fuse::at<2, 4, 6>, Policies...>;
struct words;
struct block : residual<chain<linear<6, 9>, linear<9, 7>, linear<7, 6>>> {};
template <class Dp, class Tp, class... Policies>
using language = parallel<chain<embedding<11, 6, split_vocabulary<Tp>, tied<words>>, recompute<block>, linear<6, 6>,
                                linear<6, 11, split_output<Tp>, no_bias, tied<words>>>,
                          input<dynamic>, data_parallel<Dp>, fuse::each, Policies...>;

template <template <class, class, class...> class Model, int Dp, int Tp, int Level, int Rank>
void compare_calls(shape<Rank> const& extents) {
  using dp = data_axis<Dp>;
  using tp = tensor_axis<Tp>;
  worlds::check_listed_calls<world_of<Dp, Tp>, Model<dp, tp, optimizer_parallel<dp, Level>>>(
      extents, [](shape<Rank> const& whole) { return batch_of<float>(whole, 5); });
}

/// A communicator whose collectives happen when they are waited for, as late as they may.
class late_comm {
 public:
  class request {
   public:
    request() = default;
    explicit request(std::function<void()> work) : work_(std::move(work)) {}
    request(request&& other) noexcept : work_(std::exchange(other.work_, {})) {}
    request& operator=(request&& other) noexcept {
      std::swap(work_, other.work_);
      return *this;
    }
    ~request() = default;
    bool test() { return !work_; }
    void wait() {
      if (auto work = std::exchange(work_, {})) work();
    }

   private:
    std::function<void()> work_;
  };

  explicit late_comm(mpi_comm inner) : inner_(std::make_shared<mpi_comm>(std::move(inner))) {}
  late_comm(late_comm&&) = default;
  late_comm& operator=(late_comm&&) = default;

  int rank() const { return inner_->rank(); }
  int size() const { return inner_->size(); }
  template <class T>
  void all_reduce(T* data, index_t count, reduction op) {
    inner_->all_reduce(data, count, op);
  }
  template <class T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    inner_->all_gather(send, receive, counts);
  }
  template <class T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    inner_->reduce_scatter(send, receive, counts, op);
  }
  template <class T>
  void all_to_all(T const* send, std::span<index_t const> sent, T* receive, std::span<index_t const> received) {
    inner_->all_to_all(send, sent, receive, received);
  }
  template <class T>
  void broadcast(T* data, index_t count, int root) {
    inner_->broadcast(data, count, root);
  }
  void barrier() { inner_->barrier(); }
  memory_handle allocate(std::size_t bytes) { return inner_->allocate(bytes); }
  template <class T>
  request start_all_reduce(T* data, index_t count, reduction op) {
    return request{[=, to = inner_] { to->all_reduce(data, count, op); }};
  }
  template <class T>
  request start_all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    return request{
        [=, to = inner_, kept = std::vector(counts.begin(), counts.end())] { to->all_gather(send, receive, kept); }};
  }
  template <class T>
  request start_reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    return request{[=, to = inner_, kept = std::vector(counts.begin(), counts.end())] {
      to->reduce_scatter(send, receive, kept, op);
    }};
  }
  template <class T>
  request start_send(T const* data, index_t count, int to, int tag) {
    inner_->start_send(data, count, to, tag).wait();
    return {};
  }
  template <class T>
  request start_receive(T* data, index_t count, int from, int tag) {
    inner_->start_receive(data, count, from, tag).wait();
    return {};
  }
  late_comm split(int color, int key) const { return late_comm{inner_->split(color, key)}; }
  [[noreturn]] void abort(int code) const { inner_->abort(code); }

 private:
  std::shared_ptr<mpi_comm> inner_;
};

template <int Level>
void compare_late() {
  using world = world_of<2, 1>;
  using model = mlp<data_axis<2>, tensor_axis<1>, optimizer_parallel<data_axis<2>, Level>>;
  team<world, late_comm> late{late_comm{mpi_comm{}}};
  worlds::parallel_team<world> early{mpi_comm{}};
  const shape<2> extents{{13, 12}};
  const plan_of_run how{4, 2, {.overlap = false}};
  const plan_of_run beside{4, 2};
  const auto wanted = train<model, double>(early, extents, 5, momentum{.learning_rate = 0.05}, how);
  compare(train<model, double>(late, extents, 5, momentum{.learning_rate = 0.05}, beside), wanted, 1e-13);
}

template <int Level>
using shared_model = mlp<data_axis<2>, tensor_axis<1>, optimizer_parallel<data_axis<2>, Level>>;

}  // namespace

TEST_CASE("a run makes exactly the collectives that the type lists, gathers included") {
  const shape<2> rows_of_12{{13, 12}};
  compare_calls<mlp, 1, 1, 3>(rows_of_12);
  compare_calls<mlp, 2, 1, 1>(rows_of_12);
  compare_calls<mlp, 2, 1, 2>(rows_of_12);
  compare_calls<mlp, 2, 1, 3>(rows_of_12);
  compare_calls<mlp, 2, 2, 2>(rows_of_12);
  compare_calls<mlp, 2, 2, 3>(rows_of_12);
  const shape<1> indices{{13}};
  compare_calls<language, 2, 1, 2>(indices);
  compare_calls<language, 2, 1, 3>(indices);
  compare_calls<language, 2, 2, 3>(indices);
}

TEST_CASE("no memory is written while a reduction reads it, nor read before a gather is done, however late these are") {
  if (worlds::size() != 2) return;
  compare_late<1>();
  compare_late<2>();
  compare_late<3>();
}

TEST_CASE("evaluation sees each update, and changes by hand once they are announced") {
  if (worlds::size() != 2) return;
  worlds::parallel_team<world_of<2, 1>> team{mpi_comm{}};
  const auto run = [&]<int Level>(std::integral_constant<int, Level>) {
    auto net = team.template make<shared_model<Level>, double>(seed{7});
    const auto x = distribute<row<data_axis<2>>>(team, batch_of<double>(shape<2>{{13, 12}}, 1));
    const auto output = [&] {
      const auto y = gather(net.forward(x, false));
      return std::vector<double>(y.read().begin(), y.read().end());
    };
    std::vector<std::vector<double>> found{output()};
    trainer fit(net, cross_entropy{}, sgd(0.1));
    fit.step(x, worlds::rows_of(worlds::labels(13, 5, 3), x.part()[0]));
    found.push_back(output());
    CHECK(found[1] != found[0]);
    for (auto const& p : net.parameters())
      for (double& v : p.value) v *= 0.5;
    net.parameters_changed();
    found.push_back(output());
    CHECK(found[2] != found[1]);
    // Each rank's slices go to nobody: they are whole only together.
    net.broadcast_parameters();
    CHECK(output() == found[2]);
    return found;
  };
  const auto alone = run(std::integral_constant<int, 1>{});
  const auto third = run(std::integral_constant<int, 3>{});
  for (std::size_t i = 0; i < alone.size(); ++i)
    for (std::size_t e = 0; e < alone[i].size(); ++e) CHECK(std::abs(alone[i][e] - third[i][e]) < 1e-13);
}

TEST_CASE("slices of all ranks are each parameter once") {
  if (worlds::size() != 2) return;
  worlds::parallel_team<world_of<2, 1>> team{mpi_comm{}};
  auto net = team.make<shared_model<3>, double>(seed{7});
  index_t whole = 0;
  index_t mine = 0;
  for (auto const& p : net.parameters()) {
    CHECK(p.cut);
    CHECK(p.owners == world_of<2, 1>::set_of<data_axis<2>>);
    CHECK(p.value.size() == p.gradient.size());
    REQUIRE(p.range);
    CHECK(p.range->size == p.value.size());
    index_t size = 1;
    for (const index_t extent : p.extents) size *= extent;
    whole += size;
    mine += p.value.size();
  }
  CHECK(std::abs(2 * mine - whole) <= 4);  // one element a bucket
  team.group(world_of<2, 1>::all).all_reduce(&mine, 1, reduction::sum);
  CHECK(mine == whole);
}
