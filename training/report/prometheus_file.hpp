// SPDX-License-Identifier: Apache-2.0
// The run as Prometheus reads it: text exposition format 0.0.4, for node_exporter's textfile
// collector. It reads files that end in .prom; each is replaced as a whole.
#pragma once
#include <cstdint>
#include <string>

#include "step_record.hpp"

namespace training {

class PrometheusFile {
 public:
  PrometheusFile(std::string path, RunFacts run);
  /// Counts the step; text() and write() then tell of it.
  void add(const StepRecord& record);
  [[nodiscard]] std::string text() const;
  /// Takes some 0.4 ms, and Prometheus reads every 15 s or so: not after each of many short steps.
  void write() const;

 private:
  std::string path_;
  RunFacts run_;
  StepRecord last_;
  std::uint64_t steps_ = 0, tokens_ = 0, bytes_sent_ = 0;
  double seconds_ = 0, forward_ = 0, backward_ = 0, optimizer_ = 0, exposed_ = 0, other_ = 0;
};

}  // namespace training
