/* SPDX-License-Identifier: Apache-2.0 */
/* The types of the C ABI that every part of the library shares. */
#ifndef COLLECTIVES_TYPES_H
#define COLLECTIVES_TYPES_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each enumeration ends with ..._MAX_ENUM, which makes every int a valid value of the type. So a
 * caller built against another version can pass a value that this version does not know, and gets
 * an error instead of undefined behaviour. */

/* The result of a call. Values are stable: new ones are only added at the end. */
typedef enum coll_status {
  COLL_SUCCESS = 0,
  COLL_IN_PROGRESS = 1,      /* of a query: the work is not finished yet; no error */
  COLL_INVALID_ARGUMENT = 2, /* one argument is wrong by itself: null, out of range, unknown */
  COLL_INVALID_USAGE = 3,    /* right arguments, wrong time: after a fork, inside exit… */
  COLL_MISMATCH = 4,         /* ranks called different operations, or used different arguments */
  COLL_PEER_LOST = 5,        /* the process of another rank is gone or unreachable */
  COLL_DEADLINE = 6,         /* the deadline passed */
  COLL_ABORTED = 7,          /* this or another rank called coll_comm_abort */
  COLL_SYSTEM = 8,           /* a system call failed; the message has errno */
  COLL_OUT_OF_RESOURCES = 9, /* no memory, no file descriptors, no disk or /dev/shm space */
  COLL_UNREACHABLE = 10,     /* no path to a rank while connecting; the message lists all tries */
  COLL_UNSUPPORTED = 11,     /* this build or machine cannot do it; the message says what can */
  COLL_INTERNAL = 12,        /* a defect of the library: please report it */
  COLL_STATUS_MAX_ENUM = 0x7fffffff
} coll_status_t;

/* Element types. */
typedef enum coll_dtype {
  COLL_INT8 = 0,
  COLL_UINT8 = 1,
  COLL_INT16 = 2,
  COLL_UINT16 = 3,
  COLL_INT32 = 4,
  COLL_UINT32 = 5,
  COLL_INT64 = 6,
  COLL_UINT64 = 7,
  COLL_FLOAT16 = 8,
  COLL_BFLOAT16 = 9,
  COLL_FLOAT32 = 10,
  COLL_FLOAT64 = 11,
  COLL_FLOAT8_E4M3 = 12, /* OCP OFP8: no infinities, sums saturate at 448 */
  COLL_FLOAT8_E5M2 = 13, /* OCP OFP8: the upper byte of a float16 */
  COLL_BOOL = 14,        /* one byte: 0 is false, all else true; reductions write 0 or 1 */
  COLL_COMPLEX64 = 15,   /* two float32: the real part, then the imaginary part */
  COLL_COMPLEX128 = 16,  /* two float64 */
  COLL_DTYPE_COUNT = 17,
  COLL_DTYPE_MAX_ENUM = 0x7fffffff
} coll_dtype_t;

/* Reductions. avg divides the sum by the number of ranks and rounds once (integers: toward zero).
 * The bitwise operations take integers and bool. The logical operations take all types except
 * complex types; their results are 0 and 1 (a single rank copies its input). For bool, sum and max
 * are the logical or, prod and min are the logical and; there is no avg. Complex numbers have only
 * sum, prod and avg. A call with any other pair of operation and type fails with
 * COLL_INVALID_ARGUMENT. */
typedef enum coll_op {
  COLL_SUM = 0,
  COLL_PROD = 1,
  COLL_MIN = 2,
  COLL_MAX = 3,
  COLL_AVG = 4,
  COLL_BAND = 5, /* bitwise and */
  COLL_BOR = 6,
  COLL_BXOR = 7,
  COLL_LAND = 8, /* logical and */
  COLL_LOR = 9,
  COLL_LXOR = 10,
  COLL_OP_COUNT = 11,
  COLL_OP_MAX_ENUM = 0x7fffffff
} coll_op_t;

/* The operations as values (coll_call_t). */
typedef enum coll_operation {
  COLL_ALL_REDUCE = 0,
  COLL_REDUCE = 1,
  COLL_BROADCAST = 2,
  COLL_ALL_GATHER = 3,
  COLL_REDUCE_SCATTER = 4,
  COLL_ALL_TO_ALL = 5,
  COLL_GATHER = 6,
  COLL_SCATTER = 7,
  COLL_SEND = 8,
  COLL_RECV = 9,
  COLL_BARRIER = 10,
  COLL_OPERATION_COUNT = 11,
  COLL_OPERATION_MAX_ENUM = 0x7fffffff
} coll_operation_t;

/* The order in which sums, products and averages of floating-point numbers combine the ranks'
 * elements (docs/numerics.md, "The order of sums"). All other built-in reductions are exact in any
 * order. */
typedef enum coll_order {
  COLL_ORDER_DEFAULT = 0, /* as the knob COLL_ORDER says */
  COLL_ORDER_ANY = 1,     /* the fastest: it may change with the size, the machine or the tables */
  COLL_ORDER_TREE = 2,    /* always a balanced tree of the ranks: the bits of a result depend only
                             on the number of ranks and their elements */
  COLL_ORDER_MAX_ENUM = 0x7fffffff
} coll_order_t;

/* A message sent with a tag, as its receiver sees it. Initialise with COLL_MESSAGE_INIT; it may
 * grow. */
typedef struct coll_message {
  size_t size;
  uint32_t version;
  int source; /* the rank that sends it */
  int tag;
  coll_dtype_t type;
  size_t count; /* elements */
} coll_message_t;
#define COLL_MESSAGE_VERSION 1
#define COLL_MESSAGE_INIT \
  { sizeof(coll_message_t), COLL_MESSAGE_VERSION, -1, -1, COLL_INT8, 0 }

/* A tagged recv takes messages of any rank, or with any tag. */
#define COLL_ANY_SOURCE (-1)
#define COLL_ANY_TAG (-1)

#ifdef __cplusplus
}
#endif
#endif
