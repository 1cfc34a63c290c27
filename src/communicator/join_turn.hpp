// SPDX-License-Identifier: Apache-2.0
// Threads of a process that join at one place.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "communicator/communicator.hpp"

namespace coll {

/// The right to join at a place as a rank. Threads that ask for it at the same time get it in the
/// order in which they came: for one communicator after another the ranks of a job meet there.
class JoinTurn {
 public:
  /// Waits for it, and takes the wait off `joining.connect_s`. At once for a unique id and for a
  /// key of the program's store, which are for one communicator at a time.
  static Result<std::unique_ptr<JoinTurn>> take(Joining& joining);
  JoinTurn(const JoinTurn&) = delete;
  JoinTurn& operator=(const JoinTurn&) = delete;
  ~JoinTurn();

 private:
  explicit JoinTurn(std::string line) : line_(std::move(line)) {}
  std::string line_;          ///< which of the process's lines it stands in
  std::uint64_t number_ = 0;  ///< its number there; 0 before it has one
};

}  // namespace coll
