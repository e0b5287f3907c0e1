#include "equal_to_serial.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/layer/elementwise.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>

// Reductions of buckets beside backward: when they start, when they are done, and what an exception leaves.

namespace {

using namespace equal_to_serial;

/// A communicator whose reductions happen when they are waited for, as late as they may, and are counted on the way.
struct late_comm {
  class request {
   public:
    request() = default;
    request(std::function<void()> work, int* tests) : work_(std::move(work)), tests_(tests) {}
    request(request&& other) noexcept : work_(std::exchange(other.work_, {})), tests_(other.tests_) {}
    request& operator=(request&& other) noexcept {
      std::swap(work_, other.work_);
      std::swap(tests_, other.tests_);
      return *this;
    }
    ~request() {
      if (work_) ++*abandoned;
    }
    bool test() {
      ++*tests_;
      return !work_;
    }
    void wait() {
      if (auto work = std::exchange(work_, {})) work();
    }
    static inline int* abandoned = nullptr;

   private:
    std::function<void()> work_;
    int* tests_ = nullptr;
  };

  mpi_comm inner;
  int* tests;
  int* started;

  int rank() const { return inner.rank(); }
  int size() const { return inner.size(); }
  template <class T>
  void all_reduce(T* data, index_t count, reduction op) {
    inner.all_reduce(data, count, op);
  }
  template <class T>
  void all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    inner.all_gather(send, receive, counts);
  }
  template <class T>
  void reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    inner.reduce_scatter(send, receive, counts, op);
  }
  template <class T>
  void all_to_all(T const* send, std::span<index_t const> sent, T* receive, std::span<index_t const> received) {
    inner.all_to_all(send, sent, receive, received);
  }
  template <class T>
  void broadcast(T* data, index_t count, int root) {
    inner.broadcast(data, count, root);
  }
  void barrier() { inner.barrier(); }
  memory_handle allocate(std::size_t bytes) { return inner.allocate(bytes); }
  template <class T>
  request start_all_reduce(T* data, index_t count, reduction op) {
    ++*started;
    return {[this, data, count, op] { inner.all_reduce(data, count, op); }, tests};
  }
  template <class T>
  request start_all_gather(T const* send, T* receive, std::span<index_t const> counts) {
    inner.all_gather(send, receive, counts);
    return {};
  }
  template <class T>
  request start_reduce_scatter(T const* send, T* receive, std::span<index_t const> counts, reduction op) {
    inner.reduce_scatter(send, receive, counts, op);
    return {};
  }
  template <class T>
  request start_send(T const* data, index_t count, int to, int tag) {
    inner.start_send(data, count, to, tag).wait();
    return {};
  }
  template <class T>
  request start_receive(T* data, index_t count, int from, int tag) {
    inner.start_receive(data, count, from, tag).wait();
    return {};
  }
  late_comm split(int color, int key) const { return {inner.split(color, key), tests, started}; }
  [[noreturn]] void abort(int code) const { inner.abort(code); }
};

/// Throws in backward when told to.
struct fragile : detail::elementwise_layer {
  static inline bool breaks = false;
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved&, X const& x) {
    return x;
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const&, Dy const& dy, Gradients&) {
    if (breaks) throw error("a layer that breaks", "one that does not", "mend it");
    return dy;
  }
};

template <class Dp, class Tp>
using mlp = parallel<chain<linear<12, 40, split_output<Tp>>, relu, linear<40, 30, split_input<Tp>>, relu,
                           linear<30, 7, split_output<Tp>>>,
                     data_parallel<Dp>, fuse::each>;
template <class Dp, class Tp>
using broken = parallel<chain<linear<12, 9>, fragile, linear<9, 7>>, data_parallel<Dp>, fuse::each>;

/// The gradients of one pass, all parameters in a row.
template <class Net, class Team>
std::vector<float> gradients(Net& net, Team& team, std::uint64_t stream = 3) {
  const auto y = net.forward(
      distribute<typename Net::input_type::layout_type>(team, worlds::values<float>(shape<2>{{rows, 12}}, stream)));
  net.backward(y);
  std::vector<float> all;
  for (auto const& p : net.parameters()) all.insert(all.end(), p.gradient.begin(), p.gradient.end());
  return all;
}

template <template <class, class> class Model, class Run>
void on_this_world(Run run) {
  const auto on = [&]<int Dp, int Tp>() {
    if (worlds::size() != Dp * Tp) return;
    CAPTURE(Dp);
    CAPTURE(Tp);
    run.template operator()<mesh<data_axis<Dp>, tensor_axis<Tp>>, Model<data_axis<Dp>, tensor_axis<Tp>>>();
  };
  on.template operator()<1, 1>();
  on.template operator()<2, 1>();
  on.template operator()<4, 1>();
  on.template operator()<2, 2>();
}

}  // namespace

TEST_CASE("whether reductions run beside backward changes no bit of the gradients") {
  on_this_world<mlp>([]<class Mesh, class Model>() {
    worlds::parallel_team<Mesh> team{mpi_comm{}};
    auto net = team.template make<Model>(seed{1});
    const auto beside = gradients(net, team);
    net.overlap(false);
    CHECK(gradients(net, team) == beside);
    net.overlap(true);
    CHECK(gradients(net, team) == beside);
    CHECK(gradients(net, team, 4) != beside);
  });
}

TEST_CASE("nor does it where reductions are messages") {
  on_this_world<mlp>([]<class Mesh, class Model>() {
    worlds::parallel_team<Mesh> team{mpi_comm(MPI_COMM_WORLD, {.shared_memory = false})};
    auto net = team.template make<Model>(seed{1});
    const auto beside = gradients(net, team);
    net.overlap(false);
    CHECK(gradients(net, team) == beside);
    worlds::parallel_team<Mesh> sharing{mpi_comm{}};
    auto in_shared_memory = sharing.template make<Model>(seed{1});
    CHECK(gradients(in_shared_memory, sharing) == beside);
  });
}

TEST_CASE("reductions start in the order in which they are listed, on all ranks, beside backward or not") {
  on_this_world<mlp>([]<class Mesh, class Model>() {
    const recording<mpi_comm> all{mpi_comm{}};
    team<Mesh, recording<mpi_comm>> team{all};
    auto net = team.template make<Model>(seed{1});
    const auto calls = [&](bool beside) {
      net.overlap(beside);
      team.group(Mesh::all).clear();
      gradients(net, team);
      return team.group(Mesh::all).calls();
    };
    const auto beside = calls(true);
    CHECK(calls(false) == beside);
    CHECK(calls(true) == beside);
  });
}

TEST_CASE("all gradients are whole when backward returns, however late reductions are done") {
  on_this_world<mlp>([]<class Mesh, class Model>() {
    int tests = 0;
    int started = 0;
    team<Mesh, late_comm> late{late_comm{mpi_comm{}, &tests, &started}};
    worlds::parallel_team<Mesh> team{mpi_comm{}};
    auto one = late.template make<Model>(seed{1});
    auto other = team.template make<Model>(seed{1});
    other.overlap(false);
    CHECK(gradients(one, late) == gradients(other, team));
    const int buckets = static_cast<int>(plan<Model, Mesh>::buckets(sizeof(float)).size());
    CHECK(started == buckets);
    // Each later gradient lets the reductions before it progress.
    CHECK(tests >= buckets);
    // Without overlap the same operations start, and each is waited for where it does.
    one.overlap(false);
    tests = 0;
    CHECK(gradients(one, late) == gradients(other, team));
    CHECK(started == 2 * buckets);
    CHECK(tests == 0);
  });
}

TEST_CASE("gradients that are kept aside start no reduction; the pass that adds them starts each once") {
  on_this_world<mlp>([]<class Mesh, class Model>() {
    int tests = 0;
    int started = 0;
    team<Mesh, late_comm> late{late_comm{mpi_comm{}, &tests, &started}};
    auto net = late.template make<Model>(seed{1});
    const auto x = distribute<typename decltype(net)::input_type::layout_type>(
        late, worlds::values<float>(shape<2>{{rows, 12}}, 3));
    net.accumulate(net.forward(x));
    CHECK(started == 0);
    net.backward(net.forward(x));
    CHECK(started == static_cast<int>(plan<Model, Mesh>::buckets(sizeof(float)).size()));
  });
}

TEST_CASE("an exception in backward ends the reductions under way, and the next pass is right") {
  on_this_world<broken>([]<class Mesh, class Model>() {
    int abandoned = 0;
    late_comm::request::abandoned = &abandoned;
    int tests = 0;
    int started = 0;
    team<Mesh, late_comm> late{late_comm{mpi_comm{}, &tests, &started}};
    worlds::parallel_team<Mesh> team{mpi_comm{}};
    auto of_late = late.template make<Model>(seed{1});
    auto of_mpi = team.template make<Model>(seed{1});
    const auto wanted = gradients(of_mpi, team);
    fragile::breaks = true;
    CHECK_THROWS_AS(gradients(of_late, late), error);
    CHECK_THROWS_AS(gradients(of_mpi, team), error);
    fragile::breaks = false;
    CHECK(abandoned == started);
    CHECK((started > 0) == (plan<Model, Mesh>::buckets(sizeof(float)).size() > 0));
    CHECK(gradients(of_mpi, team) == wanted);
    CHECK(gradients(of_late, late) == wanted);
  });
}
