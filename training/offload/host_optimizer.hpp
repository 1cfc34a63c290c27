// SPDX-License-Identifier: Apache-2.0
// ZeRO-Offload (Ren et al. 2021, arXiv 2101.06840, sections 3 and 4): states lie in host memory,
// and the host's processor runs AdamW. With f bytes for a number in its format, a step moves over
// the link, for each owned element,
//
//   f(gradient) bytes to the host, f(weight) bytes to the device
//
// and the device keeps nothing of the optimizer. Where weights have 32 bits, the host has a copy.
//
// A bucket is cut into tiles. Workers take them one after another: gradients to the host, AdamW,
// weights to the device. There are two workers more than may compute at once, so that copies of two
// tiles, one each way, overlap the updates of others. A worker stages one tile of gradients, and
// one of weights where they have 16 bits.
#pragma once
#include <condition_variable>
#include <mutex>
#include <semaphore>

#include "../optimizer/optimizer_states.hpp"
#include "device_link.hpp"
#include "work_log.hpp"
#include "worker_pool.hpp"

namespace training {

struct HostOptions {
  std::size_t adam_threads = 1;  ///< that compute at once
  std::size_t tile = 32768;      ///< elements
  WorkLog* work = nullptr;       ///< where AdamW on a tile is noted; null: nowhere
};

class HostOptimizer final : public Optimizer {
 public:
  HostOptimizer(Owned owned, Arena& host, DeviceLink& link, HostOptions options = {});

  void begin(std::size_t bucket, std::span<const float> weights) override;
  void update(std::size_t bucket, const Update& update, const void* gradients,
              void* weights) override;
  void finish(std::size_t bucket) override;
  void read(std::size_t bucket, State state, std::size_t first, std::span<float> to) override;
  void write(std::size_t bucket, State state, std::size_t first,
             std::span<const float> from) override;
  void move_to(const FlatLayout& layout) override;

 private:
  struct Staging {
    Block<std::byte> gradients, weights;
  };
  void update_tile(std::size_t bucket, const Update& update, const Range& part,
                   const void* gradients, void* weights, const Staging& staging);

  Owned owned_;
  HostOptions options_;
  DeviceLink& link_;
  OptimizerStates states_;
  std::vector<Staging> staging_;  ///< of workers
  std::counting_semaphore<> may_compute_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<std::size_t> left_;  ///< of buckets: tiles to do
  WorkerPool workers_;             ///< the last member: the others outlive its threads
};

}  // namespace training
