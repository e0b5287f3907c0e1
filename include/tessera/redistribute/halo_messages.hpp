#pragma once

#include <tessera/core/sharded.hpp>
#include <tessera/redistribute/execute.hpp>

#include <array>
#include <exception>
#include <utility>
#include <vector>

namespace tessera::detail {

/// A block, and which part of the whole tensor it is.
template <class Local>
struct tile {
  box<Local::rank> part;
  Local block;
};

/// The messages of a halo exchange, on one rank. `Backward` sends what the forward exchange received to where it came
/// from, in the opposite order of phases, and adds where the forward exchange copies.
template <class Context, class Plan, class Local, bool Backward>
class halo_messages {
 public:
  /// Sends what needs no message of others, and starts to receive everything.
  halo_messages(Context& context, Plan const& plan, Local const& source, int tag)
      : context_(&context), plan_(plan), tag_(tag), result_{Backward ? plan.own() : plan.needed(), {}} {
    tiles_.push_back({Backward ? plan.needed() : plan.own(), source});
    for (int s = 0; s < phases; ++s) {
      const int p = phase_of(s);
      for (int r = 0; r < plan_.members(p); ++r) {
        const auto part = Backward ? plan_.sent(p, r) : plan_.received(p, r);
        if (part.size() == 0) continue;
        Local& incoming = tiles_.emplace_back(tile<Local>{part, Local(part.extents())}).block;
        receives_[index(s)].push_back(
            context.group(plan_.group(p)).start_receive(incoming.data(), incoming.size(), r, tag_));
      }
    }
    send();
    while (stage_ < phases && receives_[index(stage_)].empty()) next_stage();
    if (tiles_.size() == 1 && tiles_[0].part == result_.part)
      result_.block = source;
    else
      begin(result_);
  }

  halo_messages(halo_messages&&) = delete;
  halo_messages& operator=(halo_messages&&) = delete;
  /// Completes the exchange, because other ranks wait for what this one passes on; an exception leaves it to the
  /// requests to withdraw.
  ~halo_messages() {
    if (std::uncaught_exceptions() <= exceptions_) complete();
  }

  bool test() {
    while (stage_ < phases) {
      if (!all_complete(receives_[index(stage_)])) return false;
      advance();
    }
    return all_complete(sends_);
  }

  /// Once.
  Local finish() {
    complete();
    return std::move(result_.block);
  }

 private:
  using element = typename Local::value_type;
  using request = typename Context::communicator::request;
  static constexpr int phases = Plan::phases;

  static constexpr std::size_t index(int stage) { return static_cast<std::size_t>(stage); }
  static constexpr int phase_of(int stage) { return Backward ? phases - 1 - stage : stage; }

  static bool all_complete(std::vector<request>& requests) {
    bool all = true;
    for (auto& r : requests) all = r.test() && all;  // each is asked, so that each progresses
    return all;
  }

  /// Gives `to` what this rank had from the start.
  void begin(tile<Local>& to) const {
    auto& kernels = context_->kernels();
    to.block = Local(to.part.extents());
    const auto part = intersect(tiles_[0].part, to.part);
    if (Backward && !(part == to.part))
      kernels.fill(block<element, 1>{to.block.data(), {{to.block.size()}}}, element{});
    copy_box(kernels, tiles_[0].block.read(), relative(part, tiles_[0].part), to.block.view(),
             begins(relative(part, to.part)));
  }

  /// Gives `to` what tile `t` brought.
  void take(std::size_t t, tile<Local>& to) const {
    auto const& from = tiles_[t];
    const auto part = intersect(from.part, to.part);
    if (part.size() == 0) return;
    const auto at = begins(relative(part, to.part));
    if constexpr (Backward)
      add_box(context_->kernels(), from.block.read(), relative(part, from.part), to.block.view(), at);
    else
      copy_box(context_->kernels(), from.block.read(), relative(part, from.part), to.block.view(), at);
  }

  /// Sends what the current stage sends, made of what is here by now.
  void send() {
    const int p = phase_of(stage_);
    for (int r = 0; r < plan_.members(p); ++r) {
      const auto part = Backward ? plan_.received(p, r) : plan_.sent(p, r);
      if (part.size() == 0) continue;
      auto& message = outgoing_.emplace_back(tile<Local>{part, {}});
      begin(message);
      for (std::size_t t = 1; t < arrived_; ++t) take(t, message);
      sends_.push_back(context_->group(plan_.group(p))
                           .start_send(std::as_const(message.block).data(), message.block.size(), r, tag_));
    }
  }

  void next_stage() {
    ++stage_;
    if (stage_ < phases) send();
  }

  /// Takes what arrived in the current stage, in the order of ranks, and starts the next one.
  void advance() {
    const std::size_t end = arrived_ + receives_[index(stage_)].size();
    for (; arrived_ < end; ++arrived_) take(arrived_, result_);
    next_stage();
  }

  void complete() {
    while (stage_ < phases) {
      for (auto& r : receives_[index(stage_)]) r.wait();
      advance();
    }
    for (auto& s : sends_) s.wait();
  }

  Context* context_;
  Plan plan_;
  int tag_;
  int stage_ = 0;
  int exceptions_ = std::uncaught_exceptions();
  std::size_t arrived_ = 1;  // tiles that are here
  std::vector<tile<Local>> tiles_;
  std::vector<tile<Local>> outgoing_;
  tile<Local> result_;
  // After the memory of their messages, because they wait when they are destroyed.
  std::vector<request> sends_;
  std::array<std::vector<request>, Plan::dims.size()> receives_;
};

}  // namespace tessera::detail
