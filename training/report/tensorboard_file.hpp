// SPDX-License-Identifier: Apache-2.0
// The run as TensorBoard reads it: a file of events, in each of which a step has its scalars.
//
// A file is a row of records (TensorFlow, record_writer.cc), numbers little-endian:
//   u64 length   u32 masked CRC32C of the length   data   u32 masked CRC32C of the data
// where a CRC is masked by a rotation right of 15 bits, plus 0xa282ead8. The data of a record is a
// protobuf Event (event.proto). The first one names the format; the second says at which step the
// run begins, upon which TensorBoard forgets later steps of the folder's earlier files: of a step
// that was done twice the later one counts.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>

#include "step_record.hpp"

namespace training {

class TensorboardFile {
 public:
  /// Makes a new file in the folder, and the folder where it is missing; `first_step` is the one
  /// that the run does next. Throws Failure.
  TensorboardFile(const std::string& folder, RunFacts run, std::uint64_t first_step);
  /// Writes all numbers of the step log under their names there, as `loss` and
  /// `memory_bytes/gradients`, and flushes. Throws Failure if that fails.
  void write(const StepRecord& record);

 private:
  void append(const std::string& event);
  void check(const char* what) const;
  std::string path_;
  RunFacts run_;
  std::ofstream file_;
};

}  // namespace training
