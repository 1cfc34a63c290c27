// SPDX-License-Identifier: Apache-2.0
// What a communicator says of itself and of its calls.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "c_api/c_api_call.hpp"
#include "c_api/c_api_door.hpp"
#include "communicator/calls/call_check.hpp"

using coll::check_filled;
using coll::Code;
using coll::failed;
using coll::guarded;
using coll::refuse_null;
using coll::Result;
using coll::Status;

namespace {

/// The request that the call would make, whose buffers nobody looks at.
Result<coll::UnequalRequest> asked_of(const char* function, const coll_call_t* given,
                                      const coll::Communicator& communicator) {
  COLL_ASSIGN(const coll_call_t call, coll::read_call(function, given));
  COLL_ASSIGN(coll::UnequalRequest asked, coll::request_of(function, call, communicator));
  coll::Call& of = asked.request.call;
  COLL_TRY(coll::check_call(of, communicator.size()));
  if (of.tagged() && of.root == coll::kNoRank) {
    return failed(
        Code::invalid_argument,
        std::string(function) + ": a recv from any source comes over a path that is not known yet",
        "name the peer");
  }
  if (of.tagged()) of.form = coll::CallForm::usual;  // once it has met its other end
  return asked;
}

}  // namespace

extern "C" {

int coll_version(void) {
  return COLL_VERSION_MAJOR * 10000 + COLL_VERSION_MINOR * 100 + COLL_VERSION_PATCH;
}

size_t coll_dtype_size(coll_dtype_t type) {
  const auto index = static_cast<int>(type);
  return index >= 0 && index < coll::kDataTypes ? coll::size_of(static_cast<coll::DataType>(type))
                                                : 0;
}

coll_status_t coll_comm_rank(coll_comm_t comm, int* rank) {
  if (comm == nullptr) return refuse_null("coll_comm_rank", "comm");
  if (rank == nullptr) return refuse_null("coll_comm_rank", "rank");
  *rank = comm->communicator->rank();
  return COLL_SUCCESS;
}

coll_status_t coll_comm_size(coll_comm_t comm, int* size) {
  if (comm == nullptr) return refuse_null("coll_comm_size", "comm");
  if (size == nullptr) return refuse_null("coll_comm_size", "size");
  *size = comm->communicator->size();
  return COLL_SUCCESS;
}

coll_status_t coll_comm_name(coll_comm_t comm, const char** name) {
  if (comm == nullptr) return refuse_null("coll_comm_name", "comm");
  if (name == nullptr) return refuse_null("coll_comm_name", "name");
  *name = comm->communicator->name().c_str();
  return COLL_SUCCESS;
}

coll_status_t coll_comm_explain(coll_comm_t comm, const coll_call_t* call, char* text,
                                size_t capacity, size_t* length) {
  if (comm == nullptr) return refuse_null("coll_comm_explain", "comm");
  if (text == nullptr && capacity > 0) return refuse_null("coll_comm_explain", "text");
  return guarded([&]() -> Status {
    const coll::Communicator& communicator = *comm->communicator;
    COLL_ASSIGN(const auto asked, asked_of("coll_comm_explain", call, communicator));
    COLL_ASSIGN(const std::string told, communicator.explain_call(asked.request.call));
    if (capacity > 0) {
      const std::size_t fits = std::min(told.size(), capacity - 1);
      std::memcpy(text, told.data(), fits);
      text[fits] = '\0';
    }
    if (length != nullptr) *length = told.size();
    return {};
  });
}

coll_status_t coll_comm_predict(coll_comm_t comm, const coll_call_t* call,
                                coll_prediction_t* prediction) {
  if (comm == nullptr) return refuse_null("coll_comm_predict", "comm");
  return guarded([&]() -> Status {
    COLL_TRY(check_filled("coll_comm_predict", "prediction", "COLL_PREDICTION_INIT", prediction));
    const coll::Communicator& communicator = *comm->communicator;
    COLL_ASSIGN(const auto asked, asked_of("coll_comm_predict", call, communicator));
    COLL_ASSIGN(const coll::CallPrediction made, communicator.predict_call(asked.request));
    const std::string_view algorithm = made.plan.algorithm->name;
    const std::size_t fits = std::min(algorithm.size(), sizeof prediction->algorithm - 1);
    std::memcpy(prediction->algorithm, algorithm.data(), fits);
    prediction->algorithm[fits] = '\0';
    prediction->lanes = made.plan.lanes;
    prediction->slice_bytes = made.plan.slice_bytes;
    prediction->microseconds = made.us;
    prediction->bytes_sent = made.traffic.sent;
    prediction->bytes_received = made.traffic.received;
    return {};
  });
}

coll_status_t coll_comm_stats(coll_comm_t comm, coll_stats_t* stats) {
  if (comm == nullptr) return refuse_null("coll_comm_stats", "comm");
  return guarded([&]() -> Status {
    COLL_TRY(check_filled("coll_comm_stats", "stats", "COLL_STATS_INIT", stats));
    const coll::CallCounts::Sums sums = comm->communicator->counts();
    stats->operations = sums.calls;
    stats->bytes_sent = sums.traffic.sent;
    stats->bytes_received = sums.traffic.received;
    return {};
  });
}

coll_status_t coll_comm_mem_stats(coll_comm_t comm, coll_mem_stats_t* stats) {
  if (comm == nullptr) return refuse_null("coll_comm_mem_stats", "comm");
  return guarded([&]() -> Status {
    COLL_TRY(check_filled("coll_comm_mem_stats", "stats", "COLL_MEM_STATS_INIT", stats));
    const coll::MemoryCounts& memory = comm->communicator->memory();
    stats->connections = memory.connections;
    stats->connection_bytes = memory.connection_bytes;
    stats->programs = memory.programs;
    const coll::ScratchCounts& scratch = comm->communicator->scratch();
    stats->program_bytes = memory.program_bytes + scratch.of(coll::ScratchUse::program);
    stats->staging_bytes = scratch.of(coll::ScratchUse::staging);
    stats->call_bytes = scratch.of(coll::ScratchUse::call) + scratch.of(coll::ScratchUse::device) +
                        scratch.of(coll::ScratchUse::gpu);
    return {};
  });
}

}  // extern "C"
