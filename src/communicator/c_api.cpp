// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: the C ABI over it; nothing throws through
// here.
#include <collectives/collectives.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <new>
#include <string>

#include "base/knobs.hpp"
#include "base/log.hpp"
#include "communicator/communicator.hpp"
#include "communicator/host_stream.hpp"
#include "communicator/launch.hpp"
#include "communicator/unique_id.hpp"

using coll::Code;
using coll::Collective;
using coll::failed;
using coll::Request;
using coll::Result;
using coll::Status;

struct coll_comm {
  std::unique_ptr<coll::Communicator> communicator;
  std::string status_text;  ///< what coll_comm_status handed out
  std::mutex status_mutex;
};

struct coll_stream {
  std::unique_ptr<coll::HostStream> stream;
};

namespace {

thread_local std::string t_last_error;  // NOLINT: errno's way, one per thread

coll_status_t give(const Status& status) {
  if (status.ok()) [[likely]] {
    return COLL_SUCCESS;
  }
  if (status.code() != Code::in_progress) t_last_error = status.text();
  return static_cast<coll_status_t>(status.code());
}

/// What can still throw below is memory running out.
template <class Body>
coll_status_t guarded(Body body) {
  try {
    return give(body());
  } catch (const std::bad_alloc&) {
    return give(failed(Code::out_of_resources, "out of memory"));
  } catch (const std::exception& error) {
    return give(failed(Code::internal, error.what()));
  }
}

Status null_argument(const char* function, const char* name) {
  return failed(Code::invalid_argument, std::string(function) + ": " + name + " is null");
}

/// The config's members over the knobs. The config may be of an older, shorter version.
Result<coll::Joining> joining_of(const coll_config_t* given, std::string& rendezvous) {
  COLL_TRY(coll::knobs_status());
  coll_config_t config = COLL_CONFIG_INIT;
  if (given != nullptr) {
    if (given->size < offsetof(coll_config_t, deadline_s) || given->version == 0) {
      return failed(Code::invalid_argument, "the config is not initialised",
                    "begin with coll_config_t config = COLL_CONFIG_INIT");
    }
    std::memcpy(&config, given, std::min(given->size, sizeof config));
  }
  const coll::Knobs& knobs = coll::knobs();
  const auto text = [](const char* chosen, const std::string& knob) {
    return chosen != nullptr ? std::string(chosen) : knob;
  };
  coll::Joining joining;
  joining.deadline_s = config.deadline_s >= 0 ? config.deadline_s : knobs.deadline_s;
  joining.connect_s = config.connect_s >= 0 ? config.connect_s : knobs.connect_s;
  joining.spin_us = knobs.spin_us;
  joining.interface = text(config.interface, knobs.interface);
  COLL_ASSIGN(joining.transports,
              coll::transport_choices(text(config.transports, knobs.transports)));
  joining.settings.algorithm = text(config.algorithm, knobs.algorithm);
  COLL_TRY(coll::check_algorithm_knob(joining.settings.algorithm));
  joining.settings.lanes = static_cast<std::uint32_t>(knobs.lanes);
  joining.settings.slice_bytes = static_cast<std::uint32_t>(knobs.slice_bytes) / 64 * 64;
  joining.settings.credits = static_cast<std::uint32_t>(knobs.credits);
  rendezvous = text(config.rendezvous, knobs.rendezvous);
  return joining;
}

Status join(const coll::Joining& joining, coll_comm_t* comm) {
  COLL_ASSIGN(auto communicator, coll::Communicator::join(joining));
  *comm = new coll_comm{std::move(communicator), {}, {}};
  return {};
}

Status check_place(const char* function, const coll_comm_t* comm, int size, int rank) {
  if (comm == nullptr) return null_argument(function, "comm");
  if (size < 1 || rank < 0 || rank >= size) {
    return failed(Code::invalid_argument,
                  std::string(function) + ": rank " + std::to_string(rank) + " of size " +
                      std::to_string(size) + " does not exist",
                  "ranks are 0 to size - 1");
  }
  return {};
}

/// The place of the n-th communicator that this rank joins there: all ranks count alike.
Result<coll::MeetingPlace> place_at(const std::string& rendezvous, int rank) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, unsigned> joined;
  const std::lock_guard lock(mutex);
  const std::string key = "communicator " + std::to_string(joined[{rendezvous, rank}]++);
  return coll::place_from_text(rendezvous, key, coll::knobs().secret, "rendezvous " + rendezvous);
}

/// Every operation's way: to run here, or checked at the door, later on the stream.
coll_status_t perform(coll_comm_t comm, coll_stream_t stream, const Request& request) {
  if (comm == nullptr) [[unlikely]] {
    return give(null_argument(std::string(name_of(request.call.collective)).c_str(), "comm"));
  }
  return guarded([&]() -> Status {
    coll::Communicator& communicator = *comm->communicator;
    if (stream == nullptr) [[likely]] {
      return communicator.run(request);
    }
    COLL_TRY(communicator.check(request));
    COLL_TRY(communicator.status());
    stream->stream->enqueue(communicator, request);
    return {};
  });
}

Request request_of(Collective collective, const void* send, void* recv, std::size_t count,
                   coll_dtype_t type, coll_op_t op, int root) {
  Request request;
  request.call.collective = collective;
  // Unknown values stay unknown when they are narrowed; the door refuses them.
  request.call.type = static_cast<coll::DataType>(std::min<unsigned>(type, 0xff));
  request.call.op = static_cast<coll::ReduceOp>(std::min<unsigned>(op, 0xff));
  request.call.root = root;
  request.call.count = count;
  request.input = send;
  request.output = recv;
  return request;
}

}  // namespace

extern "C" {

int coll_version(void) {
  return COLL_VERSION_MAJOR * 10000 + COLL_VERSION_MINOR * 100 + COLL_VERSION_PATCH;
}

const char* coll_status_name(coll_status_t status) {
  return coll::name_of(static_cast<Code>(status)).data();
}

const char* coll_last_error(void) {
  return t_last_error.c_str();
}

size_t coll_dtype_size(coll_dtype_t type) {
  const auto index = static_cast<int>(type);
  return index >= 0 && index < coll::kDataTypes ? coll::size_of(static_cast<coll::DataType>(type))
                                                : 0;
}

coll_status_t coll_get_unique_id(coll_unique_id_t* id) {
  if (id == nullptr) return give(null_argument("coll_get_unique_id", "id"));
  return guarded([&]() -> Status {
    COLL_ASSIGN(const coll::UniqueId made, coll::make_unique_id(coll::knobs().interface));
    static_assert(sizeof(made.bytes) == COLL_UNIQUE_ID_BYTES);
    std::memcpy(id->bytes, made.bytes.data(), sizeof id->bytes);
    return {};
  });
}

coll_status_t coll_comm_init_rank(coll_comm_t* comm, int size, const coll_unique_id_t* id, int rank,
                                  const coll_config_t* config) {
  return guarded([&]() -> Status {
    COLL_TRY(check_place("coll_comm_init_rank", comm, size, rank));
    if (id == nullptr) return null_argument("coll_comm_init_rank", "id");
    std::string rendezvous;
    COLL_ASSIGN(coll::Joining joining, joining_of(config, rendezvous));
    coll::UniqueId unique;
    std::memcpy(unique.bytes.data(), id->bytes, sizeof id->bytes);
    COLL_ASSIGN(joining.place, coll::place_of(unique, coll::knobs().secret));
    joining.rank = rank;
    joining.size = size;
    return join(joining, comm);
  });
}

coll_status_t coll_comm_init(coll_comm_t* comm, int size, int rank, const coll_config_t* config) {
  return guarded([&]() -> Status {
    COLL_TRY(check_place("coll_comm_init", comm, size, rank));
    std::string rendezvous;
    COLL_ASSIGN(coll::Joining joining, joining_of(config, rendezvous));
    if (rendezvous.empty()) {
      return failed(Code::invalid_argument, "coll_comm_init: no rendezvous is given",
                    "set config->rendezvous or COLL_RENDEZVOUS to tcp://HOST:PORT or file:///PATH");
    }
    COLL_ASSIGN(joining.place, place_at(rendezvous, rank));
    joining.rank = rank;
    joining.size = size;
    return join(joining, comm);
  });
}

coll_status_t coll_comm_init_env(coll_comm_t* comm, const coll_config_t* config) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("coll_comm_init_env", "comm");
    static std::atomic<unsigned> generation{0};
    std::string rendezvous;
    COLL_ASSIGN(coll::Joining joining, joining_of(config, rendezvous));
    const auto get = [](const char* name) -> const char* {
      return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): launchers set these before main
    };
    COLL_ASSIGN(coll::Launch launch, coll::read_launch(get, generation.fetch_add(1)));
    if (config != nullptr && config->rendezvous != nullptr) {
      COLL_ASSIGN(launch.place, place_at(rendezvous, launch.rank));
    }
    joining.place = std::move(launch.place);
    joining.rank = launch.rank;
    joining.size = launch.size;
    coll::log_set_rank(launch.rank);
    return join(joining, comm);
  });
}

coll_status_t coll_comm_destroy(coll_comm_t comm) {
  if (comm == nullptr) return give(null_argument("coll_comm_destroy", "comm"));
  delete comm;
  return COLL_SUCCESS;
}

coll_status_t coll_comm_abort(coll_comm_t comm) {
  if (comm == nullptr) return give(null_argument("coll_comm_abort", "comm"));
  return guarded([&]() -> Status {
    comm->communicator->abort();
    return {};
  });
}

coll_status_t coll_comm_rank(coll_comm_t comm, int* rank) {
  if (comm == nullptr) return give(null_argument("coll_comm_rank", "comm"));
  if (rank == nullptr) return give(null_argument("coll_comm_rank", "rank"));
  *rank = comm->communicator->rank();
  return COLL_SUCCESS;
}

coll_status_t coll_comm_size(coll_comm_t comm, int* size) {
  if (comm == nullptr) return give(null_argument("coll_comm_size", "comm"));
  if (size == nullptr) return give(null_argument("coll_comm_size", "size"));
  *size = comm->communicator->size();
  return COLL_SUCCESS;
}

coll_status_t coll_comm_status(coll_comm_t comm, const char** text) {
  if (comm == nullptr) return give(null_argument("coll_comm_status", "comm"));
  return guarded([&]() -> Status {
    const Status status = comm->communicator->status();
    const std::lock_guard lock(comm->status_mutex);
    // The first failure is for good, so a text once handed out never changes.
    if (comm->status_text.empty() && !status.ok()) comm->status_text = status.text();
    if (text != nullptr) *text = comm->status_text.c_str();
    return status;
  });
}

coll_status_t coll_comm_explain(coll_comm_t comm, coll_operation_t operation, size_t count,
                                coll_dtype_t type, char* text, size_t capacity, size_t* length) {
  if (comm == nullptr) return give(null_argument("coll_comm_explain", "comm"));
  if (text == nullptr && capacity > 0) return give(null_argument("coll_comm_explain", "text"));
  return guarded([&]() -> Status {
    if (static_cast<unsigned>(operation) >= COLL_OPERATION_COUNT || coll_dtype_size(type) == 0) {
      return failed(Code::invalid_argument, "coll_comm_explain: unknown operation or dtype",
                    "see coll_operation_t and coll_dtype_t");
    }
    COLL_ASSIGN(const std::string told,
                comm->communicator->explain_call(static_cast<Collective>(operation), count,
                                                 static_cast<coll::DataType>(type)));
    if (capacity > 0) {
      const std::size_t fits = std::min(told.size(), capacity - 1);
      std::memcpy(text, told.data(), fits);
      text[fits] = '\0';
    }
    if (length != nullptr) *length = told.size();
    return {};
  });
}

coll_status_t coll_all_reduce(const void* send, void* recv, size_t count, coll_dtype_t type,
                              coll_op_t op, coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream, request_of(Collective::all_reduce, send, recv, count, type, op, 0));
}

coll_status_t coll_reduce(const void* send, void* recv, size_t count, coll_dtype_t type,
                          coll_op_t op, int root, coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream, request_of(Collective::reduce, send, recv, count, type, op, root));
}

coll_status_t coll_broadcast(const void* send, void* recv, size_t count, coll_dtype_t type,
                             int root, coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::broadcast, send, recv, count, type, COLL_SUM, root));
}

coll_status_t coll_all_gather(const void* send, void* recv, size_t count, coll_dtype_t type,
                              coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::all_gather, send, recv, count, type, COLL_SUM, 0));
}

coll_status_t coll_reduce_scatter(const void* send, void* recv, size_t count, coll_dtype_t type,
                                  coll_op_t op, coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::reduce_scatter, send, recv, count, type, op, 0));
}

coll_status_t coll_all_to_all(const void* send, void* recv, size_t count, coll_dtype_t type,
                              coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::all_to_all, send, recv, count, type, COLL_SUM, 0));
}

coll_status_t coll_gather(const void* send, void* recv, size_t count, coll_dtype_t type, int root,
                          coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::gather, send, recv, count, type, COLL_SUM, root));
}

coll_status_t coll_scatter(const void* send, void* recv, size_t count, coll_dtype_t type, int root,
                           coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::scatter, send, recv, count, type, COLL_SUM, root));
}

coll_status_t coll_send(const void* send, size_t count, coll_dtype_t type, int peer,
                        coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::send, send, nullptr, count, type, COLL_SUM, peer));
}

coll_status_t coll_recv(void* recv, size_t count, coll_dtype_t type, int peer, coll_comm_t comm,
                        coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::recv, nullptr, recv, count, type, COLL_SUM, peer));
}

coll_status_t coll_barrier(coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::barrier, nullptr, nullptr, 0, COLL_INT8, COLL_SUM, 0));
}

coll_status_t coll_stream_create(coll_stream_t* stream) {
  if (stream == nullptr) return give(null_argument("coll_stream_create", "stream"));
  return guarded([&]() -> Status {
    COLL_ASSIGN(auto made, coll::HostStream::create());
    *stream = new coll_stream{std::move(made)};
    return {};
  });
}

coll_status_t coll_stream_destroy(coll_stream_t stream) {
  if (stream == nullptr) return give(null_argument("coll_stream_destroy", "stream"));
  delete stream;
  return COLL_SUCCESS;
}

coll_status_t coll_stream_synchronize(coll_stream_t stream) {
  if (stream == nullptr) return give(null_argument("coll_stream_synchronize", "stream"));
  return guarded([&]() -> Status { return stream->stream->synchronize(); });
}

coll_status_t coll_stream_query(coll_stream_t stream) {
  if (stream == nullptr) return give(null_argument("coll_stream_query", "stream"));
  return guarded([&]() -> Status { return stream->stream->query(); });
}

}  // extern "C"
