// SPDX-License-Identifier: Apache-2.0
// Ranks that all meet the same trouble end alike, and one of them says why.
#pragma once
#include <optional>
#include <string>

#include "../memory/failure.hpp"

namespace training {

/// The text of the lowest rank that has one; "" if none has. All ranks call it.
std::string first_text(collectives::Communicator& world, const std::string& own);

/// A failure that all ranks have together. The text is empty where another rank tells it.
class SharedFailure : public Failure {
 public:
  using Failure::Failure;
};

/// All ranks call it. If any rank has a failure, throws SharedFailure on all; the lowest one that
/// has one tells it.
void fail_together(collectives::Communicator& world, const std::optional<Failure>& own);

/// Does `work`, in which no rank waits for another; fails together.
template <class Work>
void agree(collectives::Communicator& world, Work work) {
  std::optional<Failure> failure;
  try {
    work();
  } catch (const Failure& caught) {
    failure = caught;
  }
  fail_together(world, failure);
}

/// Does `work`, in which ranks wait for others, and which refuses bad usage alike on all ranks or
/// before any of them waits. What else it throws is this rank's own.
template <class Work>
void agree_on_usage(collectives::Communicator& world, Work work) {
  std::optional<Failure> refusal;
  try {
    work();
  } catch (const Failure& caught) {
    if (caught.code() != Failure::kBadUsage) throw;
    refusal = caught;
  }
  fail_together(world, refusal);
}

}  // namespace training
