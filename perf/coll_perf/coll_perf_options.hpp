// SPDX-License-Identifier: Apache-2.0
// Coll-perf's options, those of nccl-tests first.
#pragma once
#include <collectives/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "coll_perf/coll_perf_operation.hpp"

namespace perf {

/// How the ranks' times of one batch become one.
enum class Average { rank0 = 0, mean = 1, fastest = 2, slowest = 3 };

/// What a caller does between giving a call to a stream and waiting for it.
enum class Compute { none, work, sleep };

/// Where buffers come from: the program's own memory, coll_mem_alloc, or coll_mem_register.
enum class Memory { own = 0, allocated = 1, registered = 2 };

/// Whose memory buffers lie in.
struct Device {
  bool cuda = false;  ///< a GPU's, not the host's
  int number = -1;    ///< CUDA's; -1: the rank's among its host's, counted round and round
};

struct Options {
  const char* program = "coll-perf";  ///< in messages
  std::vector<Operation> operations{Operation::all_reduce};
  std::vector<coll_dtype_t> dtypes{COLL_FLOAT32};
  std::vector<coll_op_t> redops{COLL_SUM};
  int root = 0;  ///< -1: all
  std::vector<std::size_t> sizes;

  int iterations = 0;     ///< calls per batch; 0: as many as fit target_s
  int batches = 5;        ///< with a fixed number of iterations
  int warmup = 5;         ///< calls, with a fixed number of iterations
  double target_s = 0.1;  ///< measuring time per point
  int checks = 1;
  Average average = Average::slowest;
  bool out_of_place = true;
  bool in_place = true;
  bool percentiles = false;
  Memory memory = Memory::own;
  Device device;
  bool cpu = false;  ///< processor time in the table
  Compute overlap = Compute::none;
  bool stream = false;
  int group = 1;          ///< calls in each group; 1: no groups
  bool coalesce = false;  ///< the calls of a group are parts of one call
  int inflight = 1;       ///< calls in flight together, each on a stream of its own
  bool pin = false;
  int ngpus = 1;  ///< ranks of this process, each a thread if they are several

  std::string algorithm;
  std::string transports;
  coll_order_t order = COLL_ORDER_DEFAULT;  ///< of sums
  bool explain = false;

  std::string json;
  std::string csv;
  std::string plot;

  bool peers_csv = false;
  std::string peer = "collectives";
  std::string transport_label;  ///< empty: `transports`, or "auto"
};

/// What the command line says, or why the program ends now: after --help (exit 0) or an error.
struct Ending {
  int exit_code;
  std::string text;
};
std::optional<Ending> parse_options(int argc, const char* const* argv, Options& options);

/// "host", "cuda", "cuda:1". Nothing for anything else.
std::optional<Device> parse_device(const std::string& text);

/// "8", "64K", "1.5M", "2GiB": bytes, units of 1024. Nothing for anything else.
std::optional<std::size_t> parse_size(const std::string& text);

/// From `first` to `last`, times `factor` (if > 1) or plus `step` each.
std::vector<std::size_t> sweep(std::size_t first, std::size_t last, double factor,
                               std::size_t step);

}  // namespace perf
