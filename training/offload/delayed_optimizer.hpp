// SPDX-License-Identifier: Apache-2.0
// Delayed parameter update (Ren et al. 2021, ZeRO-Offload, arXiv 2101.06840, section 5.2): AdamW of
// step t runs on the host while the device computes step t + 1, so that step t + 2 is the first
// with its weights:
//
//   g(t) = gradient at w(t),    w(t + 2) = w(t + 1) + AdamW(g(t)).
//
// A step then takes the longer of computation and AdamW, not their sum. Weights and gradients of
// the device are in use meanwhile: AdamW works on copies in host memory, which take the bytes of a
// weight and of a gradient for each owned element. The paper begins after some steps without delay,
// in which the loss changes fast.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "../optimizer/optimizer.hpp"
#include "device_link.hpp"

namespace training {

/// Another optimizer whose updates wait for the bucket's next one where Update::delayed says so.
class DelayedOptimizer final : public Optimizer {
 public:
  /// What `make` makes reads gradients from, and writes weights to, host memory.
  DelayedOptimizer(const Owned& owned, Arena& host, DeviceLink& link,
                   const std::function<std::unique_ptr<Optimizer>(Owned owned)>& make);

  void begin(std::size_t bucket, std::span<const float> weights) override;
  void update(std::size_t bucket, const Update& update, const void* gradients,
              void* weights) override;
  void finish(std::size_t bucket) override;
  bool catch_up(std::size_t bucket) override;
  void read(std::size_t bucket, State state, std::size_t first, std::span<float> to) override;
  void write(std::size_t bucket, State state, std::size_t first,
             std::span<const float> from) override;
  void move_to(const FlatLayout& layout) override;

 private:
  /// What a bucket's update works on. `device` is null where no update is under way.
  struct Copies {
    Block<std::byte> gradients, weights;
    void* device = nullptr;  ///< where its weights go
    bool delayed = false;
  };
  std::vector<Copies> take_copies();
  void forget();

  Owned owned_;
  Arena& host_;
  DeviceLink& link_;
  std::vector<Copies> copies_;        ///< of buckets
  std::unique_ptr<Optimizer> inner_;  ///< the last member: its threads use the others
};

}  // namespace training
