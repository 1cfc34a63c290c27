// SPDX-License-Identifier: Apache-2.0
// An operation on a stream of CUDA: a call, or the calls of a group.
#pragma once
#include <deque>

#include "communicator/communicator.hpp"
#include "communicator/device/staged_call.hpp"
#include "sys/cuda/pinned_block.hpp"
#include "sys/cuda/pinned_words.hpp"

namespace coll {

class DeviceStream;

/// On its stream stand, one behind another: copies of the inputs into pinned memory; a host
/// function that says that the calls may start; a wait for the word `done`, which is then put back
/// to 0; and copies of the outputs. The engines move the calls meanwhile and write the word. So
/// whoever moves calls never asks the driver, which may be waiting for them.
///
/// Calls are issued when the operation is put on the stream, so that all ranks see the order in
/// which the program gives them to several streams. An operation that was captured begins anew each
/// time that its graph is launched: then the host function issues its calls, with the numbers and
/// deadlines that calls have which are issued then. Nobody knows of launches beforehand. So once an
/// operation of a communicator was captured, host functions issue all its operations on streams of
/// CUDA. Otherwise an operation that stands behind a graph would be issued before the operations of
/// that graph, and each would wait for the other.
class DeviceOperation final : private CallOwner {
 public:
  /// `done` is 0.
  DeviceOperation(DeviceStream& stream, PinnedWord done) : stream_(stream), done_(done) {}

  // For the issuer, under the stream's lock. First all calls are added, then the operation is
  // prepared, announced and put on the stream, then its calls are issued, unless the stream does
  // that: then they may have ended before `put` returns.
  void add(Communicator& communicator, const Request& request, double deadline_s);
  /// What its calls need of pinned memory.
  [[nodiscard]] std::size_t staged_bytes() const { return staged_bytes_; }
  /// `pinned` has the bytes that it needs.
  void prepare(std::byte* pinned, bool captured);
  /// Takes one step of making what its calls need before a stream waits for them; true: nothing is
  /// missing.
  bool is_ready() noexcept;
  /// From now on others may look for its calls. Not of captured ones. Under the mutex of ends.
  void announce() noexcept;
  /// Puts it on the stream, whose context is current. `coming`: the stream will come to it, also if
  /// this fails.
  Status put(const CudaDriver& driver, CudaStream stream, bool& coming);
  [[nodiscard]] bool captured() const { return issuing_ == Issuing::launches; }
  /// Not by who has put it there.
  [[nodiscard]] bool issued_by_stream() const { return issuing_ != Issuing::caller; }
  [[nodiscard]] std::size_t calls() const { return used_; }
  [[nodiscard]] OpenCall& call(std::size_t index) { return members_[index]; }
  [[nodiscard]] Engine& engine(std::size_t index) { return *members_[index].engine; }
  [[nodiscard]] Communicator& communicator(std::size_t index) {
    return *members_[index].communicator;
  }
  /// Makes it like new, once it has ended.
  void clear() { used_ = staged_bytes_ = 0; }

  PinnedBlock own_memory;                ///< of a captured operation
  DeviceOperation* next_open = nullptr;  ///< the stream's

  // Under the stream's mutex of ends.
  /// The stream is there: the calls may start, or begin anew.
  void reach() noexcept;
  /// Of those that the stream issues: it has.
  [[nodiscard]] bool was_issued() const {
    return issuing_ == Issuing::stream && reached_.load(std::memory_order_relaxed);
  }
  /// Its calls will not be issued: the stream, whenever it comes to the operation, goes on without
  /// them.
  void give_up() noexcept;
  /// Its calls will not be issued, and the stream will not come to it.
  void withdraw() noexcept {
    break_promises();
    clear();
  }
  struct Unfinished {
    Engine* engine = nullptr;
    const OpenCall* call = nullptr;
  };
  /// Of an operation that has not ended.
  [[nodiscard]] Unfinished unfinished() const noexcept;

 private:
  struct Member : OpenCall {
    Engine* engine = nullptr;
    StagedCall staged;
    Communicator* communicator = nullptr;
    const Request* placed = nullptr;
    double given_deadline_s = OpenCall::kOwnDeadline;
  };
  [[nodiscard]] bool may_start(const OpenCall& call) const noexcept override;
  [[nodiscard]] bool tells(const OpenCall& call, const Work& work) const noexcept override;
  void on_end(OpenCall& call) noexcept override;
  void make_calls() noexcept;
  void break_promises() noexcept;

  DeviceStream& stream_;
  const PinnedWord done_;
  std::deque<Member> members_;
  std::size_t used_ = 0;  ///< of them; the others wait for a larger group
  std::size_t staged_bytes_ = 0;
  enum class Issuing : std::uint8_t {
    caller,    ///< when it has put the operation on the stream
    stream,    ///< once it is there
    launches,  ///< of the graph that has captured the operation
  };
  Issuing issuing_ = Issuing::caller;
  std::byte* pinned_ = nullptr;
  std::atomic<bool> reached_{false};  ///< by the stream
  // Guarded by the stream's mutex of ends.
  bool given_up_ = false;  ///< then it is never used again
  bool launched_ = false;  ///< a graph's launch runs it
  std::size_t ended_ = 0;  ///< calls
  Status failure_;         ///< the first
};

}  // namespace coll
