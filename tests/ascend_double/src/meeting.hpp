#pragma once

#include <optional>

#include "hccl.hpp"

// How ranks come to share a block.
namespace ascend_double {

struct membership {
  std::uint32_t rank;
  std::uint32_t ranks;
  std::int32_t device;
  std::string server;
  std::string name;
  std::vector<std::uint32_t> parent_ranks;  // of a subcommunicator; empty for a first one
};

/// A new block and how to find it. It can be found until `withdraw`; nullopt without memory.
std::optional<ticket> offer_block();
void withdraw(ticket const& where);
/// Maps the block; null when there is none.
std::shared_ptr<meeting_block> open_block(ticket const& where);

/// Enters a rank into its block, whose lock is held.
HcclResult enter(meeting_block& block, block_lock& lock, membership const& m);
/// After all have entered: the communicator of a rank.
HcclResult complete(std::shared_ptr<meeting_block> const& block, membership const& m, HcclComm* result);
/// Meets the other ranks in the block behind `where`, all the way.
HcclResult join(ticket const& where, membership const& m, HcclComm* result);

}  // namespace ascend_double
