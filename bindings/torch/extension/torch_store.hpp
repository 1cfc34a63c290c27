// SPDX-License-Identifier: Apache-2.0
// PyTorch's store: waiting for a key, and a connection to it that nobody else uses.
#pragma once
#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace collectives_torch {

/// Whether the key is in the store in time. A timeout of 0 or less looks once. Throws what the
/// store throws for other reasons.
bool comes(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout);

/// The store over a connection that nobody else uses meanwhile, where PyTorch can make one: a wait
/// on it holds up no other group. When PyTorch connects, both sides look up each other's name, and
/// the server does so while all its clients wait; where DNS loses a packet that takes seconds. So
/// the process keeps a connection to a TCPStore, which serves one user after another.
class StoreConnection {
 public:
  explicit StoreConnection(const c10::intrusive_ptr<c10d::Store>& store);

  c10d::Store& operator*() const { return *store_; }
  c10d::Store* operator->() const { return store_.get(); }

  /// Keeps the connection for the next user. Whoever saw it fail does not call this.
  void keep();

 private:
  c10::intrusive_ptr<c10d::Store> base_;        // below all prefixes
  c10::intrusive_ptr<c10d::Store> connection_;  // to the same
  c10::intrusive_ptr<c10d::Store> store_;       // with the prefixes
};

}  // namespace collectives_torch
