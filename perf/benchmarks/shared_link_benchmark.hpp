// SPDX-License-Identifier: Apache-2.0
// Connections over shared memory between two processes.
#pragma once
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sides_benchmark.hpp"
#include "transports/transport.hpp"

namespace perf {

/// One side's ends of the connections between the two processes, one for each lane.
class SharedLink {
 public:
  /// Collective. Where it fails, which `ready()` then says, the other process is gone.
  SharedLink(const TwoProcesses& ranks, std::uint32_t lanes, std::size_t slot_bytes)
      : ready_(connect(ranks, lanes, slot_bytes)) {
    if (!ready_ && ranks.rank() == 1) ::_exit(1);
  }

  [[nodiscard]] bool ready() const { return ready_; }
  [[nodiscard]] coll::Connection& end(std::uint32_t lane = 0) const { return *ends_[lane]; }

 private:
  bool connect(const TwoProcesses& ranks, std::uint32_t lanes, std::size_t slot_bytes) {
    auto made =
        coll::make_shm_transport({.rank = ranks.rank(), .size = 2, .job = {1, 2}, .interface = {}});
    if (!made.ok()) return fail(made.status());
    transport_ = *std::move(made);
    const std::string theirs = ranks.swap(transport_->descriptor());
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      auto opened = transport_->open({.peer = 1 - ranks.rank(),
                                      .lane = lane,
                                      .slot_bytes = slot_bytes,
                                      .credits = transport_->limits().credits},
                                     theirs);
      if (!opened.ok()) return fail(opened.status());
      ends_.push_back(*std::move(opened));
    }
    for (const auto& end : ends_) {
      while (!end->ready()) {
        transport_->poll();
        if (!end->status().ok()) return fail(end->status());
        if (ranks.stop()) return false;
      }
    }
    return true;
  }
  static bool fail(const coll::Status& status) {
    std::cerr << status.text() << "\n";
    return false;
  }

  std::unique_ptr<coll::Transport> transport_;
  std::vector<std::unique_ptr<coll::Connection>> ends_;  // gone before their transport
  bool ready_;
};

}  // namespace perf
