/* SPDX-License-Identifier: Apache-2.0 */
/* The C ABI, the only symbols that libcollectives.so exports. */
#ifndef COLLECTIVES_COLLECTIVES_H
#define COLLECTIVES_COLLECTIVES_H

#include <collectives/types.h>
#include <stddef.h>
#include <stdint.h>

#define COLL_VERSION_MAJOR 0
#define COLL_VERSION_MINOR 1
#define COLL_VERSION_PATCH 0

#if defined(__GNUC__)
#define COLL_API __attribute__((visibility("default")))
#else
#define COLL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A communicator: this process's membership in a group of ranks. All operations on one communicator
 * are called by all its ranks in the same order; send and recv by the two ranks concerned. One
 * thread at a time may use a communicator; different communicators are independent of each other.
 */
typedef struct coll_comm* coll_comm_t;

/* A host stream: operations run asynchronously, one after another, in the order they were given, on
 * a progress thread of the stream. A null stream means: block until the result is there. */
typedef struct coll_stream* coll_stream_t;

/* Names a communicator to be; made by one process, carried to the others by any means. */
#define COLL_UNIQUE_ID_BYTES 128
typedef struct coll_unique_id {
  char bytes[COLL_UNIQUE_ID_BYTES];
} coll_unique_id_t;

/* How a communicator is set up. Initialise with COLL_CONFIG_INIT, then change members: `size` and
 * `version` let the struct grow without breaking programs built against an older header.
 * A null text or a negative number means: what the knob of the same name says (README, "Knobs"). */
typedef struct coll_config {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  double deadline_s;      /* COLL_DEADLINE_S; 0: wait for ever */
  double connect_s;       /* COLL_CONNECT_S */
  const char* transports; /* COLL_TRANSPORTS: "shm,tcp" */
  const char* interface;  /* COLL_INTERFACE */
  const char* algorithm;  /* COLL_ALGORITHM */
  const char* rendezvous; /* COLL_RENDEZVOUS: "tcp://host:port", "file:///path" */
} coll_config_t;
#define COLL_CONFIG_VERSION 1
#define COLL_CONFIG_INIT \
  { sizeof(coll_config_t), COLL_CONFIG_VERSION, 0, -1.0, -1.0, NULL, NULL, NULL, NULL }

/* --- the library --- */

/* Version of the library that runs: major * 10000 + minor * 100 + patch. */
COLL_API int coll_version(void);

/* A short text for a status, never null: "peer lost". */
COLL_API const char* coll_status_name(coll_status_t status);

/* Why the last call of this thread failed: one line with what, where, which rank and what to do.
 * Valid until the thread's next call of this library; "" if nothing failed. */
COLL_API const char* coll_last_error(void);

/* Bytes of one element; 0 for an unknown type. */
COLL_API size_t coll_dtype_size(coll_dtype_t type);

/* --- communicators --- */

/* Makes an id. The calling process must become one of the ranks: it listens for the others from now
 * on, at the interfaces that COLL_INTERFACE names (a config's come too late for that). It does so
 * until a rank of it joins with the id, so an id that is never used keeps a descriptor. Of more
 * unused ids than this, the oldest is closed, with a warning: its ranks will not find each other.
 */
#define COLL_UNUSED_IDS_MAX 128
COLL_API coll_status_t coll_get_unique_id(coll_unique_id_t* id);

/* Joins the communicator of `id` as `rank` of `size`; returns when all ranks are there, or fails by
 * the connect deadline saying who is missing. `config` may be null. */
COLL_API coll_status_t coll_comm_init_rank(coll_comm_t* comm, int size, const coll_unique_id_t* id,
                                           int rank, const coll_config_t* config);

/* Joins as the launcher says: COLL_*, torchrun's, Open MPI's, MPICH's or Slurm's variables. Ranks
 * that call it several times join one communicator after another; one whose call has failed calls
 * again, and meets the others whether their calls have failed too or not. `config` may be null. */
COLL_API coll_status_t coll_comm_init_env(coll_comm_t* comm, const coll_config_t* config);

/* Joins at config->rendezvous ("tcp://host:port", where rank 0 listens, or "file:///path"); else
 * as coll_comm_init_env. */
COLL_API coll_status_t coll_comm_init(coll_comm_t* comm, int size, int rank,
                                      const coll_config_t* config);

/* Leaves in order: waits for this rank's outstanding work, then frees everything. A process that
 * exits without it leaves in order too (docs/gotchas.md, "The end of a process"). */
COLL_API coll_status_t coll_comm_destroy(coll_comm_t comm);

/* Ends all calls in progress and to come, on every rank, with COLL_ABORTED. May be called from any
 * thread while another one is inside a call of the communicator. Destroy is still needed. */
COLL_API coll_status_t coll_comm_abort(coll_comm_t comm);

COLL_API coll_status_t coll_comm_rank(coll_comm_t comm, int* rank);
COLL_API coll_status_t coll_comm_size(coll_comm_t comm, int* size);

/* COLL_SUCCESS while the communicator works, else the sticky failure; `text` (may be null) gets its
 * line, valid until the communicator is destroyed. From any thread. */
COLL_API coll_status_t coll_comm_status(coll_comm_t comm, const char** text);

/* Says in a few lines which algorithm, lanes, slices and transports the call would take, and why.
 * Writes at most `capacity` bytes with a final 0; `*length` (may be null) gets the bytes needed
 * without it. Not collective: every rank answers the same by itself. */
COLL_API coll_status_t coll_comm_explain(coll_comm_t comm, coll_operation_t operation, size_t count,
                                         coll_dtype_t type, char* text, size_t capacity,
                                         size_t* length);

/* --- operations --- */

/* `count` is in elements. Buffers need no alignment. A null stream blocks. Buffers belong to the
 * operation until it is finished. In place is allowed as said; any other overlap is refused. */

/* recv[i] = op over ranks of send[i], on every rank. In place: send == recv. */
COLL_API coll_status_t coll_all_reduce(const void* send, void* recv, size_t count,
                                       coll_dtype_t type, coll_op_t op, coll_comm_t comm,
                                       coll_stream_t stream);

/* The same at `root` only; `recv` is not read elsewhere and may be null there. */
COLL_API coll_status_t coll_reduce(const void* send, void* recv, size_t count, coll_dtype_t type,
                                   coll_op_t op, int root, coll_comm_t comm, coll_stream_t stream);

/* recv = root's send, on every rank; `send` is read at the root only. In place: send == recv. */
COLL_API coll_status_t coll_broadcast(const void* send, void* recv, size_t count, coll_dtype_t type,
                                      int root, coll_comm_t comm, coll_stream_t stream);

/* recv[r * count …] = rank r's send, on every rank. In place: send == recv + rank * count. */
COLL_API coll_status_t coll_all_gather(const void* send, void* recv, size_t count,
                                       coll_dtype_t type, coll_comm_t comm, coll_stream_t stream);

/* recv[i] = op over ranks of send[rank * count + i]; send has size * count elements. In place:
 * recv == send + rank * count. */
COLL_API coll_status_t coll_reduce_scatter(const void* send, void* recv, size_t count,
                                           coll_dtype_t type, coll_op_t op, coll_comm_t comm,
                                           coll_stream_t stream);

/* recv[r * count …] = rank r's send[rank * count …]. Never in place. */
COLL_API coll_status_t coll_all_to_all(const void* send, void* recv, size_t count,
                                       coll_dtype_t type, coll_comm_t comm, coll_stream_t stream);

/* At the root: recv[r * count …] = rank r's send. In place at the root: send == recv + root *
 * count. */
COLL_API coll_status_t coll_gather(const void* send, void* recv, size_t count, coll_dtype_t type,
                                   int root, coll_comm_t comm, coll_stream_t stream);

/* recv = root's send[rank * count …]. In place at the root: recv == send + root * count. */
COLL_API coll_status_t coll_scatter(const void* send, void* recv, size_t count, coll_dtype_t type,
                                    int root, coll_comm_t comm, coll_stream_t stream);

/* The n-th send of a rank to a peer meets the peer's n-th recv from it, with equal count and type.
 * A send may wait for its recv, on a stream too: of two ranks let one receive first, or use a
 * communicator for each direction. */
COLL_API coll_status_t coll_send(const void* send, size_t count, coll_dtype_t type, int peer,
                                 coll_comm_t comm, coll_stream_t stream);
COLL_API coll_status_t coll_recv(void* recv, size_t count, coll_dtype_t type, int peer,
                                 coll_comm_t comm, coll_stream_t stream);

/* Returns when every rank has called it. */
COLL_API coll_status_t coll_barrier(coll_comm_t comm, coll_stream_t stream);

/* --- host streams --- */

COLL_API coll_status_t coll_stream_create(coll_stream_t* stream);
/* Waits for its operations first. */
COLL_API coll_status_t coll_stream_destroy(coll_stream_t stream);
/* Waits for everything given to it; returns the first failure since the last wait. */
COLL_API coll_status_t coll_stream_synchronize(coll_stream_t stream);
/* COLL_IN_PROGRESS, or as coll_stream_synchronize would return, without waiting. */
COLL_API coll_status_t coll_stream_query(coll_stream_t stream);

/* --- memory --- */

/* Memory that the other ranks of this host can read where it lies: operations on it copy once where
 * others copy twice, and reductions read it without a copy. Any operation may use any mixture of it
 * and of other memory. Zeroed, aligned to a page (to 2 MiB from 2 MiB on); `bytes` 0 gives memory
 * too. It belongs to the process, not to a communicator, and does not cross fork(2).
 * COLL_OUT_OF_RESOURCES: neither the memory of the machine nor the process's limit of address space
 * (ulimit -v) or of file sizes (ulimit -f) has room. Thread-safe. */
COLL_API coll_status_t coll_mem_alloc(void** memory, size_t bytes);
/* Gives back what coll_mem_alloc gave; null is no error. No operation may be using it. */
COLL_API coll_status_t coll_mem_free(void* memory);

/* Lets the other ranks of this host read memory of the program's own where it lies, as if it were
 * from coll_mem_alloc. It must be part of one shared mapping (mmap with MAP_SHARED) of a memfd
 * whose descriptor is open now, and which is sealed against shrinking (F_SEAL_SHRINK) or can be:
 * then this seals it, for ever. Operations may use any part of it. A rank that may not open this
 * process's descriptors (/proc/PID/fd) copies it like any other memory.
 * COLL_INVALID_ARGUMENT: it is something else, or registered already; coll_last_error says what,
 * and what to do. Private memory needs no registration. COLL_OUT_OF_RESOURCES: each registration
 * keeps a descriptor, and there is none left. It belongs to the process and does not cross fork(2).
 * Thread-safe. */
COLL_API coll_status_t coll_mem_register(const void* address, size_t bytes);
/* Ends the registration that was made with this address; null is no error. No operation may be
 * using the memory. Nothing of the caller's is unmapped or closed; call it before the memory is
 * unmapped. Other ranks may keep the memory's pages mapped until they next read shared memory of
 * this process, or their communicator is destroyed. Thread-safe. */
COLL_API coll_status_t coll_mem_deregister(const void* address);

#ifdef __cplusplus
}
#endif
#endif
