// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: the C ABI over it; nothing throws through
// here.
#include <collectives/collectives.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <new>
#include <string>

#include "base/knobs.hpp"
#include "base/log.hpp"
#include "communicator/communicator.hpp"
#include "communicator/host_stream.hpp"
#include "communicator/launch.hpp"
#include "communicator/live_communicators.hpp"
#include "communicator/unique_id.hpp"
#include "sys/shared_arena.hpp"

using coll::Code;
using coll::Collective;
using coll::failed;
using coll::Request;
using coll::Result;
using coll::Status;

struct coll_comm {
  ~coll_comm() { coll::LiveCommunicators::of_process().forget(communicator); }

  std::unique_ptr<coll::Communicator> communicator;
  std::string status_text;  ///< what coll_comm_status handed out
  std::mutex status_mutex;
};

struct coll_stream {
  std::unique_ptr<coll::HostStream> stream;
  unsigned forks = coll::LiveCommunicators::of_process().forks();  ///< before it was made
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

/// Every function's door. What can still throw behind it is memory running out.
template <class Body>
coll_status_t guarded(Body body) noexcept {
  try {
    try {
      return give(body());
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      return give(failed(Code::internal, error.what()));
    }
  } catch (const std::bad_alloc&) {
    t_last_error = "out of memory";  // so short that it needs none
    return COLL_OUT_OF_RESOURCES;
  }
}

Status null_argument(const char* function, const char* name) {
  return failed(Code::invalid_argument, std::string(function) + ": " + name + " is null");
}

coll_status_t refuse_null(const char* function, const char* name) {
  return guarded([&] { return null_argument(function, name); });
}

/// The config, which may be of an older, shorter version.
Result<coll_config_t> read_config(const coll_config_t* given) {
  coll_config_t config = COLL_CONFIG_INIT;
  if (given != nullptr) {
    if (given->size < offsetof(coll_config_t, deadline_s) || given->version == 0) {
      return failed(Code::invalid_argument, "the config is not initialised",
                    "begin with coll_config_t config = COLL_CONFIG_INIT");
    }
    std::memcpy(&config, given, std::min(given->size, sizeof config));
  }
  return config;
}

std::string text(const char* chosen, const std::string& knob) {
  return chosen != nullptr ? std::string(chosen) : knob;
}

/// The config's members over the knobs.
Result<coll::Joining> joining_of(const coll_config_t& config) {
  COLL_TRY(coll::knobs_status());
  if (std::isnan(config.deadline_s) || std::isnan(config.connect_s)) {
    return failed(Code::invalid_argument, "deadline_s or connect_s of the config is not a number",
                  "give seconds, or a negative number for what the knob says");
  }
  const coll::Knobs& knobs = coll::knobs();
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
  joining.settings.slice_bytes = static_cast<std::uint32_t>((knobs.slice_bytes + 63) / 64 * 64);
  joining.settings.credits = static_cast<std::uint32_t>(knobs.credits);
  return joining;
}

Status join(coll::Joining joining, coll_comm_t* comm) {
  coll::LiveCommunicators& live = coll::LiveCommunicators::of_process();
  joining.place.interfaces = joining.interface;
  auto made = std::make_unique<coll_comm>();
  COLL_ASSIGN(made->communicator, coll::Communicator::join(joining));
  live.enter(made->communicator);
  *comm = made.release();
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

/// The place of the n-th communicator that this rank joins there. All ranks count alike: nothing
/// that one of them alone may fail in comes before it.
Result<coll::MeetingPlace> next_place(const std::string& rendezvous, int rank) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, unsigned> joined;
  const std::lock_guard lock(mutex);
  const std::string key = "communicator " + std::to_string(joined[{rendezvous, rank}]++);
  return coll::place_from_text(rendezvous, key, coll::knobs().secret, "rendezvous " + rendezvous);
}

Status check_stream(const coll_stream_t stream) {
  if (stream->forks == coll::LiveCommunicators::of_process().forks()) return {};
  return failed(Code::invalid_usage,
                "the stream belongs to the process that made it; this is a child of it, made by "
                "fork, without the stream's thread",
                "make a stream in the child");
}

/// Every operation's way: to run here, or checked at the door, later on the stream.
coll_status_t perform(coll_comm_t comm, coll_stream_t stream, const Request& request) {
  if (comm == nullptr) [[unlikely]] {
    return refuse_null(name_of(request.call.collective).data(), "comm");
  }
  return guarded([&]() -> Status {
    coll::Communicator& communicator = *comm->communicator;
    if (stream == nullptr) [[likely]] {
      return communicator.run(request);
    }
    COLL_TRY(communicator.check(request));
    COLL_TRY(communicator.status());
    COLL_TRY(check_stream(stream));
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
  const bool known = status >= 0 && status <= COLL_INTERNAL;  // a Code has fewer bits
  return coll::name_of(known ? static_cast<Code>(status) : static_cast<Code>(0xff)).data();
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
  if (id == nullptr) return refuse_null("coll_get_unique_id", "id");
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
    COLL_ASSIGN(const coll_config_t chosen, read_config(config));
    COLL_ASSIGN(coll::Joining joining, joining_of(chosen));
    coll::UniqueId unique;
    std::memcpy(unique.bytes.data(), id->bytes, sizeof id->bytes);
    COLL_ASSIGN(joining.place, coll::place_of(unique, coll::knobs().secret));
    joining.rank = rank;
    joining.size = size;
    return join(std::move(joining), comm);
  });
}

coll_status_t coll_comm_init(coll_comm_t* comm, int size, int rank, const coll_config_t* config) {
  return guarded([&]() -> Status {
    COLL_TRY(check_place("coll_comm_init", comm, size, rank));
    COLL_ASSIGN(const coll_config_t chosen, read_config(config));
    const std::string rendezvous = text(chosen.rendezvous, coll::knobs().rendezvous);
    if (rendezvous.empty()) {
      return failed(Code::invalid_argument, "coll_comm_init: no rendezvous is given",
                    "set config->rendezvous or COLL_RENDEZVOUS to tcp://HOST:PORT or file:///PATH");
    }
    COLL_ASSIGN(coll::MeetingPlace place, next_place(rendezvous, rank));
    COLL_ASSIGN(coll::Joining joining, joining_of(chosen));
    joining.place = std::move(place);
    joining.rank = rank;
    joining.size = size;
    return join(std::move(joining), comm);
  });
}

coll_status_t coll_comm_init_env(coll_comm_t* comm, const coll_config_t* config) {
  return guarded([&]() -> Status {
    static std::atomic<unsigned> generations{0};
    const unsigned generation = generations.fetch_add(1);  // first: all ranks count alike
    if (comm == nullptr) return null_argument("coll_comm_init_env", "comm");
    COLL_ASSIGN(const coll_config_t chosen, read_config(config));
    const auto get = [](const char* name) -> const char* {
      return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): launchers set these before main
    };
    COLL_ASSIGN(coll::Launch launch, coll::read_launch(get, generation));
    if (chosen.rendezvous != nullptr) {
      COLL_ASSIGN(launch.place, next_place(chosen.rendezvous, launch.rank));
    }
    COLL_ASSIGN(coll::Joining joining, joining_of(chosen));
    joining.place = std::move(launch.place);
    joining.rank = launch.rank;
    joining.size = launch.size;
    coll::log_set_rank(launch.rank);
    return join(std::move(joining), comm);
  });
}

coll_status_t coll_comm_destroy(coll_comm_t comm) {
  if (comm == nullptr) return refuse_null("coll_comm_destroy", "comm");
  delete comm;
  return COLL_SUCCESS;
}

coll_status_t coll_comm_abort(coll_comm_t comm) {
  if (comm == nullptr) return refuse_null("coll_comm_abort", "comm");
  return guarded([&]() -> Status { return comm->communicator->abort(); });
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

coll_status_t coll_comm_status(coll_comm_t comm, const char** text) {
  if (comm == nullptr) return refuse_null("coll_comm_status", "comm");
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
  if (comm == nullptr) return refuse_null("coll_comm_explain", "comm");
  if (text == nullptr && capacity > 0) return refuse_null("coll_comm_explain", "text");
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
  if (stream == nullptr) return refuse_null("coll_stream_create", "stream");
  return guarded([&]() -> Status {
    COLL_ASSIGN(auto made, coll::HostStream::create());
    *stream = new coll_stream{std::move(made)};
    return {};
  });
}

coll_status_t coll_stream_destroy(coll_stream_t stream) {
  if (stream == nullptr) return refuse_null("coll_stream_destroy", "stream");
  return guarded([&]() -> Status {
    COLL_TRY(check_stream(stream));
    delete stream;
    return {};
  });
}

coll_status_t coll_stream_synchronize(coll_stream_t stream) {
  if (stream == nullptr) return refuse_null("coll_stream_synchronize", "stream");
  return guarded([&]() -> Status {
    COLL_TRY(check_stream(stream));
    return stream->stream->synchronize();
  });
}

coll_status_t coll_stream_query(coll_stream_t stream) {
  if (stream == nullptr) return refuse_null("coll_stream_query", "stream");
  return guarded([&]() -> Status {
    COLL_TRY(check_stream(stream));
    return stream->stream->query();
  });
}

coll_status_t coll_mem_alloc(void** memory, size_t bytes) {
  if (memory == nullptr) return refuse_null("coll_mem_alloc", "memory");
  return guarded([&]() -> Status {
    COLL_ASSIGN(coll::SharedArena * arena, coll::SharedArena::of_this_process());
    COLL_ASSIGN(*memory, arena->allocate(bytes));
    return {};
  });
}

coll_status_t coll_mem_free(void* memory) {
  if (memory == nullptr) return COLL_SUCCESS;
  return guarded([&]() -> Status {
    COLL_ASSIGN(coll::SharedArena * arena, coll::SharedArena::of_this_process());
    return arena->free(static_cast<std::byte*>(memory));
  });
}

}  // extern "C"
