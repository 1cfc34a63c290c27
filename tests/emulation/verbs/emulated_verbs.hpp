// SPDX-License-Identifier: Apache-2.0
// RDMA devices for tests on hosts that have none: in this process, behind a VerbsTable.
#pragma once
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "sys/verbs/rdma_ports.hpp"
#include "sys/verbs/verbs_table.hpp"

namespace coll::test {

class EmulatedFabric;

/// Devices "emu0", "emu1", … that all reach each other, with one active RoCE port each. Reliable
/// queue pairs behave as ibv_*(3) and the InfiniBand specification say, and where these leave a
/// choice, as the least forgiving device: a slot of a queue is free again only once a completion of
/// it, or of later work, was polled; completions that failed have no valid opcode; those of a
/// destroyed or reset pair stay in their queue; local and remote keys differ. A packet that gets no
/// answer fails its work at once, unless the wire is held.
///
/// Only one lives at a time. All may be called from any thread.
class EmulatedVerbs {
 public:
  explicit EmulatedVerbs(int devices = 2);
  EmulatedVerbs(const EmulatedVerbs&) = delete;
  EmulatedVerbs& operator=(const EmulatedVerbs&) = delete;
  /// Fails the test unless all that was made was destroyed, and all events acknowledged.
  ~EmulatedVerbs();

  [[nodiscard]] const VerbsTable& table() const;
  /// As `rdma_rails` would give them, beside a GPU.
  [[nodiscard]] std::vector<RdmaRail> rails(std::initializer_list<int> devices) const;

  // --- faults: a verb is called as "ibv_reg_mr"; `after` so many more calls of it
  /// The next call fails, once, with that errno, and does nothing.
  void fail(const std::string& verb, int error, int after = 0);
  /// Something is done just before the next call.
  void before(const std::string& verb, std::function<void()> action, int after = 0);
  /// Of `fail` and `before`, so many were not met yet.
  [[nodiscard]] int unmet() const;
  void forget_unmet();

  /// Its port says that it takes no longer messages.
  void set_most_bytes(int device, std::uint32_t bytes);
  /// Down: an event says so, and work through the port is held. Up: an event, and it goes on.
  void set_port(int device, bool up);
  /// Holds work to and from the device, without an event; and lets it go on, in order.
  void hold(int device);
  void go_on(int device);
  /// Held work to and from the device ends: of each pair the first with
  /// IBV_WC_RETRY_EXC_ERR, the others flushed.
  void exceed_retries(int device);
  /// The next work of the pair that goes through reaches the peer; the sender gets
  /// IBV_WC_RETRY_EXC_ERR.
  void lose_ack(std::uint32_t pair);

  struct Counts {
    std::uint64_t writes = 0, sends = 0, bytes = 0;  ///< posted
    std::uint64_t inline_writes = 0;                 ///< among the writes
    std::uint64_t post_send_calls = 0, post_recv_calls = 0, poll_calls = 0;
  };
  [[nodiscard]] Counts counts() const;
  /// The access flags with which the memory that this place lies in was registered, of each region.
  [[nodiscard]] std::vector<int> access_to(const std::byte* place) const;
  /// The numbers of living queue pairs, oldest first.
  [[nodiscard]] std::vector<std::uint32_t> pairs() const;

 private:
  std::unique_ptr<EmulatedFabric> fabric_;
};

}  // namespace coll::test
