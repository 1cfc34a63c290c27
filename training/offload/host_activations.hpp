// SPDX-License-Identifier: Apache-2.0
// Kept activations in host memory (ZeRO-Infinity, Rajbhandari et al. 2021, arXiv 2104.07857,
// section 5.1). Of a stage that computes its units in segments (trainer/stage.hpp), with o_k the
// elements of the output of segment k, the last segment's apart, it takes
//
//   on the device  sum over b < 3 of (max of o_k with k mod 3 = b)  <=  3 max(o_k)
//   on the host    slots * sum(o_k)
//   of the link    sum(o_k) each way for a micro-batch
//
// A thread copies, in the order of the calls: an output to the host while the next segments
// compute, and the input of segment k - 1 back while segment k computes.
//
// Three buffers are enough, output k in buffer k mod 3, whatever the number of micro-batches
// between their passes. The forward pass of segment k reads output k - 1 and writes output k. The
// backward pass reads output k - 1 and, as it computes the segment anew, writes output k, while
// output k - 2 arrives. Outputs outlive a pass in host memory only, so passes of several
// micro-batches may alternate. Two rules order what touches a buffer: computation calls settle()
// before it writes one, or reads one that was fetched, and copies wait for those before them.
#pragma once
#include <array>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "host_memory.hpp"
#include "worker_pool.hpp"

namespace training {

class HostActivations {
 public:
  static constexpr std::size_t kBuffers = 3;

  /// `sizes`: o_k.
  HostActivations(std::vector<std::size_t> sizes, std::size_t slots, Arena& device,
                  HostMemory& host);
  /// Elements that it takes on the device.
  static std::size_t device_elements(const std::vector<std::size_t>& sizes);

  /// Where the segment's output lies on the device.
  [[nodiscard]] float* output(std::size_t segment) const {
    return buffers_[segment % kBuffers].data();
  }
  /// Waits until no copy reads or writes the place of the segment's output.
  void settle(std::size_t segment);
  /// Starts to copy the segment's output to the host.
  void store(std::size_t slot, std::size_t segment);
  /// Before the backward pass of a segment, from the last segment to the first: its input is there,
  /// and that of the segment before is on its way.
  void bring_input(std::size_t slot, std::size_t segment);

 private:
  void fetch(std::size_t slot, std::size_t segment);
  void copy(DeviceLink::Way way, std::size_t segment, float* to, const float* from);
  [[nodiscard]] float* on_host(std::size_t slot, std::size_t segment) const;

  std::vector<std::size_t> sizes_;
  std::vector<std::size_t> places_;  ///< of segments in a slot's part of host memory; the end
  DeviceLink& link_;
  std::array<Block<float>, kBuffers> buffers_;
  Block<float> host_;  ///< of all slots
  std::mutex mutex_;
  std::condition_variable copied_;
  std::array<std::size_t, kBuffers> copies_{};  ///< that are not done yet, of each buffer
  WorkerPool copier_{1};                        ///< the last member: the others outlive its thread
};

}  // namespace training
