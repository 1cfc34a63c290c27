// SPDX-License-Identifier: Apache-2.0
// What a run tells of itself while it goes on, and at its end.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "../offload/work_log.hpp"
#include "../report/final_report.hpp"
#include "../report/progress_line.hpp"
#include "../report/prometheus_file.hpp"
#include "../report/step_log.hpp"
#include "../report/straggler.hpp"
#include "../report/tensorboard_file.hpp"
#include "../report/tracer.hpp"
#include "../trainer/trainer.hpp"
#include "train_options.hpp"

namespace training {

class RunMonitor {
 public:
  /// `flops`: of a step; `work`: of optimizers on their threads. All ranks call it.
  RunMonitor(const TrainOptions& options, RunFacts facts, double flops, Mesh& mesh, Arena& arena,
             Trainer& trainer, WorkLog& work);
  /// After each step, on all ranks. `validation` may be null; `note` empty.
  void after(const StepResult& step, const StepResult* validation, std::string note);
  /// A line for a person, between the steps.
  void say(const std::string& text);
  /// Writes what is left and prints the report. All ranks call it.
  void finish();

 private:
  void watch_passes();
  void watch_traffic(Traffic& traffic);
  void trace_work(std::uint64_t step);
  [[nodiscard]] bool leads() const { return mesh_.rank() == 0; }

  const TrainOptions& options_;
  double flops_;
  Mesh& mesh_;
  Arena& arena_;
  Trainer& trainer_;
  WorkLog& work_;
  Tracer tracer_;
  RunReport report_;
  std::optional<StepLog> log_;
  std::optional<TensorboardFile> tensorboard_;
  std::optional<PrometheusFile> prometheus_;
  std::optional<ProgressLine> progress_;
  StepTimes paces_;
  std::map<std::string, std::uint64_t> bytes_;  ///< by operation
  std::uint64_t sent_ = 0;                      ///< so far
  Clock::time_point written_;                   ///< Prometheus's file
};

}  // namespace training
