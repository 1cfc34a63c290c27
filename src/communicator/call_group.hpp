// SPDX-License-Identifier: Apache-2.0
// Calls that are issued together and move side by side.
#pragma once
#include <array>
#include <deque>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "communicator/communicator.hpp"
#include "communicator/work.hpp"

namespace coll {

class CallGroup;
class DeviceStream;
class HostStream;

/// One call of a group, checked.
struct GroupedCall {
  Communicator* communicator = nullptr;
  Request request;
  std::shared_ptr<const UnequalBlocks> blocks;  ///< the request's
  Extras extras = {};  ///< the request's, if it has any; it points elsewhere
  double deadline_s = OpenCall::kOwnDeadline;
  HostStream* stream = nullptr;  ///< both null: beside all streams
  DeviceStream* device_stream = nullptr;
  bool waits = false;  ///< IssuedGroup::wait waits for it; not with a stream
  /// They are told of its end, where there. Two where a rank's send meets its own recv.
  std::array<std::shared_ptr<Work>, 2> works;
};

/// A group whose calls are under way.
class IssuedGroup {
 public:
  /// Issues the calls in their order. On each stream those of the group are one operation: they
  /// begin side by side once the stream's earlier operations have ended, and what is queued later
  /// waits for all of them. Where it fails or throws std::bad_alloc, it has issued nothing.
  static Result<IssuedGroup> issue(std::span<const GroupedCall> calls);
  /// Waits for the calls that want it, and drives meanwhile. The first failure among them.
  Status wait() noexcept;

 private:
  std::shared_ptr<CallGroup> waited_;  ///< holds the next
  struct Wait {
    Engine* engine;
    const OpenCall* call;
  };
  std::vector<Wait> waits_;
  std::vector<Engine::Guest> guests_;  ///< of the engines in `waits_`
};
static_assert(std::is_nothrow_move_constructible_v<IssuedGroup>, "it cannot fail once issued");

/// The calls of a group on one stream, or on none. It holds itself until all have ended.
class CallGroup final : private CallOwner {
 public:
  explicit CallGroup(HostStream* stream);

  /// Before any call is issued; the call is not touched until then.
  OpenCall& add(const GroupedCall& call);
  /// Before the group is on its stream, as number `number`, and its calls are issued. From then on
  /// it holds itself.
  void prepare(std::shared_ptr<CallGroup> itself, std::uint64_t number) noexcept {
    itself_ = std::move(itself);
    number_ = number;
  }

  // For the stream, which holds the mutex of its ends, while this is its oldest operation.
  /// Tells the engines that the calls may start.
  void notice_ready() noexcept;
  /// A call that has not ended, its engine, and the group to hold on to meanwhile.
  struct Unfinished {
    Engine* engine = nullptr;
    const OpenCall* call = nullptr;
    std::shared_ptr<CallGroup> group;
  };
  [[nodiscard]] Unfinished unfinished() const noexcept;

 private:
  struct Member : OpenCall {
    Engine* engine = nullptr;
    std::array<std::shared_ptr<Work>, 2> works;
  };
  [[nodiscard]] bool may_start(const OpenCall& call) const noexcept override;
  [[nodiscard]] bool tells(const OpenCall& call, const Work& work) const noexcept override;
  void on_end(OpenCall& call) noexcept override;

  HostStream* const stream_;
  std::uint64_t number_ = 0;
  std::deque<Member> members_;
  std::mutex own_mutex_;
  std::mutex& end_mutex_;  ///< guards the next three: the stream's, or its own
  std::size_t ended_ = 0;
  Status failure_;  ///< the first
  std::shared_ptr<CallGroup> itself_;
};

}  // namespace coll
