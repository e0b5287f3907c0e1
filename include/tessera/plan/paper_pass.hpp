#pragma once

#include <tessera/layer/kept.hpp>
#include <tessera/redistribute/route.hpp>

#include <cstddef>
#include <vector>

namespace tessera::detail {

/// Blocks of memory and how many own each, on paper.
class paper_memory {
 public:
  /// A block that nobody owned before.
  constexpr int make(index_t bytes) {
    blocks_.push_back({bytes, 0});
    return share(static_cast<int>(blocks_.size()) - 1);
  }
  constexpr int share(int number) {
    block& b = blocks_[static_cast<std::size_t>(number)];
    if (b.owners++ == 0) live_ += b.bytes;
    need(0);
    return number;
  }
  /// Less than 0: no block.
  constexpr void drop(int number) {
    if (number < 0) return;
    block& b = blocks_[static_cast<std::size_t>(number)];
    if (--b.owners == 0) live_ -= b.bytes;
  }
  /// So many bytes more, for a moment.
  constexpr void need(index_t bytes) {
    if (live_ + bytes > peak_) peak_ = live_ + bytes;
  }
  constexpr int owners(int number) const { return blocks_[static_cast<std::size_t>(number)].owners; }
  constexpr index_t bytes(int number) const { return blocks_[static_cast<std::size_t>(number)].bytes; }
  constexpr index_t live() const { return live_; }
  constexpr index_t peak() const { return peak_; }

 private:
  struct block {
    index_t bytes;
    int owners;
  };
  std::vector<block> blocks_{};
  index_t live_ = 0;
  index_t peak_ = 0;
};

/// A tensor on an edge of a model, on paper.
struct paper_tensor {
  int block = -1;
  index_t element_bytes = 0;
};

/// The passes of a model on the device at `at`, on paper.
template <device_mesh Mesh>
class paper_pass : public paper_memory {
 public:
  using coordinates_type = decltype(Mesh::sizes);
  /// `kept` has room for what so many layers keep.
  constexpr paper_pass(coordinates_type const& where, int layers) : at(where), kept(static_cast<std::size_t>(layers)) {}

  struct kept_blocks {
    int input = -1;
    int output = -1;
    int own = -1;
  };
  coordinates_type at;
  std::vector<kept_blocks> kept;

  constexpr void forget(int layer) {
    kept_blocks& blocks = kept[static_cast<std::size_t>(layer)];
    drop(blocks.input);
    drop(blocks.output);
    drop(blocks.own);
    blocks = {};
  }
  template <int Rank>
  constexpr paper_tensor tensor(placements<Mesh::axes> const& layout, shape<Rank> const& extents,
                                index_t element_bytes) {
    return {make(local_bytes<Mesh>(layout, extents, at, element_bytes)), element_bytes};
  }
  constexpr paper_tensor handle(paper_tensor x) { return {share(x.block), x.element_bytes}; }
  constexpr void drop(paper_tensor x) { paper_memory::drop(x.block); }
  using paper_memory::drop;

  /// As `tessera::redistribute` of a tensor that somebody else owns too.
  template <placements<Mesh::axes> From, placements<Mesh::axes> To, int Rank>
  constexpr paper_tensor redistribute(shape<Rank> const& extents, paper_tensor x) {
    paper_tensor have = handle(x);
    if constexpr (!(From == To)) {
      for (auto const& s : route_between<Mesh, From, To, Rank>) {
        const bool alone = Mesh::group_size(s.group) == 1;
        if (s.kind == step_kind::all_reduce
                ? alone || owners(have.block) == 1
                : (alone || s.kind == step_kind::slice) &&
                      local_box<Mesh>(s.from, extents, at) == local_box<Mesh>(s.to, extents, at))
          continue;
        const paper_tensor next = tensor(s.to, extents, x.element_bytes);
        // Messages that are put together first, and those that are taken apart.
        if (s.kind == step_kind::reduce_scatter || s.kind == step_kind::exchange) need(bytes(have.block));
        if (s.kind == step_kind::all_gather) need(bytes(next.block));
        if (s.kind == step_kind::exchange) need(bytes(have.block) + bytes(next.block));
        drop(have);
        have = next;
      }
    }
    return have;
  }
};

}  // namespace tessera::detail
