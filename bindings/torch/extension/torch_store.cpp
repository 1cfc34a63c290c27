// SPDX-License-Identifier: Apache-2.0
// PyTorch's store: waiting for a key, and a connection to it that nobody else uses.
#include "torch_store.hpp"

#include <c10/util/Exception.h>

#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "torch_versions.hpp"

namespace collectives_torch {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// PrefixStore tells its prefix only to who derives from it.
struct OpenPrefix : c10d::PrefixStore {
  static const std::string& of(const c10d::PrefixStore& store) {
    return store.*&OpenPrefix::prefix_;
  }
};

/// One idle connection to each store that lives.
class IdleConnections {
 public:
  StorePtr take(const StorePtr& store) {
    const std::lock_guard lock(mutex_);
    std::erase_if(idle_, [](const Idle& one) { return one.to.expired(); });
    for (Idle& one : idle_) {
      if (one.to.lock() == store) return std::exchange(one.connection, {});
    }
    return {};
  }
  void give(const StorePtr& store, StorePtr connection) {
    const std::lock_guard lock(mutex_);
    for (Idle& one : idle_) {
      if (one.to.lock() != store) continue;
      one.connection = std::move(connection);
      return;
    }
    idle_.push_back({c10::weak_intrusive_ptr<c10d::Store>(store), std::move(connection)});
  }

 private:
  struct Idle {
    c10::weak_intrusive_ptr<c10d::Store> to;
    StorePtr connection;  // none while it is lent
  };
  std::mutex mutex_;
  std::vector<Idle> idle_;
};

IdleConnections& idle_connections() {
  static auto& all = *new IdleConnections;  // never destroyed: PyTorch may be gone by then
  return all;
}

}  // namespace

StoreConnection::StoreConnection(const StorePtr& store) : base_(store) {
  std::vector<std::string> prefixes;
  while (auto* layer = dynamic_cast<c10d::PrefixStore*>(base_.get())) {
    prefixes.push_back(OpenPrefix::of(*layer));
    base_ = layer->getUnderlyingStore();
  }
  connection_ = idle_connections().take(base_);
  if (!connection_) connection_ = clone_of(base_);
  store_ = connection_;
  for (auto prefix = prefixes.rbegin(); prefix != prefixes.rend(); ++prefix) {
    store_ = c10::make_intrusive<c10d::PrefixStore>(*prefix, store_);
  }
}

void StoreConnection::keep() {
  const bool connects = dynamic_cast<c10d::TCPStore*>(base_.get()) != nullptr;
  if (connects && connection_ != base_) idle_connections().give(base_, std::move(connection_));
}

bool comes(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) return store.check({key});
  const auto until = std::chrono::steady_clock::now() + timeout;
  try {
    store.wait({key}, timeout);
    return true;
  } catch (const c10::DistNetworkError&) {
    throw;
  } catch (const c10::Error&) {
    // Each kind of store has another exception for a timeout, so the clock tells.
    if (std::chrono::steady_clock::now() < until) throw;
    return false;
  }
}

}  // namespace collectives_torch
