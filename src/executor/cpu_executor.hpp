// SPDX-License-Identifier: Apache-2.0
// The executor that moves runs on the CPU.
#pragma once
#include "executor/executor.hpp"

namespace coll {

/// Runs steps on the processor that polls. It keeps nothing of its own: all that changes is the
/// run's.
class CpuExecutor final : public Executor {
 public:
  Result<std::unique_ptr<Program>> bind(const Schedule& schedule, const ProgramShape& shape,
                                        const ConnectionSource& connection,
                                        ScratchPool& pool) override;
  void begin(Run& run) override;
  void queue(Run& run) override;
  bool advance(Run& run) override;
  void abandon(Run& run) override;

 private:
  static void expect_first(Run& run);
};

}  // namespace coll
