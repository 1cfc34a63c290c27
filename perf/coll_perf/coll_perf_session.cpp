// SPDX-License-Identifier: Apache-2.0
// Joining, and the small exchanges between measurements.
#include "coll_perf/coll_perf_session.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace perf {
namespace {

void pin_to_core(int rank, const char* program) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(rank % (cores > 0 ? cores : 1)), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    fmt::print(stderr, "{}: rank {} is not pinned: {}\n", program, rank, std::strerror(errno));
}

}  // namespace

int launched_rank() {
  for (const char* name : {"COLL_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const char* text = std::getenv(name)) return std::atoi(text);
  // A batch script has Slurm's number too, but no step: it is alone.
  const char* const text = std::getenv("SLURM_PROCID");
  return text != nullptr && std::getenv("SLURM_STEP_ID") != nullptr ? std::atoi(text) : -1;
}

Session::Session(const Options& options, const Gpu* gpu) : program_(options.program) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.order = options.order;
  if (!options.algorithm.empty()) config.algorithm = options.algorithm.c_str();
  if (gpu != nullptr) config.device = gpu->bus().c_str();
  if (!options.transports.empty()) config.transports = options.transports.c_str();
  const int launched = launched_rank();
  alone_ = launched < 0;
  rank_ = alone_ ? 0 : launched;  // for messages until the library says it
  if (options.pin) pin_to_core(rank_, program_);
  if (alone_) {
    coll_unique_id_t id;
    require(coll_get_unique_id(&id), "making a unique id");
    require(coll_comm_init_rank(&comm_, 1, &id, 0, &config), "joining alone");
  } else {
    require(coll_comm_init_env(&comm_, &config), "joining the other ranks");
  }
  require(coll_comm_rank(comm_, &rank_), "asking for the rank");
  require(coll_comm_size(comm_, &size_), "asking for the number of ranks");
  if (options.pin && !alone_ && rank_ != launched) pin_to_core(rank_, program_);
  if (options.stream || options.inflight > 1)
    streams_.resize(static_cast<std::size_t>(options.inflight), nullptr);
  for (coll_stream_t& stream : streams_) stream = make_stream(gpu);
}

coll_stream_t Session::make_stream(const Gpu* gpu) {
  coll_stream_t stream = nullptr;
  if (gpu != nullptr) {
    queues_.push_back(std::make_unique<GpuQueue>(*gpu));
    require(coll_stream_from_cuda(&stream, queues_.back()->handle()), "taking a stream of CUDA");
    return stream;
  }
  require(coll_stream_create(&stream), "making a host stream");
  return stream;
}

Session::~Session() {
  for (coll_stream_t stream : streams_) coll_stream_destroy(stream);
  if (comm_ != nullptr) coll_comm_destroy(comm_);
}

void Session::require(coll_status_t status, const char* what) const {
  if (status != COLL_SUCCESS) end(true, what);
}

void Session::require_alike(coll_status_t status, const char* what) const {
  if (status != COLL_SUCCESS) end(rank_ == 0 || status != COLL_INVALID_ARGUMENT, what);
}

void Session::end(bool speak, const char* what) const {
  if (speak) fmt::print(stderr, "{}: rank {}: {}: {}\n", program_, rank_, what, coll_last_error());
  std::_Exit(2);  // the communicator cannot be left in order; its peers learn it from the socket
}

void Session::barrier() const {
  require(coll_barrier(comm_, nullptr), "barrier between batches");
}

void Session::synchronize() const {
  for (coll_stream_t stream : streams_)
    require(coll_stream_synchronize(stream), "waiting for the stream");
}

void Session::combine(std::vector<double>& values, Average average) const {
  if (average == Average::rank0) {
    require(coll_broadcast(values.data(), values.data(), values.size(), COLL_FLOAT64, 0, comm_,
                           nullptr),
            "sharing times");
    return;
  }
  const coll_op_t op = average == Average::mean      ? COLL_AVG
                       : average == Average::fastest ? COLL_MIN
                                                     : COLL_MAX;
  require(coll_all_reduce(values.data(), values.data(), values.size(), COLL_FLOAT64, op, comm_,
                          nullptr),
          "sharing times");
}

std::uint64_t Session::sum(std::uint64_t value) const {
  require(coll_all_reduce(&value, &value, 1, COLL_UINT64, COLL_SUM, comm_, nullptr),
          "adding up wrong elements");
  return value;
}

std::string Session::explain(const coll_call_t& call) const {
  std::size_t length = 0;
  require_alike(coll_comm_explain(comm_, &call, nullptr, 0, &length), "explaining");
  std::string text(length + 1, '\0');
  require_alike(coll_comm_explain(comm_, &call, text.data(), text.size(), nullptr), "explaining");
  text.resize(length);
  return text;
}

}  // namespace perf
