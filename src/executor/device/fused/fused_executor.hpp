// SPDX-License-Identifier: Apache-2.0
// Moves runs by one kernel each, which takes the program's steps on the device: for short messages,
// and for links that copy engines do not fill.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "executor/device/fused/fused_flights.hpp"
#include "executor/device/fused/fused_program.hpp"
#include "executor/executor.hpp"

namespace coll {

/// Of one communicator, on one GPU; the ranks may run fused kernels together: ranks that share a
/// GPU are of one process, since a GPU gives processes its time in turn. `begin` launches the
/// kernel on the executor's stream, so runs move in the order of their begins, and need no tickets.
/// All ranks begin them in the same order. Nobody has to `advance` a run but for ports whose
/// messages the processor moves, and where more runs were begun than the stream takes at once:
/// `advance` launches the further ones.
///
/// A driver that refuses work is the run's `failure`; so is a kernel that was made to end with
/// another one.
///
/// It must outlive its programs, and they the runs. Where a run was abandoned whose kernel did not
/// end, the memory that this may still use is never freed, and its blocks are never given back.
class FusedExecutor final : public Executor {
 public:
  /// `ranks`: of this process, that use the device. Fails if no block is left for it.
  static Result<std::unique_ptr<FusedExecutor>> make(FusedDevice& device, unsigned ranks,
                                                     FusedShape shape);
  ~FusedExecutor() override;
  /// Memory of its GPU, as long as it lives.
  [[nodiscard]] CudaAddress memory() const { return arrived_.address(); }
  /// The memory stays for good: another process may have it open.
  void keep_memory() { arrived_.abandon(); }
  /// No program will ever be bound: others may have its blocks.
  void rest() { fused_.give_back(std::exchange(blocks_, 0)); }

  /// Unequal blocks have no program, nor have more lanes than may run at once.
  Result<std::unique_ptr<Program>> bind(const Schedule& schedule, const ProgramShape& shape,
                                        const ConnectionSource& connection,
                                        ScratchPool& pool) override;
  void begin(Run& run) override;
  void queue(Run& /*run*/) override {}
  bool advance(Run& run) override;
  /// Makes the kernel end, for some seconds at most: then the caller may change its buffers. A
  /// kernel that had no place on the device until then does nothing when it begins. Ends what began
  /// before on the way, so it is for failures of the communicator.
  void abandon(Run& run) override;

 private:
  FusedExecutor(FusedDevice& device, FusedShape shape)
      : fused_(device), device_(device.device()), shape_(std::move(shape)), flights_(device_) {}

  Status open(unsigned ranks);
  bool start_pending();
  Status start(Run& run);
  static void lend(const Run& run, fused::FusedArguments& arguments);
  static void announce(const Run& run, FusedProgram& program);
  static void end(Run& run, FusedFlight& flight);
  void look_for_errors(Run& run, FusedFlight& flight);

  FusedDevice& fused_;
  StreamDevice& device_;
  const FusedShape shape_;
  unsigned blocks_ = 0;  ///< that it has reserved
  CudaStream stream_ = nullptr;
  CudaStream uploads_ = nullptr;
  CudaPiece arrived_;  ///< see FusedArguments; runs are one behind the other, so one will do
  FusedFlights flights_;
  std::vector<Run*> pending_;  ///< runs that were begun and not launched
};

}  // namespace coll
