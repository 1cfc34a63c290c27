// SPDX-License-Identifier: Apache-2.0
// Asynchronous data parallelism with bounded staleness (Ho et al. 2013, "More effective distributed
// ML via a stale synchronous parallel parameter server", NIPS 26, section 3).
//
// Rank 0 is the server: it keeps the weights, and applies AdamW to gradients as they arrive. The
// other ranks are workers. A worker's clock counts the gradients that it has pushed. With the bound
// s, a worker at clock c gets weights once no worker's clock is below c - s: they hold all
// gradients up to that clock, and some later ones. In one clock, for P parameters, a worker sends 4
// P bytes and receives 4 P; the server sends and receives that of all workers.
//
// s = 0: all gradients of a clock are summed in the order of a tree of workers, and are one step:
// the bits of synchronous data parallelism, where the number of workers is a power of two. s > 0:
// each gradient is a step of its own, n of them for n workers in a clock; the learning rate counts
// steps.
//
// What a bound gains: a worker that is slow for a while does not hold up the others. One that stays
// slow does, once they are s clocks ahead.
//
// The server is a rank of its own: it must answer while workers compute, and a thread beside a
// worker would take that worker's processor, which makes it the slow one. A rank that dies ends the
// run: the library's error names it on all ranks. Its gradients may be half arrived, and its share
// of the data would never be seen.
#pragma once
#include <collectives/collectives.hpp>

#include "../layout/flat.hpp"
#include "../trainer/trainer.hpp"

namespace training {

struct AsynchronousOptions {
  /// Counts but for what concerns buckets, pipelines and checkpoints of activations. `leaves`:
  /// micro-batches of one clock, of all workers together.
  TrainerOptions training;
  std::size_t staleness = 0;  ///< s
};

namespace asynchronous {

enum class Wish : std::int64_t { push, pull, end };

/// What a worker sends first; after Wish::push come the gradients.
struct Request {
  Wish wish = Wish::pull;
  std::int64_t rows = 0;  ///< of the gradients
};
/// The server's answer to Wish::pull, before the weights.
struct Answer {
  std::int64_t slowest = 0;  ///< the clock of the slowest worker
};

enum Tag { request_tag, gradients_tag, answer_tag, weights_tag };

/// A tagged message of `count` elements. The other side may take its time: there is no deadline but
/// the other side's death.
template <class T>
coll_call_t message(coll_operation_t operation, int peer, Tag tag, T* data, std::size_t count,
                    coll_message_t* taken = nullptr) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = operation;
  call.send = data;
  call.recv = const_cast<std::remove_const_t<T>*>(data);
  call.count = count * sizeof(T);
  call.type = COLL_UINT8;
  call.root = peer;
  call.tagged = 1;
  call.tag = tag;
  call.message = taken;
  call.deadline_s = 0;
  return call;
}

/// One bucket for all parameters: gradients and weights are one message each.
FlatLayout layout_of(const Units<float>& units);

/// Throws Failure if the options ask for what there is only in synchronous training.
const AsynchronousOptions& checked(const AsynchronousOptions& options,
                                   const collectives::Communicator& comm);

}  // namespace asynchronous
}  // namespace training
