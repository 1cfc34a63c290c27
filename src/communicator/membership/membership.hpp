// SPDX-License-Identifier: Apache-2.0
// What all ranks learn of all ranks, and agree on.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "communicator/membership/assembly.hpp"
#include "communicator/membership/card.hpp"
#include "communicator/membership/own_place.hpp"
#include "executor/device/fused/fused_executor.hpp"
#include "planner/planner.hpp"
#include "rendezvous/rendezvous.hpp"
#include "transports/transport.hpp"
#include "watch/watch.hpp"

namespace coll {

/// A transport that the ranks may use: its name on the cards, and how to make it. `make` is empty
/// for cuda_ipc, by which GPUs use connections of the others.
struct TransportChoice {
  std::string name;
  std::function<Result<std::unique_ptr<Transport>>(const TransportSpec&)> make;
};
/// It lets GPUs reach each other.
inline constexpr std::string_view kCudaIpc = "cuda_ipc";

/// The transports that COLL_TRANSPORTS names, in its order. An unknown name is an error that lists
/// the known ones.
Result<std::vector<TransportChoice>> transport_choices(std::string_view names);

/// The ranks that share a kernel with a rank, and so its cores and caches, whether they share
/// memory or not; itself too.
struct Neighbours {
  std::uint32_t ranks = 1;
  double per_core = 1;
};

/// How this rank reaches another one.
struct PeerPath {
  Transport* transport = nullptr;
  std::string descriptor;  ///< the peer's
  std::string name;        ///< of the transport, for explanations
  bool of_gpus = false;    ///< their GPUs may reach each other (Card::ipc_domain)

  [[nodiscard]] PathCapabilities capabilities() const { return transport->path(descriptor); }
};

/// The outcome: equal on every rank but for `neighbours`, `transports`, `paths` and `own`.
struct Membership {
  World world;
  StreamDevice* gpu = nullptr;  ///< of this rank, where all ranks have one that moves calls:
  bool gpu_reduces = false;     ///< and all of these move calls that reduce, too
  std::shared_ptr<const World> gpu_world;  ///< what plans of their streams are made from
  /// Of this rank; used where all ranks have one and reach one another. Elsewhere it stays: to free
  /// its memory may wait for calls of other communicators.
  std::unique_ptr<FusedExecutor> fused;
  std::shared_ptr<const World> fused_world;  ///< of fused kernels; null: not all ranks have them
  std::vector<Member> members;
  std::uint32_t credits = 0;  ///< of each connection, 0: the transport's choice
  Neighbours neighbours;
  std::vector<std::unique_ptr<Transport>> transports;  ///< those that work on this rank
  std::vector<PeerPath> paths;                         ///< by peer; empty for itself
  // For communicators made from this one.
  Card own;                         ///< without settings and offers
  std::vector<Card::Offer> offers;  ///< rank 0's, without descriptors
};

/// Publishes this rank's card, reads the others', chooses for each pair the best transport that
/// both accept, and makes the world that plans are made from. Fails on all ranks alike, naming the
/// pair and each transport's reason, where two ranks have no path to each other, and naming the
/// rank where one has no place of its `own`.
Result<Membership> agree_on_membership(const Assembly& meeting,
                                       const std::vector<TransportChoice>& choices,
                                       const std::string& interface, const SharedSettings& settings,
                                       const Result<OwnPlace>& own = OwnPlace{});

}  // namespace coll
