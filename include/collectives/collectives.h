/* SPDX-License-Identifier: Apache-2.0 */
/* The C ABI: the only symbols that libcollectives.so exports. */
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

/* A communicator: this process's membership in a group of ranks. All ranks of a communicator call
 * its collective operations in the same order; only the two ranks concerned call send and recv. Any
 * thread may call operations, and several threads may do so at once; the program must issue
 * collective operations in the same order on all ranks. Different communicators are independent of
 * each other. */
typedef struct coll_comm* coll_comm_t;

/* A host stream: a queue of operations that run asynchronously, one after another, in the order in
 * which they were queued. Operations on different streams, and calls with a null stream, run side
 * by side, on one communicator too. With a null stream a call blocks until its result is there. A
 * stream costs no thread: one thread of the process moves all of them. */
typedef struct coll_stream* coll_stream_t;

/* An event: a mark in a stream, for which other streams and the host can wait. */
typedef struct coll_event* coll_event_t;

/* A handle of one operation that coll_start issued. */
typedef struct coll_work* coll_work_t;

/* A join that goes on while its caller does something else (coll_config_t.joining). */
typedef struct coll_joining* coll_joining_t;

/* Identifies a communicator that does not exist yet. One process makes the id and passes it to the
 * others by any means. */
#define COLL_UNIQUE_ID_BYTES 128
typedef struct coll_unique_id {
  char bytes[COLL_UNIQUE_ID_BYTES];
} coll_unique_id_t;

/* Settings of a communicator. Initialise with COLL_CONFIG_INIT, then change members: `size` and
 * `version` let the struct grow without breaking programs built against an older header.
 * A null text, a negative number or COLL_ORDER_DEFAULT selects the value of the knob named beside
 * the member (README, "Knobs"). The algorithm and the order are rank 0's. */
typedef struct coll_config {
  size_t size;
  uint32_t version;
  coll_order_t order;     /* COLL_ORDER */
  double deadline_s;      /* COLL_DEADLINE_S, in seconds; 0: wait for ever */
  double connect_s;       /* COLL_CONNECT_S, in seconds */
  const char* transports; /* COLL_TRANSPORTS: "cuda_ipc,shm,verbs,tcp" */
  const char* interface;  /* COLL_INTERFACE */
  const char* algorithm;  /* COLL_ALGORITHM */
  const char* rendezvous; /* COLL_RENDEZVOUS: "tcp://host:port", "file:///path" */
  const char* name;       /* shown in errors; at most COLL_NAME_BYTES_MAX bytes; null: none */
  /* Not null: the function returns before the ranks have met, with `*comm` null and a handle here,
   * and a thread of the library joins. coll_joining_wait hands the communicator out. */
  coll_joining_t* joining;
  /* The GPU that this rank uses: its PCI bus number, as cudaDeviceGetPCIBusId says it, its UUID, as
   * nvidia-smi says it, or its number among the host's GPUs (of those in CUDA_VISIBLE_DEVICES,
   * where that is set): "0000:0f:00.0", "GPU-5e8ab1c4-..." or "3". Plans then use the rank's place
   * on the host. Null: the rank is on its cores; in a communicator made from another, the device is
   * that of the old one. "": none, also there. Where one rank's device is not found, all ranks fail
   * with that rank's error. */
  const char* device;
} coll_config_t;
#define COLL_NAME_BYTES_MAX 63
#define COLL_CONFIG_VERSION 1
#define COLL_CONFIG_INIT                                                                          \
  {                                                                                               \
    sizeof(coll_config_t), COLL_CONFIG_VERSION, COLL_ORDER_DEFAULT, -1.0, -1.0, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL                                                                    \
  }

/* --- the library --- */

/* The version of the loaded library: major * 10000 + minor * 100 + patch. */
COLL_API int coll_version(void);

/* A short name for a status, such as "peer lost". Never null. */
COLL_API const char* coll_status_name(coll_status_t status);

/* Why this thread's last failed call failed, in one line: what failed, where, on which rank, and
 * what to do; "" if none failed. Valid until the thread's next call of this library. */
COLL_API const char* coll_last_error(void);

/* A failure as fields. Initialise with COLL_ERROR_INFO_INIT: `size` and `version` let the struct
 * grow. The functions that fill it return COLL_SUCCESS when they have done so. */
#define COLL_ERROR_TEXT_BYTES 1024
typedef struct coll_error_info {
  size_t size;
  uint32_t version;
  coll_status_t code;         /* COLL_SUCCESS: there is no failure */
  int rank;                   /* the rank at fault; -1: none, or it is not known */
  int system_error;           /* errno; 0: no system call failed */
  uint64_t sequence;          /* which operation of the communicator failed, from 1; 0: none */
  coll_operation_t operation; /* what that operation was (all_gather also for all_gatherv); says
                               * nothing if `sequence` is 0 */
  uint32_t reserved;
  char text[COLL_ERROR_TEXT_BYTES]; /* the line for a person, cut if it is longer; "" if none */
} coll_error_info_t;
#define COLL_ERROR_INFO_VERSION 1
#define COLL_ERROR_INFO_INIT                                                                       \
  {                                                                                                \
    sizeof(coll_error_info_t), COLL_ERROR_INFO_VERSION, COLL_SUCCESS, -1, 0, 0, COLL_BARRIER, 0, { \
      0                                                                                            \
    }                                                                                              \
  }

/* This thread's last failed call. It stays until another call of the thread fails. */
COLL_API coll_status_t coll_last_error_info(coll_error_info_t* info);

/* The size of one element in bytes; 0 for an unknown type. */
COLL_API size_t coll_dtype_size(coll_dtype_t type);

/* --- communicators --- */

/* Makes an id. The calling process must become one of the ranks: from now on it listens for the
 * others, on the interfaces that COLL_INTERFACE names (a config's `interface` comes too late for
 * this). It listens until a rank of this process joins with the id, so an unused id keeps a
 * descriptor open. With more than COLL_UNUSED_IDS_MAX unused ids, the library warns and closes the
 * oldest: its ranks will not find each other. */
#define COLL_UNUSED_IDS_MAX 128
COLL_API coll_status_t coll_get_unique_id(coll_unique_id_t* id);

/* Joins the communicator of `id` as rank `rank` of `size`. Returns when all ranks have joined.
 * Fails at the connect deadline with a message that names the missing ranks. `config` may be null.
 */
COLL_API coll_status_t coll_comm_init_rank(coll_comm_t* comm, int size, const coll_unique_id_t* id,
                                           int rank, const coll_config_t* config);

/* Joins as the launcher's environment variables say: COLL_*, torchrun's, Open MPI's, MPICH's or
 * Slurm's. Ranks that call it several times join one communicator after another. A rank whose call
 * failed may call again; it meets the others whether their calls failed too or not. `config` may be
 * null. */
COLL_API coll_status_t coll_comm_init_env(coll_comm_t* comm, const coll_config_t* config);

/* Joins at config->rendezvous: "tcp://host:port", where rank 0 listens, or "file:///path".
 * Otherwise like coll_comm_init_env. */
COLL_API coll_status_t coll_comm_init(coll_comm_t* comm, int size, int rank,
                                      const coll_config_t* config);

/* For a non-blocking join (coll_config_t.joining). All functions that make communicators allow it
 * except coll_comm_init_store: a thread of the library would have to call the program's store,
 * after that function has returned. Before they return, they check what one rank can check, and
 * coll_comm_split exchanges over `comm`. So one thread may join as several ranks, and drive them in
 * groups.
 *
 * Waits until the communicator is there and hands it out, once. Returns COLL_IN_PROGRESS if
 * `timeout_s` passes first (0: looks once; negative: no timeout). If the join has failed, every
 * call returns that failure. */
COLL_API coll_status_t coll_joining_wait(coll_joining_t joining, double timeout_s,
                                         coll_comm_t* comm);
/* Frees the handle. Waits until the join ends, at the latest at the connect deadline, and destroys
 * a communicator that was not handed out. Null is no error. */
COLL_API coll_status_t coll_joining_free(coll_joining_t joining);

/* A key-value store of the program that all ranks reach, such as c10d's. Only the thread that calls
 * coll_comm_init_store calls its functions, and only during that call. They must not throw. */
#define COLL_STORE_VALUE_BYTES_MAX 1024
typedef struct coll_store {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  void* context; /* passed to both functions */
  /* Sets the value of `key`, replacing an old value. Anything but COLL_SUCCESS fails the call. */
  coll_status_t (*set)(void* context, const char* key, const char* value, size_t bytes);
  /* Waits at most `timeout_s` seconds until `key` has a value; with 0 it only looks. Copies the
   * value, gives its length in `*bytes`, and returns COLL_SUCCESS; a value longer than `capacity`
   * is not copied. Returns COLL_DEADLINE if there is no value in time; anything else fails the
   * call. */
  coll_status_t (*get)(void* context, const char* key, char* value, size_t capacity, size_t* bytes,
                       double timeout_s);
} coll_store_t;
#define COLL_STORE_VERSION 1
#define COLL_STORE_INIT \
  { sizeof(coll_store_t), COLL_STORE_VERSION, 0, NULL, NULL, NULL }

/* Joins by a store: rank 0 listens and sets `key` to a text that says where; the others get it.
 * Only one communicator at a time may use a key; once all ranks have joined, another communicator
 * may. Whoever reads the store can pose as a rank, unless COLL_SECRET is set too. A rank whose call
 * failed may call again. `config` may be null. */
COLL_API coll_status_t coll_comm_init_store(coll_comm_t* comm, int size, int rank,
                                            const coll_store_t* store, const char* key,
                                            const coll_config_t* config);

/* Joins over stream sockets that the program has connected, such as those of socketpair: rank 0
 * gives fds[r], which leads to rank r, for each other rank r; the others give fds[0] alone, which
 * leads to rank 0. Nothing may have been sent on them, nor be sent later. The library works on
 * duplicates: close yours, because other ranks do not see this rank's death while any process has
 * its end open. The sockets become non-blocking, and are shut down at the communicator's end or
 * when the call fails; they serve one attempt. The ranks' data does not go over them. `config` may
 * be null. */
COLL_API coll_status_t coll_comm_init_fds(coll_comm_t* comm, int size, int rank, const int* fds,
                                          const coll_config_t* config);

/* Makes communicators from a communicator. All its ranks call. Ranks that give the same `color`
 * form one new communicator, ordered by `key`, then by their old rank. A rank that gives
 * COLL_SPLIT_NONE gets a null `*part`, and success. With a null `config` the new communicator has
 * the settings of the old one; the knobs decide what a config leaves open. The old communicator may
 * be destroyed first. Counts as one to three all_gathers of `comm`. If the arguments of one rank
 * are refused, the call fails on all ranks. */
#define COLL_SPLIT_NONE (-1)
COLL_API coll_status_t coll_comm_split(coll_comm_t comm, int color, int key,
                                       const coll_config_t* config, coll_comm_t* part);

/* A communicator of the same ranks, whose operations are independent of those of `comm`. Counts
 * as one all_gather of `comm`, and where a rank has other settings, a GPU, or not all that it
 * needs, as a coll_comm_split too. */
COLL_API coll_status_t coll_comm_duplicate(coll_comm_t comm, const coll_config_t* config,
                                           coll_comm_t* copy);

/* Makes a communicator of `count` ranks of `comm`: ranks[i] becomes rank i. Only the ranks named
 * call, all with the same list. Counts as a send of ranks[0] to each other rank named, and a recv
 * there. If ranks[0] names a rank whose list differs, that rank gets COLL_MISMATCH, and the others
 * COLL_PEER_LOST at once, or COLL_DEADLINE where they have to meet anew (docs/gotchas.md). If
 * ranks[0] does not name a caller, or the lists begin with different ranks, calls between these
 * ranks fail. */
COLL_API coll_status_t coll_comm_subset(coll_comm_t comm, const int* ranks, int count,
                                        const coll_config_t* config, coll_comm_t* part);

/* Leaves the communicator in order, then frees it. It first waits for this rank's operations: those
 * on streams, those with handles, and the calls that other threads are inside. Such a call may be a
 * blocking operation, coll_group_end, coll_probe or coll_comm_abort. It waits for other ranks only
 * as far as these operations do. coll_comm_abort ends the operations early.
 *
 * All other functions that were given `comm` must have returned, and no thread may call one from
 * now on. No other thread's open group may hold an operation of `comm`; while this thread's group
 * does, the call fails with COLL_INVALID_USAGE. Works, streams and events live on, and threads may
 * wait for them meanwhile: they say how the operations ended.
 *
 * A process that exits without this call leaves in order too (docs/gotchas.md, "The end of a
 * process"). */
COLL_API coll_status_t coll_comm_destroy(coll_comm_t comm);

/* Ends all current and future calls on every rank with COLL_ABORTED. Any thread may call it while
 * another thread is inside a call of the communicator. coll_comm_destroy is still needed; a thread
 * whose call ended so may call it at once. */
COLL_API coll_status_t coll_comm_abort(coll_comm_t comm);

COLL_API coll_status_t coll_comm_rank(coll_comm_t comm, int* rank);
COLL_API coll_status_t coll_comm_size(coll_comm_t comm, int* size);

/* The name that the config gave; "" if it gave none. Valid until the communicator is destroyed. A
 * communicator made from another with a null config has no name. */
COLL_API coll_status_t coll_comm_name(coll_comm_t comm, const char** name);

/* Returns COLL_SUCCESS while the communicator works, otherwise its sticky failure. `*text` (`text`
 * may be null) receives the failure's line, valid until the communicator is destroyed. Any thread
 * may call it. */
COLL_API coll_status_t coll_comm_status(coll_comm_t comm, const char** text);

/* The communicator's sticky failure as fields. Any thread may call it. */
COLL_API coll_status_t coll_comm_error_info(coll_comm_t comm, coll_error_info_t* info);

/* What a communicator has done on this rank. Initialise with COLL_STATS_INIT; it may grow. */
typedef struct coll_stats {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  uint64_t operations;     /* that have succeeded, also those of coll_comm_split and _subset */
  uint64_t bytes_sent;     /* by them, of the buffers' content, to other ranks */
  uint64_t bytes_received; /* from other ranks */
} coll_stats_t;
#define COLL_STATS_VERSION 1
#define COLL_STATS_INIT \
  { sizeof(coll_stats_t), COLL_STATS_VERSION, 0, 0, 0, 0 }

/* Counts since the communicator was made. Any thread may call it, also while operations run. */
COLL_API coll_status_t coll_comm_stats(coll_comm_t comm, coll_stats_t* stats);

/* What a communicator keeps on this rank. Initialise with COLL_MEM_STATS_INIT; it may grow. Bytes
 * are reserved: most become real memory only where messages touch them. */
typedef struct coll_mem_stats {
  size_t size;
  uint32_t version;
  uint32_t reserved;
  uint64_t connections;      /* to other ranks; opened when a call first needs them */
  uint64_t connection_bytes; /* for their messages */
  uint64_t programs;         /* one for each operation, root and size class that calls have had */
  uint64_t program_bytes;    /* their steps and scratch */
  uint64_t staging_bytes;    /* for messages that several ranks of the host read */
  uint64_t call_bytes;       /* for the parts and products of calls, kept for later calls */
} coll_mem_stats_t;
#define COLL_MEM_STATS_VERSION 1
#define COLL_MEM_STATS_INIT \
  { sizeof(coll_mem_stats_t), COLL_MEM_STATS_VERSION, 0, 0, 0, 0, 0, 0, 0 }

/* The present values. Any thread may call it, also while operations run. */
COLL_API coll_status_t coll_comm_mem_stats(coll_comm_t comm, coll_mem_stats_t* stats);

/* --- operations --- */

/* `count` is in elements. Buffers need no alignment. With a null stream the call blocks. The caller
 * must leave the buffers alone until the operation has finished. In-place calls are allowed where a
 * function says so; any other overlap of buffers is refused. Buffers may lie in a GPU's memory, if
 * the program has loaded the CUDA driver: they are copied through memory of the host. Operations on
 * a stream of CUDA (coll_stream_from_cuda) take their place there; for others, what CUDA's streams
 * do with the buffers must be over before the operation begins, but for the default stream's. */

/* On every rank: recv[i] = op over all ranks of send[i]. send and recv have count elements. In
 * place: send == recv. */
COLL_API coll_status_t coll_all_reduce(const void* send, void* recv, size_t count,
                                       coll_dtype_t type, coll_op_t op, coll_comm_t comm,
                                       coll_stream_t stream);

/* Like coll_all_reduce, but only `root` gets the result. Other ranks ignore `recv`, which may be
 * null there. */
COLL_API coll_status_t coll_reduce(const void* send, void* recv, size_t count, coll_dtype_t type,
                                   coll_op_t op, int root, coll_comm_t comm, coll_stream_t stream);

/* On every rank: recv = root's send. Only the root reads `send`. send and recv have count elements.
 * In place: send == recv. */
COLL_API coll_status_t coll_broadcast(const void* send, void* recv, size_t count, coll_dtype_t type,
                                      int root, coll_comm_t comm, coll_stream_t stream);

/* On every rank: recv[r * count …] = rank r's send. send has count elements, recv has size * count.
 * In place: send == recv + rank * count. */
COLL_API coll_status_t coll_all_gather(const void* send, void* recv, size_t count,
                                       coll_dtype_t type, coll_comm_t comm, coll_stream_t stream);

/* On every rank: recv[i] = op over all ranks of send[rank * count + i]. send has size * count
 * elements, recv has count. In place: recv == send + rank * count. */
COLL_API coll_status_t coll_reduce_scatter(const void* send, void* recv, size_t count,
                                           coll_dtype_t type, coll_op_t op, coll_comm_t comm,
                                           coll_stream_t stream);

/* On every rank: recv[r * count …] = rank r's send[rank * count …]. send and recv have size * count
 * elements. Never in place. */
COLL_API coll_status_t coll_all_to_all(const void* send, void* recv, size_t count,
                                       coll_dtype_t type, coll_comm_t comm, coll_stream_t stream);

/* At the root: recv[r * count …] = rank r's send. send has count elements, the root's recv has
 * size * count. Other ranks ignore `recv`. In place at the root: send == recv + root * count. */
COLL_API coll_status_t coll_gather(const void* send, void* recv, size_t count, coll_dtype_t type,
                                   int root, coll_comm_t comm, coll_stream_t stream);

/* On every rank: recv = root's send[rank * count …]. The root's send has size * count elements,
 * recv has count. Only the root reads `send`. In place at the root: recv == send + root * count. */
COLL_API coll_status_t coll_scatter(const void* send, void* recv, size_t count, coll_dtype_t type,
                                    int root, coll_comm_t comm, coll_stream_t stream);

/* The n-th send of a rank to a peer matches the peer's n-th recv from that rank. Both have the same
 * count and type. A send may wait for its recv. So if two ranks exchange messages, put the send and
 * the recv of each into a group. A rank may send to itself inside a group only. */
COLL_API coll_status_t coll_send(const void* send, size_t count, coll_dtype_t type, int peer,
                                 coll_comm_t comm, coll_stream_t stream);
COLL_API coll_status_t coll_recv(void* recv, size_t count, coll_dtype_t type, int peer,
                                 coll_comm_t comm, coll_stream_t stream);

/* Like coll_send and coll_recv, but the two ends find each other by source and tag, in whatever
 * order they are called. A recv takes the first message that fits it, from `peer` or
 * COLL_ANY_SOURCE, with `tag` or COLL_ANY_TAG; messages that fit the same recvs are taken in the
 * order of their sends, as in MPI. Both ends must have the same type, and the message at most the
 * recv's count; otherwise the call fails with COLL_MISMATCH. Tags are 0 to 2147483647. A send waits
 * for its recv, also in a rank that sends to itself: use coll_start, a stream or a group there.
 * `message` (null: not wanted) must stay until the recv has ended, and then describes the message
 * that it took. Tagged and untagged messages never meet. */
COLL_API coll_status_t coll_send_tagged(const void* send, size_t count, coll_dtype_t type, int peer,
                                        int tag, coll_comm_t comm, coll_stream_t stream);
COLL_API coll_status_t coll_recv_tagged(void* recv, size_t count, coll_dtype_t type, int peer,
                                        int tag, coll_message_t* message, coll_comm_t comm,
                                        coll_stream_t stream);

/* Waits for a message that a tagged recv with these arguments would take, and describes it; the
 * message stays. Returns COLL_IN_PROGRESS if none has come when `timeout_s` has passed (0: looks
 * once; negative: waits as long as a recv would). Another thread's recv may take the message first.
 * The first probes of a rank only connect to it, and find nothing yet. */
COLL_API coll_status_t coll_probe(int peer, int tag, double timeout_s, coll_message_t* message,
                                  coll_comm_t comm);

/* Completes when every rank has called it. */
COLL_API coll_status_t coll_barrier(coll_comm_t comm, coll_stream_t stream);

/* --- operations on unequal blocks --- */

/* Like the operations without the v, but each rank's block has its own count. Arrays have an entry
 * for each rank, in elements; they are read before the function returns. Displacements say where
 * blocks begin in a buffer; null: the blocks follow one another. Blocks may have holes between
 * them, and counts may be 0. Blocks that are written may not overlap. Unless the call is in place,
 * the range from one buffer's first block to its last may not overlap the other buffer's range. */

/* recv[displs[r] …] = rank r's send, which has counts[r] elements. All ranks give the same counts;
 * displacements are each rank's own. In place: send == recv + displs[rank]. */
COLL_API coll_status_t coll_all_gatherv(const void* send, void* recv, const size_t* counts,
                                        const size_t* displs, coll_dtype_t type, coll_comm_t comm,
                                        coll_stream_t stream);

/* recv[i] = op over all ranks of send[displs[rank] + i]; recv has counts[rank] elements. All ranks
 * give the same counts; displacements are each rank's own. In place: recv == send + displs[rank].
 */
COLL_API coll_status_t coll_reduce_scatterv(const void* send, void* recv, const size_t* counts,
                                            const size_t* displs, coll_dtype_t type, coll_op_t op,
                                            coll_comm_t comm, coll_stream_t stream);

/* recv[recv_displs[r] …] = rank r's send[its send_displs[rank] …]. A rank's send_counts[r] must
 * equal recv_counts[rank] on rank r. Never in place. */
COLL_API coll_status_t coll_all_to_allv(const void* send, const size_t* send_counts,
                                        const size_t* send_displs, void* recv,
                                        const size_t* recv_counts, const size_t* recv_displs,
                                        coll_dtype_t type, coll_comm_t comm, coll_stream_t stream);

/* At the root: recv[displs[r] …] = rank r's send. The `count` of rank r must equal the root's
 * counts[r]. Other ranks ignore recv, counts and displs. In place at the root:
 * send == recv + displs[root]. */
COLL_API coll_status_t coll_gatherv(const void* send, size_t count, void* recv,
                                    const size_t* counts, const size_t* displs, coll_dtype_t type,
                                    int root, coll_comm_t comm, coll_stream_t stream);

/* On every rank: recv = root's send[displs[rank] …]. A rank's `count` must equal the root's
 * counts[rank]. Other ranks ignore send, counts and displs. In place at the root:
 * recv == send + displs[root]. */
COLL_API coll_status_t coll_scatterv(const void* send, const size_t* counts, const size_t* displs,
                                     void* recv, size_t count, coll_dtype_t type, int root,
                                     coll_comm_t comm, coll_stream_t stream);

/* --- groups --- */

/* Between coll_group_start and coll_group_end this thread's operations are only collected: any mix
 * of collectives, sends and receives, on several communicators and streams. coll_group_end issues
 * all of them together, and they move side by side. Two ranks that both send first, and then
 * receive, get through. Other threads are not affected. Groups may be nested: only the outermost
 * end issues. Only operations are collected; init, split, waits and all else act at once. A group
 * that is open when its thread ends is cancelled; a forked child has none.
 *
 * The collectives of a communicator must have the same order on all its ranks, in groups too. Apart
 * from that, the order inside a group has no meaning. In a group the n-th send of a rank to itself
 * matches its n-th recv from itself; both must be on the same stream. */
COLL_API coll_status_t coll_group_start(void);
/* Issues the group's operations. On a stream they form one operation: they begin together behind
 * the stream's earlier operations, and later operations wait for all of them. Operations with
 * neither stream nor handle block: this call returns when all of them have ended, with their first
 * failure. If an operation of the group was refused when it was called, or a send to itself has no
 * recv, this call fails with that error and issues nothing. */
COLL_API coll_status_t coll_group_end(void);
/* Ends the group, with all its levels, and issues nothing. Handles of its operations end with
 * COLL_ABORTED. */
COLL_API coll_status_t coll_group_cancel(void);

/* --- operations with a handle --- */

/* A user-defined reduction, for coll_start. Initialise with COLL_REDUCTION_INIT. It must be
 * associative, except for rounding. If it commutes, the ranks' elements are combined in any order
 * that COLL_ORDER allows, otherwise as a balanced tree of ranks (docs/numerics.md). */
typedef struct coll_reduction {
  size_t size;
  uint32_t version;
  /* 0: `left` always comes from the lower ranks; 1: the operands may be swapped, also on two ranks,
   * and must give the same bits */
  int commutative;
  /* result[i] = left[i] op right[i], for `count` elements of the call's type, each aligned to its
   * size. `result` may be `left` or `right`, and overlaps neither otherwise. Any thread that moves
   * operations calls it; calls in flight may call it at the same time. It must not throw, nor call
   * this library. In an operation that fails it may get elements with arbitrary bits. The library
   * does not interpret the bits of an element: a record of 16 bytes may travel as COLL_COMPLEX128.
   */
  void (*combine)(void* context, const void* left, const void* right, void* result, size_t count);
  void* context;    /* passed to `combine`; it must stay until the operation has ended */
  const char* name; /* the same on all ranks: others are refused with COLL_MISMATCH; null: none */
} coll_reduction_t;
#define COLL_REDUCTION_VERSION 1
#define COLL_REDUCTION_INIT \
  { sizeof(coll_reduction_t), COLL_REDUCTION_VERSION, 0, NULL, NULL, NULL }

/* One part of a call that has many: the buffers and count of a separate call. */
typedef struct coll_part {
  const void* send;
  void* recv;
  size_t count;
} coll_part_t;

/* One operation with all its arguments. Initialise with COLL_CALL_INIT, then change members: `size`
 * and `version` let the struct grow, as in coll_config_t. Members that the operation does not have
 * are ignored. */
typedef struct coll_call {
  size_t size;
  uint32_t version;
  coll_operation_t operation;
  const void* send;
  void* recv;
  size_t count; /* as in the operation's function */
  coll_dtype_t type;
  coll_op_t op;
  int root;          /* or the peer of a send or recv */
  int unequal;       /* 1: all_gatherv and so on; the arrays below say how long blocks are */
  double deadline_s; /* how long it may stand still, 0: for ever; negative: the communicator's */
  /* As in coll_all_gatherv and so on: all_gatherv and gatherv use recv_, reduce_scatterv and
   * scatterv use send_, all_to_allv uses both. Read before coll_start returns. */
  const size_t* send_counts;
  const size_t* send_displs;
  const size_t* recv_counts;
  const size_t* recv_displs;
  int tagged; /* 1: coll_send_tagged or coll_recv_tagged, with the next two */
  int tag;
  coll_message_t* message; /* of a recv; null: not wanted */
  /* For a sum: the library first multiplies this rank's send by this element of `type` and rounds
   * each product once; null: no factor. `send` does not change unless the call is in place. Each
   * rank has its own factor. Not for bool. reduce and reduce_scatter keep the products in memory of
   * the library, from the call's issue to its end. */
  const void* factor;
  int factor_late; /* 1: the factor is read when the operation begins; 0: by coll_start */
  const coll_reduction_t* reduction; /* in place of `op`; null: `op` says. Read by coll_start */
  /* Many small operations as one: `part_count` parts replace send, recv and count. The effect is
   * that of a group with one call per part. The time is that of a single call of all their bytes,
   * plus two copies. No part may read or write what another part writes. All ranks give parts of
   * the same counts in the same order. Sends, receives, barriers and unequal blocks cannot have
   * parts. coll_start reads the list; the buffers belong to the operation until it ends. Meanwhile
   * the library holds memory of the parts' size. Parts of an all_reduce, reduce or broadcast that
   * lie one behind another, on both sides, are neither copied nor held. */
  const coll_part_t* parts; /* null: the call is whole */
  size_t part_count;
} coll_call_t;
#define COLL_CALL_VERSION 1
#define COLL_CALL_INIT                                                                           \
  {                                                                                              \
    sizeof(coll_call_t), COLL_CALL_VERSION, COLL_BARRIER, NULL, NULL, 0, COLL_INT8, COLL_SUM, 0, \
        0, -1.0, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, 0, NULL, NULL, 0                      \
  }

/* Explains in a few lines which algorithm, lanes, slices and transports a call would use, and why.
 * `call` is as for coll_start, but its buffers, tag, message and factor are ignored. A peer must be
 * a rank: COLL_ANY_SOURCE is refused. For a tagged message the text says what happens once both
 * ends have met.
 *
 * Writes at most `capacity` bytes, including the final 0. `*length` (`length` may be null) receives
 * the full length in bytes without the final 0. Not collective: each rank computes its answer by
 * itself, also after a failure of the communicator. */
COLL_API coll_status_t coll_comm_explain(coll_comm_t comm, const coll_call_t* call, char* text,
                                         size_t capacity, size_t* length);

/* How a call would run on this rank. Initialise with COLL_PREDICTION_INIT; it may grow. */
typedef struct coll_prediction {
  size_t size;
  uint32_t version;
  uint32_t lanes;
  char algorithm[64];
  double microseconds;     /* of a single call, for the slowest rank, by the cost model */
  uint64_t bytes_sent;     /* of the buffers' content, to other ranks: exact, by the schedule */
  uint64_t bytes_received; /* from other ranks */
  uint32_t slice_bytes;    /* no message is longer */
  uint32_t reserved;
} coll_prediction_t;
#define COLL_PREDICTION_VERSION 1
#define COLL_PREDICTION_INIT \
  { sizeof(coll_prediction_t), COLL_PREDICTION_VERSION, 0, {0}, 0.0, 0, 0, 0, 0 }

/* Predicts a call without running it. `call` is as for coll_comm_explain. The predicted bytes
 * follow the given counts for unequal blocks, and `count` for a tagged recv. The algorithm of
 * all_to_allv, gatherv and scatterv does not depend on the counts; their predicted time assumes
 * that other ranks' blocks are as long as the blocks that this rank knows. Any thread may call it;
 * it may take some milliseconds. */
COLL_API coll_status_t coll_comm_predict(coll_comm_t comm, const coll_call_t* call,
                                         coll_prediction_t* prediction);

/* Issues an operation and returns at once. On a stream the operation runs behind the stream's
 * earlier operations; with a null stream it runs beside all others. `*work` gets a handle. With a
 * stream `work` may be null; the stream then reports the end. */
COLL_API coll_status_t coll_start(const coll_call_t* call, coll_comm_t comm, coll_stream_t stream,
                                  coll_work_t* work);
/* Runs an operation and returns when it has ended; in a group it is collected like the others. */
COLL_API coll_status_t coll_run(const coll_call_t* call, coll_comm_t comm);
/* Returns COLL_IN_PROGRESS while the operation runs, then how it ended, any number of times. Never
 * waits. */
COLL_API coll_status_t coll_work_test(coll_work_t work);
/* Waits until the work has ended, and returns how; COLL_IN_PROGRESS if `timeout_s` passes first
 * (negative: no timeout). The waiting thread moves the communicator's operations meanwhile. */
COLL_API coll_status_t coll_work_wait(coll_work_t work, double timeout_s);
/* How it ended, as fields; the code is COLL_IN_PROGRESS while it runs. Never waits. */
COLL_API coll_status_t coll_work_error_info(coll_work_t work, coll_error_info_t* info);
/* Cancels a tagged recv that has not met its message: the recv takes no message and ends with
 * COLL_ABORTED. COLL_IN_PROGRESS: nothing was cancelled, because the recv has met its message, has
 * ended, or is in a group that is not issued yet, or because the operation is no tagged recv. On a
 * stream a cancelled recv ends after the earlier operations. Do not call this, nor coll_probe, in a
 * function given to coll_work_on_end. */
COLL_API coll_status_t coll_work_cancel(coll_work_t work);
/* Aborts the work's communicator, as coll_comm_abort does, unless the work has ended: ranks cannot
 * leave a collective alone. COLL_INVALID_USAGE while it is in a group that is not issued. */
COLL_API coll_status_t coll_work_abort(coll_work_t work);
/* Calls done(context, status) once, when the operation has ended and before coll_work_test and
 * coll_work_wait say so. The thread that moves the operation makes this call; if the operation has
 * ended already, this function makes it before it returns. `done` must not wait for operations, nor
 * destroy a communicator or a stream. Each work takes one function; a second one is
 * COLL_INVALID_USAGE. */
COLL_API coll_status_t coll_work_on_end(coll_work_t work,
                                        void (*done)(void* context, coll_status_t status),
                                        void* context);
/* Frees the handle. The operation goes on; its buffers belong to it until it has ended. */
COLL_API coll_status_t coll_work_free(coll_work_t work);

/* --- streams --- */

COLL_API coll_status_t coll_stream_create(coll_stream_t* stream);
/* Makes a stream of a CUstream or cudaStream_t, which must live longer. Operations on it are put on
 * that stream of CUDA, and the call returns at once: they begin when the stream reaches them, and
 * what the program puts there later runs behind them. Buffers may lie on GPUs or on the host. If an
 * operation fails, its outputs are undefined. Null is CUDA's legacy default stream of the current
 * context; the default stream of each thread is refused.
 *
 * While CUDA captures the stream, operations are captured. They run each time that the graph is
 * launched, one launch at a time, and only while this stream and their communicators live. What
 * their calls point to, such as a coll_message_t, must live as long. All ranks must launch such
 * graphs in the same order. From its first capture on, a communicator's other operations on streams
 * of CUDA also begin in the order in which the streams reach them, which must be the same on all
 * ranks. The memory of captured operations is freed with the stream.
 *
 * On such a stream operations have no handles (coll_work_t) and no events of this library: CUDA has
 * its own. coll_stream_synchronize and coll_stream_query do not wait for launched graphs; but
 * behind a wait of CUDA's they return the first failure, of launches too. Fails if the program has
 * not loaded CUDA's driver. */
COLL_API coll_status_t coll_stream_from_cuda(coll_stream_t* stream, void* cuda_stream);
/* Waits for the stream's operations, then frees the stream. */
COLL_API coll_status_t coll_stream_destroy(coll_stream_t stream);
/* Waits for all queued operations. Returns the first failure since the last wait. */
COLL_API coll_status_t coll_stream_synchronize(coll_stream_t stream);
/* Never waits. Returns COLL_IN_PROGRESS while operations are queued or running, otherwise what
 * coll_stream_synchronize would return. */
COLL_API coll_status_t coll_stream_query(coll_stream_t stream);

/* --- events --- */

/* An event stands for the operations that a stream held when the event was recorded. It has
 * happened once all of them have ended, whether they failed or not; only their stream and their
 * handles report failures. An event that was never recorded counts as happened. Any thread may use
 * an event. Any number of streams may wait for it, also after the recorded stream was destroyed.
 * The streams' operations may be on different communicators. */
COLL_API coll_status_t coll_event_create(coll_event_t* event);
/* Never waits. Streams that wait for the event go on waiting for what it stood for. */
COLL_API coll_status_t coll_event_destroy(coll_event_t event);
/* Records what the stream holds now. A second record replaces the first; streams that already wait
 * still wait for the first. Refused with COLL_INVALID_USAGE while this thread's open group has
 * operations on the stream, which the stream does not hold yet. */
COLL_API coll_status_t coll_event_record(coll_event_t event, coll_stream_t stream);
/* Makes operations queued on `stream` from now on wait for the event as it is recorded now. Returns
 * without waiting for the event. (Like any operation it waits for room if the stream holds 1024
 * entries.) A failure before the event does not stop `stream`: its later operations run, and fail
 * only if their own communicator has failed. They also end only after the event: to end them early,
 * abort the communicator that the event waits for too. Refused in a group like coll_event_record.
 */
COLL_API coll_status_t coll_stream_wait_event(coll_stream_t stream, coll_event_t event);
/* Never waits: COLL_SUCCESS if the event has happened, else COLL_IN_PROGRESS. */
COLL_API coll_status_t coll_event_query(coll_event_t event);
/* Waits until the event has happened. The waiting thread moves operations meanwhile. */
COLL_API coll_status_t coll_event_synchronize(coll_event_t event);

/* --- memory --- */

/* Allocates memory that the other ranks of this host can read where it lies. Operations on it copy
 * once where they copy other memory twice, and reductions read it without a copy. Any operation may
 * mix it with other memory. It is zeroed and aligned to a page (to 2 MiB if it has at least 2 MiB);
 * with `bytes` 0 the call returns memory too. It belongs to the process, not to a communicator. A
 * forked child cannot use it.
 *
 * COLL_OUT_OF_RESOURCES: the machine's memory, or the process's limit of address space (ulimit -v)
 * or of file sizes (ulimit -f), has no room. Thread-safe. */
COLL_API coll_status_t coll_mem_alloc(void** memory, size_t bytes);
/* Frees memory of coll_mem_alloc; null is no error. No operation may be using the memory. */
COLL_API coll_status_t coll_mem_free(void* memory);

/* Registers memory of the program, like memory of coll_mem_alloc: the other ranks of this host can
 * read it where it lies, and RDMA devices read and write it there. Operations may use any part of
 * the range.
 *
 * Private memory of the host, as of malloc: RDMA devices use it. Other ranks of this host cannot
 * map it, and fetch or copy it as before.
 *
 * Shared memory of the host: the range must be part of one shared mapping (mmap with
 * MAP_SHARED) of a memfd whose descriptor is open now. The memfd must be sealed against shrinking
 * (F_SEAL_SHRINK), or allow that seal: then this call sets it, for ever. A rank that may not open
 * this process's descriptors (/proc/PID/fd) copies the memory like any other.
 *
 * Memory of a GPU: the range must be part of one allocation of cuMemAlloc or cudaMalloc. Register
 * it before a communicator's first operation that a fused kernel moves (coll_comm_explain): then
 * such kernels of other GPUs read it where it lies. Later registrations change nothing for that
 * communicator. Ranks of one process that share a GPU need no registration.
 *
 * COLL_INVALID_ARGUMENT: the memory is of another kind, or already registered; coll_last_error says
 * which, and what to do.
 * COLL_OUT_OF_RESOURCES: each registration of shared memory keeps a descriptor open, and none is
 * left; or 23 ranges of GPUs' memory are registered.
 * COLL_UNSUPPORTED: the CUDA driver is too old to share memory of a GPU.
 *
 * A registration belongs to the process; a forked child does not inherit it. Thread-safe. */
COLL_API coll_status_t coll_mem_register(const void* address, size_t bytes);
/* Ends the registration that began at this address; null is no error. Call it before you unmap the
 * memory, and while no operation uses the memory. It does not unmap the caller's memory or close
 * the caller's descriptors. Other ranks may keep the memory's pages mapped until they next read
 * shared memory of this process, or until their communicator is destroyed.
 *
 * COLL_INVALID_USAGE: the memory is of a GPU, and other processes have it open for a communicator
 * of this process. All ranks must have destroyed that before. Then try again, since another process
 * may be about to. The memory stays registered; do not free it. Thread-safe. */
COLL_API coll_status_t coll_mem_deregister(const void* address);

#ifdef __cplusplus
}
#endif
#endif
