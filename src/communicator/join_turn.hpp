// SPDX-License-Identifier: Apache-2.0
// Threads of a process that join at one place.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "communicator/communicator.hpp"

namespace coll {

/// A place in the line of threads that join at one meeting place as one rank. They join in the
/// order in which they came: there a job's ranks meet for one communicator after another.
class JoinTurn {
 public:
  /// Steps into the line. Null for a unique id, for a key of the program's store and for given
  /// sockets, which are for one communicator at a time.
  static std::unique_ptr<JoinTurn> line_up(const Joining& joining);
  /// Waits until it is the first, and takes the wait off `joining.connect_s`.
  Status wait(Joining& joining);
  JoinTurn(const JoinTurn&) = delete;
  JoinTurn& operator=(const JoinTurn&) = delete;
  ~JoinTurn();

 private:
  explicit JoinTurn(std::string line) : line_(std::move(line)) {}
  std::string line_;          ///< which of the process's lines it stands in
  std::uint64_t number_ = 0;  ///< its number there; 0 before it has one
};

}  // namespace coll
