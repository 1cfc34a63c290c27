// SPDX-License-Identifier: Apache-2.0
// PyTorch's store: waiting for a key, and a connection to it that nobody else uses.
#include "torch_store.hpp"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "torch_versions.hpp"

namespace collectives_torch {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// PrefixStore shows its prefix only to classes that derive from it.
struct OpenPrefix : c10d::PrefixStore {
  static const std::string& of(const c10d::PrefixStore& store) {
    return store.*&OpenPrefix::prefix_;
  }
};

/// The connection that the process keeps. It is a client's own, also where the process serves the
/// store, so it keeps no server alive.
class KeptConnection {
 public:
  /// Null if there is none to this store, or it is dead.
  StorePtr take(const c10d::TCPStore& to) {
    StorePtr found;
    {
      const std::lock_guard lock(mutex_);
      if (!kept_ || kept_->server != server_of(to)) return {};
      found = std::move(kept_->connection);
      kept_.reset();
    }
    try {
      found->check({"coll"});
      return found;
    } catch (const std::exception&) {
      return {};
    }
  }
  void give(const c10d::TCPStore& to, StorePtr connection) {
    std::optional<Kept> kept(Kept{server_of(to), std::move(connection)});
    const std::lock_guard lock(mutex_);
    kept_.swap(kept);
  }

 private:
  /// A fork must not use its parent's connection.
  using Server = std::tuple<std::string, std::uint16_t, pid_t>;
  struct Kept {
    Server server;
    StorePtr connection;
  };
  static Server server_of(const c10d::TCPStore& store) {
    return {store.getHost(), store.getPort(), getpid()};
  }

  std::mutex mutex_;
  std::optional<Kept> kept_;
};

KeptConnection& kept_connection() {
  static auto& kept = *new KeptConnection;  // never destroyed: PyTorch may be gone by then
  return kept;
}

}  // namespace

StoreConnection::StoreConnection(const StorePtr& store) : base_(store) {
  std::vector<std::string> prefixes;
  while (auto* layer = dynamic_cast<c10d::PrefixStore*>(base_.get())) {
    prefixes.push_back(OpenPrefix::of(*layer));
    base_ = layer->getUnderlyingStore();
  }
  if (const auto* tcp = dynamic_cast<c10d::TCPStore*>(base_.get()))
    connection_ = kept_connection().take(*tcp);
  if (!connection_) connection_ = clone_of(base_);
  store_ = connection_;
  for (auto prefix = prefixes.rbegin(); prefix != prefixes.rend(); ++prefix) {
    store_ = c10::make_intrusive<c10d::PrefixStore>(*prefix, store_);
  }
}

void StoreConnection::keep() {
  const auto* tcp = dynamic_cast<c10d::TCPStore*>(base_.get());
  if (tcp != nullptr && connection_ != base_) kept_connection().give(*tcp, connection_);
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
