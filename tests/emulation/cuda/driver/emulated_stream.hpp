// SPDX-License-Identifier: Apache-2.0
// A stream: a queue of operations and the thread that runs them, one after the other.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "emulation/cuda/cuda_abi.hpp"
#include "emulation/cuda/driver/emulated_owner.hpp"

namespace emucuda {

class Stream;
struct Context;
struct Capture;

/// What a stream is busy with, for the watchdog.
enum class Doing : int {
  nothing,
  copy,
  set,
  write,
  wait_word_32,
  wait_word_64,
  wait_event,
  host_function,
  kernel
};

/// Does what a stream is given wait for what its context's default stream was given before?
enum class Follows : bool { none, default_stream };

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;
  /// On the stream's thread. A graph runs the same operation many times.
  virtual void run(Stream& stream) = 0;
};

/// The thread sanitizer is to see the order that the program made, and no other. So the host's
/// threads and the streams' threads share no lock. An operation is ordered behind its own
/// submission only, which the link to its node publishes, and the host behind a stream only once it
/// has found the stream finished.
class Stream final : public Shared {
 public:
  /// Makes a stream with its thread; the caller is an owner, the thread another.
  static Kept<Stream> make(Context& context, int priority, Follows follows);

  void submit(std::unique_ptr<Operation> operation);
  /// An operation that `keeper` owns, a graph.
  void submit(Operation& operation, Kept<Shared> keeper);
  /// To be said before an operation is submitted that came by itself, and not with a graph. The
  /// default stream waits for the work that its context's streams have, if they follow it, and they
  /// for its work.
  void submit_waits();
  /// Either submits it or, in a capture, notes it.
  CUresult accept(std::unique_ptr<Operation> operation);
  [[nodiscard]] bool finished() const;
  /// Until all that has been submitted is done.
  void synchronize() const;
  /// The same, but what the stream did is not ordered before what the caller does next: nothing
  /// that the program may rely on.
  void drain() const;
  /// The thread ends once all has run.
  void end();

  /// Of the stream's thread.
  void doing(Doing what, const void* about = nullptr, std::uint64_t value = 0, unsigned flags = 0);
  /// For the watchdog.
  [[nodiscard]] std::uint64_t completed() const {
    return completed_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool busy() const;
  void describe() const;

  Context& context;
  const int priority;
  const Follows follows;
  std::atomic<Capture*> capture{nullptr};  // changed under the lock of captures

 private:
  struct Node {
    Operation* operation = nullptr;
    Kept<Shared> keeper;  // none: the node owns the operation
    std::atomic<Node*> next{nullptr};
  };
  Stream(Context& context, int priority, Follows follows);
  ~Stream() override;
  void append(Node* node);
  void work();
  template <std::memory_order order>
  void await_completed(std::uint64_t goal) const;

  std::mutex submitting_;  // of the host's threads
  Node* last_;             // the one that the thread has reached may be the last
  Node* reached_;          // of the thread; it has run
  bool ended_ = false;     // of the thread
  std::atomic<std::uint64_t> submitted_{0}, completed_{0};
  std::atomic<Doing> doing_{Doing::nothing};
  std::atomic<const void*> about_{nullptr};
  std::atomic<std::uint64_t> value_{0};
  std::atomic<unsigned> flags_{0};

  friend class EndOfStream;
  friend class WaitForStream;
};

inline CUstream handle_of(Stream* stream) {
  return reinterpret_cast<CUstream>(stream);
}
/// The stream of a handle; of none, the current context's default stream. Null: there is none.
Stream* stream_of(CUstream handle);
/// All streams that have not been destroyed, and those that destroyed ones left work on.
std::vector<Kept<Stream>> all_streams();
/// Until no stream of the process has work left: what freeing memory waits for.
void drain_streams();

}  // namespace emucuda
