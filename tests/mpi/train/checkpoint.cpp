#include "support/checkpoints.hpp"

#include <tessera/train/weights.hpp>

#include <fstream>

// Checkpoints of one mesh and split in another, resumed runs, and saves that fail.

namespace {

using namespace checkpoints;

constexpr adam optimizer{.learning_rate = 0.01, .weight_decay = 0.01};

template <class Net>
auto trainer_of(Net& net) {
  return trainer(net, cross_entropy{}, optimizer, {.clip_norm = 1, .schedule = cosine_rate{0.01, 20}});
}

/// Saves on the test's mesh, loads and saves again on a smaller world in another split, and loads that on the first.
template <int Dp, int Tp, template <class> class Team, int SmallDp, int SmallTp, class Comm>
void there_and_back(Comm const& small_world, bool small_rank) {
  CAPTURE(Dp);
  CAPTURE(Tp);
  CAPTURE(SmallDp);
  CAPTURE(SmallTp);
  const shared_folder folder;
  worlds::parallel_team<mesh<dp<Dp>, tp<Tp>>> team{mpi_comm{}};
  auto net = team.template make<by_output<dp<Dp>, tp<Tp>>>(seed{4});
  auto first = trainer_of(net);
  first.fit(batches(), epochs{1});
  const training_position at{1, 2, 0.1 + 0.2, {1.0 / 3, -0.0}, 37, 9, {3, true, false}};
  save_checkpoint(first, folder.path() / "large", at);
  const auto wanted = whole(net);
  const auto checkpoint = newest_checkpoint(folder.path() / "large");
  REQUIRE(checkpoint);
  CHECK(checkpoint->filename() == "step-00000004");

  if (small_rank) {
    Team<mesh<dp<SmallDp>, tp<SmallTp>>> small{small_world};
    auto other = small.template make<by_input<dp<SmallDp>, tp<SmallTp>>>(seed{5});
    auto second = trainer_of(other);
    CHECK(load_checkpoint(second, *checkpoint) == at);
    CHECK(second.steps() == 4);
    CHECK(whole(other) == wanted);
    save_checkpoint(second, folder.path() / "small", at);
  }
  mpi_comm().barrier();

  auto again = team.template make<by_output<dp<Dp>, tp<Tp>>>(seed{6});
  auto third = trainer_of(again);
  CHECK(held(third) != held(first));
  CHECK(load_checkpoint(third, *newest_checkpoint(folder.path() / "small")) == at);
  CHECK(held(third) == held(first));
  CHECK(third.optimizer_state().steps == 4);
  mpi_comm().barrier();

  // The weights alone.
  auto weights = team.template make<by_output<dp<Dp>, tp<Tp>>>(seed{7});
  load_weights(weights, *checkpoint);
  CHECK(whole(weights) == wanted);
}

template <class Mesh>
using serial_team = worlds::serial_team<Mesh>;
template <class Mesh>
using parallel_team = worlds::parallel_team<Mesh>;

template <int Dp, int Tp>
void on_mesh() {
  const mpi_comm world;
  if (world.size() != Dp * Tp) return;
  there_and_back<Dp, Tp, serial_team, 1, 1>(serial_comm{}, world.rank() == 0);
  if constexpr (Dp * Tp > 1) {
    const mpi_comm two = world.split(world.rank() < 2 ? 0 : 1, world.rank());
    there_and_back<Dp, Tp, parallel_team, 1, 2>(two, world.rank() < 2);
  }
}

/// One part of a tensor whose elements are their numbers in the whole, cut over the ranks in one of several ways.
struct numbered {
  checkpoint_entry entry;
  std::vector<std::int32_t> elements{};

  /// Cut along `dim` (-1: by nobody), the box's elements along the ranks (`flat`) or not, in memory order `order`.
  numbered(std::string name, std::vector<index_t> extents, int dim, bool flat, std::vector<int> order, int rank,
           int ranks) {
    tensor_part part = detail::whole_part(extents);
    part.order = std::move(order);
    if (dim >= 0) {
      auto& side = part.box[static_cast<std::size_t>(dim)];
      side = cut(side, ranks, rank);
    }
    // Pieces of unequal size, some of them empty, as a bucket's cuts give.
    if (flat && dim < 0) {
      const index_t size = part.box_size();
      const auto begin = [&](int r) { return size * r * r / (ranks * ranks); };
      part.range = interval{begin(rank), begin(rank + 1) - begin(rank)};
    }
    if (flat && dim >= 0) part.range = interval{0, part.box_size()};
    elements.assign(static_cast<std::size_t>(part.size()), -1);
    entry = {std::move(name), safetensors_type::i32, std::move(extents), part, nullptr};
  }

  /// The number in the whole of each element here.
  std::vector<std::int32_t> wanted() const {
    std::vector<std::int32_t> numbers;
    tensor_part const& part = entry.part;
    const interval range = part.range.value_or(interval{0, part.box_size()});
    for (index_t i = range.begin; i < range.end(); ++i) {
      std::vector<index_t> at(part.box.size());
      index_t rest = i;
      for (std::size_t p = at.size(); p-- > 0;) {
        const auto d = static_cast<std::size_t>(part.stored(p));
        at[d] = part.box[d].begin + rest % part.box[d].size;
        rest /= part.box[d].size;
      }
      index_t number = 0;
      for (std::size_t d = 0; d < at.size(); ++d) number = number * entry.extents[d] + at[d];
      numbers.push_back(static_cast<std::int32_t>(number));
    }
    return numbers;
  }
};

std::vector<numbered> tensors_in(int way, int rank, int ranks) {
  const std::vector<int> channels_last{0, 2, 3, 1};
  std::vector<numbered> all;
  int i = way;
  const auto add = [&](std::vector<index_t> extents, std::vector<int> order) {
    const int dims = static_cast<int>(extents.size());
    const int dim = i % (dims + 1) - 1;
    const bool flat = i / (dims + 1) % 2 == 1;
    ++i;
    all.emplace_back("t" + std::to_string(all.size()), std::move(extents), dim, flat, std::move(order), rank, ranks);
  };
  add({}, {});
  add({7}, {});
  add({5, 6}, {});
  add({6, 5}, {});
  add({3, 0}, {});
  add({1, 4, 1}, {2, 0, 1});
  add({5, 3, 2, 3}, way % 3 == 0 ? std::vector<int>{} : channels_last);
  add({2, 9, 1, 4}, channels_last);
  for (numbered& t : all) t.entry.data = t.elements.data();
  return all;
}

std::vector<checkpoint_entry> entries_of(std::vector<numbered> const& tensors) {
  std::vector<checkpoint_entry> entries;
  for (numbered const& t : tensors) entries.push_back(t.entry);
  return entries;
}

/// Counts the losses of a run on all ranks and stops it after some updates.
struct recorder {
  std::vector<double>& losses;
  index_t stop = -1;
  struct stopped {};
  template <class Trainer>
  void on_step(progress const& at, Trainer& trainer, image_batches const&) {
    losses.push_back(at.loss);
    if (trainer.steps() == stop) throw stopped{};
  }
};

template <int Dp, int Tp>
void resumed() {
  if (worlds::size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  worlds::parallel_team<mesh<dp<Dp>, tp<Tp>>> team{mpi_comm{}};
  using model = by_output<dp<Dp>, tp<Tp>>;
  std::vector<double> wanted;
  auto whole_run = team.template make<model>(seed{4});
  auto uninterrupted = trainer_of(whole_run);
  const auto means = uninterrupted.fit(batches(), epochs{4}, recorder{wanted});
  REQUIRE(wanted.size() == 16);

  // Within an epoch, at its last step before it has ended, and after its end.
  struct place {
    checkpoint_every every;
    index_t stop;
    std::size_t resumes;
  };
  const shared_folder folder;
  int number = 0;
  for (place const& p :
       {place{{"", 3, 0}, 11, 9}, place{{"", 4, 0}, 9, 8}, place{{"", 0, 1}, 9, 8}, place{{"", 4, 1}, 9, 8}}) {
    CAPTURE(p.every.steps);
    CAPTURE(p.every.epochs);
    auto every = p.every;
    every.directory = folder.path() / std::to_string(number++);
    std::vector<double> losses;
    {
      auto net = team.template make<model>(seed{4});
      auto stopped = trainer_of(net);
      const auto run = [&] {
        stopped.fit(batches(), epochs{4}, resume{every.directory}, every, recorder{losses, p.stop});
      };
      CHECK_THROWS_AS(run(), recorder::stopped);
    }
    REQUIRE(losses.size() == static_cast<std::size_t>(p.stop));
    losses.resize(p.resumes);
    auto net = team.template make<model>(seed{99});
    auto goes_on = trainer_of(net);
    CHECK(goes_on.fit(batches(), epochs{4}, resume{every.directory}, every, recorder{losses}) == means);
    CHECK(losses == wanted);
    CHECK(held(goes_on) == held(uninterrupted));
    // A run that is over has nothing left to do but what came after the last checkpoint.
    losses.resize(every.steps == 3 ? 15 : 16);
    CHECK(goes_on.fit(batches(), epochs{4}, resume{every.directory}, recorder{losses}) == means);
    CHECK(losses == wanted);
  }
}

/// A trainer on all ranks along one axis.
template <int Size>
struct fixture {
  worlds::parallel_team<mesh<dp<1>, tp<Size>>> team{mpi_comm{}};
  network<by_output<dp<1>, tp<Size>>, worlds::parallel_team<mesh<dp<1>, tp<Size>>>> net{team, seed{1}};
};

template <int Size>
void failing_saves() {
  if (worlds::size() != Size) return;
  const shared_folder folder;
  fixture<Size> f;
  auto trains = trainer_of(f.net);
  trains.fit(batches(), epochs{1});
  save_checkpoint(trains, folder.path());
  const auto saved = held(trains);
  trains.fit(batches(), epochs{1});
  const int rank = mpi_comm().rank();
  auto fresh = f.team.template make<by_output<dp<1>, tp<Size>>>(seed{2});
  auto loads = trainer_of(fresh);

  int failures = 0;
  for (int faulty = 0; faulty < Size; faulty += std::max(1, Size - 1)) {
    for (int stop = 0;; ++stop) {
      int steps = 0;
      if (rank == faulty)
        detail::before_file_step = [&](std::filesystem::path const& path) {
          if (steps++ == stop) throw error("stopped at " + path.string(), "no stop", "this is a test");
        };
      const std::string text = error_of([&] { save_checkpoint(trains, folder.path()); });
      detail::before_file_step = nullptr;
      CAPTURE(text);
      CAPTURE(stop);
      const auto newest = newest_checkpoint(folder.path());
      REQUIRE(newest);
      load_checkpoint(loads, *newest);
      // From the renaming on the new one counts, whatever fails after it.
      if (newest->filename() == "step-00000008") {
        CHECK(held(loads) == held(trains));
        mpi_comm().barrier();
        if (rank == 0) std::filesystem::remove_all(*newest);
        mpi_comm().barrier();
      } else {
        REQUIRE(newest->filename() == "step-00000004");
        CHECK(held(loads) == saved);
        CHECK(text != "no error");
      }
      mpi_comm().barrier();
      if (text == "no error") break;
      says(text, "stopped at");
      if (rank != faulty) says(text, "rank " + std::to_string(faulty) + " failed");
      ++failures;
    }
  }
  CHECK(failures > 20);
}

}  // namespace

TEST_CASE("a checkpoint of one mesh and split loads in another, there and back, bit for bit") {
  on_mesh<1, 1>();
  on_mesh<1, 2>();
  on_mesh<2, 2>();
  on_mesh<2, 4>();
}

TEST_CASE("parts of any box, range and order are put together again in any other") {
  mpi_comm world;
  for (int way = 0; way < 12; ++way) {
    CAPTURE(way);
    const shared_folder folder;
    auto saved = tensors_in(way, world.rank(), world.size());
    for (numbered& t : saved) {
      const auto numbers = t.wanted();
      std::copy(numbers.begin(), numbers.end(), t.elements.begin());
    }
    detail::write_checkpoint(world, folder.path(), 1, 1, entries_of(saved), {});
    const auto checkpoint = *newest_checkpoint(folder.path());
    for (const int other : {way, way + 1, way + 5, way + 7}) {
      CAPTURE(other);
      auto loaded = tensors_in(other, world.rank(), world.size());
      detail::read_tensors(world, checkpoint, checkpoint, detail::read_index(checkpoint), entries_of(loaded));
      for (numbered const& t : loaded) {
        CAPTURE(t.entry.name);
        CHECK(t.elements == t.wanted());
      }
    }
    // All of it on each rank, as from another world.
    auto alone = tensors_in(way, 0, 1);
    serial_comm one;
    detail::read_tensors(one, checkpoint, checkpoint, detail::read_index(checkpoint), entries_of(alone));
    for (numbered const& t : alone) CHECK(t.elements == t.wanted());
    world.barrier();
  }
}

TEST_CASE("a run that is stopped and resumed has the losses of one that is not") {
  resumed<1, 1>();
  resumed<1, 2>();
  resumed<2, 2>();
  resumed<2, 4>();
}

TEST_CASE("a save that fails at any point on any rank fails on all and leaves the checkpoint before it") {
  failing_saves<1>();
  failing_saves<2>();
  failing_saves<4>();
}
