// SPDX-License-Identifier: Apache-2.0
// What a meeting asks of a key-value store that the program brings.
#pragma once
#include <optional>
#include <string>

#include "base/status.hpp"
#include "sys/clock.hpp"

namespace coll {

/// Values are short words of text. Either function may block; only the thread that meets calls.
class KeyValueStore {
 public:
  KeyValueStore() = default;
  KeyValueStore(const KeyValueStore&) = delete;
  KeyValueStore& operator=(const KeyValueStore&) = delete;
  virtual ~KeyValueStore() = default;
  /// Sets the value of a key, over what was there.
  virtual Status set(const std::string& key, const std::string& value) = 0;
  /// The value of a key, once it has one; nothing if it has none until the deadline.
  virtual Result<std::optional<std::string>> get(const std::string& key, Deadline deadline) = 0;
};

}  // namespace coll
