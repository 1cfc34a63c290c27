// SPDX-License-Identifier: Apache-2.0
// A coll_store_t as the rendezvous sees it.
#pragma once
#include <collectives/collectives.h>

#include "rendezvous/stores/key_value_store.hpp"

namespace coll {

/// Calls the functions that the caller gave. A failure of theirs keeps its code.
class CallersStore final : public KeyValueStore {
 public:
  /// Refuses a store that is not initialised or lacks a function.
  static Status check(const coll_store_t* given);
  /// `given` has passed check(). It may be of a later, longer version.
  explicit CallersStore(const coll_store_t& given) : given_(given) {}

  Status set(const std::string& key, const std::string& value) override;
  Result<std::optional<std::string>> get(const std::string& key, Deadline deadline) override;

 private:
  const coll_store_t& given_;
};

}  // namespace coll
