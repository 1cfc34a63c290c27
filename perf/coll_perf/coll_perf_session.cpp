// SPDX-License-Identifier: Apache-2.0
// Joining, and the small exchanges between measurements.
#include "coll_perf/coll_perf_session.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "coll_perf/coll_perf_compute.hpp"
#include "process_end.hpp"

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

/// Does a rank alone refuse what the command line says, and nothing else? Then all ranks do.
bool command_line_is_refused(coll_config_t config) {
  const auto status_alone = [](const coll_config_t& with) {
    coll_unique_id_t id;
    coll_comm_t comm = nullptr;
    coll_status_t status = coll_get_unique_id(&id);
    if (status == COLL_SUCCESS) status = coll_comm_init_rank(&comm, 1, &id, 0, &with);
    if (comm != nullptr) coll_comm_destroy(comm);
    return status;
  };
  config.device = nullptr;  // that may be another one on each rank
  const coll_config_t plain = COLL_CONFIG_INIT;
  return status_alone(config) == COLL_INVALID_ARGUMENT && status_alone(plain) == COLL_SUCCESS;
}

}  // namespace

int launched_rank() {
  for (const char* name : {"COLL_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const char* text = std::getenv(name)) return std::atoi(text);
  // A batch script has Slurm's number too, but no step: it is alone.
  const char* const text = std::getenv("SLURM_PROCID");
  return text != nullptr && std::getenv("SLURM_STEP_ID") != nullptr ? std::atoi(text) : -1;
}

Session::Session(const Options& options, const Gpu* gpu, const Seat& seat)
    : program_(options.program), seat_(seat) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.order = options.order;
  if (!options.algorithm.empty()) config.algorithm = options.algorithm.c_str();
  if (gpu != nullptr) config.device = gpu->bus().c_str();
  if (!options.transports.empty()) config.transports = options.transports.c_str();
  const int launched = launched_rank();
  alone_ = launched < 0 && seat.id == nullptr;
  const int told = seat.id != nullptr ? seat.rank : std::max(launched, 0);
  rank_ = told;  // for messages until the library says it
  if (options.pin) pin_to_core(rank_, program_);
  if (alone_) {
    coll_unique_id_t id;
    require(coll_get_unique_id(&id), "making a unique id");
    require(coll_comm_init_rank(&comm_, 1, &id, 0, &config), "joining alone");
  } else {
    require_joined(seat.id == nullptr
                       ? coll_comm_init_env(&comm_, &config)
                       : coll_comm_init_rank(&comm_, seat.size, seat.id, seat.rank, &config),
                   "joining the other ranks", config);
  }
  require(coll_comm_rank(comm_, &rank_), "asking for the rank");
  require(coll_comm_size(comm_, &size_), "asking for the number of ranks");
  if (options.pin && rank_ != told) pin_to_core(rank_, program_);
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
  if (status != COLL_SUCCESS) end(true, what, coll_last_error());
}

void Session::require_alike(coll_status_t status, const char* what) const {
  if (status == COLL_SUCCESS) return;
  const bool alike = status == COLL_INVALID_ARGUMENT || status == COLL_UNSUPPORTED;
  end(!alike || with_rank_0(), what, coll_last_error());
}

void Session::require_joined(coll_status_t status, const char* what,
                             const coll_config_t& config) const {
  if (status == COLL_SUCCESS) return;
  const std::string why = coll_last_error();
  const bool alike = status == COLL_INVALID_ARGUMENT && command_line_is_refused(config);
  end(!alike || with_rank_0(), what, why);
}

void Session::end(bool speak, const char* what, const std::string& why) const {
  end_process(speak ? fmt::format("{}: rank {}: {}: {}\n", program_, rank_, what, why) : "");
}

double Session::cpu_s() const {
  return process_cpu() / seat_.here;
}

void Session::barrier() const {
  require_alike(coll_barrier(comm_, nullptr), "barrier between batches");
}

void Session::synchronize() const {
  for (coll_stream_t stream : streams_)
    require(coll_stream_synchronize(stream), "waiting for the stream");
}

void Session::combine(std::vector<double>& values, Average average) const {
  if (average == Average::rank0) {
    require_alike(coll_broadcast(values.data(), values.data(), values.size(), COLL_FLOAT64, 0,
                                 comm_, nullptr),
                  "sharing times");
    return;
  }
  const coll_op_t op = average == Average::mean      ? COLL_AVG
                       : average == Average::fastest ? COLL_MIN
                                                     : COLL_MAX;
  require_alike(coll_all_reduce(values.data(), values.data(), values.size(), COLL_FLOAT64, op,
                                comm_, nullptr),
                "sharing times");
}

std::uint64_t Session::sum(std::uint64_t value) const {
  require_alike(coll_all_reduce(&value, &value, 1, COLL_UINT64, COLL_SUM, comm_, nullptr),
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
