// SPDX-License-Identifier: Apache-2.0
// The handle of one operation that runs asynchronously.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "communicator/communicator.hpp"

namespace coll {

/// Says whether an operation has ended, and how. Shared by its user and by whoever issued it.
class Work {
 public:
  /// Called once, on the thread that drives, when the operation has ended and before `test` and
  /// `wait` say so. It must not wait for other operations.
  using OnEnd = std::function<void(const Status&)>;

  explicit Work(Engine& engine) : engine_(&engine) {}

  /// Issues a checked request beside all others, in no stream. `deadline_s` as in OpenCall.
  static Result<std::shared_ptr<Work>> start(Communicator& communicator, const Request& request,
                                             double deadline_s);

  /// How it ended; Code::in_progress while it runs.
  [[nodiscard]] Status test() const;
  /// Waits, and drives meanwhile; Code::in_progress if `timeout_s` have passed (negative: for
  /// ever).
  [[nodiscard]] Status wait(double timeout_s);
  /// Has a tagged recv that has met no message end with Code::aborted. Code::in_progress: it is too
  /// late, or another operation.
  Status cancel();
  /// Aborts the operation's communicator, unless the operation has ended.
  void abort() noexcept;
  /// At once where the operation has ended already. One function only; a second one is refused.
  Status on_end(OnEnd function);

  /// For the issuer: the operation has ended, its engine is still there.
  void finish(const Status& status) noexcept;

 private:
  Engine* engine_;
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;  // guards what follows; and `ended_` changes under it
  Status status_;
  bool over_ = false;   ///< `status_` is there
  bool given_ = false;  ///< a function was given
  OnEnd on_end_;        ///< until it is called
};

}  // namespace coll
