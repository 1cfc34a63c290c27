// SPDX-License-Identifier: Apache-2.0
// Counts and displacements read, added up and compared.
#include "communicator/calls/unequal_call.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "base/hash.hpp"
#include "communicator/calls/call_check.hpp"

namespace coll {
namespace {

using Block = UnequalBlocks::Block;

constexpr std::uint64_t kMost = ~std::uint64_t{0} >> 8;  ///< elements; sums of two do not overflow

Status bad(const UnequalCall& given, const std::string& what, std::string hint = {}) {
  return failed(Code::invalid_argument, given.call.name() + ": " + what, std::move(hint));
}

/// A block for each rank.
Result<std::vector<Block>> blocks_of(const UnequalCall& given, const char* buffer,
                                     const std::size_t* counts, const std::size_t* displs,
                                     Rank size) {
  if (counts == nullptr) {
    return bad(given, std::string(buffer) + "_counts is null", "give the count of each rank");
  }
  std::vector<Block> blocks(static_cast<std::size_t>(size));
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = {counts[i], displs != nullptr ? displs[i] : next};
    if (blocks[i].count > kMost || blocks[i].offset > kMost || next > kMost) {
      return bad(given, "the block of rank " + std::to_string(i) + " in " + buffer + ", " +
                            std::to_string(counts[i]) + " elements at " +
                            std::to_string(blocks[i].offset) + ", is more than memory can hold");
    }
    next += blocks[i].count;
  }
  return blocks;
}

/// What a rank gives at a gather's root, or gets at a scatter's, is also in the list of all.
Status check_own(const UnequalCall& given, const std::vector<Block>& all, Rank rank) {
  const std::uint64_t listed = all[static_cast<std::size_t>(rank)].count;
  if (listed == given.count) return {};
  return bad(given,
             "the root's own count is " + std::to_string(given.count) + ", but " +
                 std::to_string(listed) + " in the list of all counts",
             "give the same count in both");
}

void note_lengths(UnequalBlocks& blocks, const std::vector<Block>& all) {
  Fnv1a hash;
  for (const Block& block : all) {
    hash.word(block.count);
    blocks.longest_of_all = std::max(blocks.longest_of_all, block.count);
  }
  blocks.known = hash.value();
}

/// Does the list say that each rank has just these blocks?
bool says(const std::size_t* counts, const std::size_t* displs, std::span<const Block> blocks) {
  if (counts == nullptr) return false;
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::uint64_t offset = displs != nullptr ? displs[i] : next;
    if (blocks[i] != Block{counts[i], offset}) return false;
    next += counts[i];
  }
  return true;
}

/// The blocks of a thread's last call of each collective. A call that repeats takes them as they
/// are: it allocates nothing, and is found by their address.
struct LastBlocks {
  Rank rank = 0, size = 0, root = 0;
  std::shared_ptr<const UnequalBlocks> blocks;
};
/// Is `t_last` destroyed? At the end of a thread or process a call may still come: from an exit
/// handler, or from the destructor of a static object.
thread_local bool t_last_is_gone = false;
struct LastOfThread {
  std::array<LastBlocks, kCollectives> of;  ///< by collective
  LastOfThread() = default;
  LastOfThread(const LastOfThread&) = delete;
  LastOfThread& operator=(const LastOfThread&) = delete;
  ~LastOfThread() { t_last_is_gone = true; }
};
thread_local LastOfThread t_last;

/// Which buffers have a block for each rank, and so a list of counts.
struct Listed {
  bool input, output;
};
Listed listed_by(const UnequalCall& given, Rank rank, Rank size) {
  using enum Collective;
  const Collective collective = given.call.collective;
  const BlockShape shape = block_shape(collective, size, given.call.root, rank);
  return {collective == reduce_scatter || collective == all_to_all ||
              (collective == scatter && shape.input != 0),
          collective == all_gather || collective == all_to_all ||
              (collective == gather && shape.output != 0)};
}

bool repeats(const LastBlocks& last, const UnequalCall& given, Listed listed, Rank rank,
             Rank size) {
  if (!last.blocks || last.rank != rank || last.size != size || last.root != given.call.root)
    return false;
  const UnequalBlocks& blocks = *last.blocks;
  if (listed.input && !says(given.send_counts, given.send_displs, blocks.input)) return false;
  if (listed.output && !says(given.recv_counts, given.recv_displs, blocks.output)) return false;
  if (given.call.collective == Collective::gather) return blocks.input[0].count == given.count;
  if (given.call.collective == Collective::scatter) return blocks.output[0].count == given.count;
  return true;
}

Result<std::shared_ptr<const UnequalBlocks>> made_blocks(const UnequalCall& given, Listed listed,
                                                         Rank rank, Rank size) {
  using enum Collective;
  const auto own = static_cast<std::size_t>(rank);
  const Collective collective = given.call.collective;
  const auto blocks = std::make_shared<UnequalBlocks>();
  if (listed.output) {
    COLL_ASSIGN(blocks->output,
                blocks_of(given, "recv", given.recv_counts, given.recv_displs, size));
  }
  if (listed.input) {
    COLL_ASSIGN(blocks->input,
                blocks_of(given, "send", given.send_counts, given.send_displs, size));
  }
  if (collective == all_to_all && blocks->input[own].count != blocks->output[own].count) {
    return bad(given,
               "this rank gives itself " + std::to_string(blocks->input[own].count) +
                   " elements, but takes " + std::to_string(blocks->output[own].count),
               "give the same count for this rank in send_counts and recv_counts");
  }
  if (collective == all_gather) {
    blocks->input = {{blocks->output[own].count, 0}};
    note_lengths(*blocks, blocks->output);
  } else if (collective == reduce_scatter) {
    blocks->output = {{blocks->input[own].count, 0}};
    note_lengths(*blocks, blocks->input);
  } else if (collective == gather) {
    if (listed.output) COLL_TRY(check_own(given, blocks->output, rank));
    blocks->input = {{given.count, 0}};
  } else if (collective == scatter) {
    if (listed.input) COLL_TRY(check_own(given, blocks->input, rank));
    blocks->output = {{given.count, 0}};
  }
  return std::shared_ptr<const UnequalBlocks>(blocks);
}

}  // namespace

Result<UnequalRequest> unequal_request(const UnequalCall& given, Rank rank, Rank size) {
  COLL_TRY(check_names(given.call));
  const Listed listed = listed_by(given, rank, size);
  LastBlocks none;
  LastBlocks& last =
      t_last_is_gone ? none : t_last.of[static_cast<std::size_t>(given.call.collective)];
  if (!repeats(last, given, listed, rank, size)) {
    COLL_ASSIGN(auto blocks, made_blocks(given, listed, rank, size));
    last = {rank, size, given.call.root, std::move(blocks)};
  }
  const auto& blocks = last.blocks;
  Request request;
  request.call = given.call;
  request.call.form = CallForm::unequal;
  request.call.count =
      std::max(blocks->reach(Space::input).count, blocks->reach(Space::output).count);
  request.input = given.send;
  request.output = given.recv;
  request.blocks = blocks.get();
  return UnequalRequest{request, blocks};
}

}  // namespace coll
