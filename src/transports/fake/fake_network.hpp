// SPDX-License-Identifier: Apache-2.0
// The script, and the network that the ranks share.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "transports/fake/fake_fifo.hpp"
#include "transports/transport.hpp"

namespace coll {

/// Both directions between two ends; direction 0 goes from the lower rank to the higher.
struct FakeLink {
  FakeLink(const FakeScript& script, Rank low, Rank high, const ConnectionSpec& spec);

  std::mutex mutex;  ///< guards all of it
  const std::size_t slot_bytes;
  const std::uint32_t credits;
  FakeFifo fifos[2];
  bool joined[2] = {false, false};
  bool closed[2] = {false, false};   ///< that end is destroyed
  bool stopped[2] = {false, false};  ///< that end reads nothing any more
  bool cut = false;                  ///< by a fault
  bool mismatched = false;           ///< the ends were opened with different settings
};

/// What the ranks share; may be used by their threads at once. Everything it does follows from the
/// script's seed and the order of each rank's own calls, however their threads run.
class FakeNetwork {
 public:
  explicit FakeNetwork(FakeScript script = {}) : script_(std::move(script)) {}

  [[nodiscard]] const FakeScript& script() const { return script_; }

  /// Messages that were lent, on all links.
  [[nodiscard]] std::uint64_t loans() const { return loans_; }
  void count_loan() { ++loans_; }

  /// Names a new transport; `leave` when it ends.
  std::uint64_t enter();
  void leave(std::uint64_t transport);
  [[nodiscard]] bool has(std::uint64_t transport);

  /// One end of a connection between two transports, that of rank `self` and the peer's: the first
  /// to come makes the link, the second finds it.
  std::shared_ptr<FakeLink> join(Rank self, std::uint64_t own, std::uint64_t peers,
                                 const ConnectionSpec& spec);
  /// That end is destroyed.
  void leave(FakeLink& link, int side);

 private:
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;  ///< transports, lane

  const FakeScript script_;
  std::atomic<std::uint64_t> loans_{0};
  std::mutex mutex_;  ///< guards what follows
  std::uint64_t last_ = 0;
  std::set<std::uint64_t> transports_;
  std::map<Key, std::shared_ptr<FakeLink>> half_open_;
};

}  // namespace coll
