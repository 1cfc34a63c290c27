// SPDX-License-Identifier: Apache-2.0
// How training ends when it cannot go on.
#pragma once
#include <collectives/collectives.hpp>
#include <stdexcept>
#include <string>

namespace training {

/// Its text says what, where and what to do. `main` prints it and exits with `code`.
class Failure : public std::runtime_error {
 public:
  static constexpr int kFailed = 1, kBadUsage = 2, kPeerLost = 3;
  explicit Failure(const std::string& text, int code = kFailed, int lost = -1)
      : std::runtime_error(text), code_(code), lost_(lost) {}
  [[nodiscard]] int code() const { return code_; }
  /// The rank without which this one cannot go on; -1: none, or it is not known.
  [[nodiscard]] int lost() const { return lost_; }

 private:
  int code_, lost_;
};

/// A call of the library that failed ends training. A rank that died or does not answer has a code
/// of its own.
template <class T>
T value_of(collectives::Result<T> result) {
  if (!result) {
    const collectives::Error& error = result.error();
    const bool lost = error.code == COLL_PEER_LOST || error.code == COLL_DEADLINE;
    throw Failure(error.text, lost ? Failure::kPeerLost : Failure::kFailed, lost ? error.rank : -1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace training
