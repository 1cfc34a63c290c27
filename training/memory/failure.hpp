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
  explicit Failure(const std::string& text, int code = kFailed)
      : std::runtime_error(text), code_(code) {}
  [[nodiscard]] int code() const { return code_; }

 private:
  int code_;
};

/// A call of the library that failed ends training; another rank's death has a code of its own.
template <class T>
T value_of(collectives::Result<T> result) {
  if (!result) {
    throw Failure(result.error().text,
                  result.error().code == COLL_PEER_LOST ? Failure::kPeerLost : Failure::kFailed);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace training
