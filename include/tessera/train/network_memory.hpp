#pragma once

#include <tessera/backend/concept.hpp>
#include <tessera/backend/progress.hpp>
#include <tessera/backend/transfer.hpp>
#include <tessera/plan/parallel.hpp>
#include <tessera/train/buckets.hpp>
#include <tessera/train/shared_values.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace tessera {

/// The seed of a model's initial parameters.
struct seed {
  std::uint64_t value = 0;
};

/// A parameter (or state) of a network on this rank, without its type: for optimizers, checkpoints and tests.
template <class T>
struct parameter_view {
  std::string name;              ///< its place in the model, as in `3.branch.0.weight`
  block<T, 1> value;             ///< this rank's block in storage order, or its slice of that
  block<T, 1> gradient;          ///< of the same elements; empty for states
  std::vector<index_t> extents;  ///< of the whole
  bool trainable = true;
  bool cut = false;     ///< whether ranks hold different parts of it
  axis_set cut_by = 0;  ///< the mesh axes along which they do
  /// The part of the whole that this rank holds, one interval a dimension.
  std::vector<interval> part{};
  /// Where ranks own slices (`optimizer_parallel`), maybe empty ones: the elements of the part, in storage order, that
  /// this rank updates, and the axes, among `cut_by`, along which others update the rest.
  std::optional<interval> range{};
  axis_set owners = 0;
};

namespace detail {

/// The part of a network that does not depend on the model's type, so that long models do not make it longer.
template <context Context, class T>
class network_memory final : private parameter_gate {
  static_assert(holds_elements<typename Context::backend, T>,
                "tessera: this backend has no blocks of the T of make<Model, T>: leave T out, so that parameters are "
                "float");

 public:
  using mesh = typename Context::mesh;
  using memory_type = typename gradient_buckets<Context, T>::memory_type;

  explicit network_memory(Context& context) : context_(&context), buckets_(context), values_(context) {}
  network_memory(network_memory const&) = delete;
  network_memory& operator=(network_memory const&) = delete;

  /// Called by layers when the gradients of `count` parameters from `first` on exist.
  void operator()(int first, int count) {
    for (int i = first; i < first + count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (owner_of_[at] != at) continue;
      // Of tied parameters the first of the model comes last.
      if constexpr (!deterministic)
        for_copies(at, [&](std::size_t other) { context_->kernels().axpy(T{1}, gradients_[other], gradients_[at]); });
      // Slices of sums are kept, not whole gradients.
      if (!scatters(at)) {
        if (aside_) {
          keep(at);
          continue;
        }
        if (kept_) context_->kernels().axpy(static_cast<T>(kept_factor_), sums_[at].read(), gradients_[at]);
      }
      if (bucket_of_[at] >= 0) buckets_.arrived(bucket_of_[at]);
    }
  }

  /// A forward pass begins.
  void begin_forward() { values_.begin(false); }
  /// The same, and progress in kernels while it lives.
  class forward_pass {
   public:
    explicit forward_pass(network_memory& of) {
      of.begin_forward();
      if (of.level_ == 0) return;
      hook_.emplace(progress_hook{&progress, &of});
    }

   private:
    std::optional<progress_scope> hook_{};
  };
  /// One backward pass, from construction to `finish`, or to where an exception ends it.
  class pass {
   public:
    /// `aside`: the gradients are kept for a later pass, which adds `kept` times what was kept.
    pass(network_memory& of, bool aside, double kept)
        : of_(of), reductions_(of.buckets_), hook_(progress_hook{&progress, &of}) {
      of_.aside_ = aside;
      of_.kept_factor_ = kept;
      of_.values_.begin(true);
    }
    void finish() {
      of_.buckets_.finish();
      of_.buckets_.settle(of_.aside_, of_.kept_, of_.kept_factor_);
      if constexpr (deterministic) of_.join_reduced();
      of_.kept_ = of_.aside_;
      // An update follows.
      if (!of_.aside_) of_.values_.forget();
    }

   private:
    network_memory& of_;
    typename gradient_buckets<Context, T>::pass reductions_;
    progress_scope hook_;
  };
  void drop_kept() { kept_ = false; }
  void overlap(bool on) {
    buckets_.overlap(on);
    values_.overlap(on);
  }

  /// Whom layers ask for their parameters: nobody where each rank keeps all of them.
  parameter_gate* gate() { return level_ == 0 ? nullptr : this; }
  /// Returns when the whole values of a trainable parameter are in the memory of its layer. Collective over the ranks
  /// that share it.
  void bring(int position) {
    if (const int b = bucket_of_[owner_of_[static_cast<std::size_t>(position)]]; values_.shares(b)) values_.bring(b);
  }
  /// The parameters of `parameters_` were changed.
  void forget() { values_.forget(); }

  /// The values of a trainable parameter are about to be written into the memory of its layer, by others than the ranks
  /// that share it.
  void open(int position) {
    if (const int b = bucket_of_[owner_of_[static_cast<std::size_t>(position)]]; values_.shares(b)) values_.open(b);
  }
  /// They have been written: this rank keeps what it owns of them.
  void close(int position) {
    const std::size_t at = owner_of_[static_cast<std::size_t>(position)];
    if (const int b = bucket_of_[at]; values_.shares(b)) values_.take(b, place_of(at));
  }
  /// The reduced gradient of a parameter that has no owner before it, whole. Where ranks have slices of it, they are
  /// gathered into `room`, which is collective over these ranks.
  block<T const, 1> whole_gradient(int position, memory_type& room) {
    const auto at = static_cast<std::size_t>(position);
    const int b = bucket_of_[at];
    if (!scatters(at)) return gradients_[at];
    room = memory_type(gradients_[at].extents);
    const axis_set owners = values_.owners(b);
    const index_t size = buckets_.memory(b).size();
    std::vector<index_t> counts;
    for (int r = 0; r < mesh::group_size(owners); ++r)
      counts.push_back(intersect(place_of(at), cut({0, size}, mesh::group_size(owners), r)).size);
    const interval slice = values_.slice(b);
    const interval mine = intersect(place_of(at), slice);
    T const* const own = buckets_.sums(b) + (mine.size > 0 ? mine.begin - slice.begin : 0);
    context_->group(owners).all_gather(own, room.data(), counts);
    return room.read();
  }
  /// Adds to the reduced gradient of such a parameter what this rank has of it.
  void add_to_reduced(int position, block<T const, 1> whole) {
    const auto at = static_cast<std::size_t>(position);
    const int b = bucket_of_[at];
    interval mine = place_of(at);
    T* to = gradients_[at].data;
    if (scatters(at)) {
      const interval slice = values_.slice(b);
      mine = intersect(mine, slice);
      to = buckets_.sums(b) + (mine.size > 0 ? mine.begin - slice.begin : 0);
    }
    if (mine.size == 0) return;
    const shape<1> some{{mine.size}};
    context_->kernels().axpy(T{1}, block<T const, 1>{whole.data + (mine.begin - offsets_[at]), some},
                             block<T, 1>{to, some});
  }

  /// Where the gradients of this rank's blocks lie in their buckets, which follows from the plan alone.
  void allocate_buckets(std::vector<parameter_info<mesh::axes>> const& trainable,
                        std::vector<gradient_bucket> const& plan, bucket_sharing sharing = {}) {
    level_ = sharing.level;
    bucket_of_.assign(trainable.size(), -1);
    offsets_.assign(trainable.size(), 0);
    for (std::size_t i = 0; i < trainable.size(); ++i) {
      owner_of_.push_back(static_cast<std::size_t>(first_of_tie(trainable, static_cast<int>(i))));
      has_ties_ = has_ties_ || owner_of_[i] != i;
    }
    std::vector<index_t> sizes;
    for (gradient_bucket const& planned : plan) {
      index_t size = 0;
      axes_.push_back(planned.axes);
      for (const int member : planned.members) {
        const auto m = static_cast<std::size_t>(member);
        bucket_of_[m] = static_cast<int>(sizes.size());
        offsets_[m] = size;
        size += trainable[m].template local_size<mesh>(context_->coordinates());
      }
      sizes.push_back(size);
    }
    std::map<int, index_t> most;  // elements of places in which gradients take turns
    for (std::size_t b = 0; b < sizes.size(); ++b)
      if (sharing.scatters(static_cast<int>(b)))
        most[sharing.gradient_places[b]] = std::max(most[sharing.gradient_places[b]], sizes[b]);
    std::map<int, memory_type> places;
    for (auto const& [place, size] : most) places.emplace(place, memory_type(shape<1>{{size}}));
    for (std::size_t b = 0; b < sizes.size(); ++b) {
      const int members = static_cast<int>(plan[b].members.size());
      if (sharing.scatters(static_cast<int>(b)))
        buckets_.add_scattered(plan[b].axes, sharing.axes[b],
                               places.at(sharing.gradient_places[b]).part(0, shape<1>{{sizes[b]}}), members);
      else
        buckets_.add(plan[b].axes, sizes[b], members);
    }
    values_.allocate(std::move(sharing), sizes);
  }

  /// Visits parameters in order of definition and gives them memory and their first values.
  struct allocator {
    network_memory& network;
    seed start;
    std::size_t next = 0;  ///< trainable parameter

    template <class Kind, int Rank, class Value, class Gradient>
    void operator()(std::string const& name, Kind, shape<Rank> const& extents, Value& value, Gradient& gradient) {
      constexpr bool tied = Kind::trainable && !std::is_void_v<typename Kind::tie>;
      if constexpr (tied) {
        if (const std::size_t owner = network.owner_of_[next]; owner != next) {
          const auto mine = local_box<mesh>(Value::placements, extents, network.context_->coordinates());
          value = Value(*network.context_, extents, network.tied_.at(owner).part(0, mine.extents()));
          gradient = Gradient(*network.context_, extents);
          network.gradients_.push_back({gradient.local().data(), {{gradient.local().size()}}});
          ++next;
          return;
        }
      }
      const int b = Kind::trainable ? network.bucket_of_[next] : -1;
      const bool shared = network.values_.shares(b);
      if (shared) {
        const auto mine = local_box<mesh>(Value::placements, extents, network.context_->coordinates());
        value =
            Value(*network.context_, extents, network.values_.whole(b).part(network.offsets_[next], mine.extents()));
      } else {
        value = Value(*network.context_, extents);
      }
      if constexpr (tied) network.tied_.emplace(next, value.local().reshaped(shape<1>{{value.local().size()}}));
      write_on_host(network.context_->kernels(), value.local(), [&](auto to) {
        write_initial<typename Kind::init>(value, philox(start.value, stream_of(name)), to);
      });
      constexpr axis_set cut_by = Value::placements.axes_of(placement_kind::shard);
      const auto part = value.part();
      parameter_view<T> view{name,
                             {value.local().data(), {{value.local().size()}}},
                             {},
                             {extents.extents.begin(), extents.extents.end()},
                             Kind::trainable,
                             mesh::group_size(cut_by) > 1,
                             cut_by,
                             {part.sides.begin(), part.sides.end()}};
      if constexpr (Kind::trainable) {
        if (b < 0) {
          gradient = Gradient(*network.context_, extents);
        } else {
          auto const& bucket = network.buckets_.memory(b);
          gradient = Gradient(*network.context_, extents, bucket.part(network.offsets_[next], value.local().extents()));
        }
        view.gradient = {gradient.local().data(), {{gradient.local().size()}}};
        network.gradients_.push_back(view.gradient);
        if (shared) network.narrow(view, b, network.offsets_[next]);
        ++next;
      }
      network.parameters_.push_back(std::move(view));
    }
  };

  Context* context_;
  std::vector<parameter_view<T>> parameters_{};

 private:
  /// Sums over ranks are taken in one order, before those of tied parameters are added up.
  static constexpr bool deterministic = deterministic_backend<typename Context::backend>;

  static void progress(void* memory) noexcept {
    auto& of = *static_cast<network_memory*>(memory);
    of.buckets_.progress();
    of.values_.progress();
  }

  /// Calls `f` with the parameters that share the memory of one before them.
  template <class F>
  void for_copies(std::size_t owner, F f) const {
    for (std::size_t other = owner + 1; has_ties_ && other < owner_of_.size(); ++other)
      if (owner_of_[other] == owner) f(other);
  }
  /// Adds the gradients of tied parameters, each reduced on its own, to those of the first of them.
  void join_reduced() {
    for (std::size_t at = 0; has_ties_ && at < owner_of_.size(); ++at)
      for_copies(at, [&](std::size_t other) {
        block<T, 1> const& gradient = gradients_[other];
        if (const int b = bucket_of_[at]; b >= 0)
          context_->group(axes_[static_cast<std::size_t>(b)])
              .all_reduce(gradient.data, gradient.size(), reduction::sum);
        add_to_reduced(static_cast<int>(at), gradient);
      });
  }
  /// Where a parameter lies in its bucket.
  interval place_of(std::size_t at) const { return {offsets_[at], gradients_[at].size()}; }

  /// Whether the gradient of a parameter is reduced in slices.
  bool scatters(std::size_t at) const { return bucket_of_[at] >= 0 && buckets_.scatters(bucket_of_[at]); }

  void acquire(int first, int count, bool backward) override {
    for (int i = first; i < first + count; ++i) bring(i);
    values_.look_ahead(first);
    if (!backward) return;
    for (int i = first; i < first + count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (scatters(at)) buckets_.make_room(bucket_of_[at]);
    }
  }

  /// Leaves of a parameter, which lies from `offset` on in a shared bucket, what this rank owns, and takes its value.
  void narrow(parameter_view<T>& view, int b, index_t offset) {
    const interval all{offset, view.value.size()};
    const interval slice = values_.slice(b);
    const interval mine = intersect(all, slice);
    values_.take(b, all);
    const index_t in_slice = mine.size > 0 ? mine.begin - slice.begin : 0;
    const index_t in_part = mine.size > 0 ? mine.begin - offset : 0;
    view.value = {values_.own(b) + in_slice, {{mine.size}}};
    view.gradient = {buckets_.scatters(b) ? buckets_.sums(b) + in_slice : view.gradient.data + in_part, {{mine.size}}};
    view.range = interval{in_part, mine.size};
    view.owners = values_.owners(b);
    view.cut_by = static_cast<axis_set>(view.cut_by | view.owners);
    view.cut = true;
  }

  /// Each element by its index in the whole, in logical row-major order.
  template <class Init, class Value, class Block>
  static void write_initial(Value const& value, philox const& draw, Block to) {
    constexpr int rank = Value::rank;
    const box<rank> part = value.part();
    const fans f = fans_of(value.extents());
    const auto whole = strides_of<storage_order::row_major>(value.extents());
    const auto local = strides_of<Block::order>(to.extents);
    const auto count = part.extents();
    for (index_t i = 0; i < count.size(); ++i) {
      index_t global = 0;
      index_t at = 0;
      index_t rest = i;
      for (int d = rank - 1; d >= 0; --d) {
        const index_t along = rest % count[d];
        rest /= count[d];
        global += (part[d].begin + along) * whole[static_cast<std::size_t>(d)];
        at += along * local[static_cast<std::size_t>(d)];
      }
      to.data[at] = static_cast<T>(Init::value(draw, global, f));
    }
  }

  /// Adds a gradient to what is kept of its parameter.
  void keep(std::size_t at) {
    if (sums_.empty())
      for (std::size_t i = 0; i < gradients_.size(); ++i)
        sums_.emplace_back(owner_of_[i] == i && !scatters(i) ? gradients_[i].extents : shape<1>{});
    if (kept_)
      context_->kernels().axpy(T{1}, gradients_[at], sums_[at].view());
    else
      context_->kernels().scale(gradients_[at], T{1}, sums_[at].view());
  }

  gradient_buckets<Context, T> buckets_;
  shared_values<Context, T> values_;
  int level_ = 0;  // of `optimizer_parallel`
  // By trainable parameter:
  std::vector<std::size_t> owner_of_{};  // the first that shares its memory: itself, where it is not tied
  std::vector<int> bucket_of_{};         // -1 for none
  std::vector<index_t> offsets_{};       // in its bucket
  std::vector<axis_set> axes_{};         // by bucket
  std::vector<block<T, 1>> gradients_{};
  std::vector<memory_type> sums_{};  // of gradients that are kept aside; empty until there are any

  std::map<std::size_t, memory_type> tied_{};  // memory of the first of tied parameters
  bool has_ties_ = false;

  bool aside_ = false;  // whether gradients of this pass are kept aside
  bool kept_ = false;   // whether there are any of earlier passes
  double kept_factor_ = 1;
};

}  // namespace detail

}  // namespace tessera
