// SPDX-License-Identifier: Apache-2.0
// Whole transfers between a rank's file and memory, by the best means that the kernel allows.
#pragma once
#include <array>
#include <string>

#include "io_queue.hpp"
#include "state_file.hpp"

namespace training {

class StateIo {
 public:
  /// `means`: "io_uring", "libaio" or "threads"; empty: the first of these that works on the file.
  explicit StateIo(const StateFile& file, const std::string& means = "");
  StateIo(const StateIo&) = delete;
  StateIo& operator=(const StateIo&) = delete;
  /// Waits for transfers that go on.
  ~StateIo();

  /// "io_uring, O_DIRECT" and the like: for the report.
  [[nodiscard]] std::string means() const;

  /// Begins a transfer; none goes on under this number (below kTransfers).
  void start(std::size_t number, const Transfer& transfer);
  /// Waits until it is done. A transfer that fails, or ends early, is a Failure that says where.
  void wait(std::size_t number);

 private:
  struct Going {
    bool going = false;
    Transfer rest;  ///< what is left
    int error = 0;  ///< errno
  };
  [[nodiscard]] bool works();
  void submit(std::size_t number);
  void take_completion();

  const StateFile& file_;
  const char* means_ = "";
  std::unique_ptr<IoQueue> queue_;
  std::array<Going, kTransfers> going_{};
};

}  // namespace training
