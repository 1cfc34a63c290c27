// SPDX-License-Identifier: Apache-2.0
// Moves all runs in flight forward.
#pragma once
#include <algorithm>
#include <span>
#include <utility>

#include "executor/executor.hpp"

namespace coll {

/// The runs in flight of one communicator. Who calls `poll` is the owner's policy: the caller who
/// waits, a thread, an event loop; one at a time.
class Progress {
 public:
  /// Begins a bound run, which must stay where it is until it is done or abandoned. It takes its
  /// turns on its connections behind all runs begun before.
  void begin(Run& run) {
    run.program->executor->begin(run);
    if (first_ != nullptr || held_ != 0) [[unlikely]]
      queue(run);
    link(run);
  }
  /// The same, but the run keeps still until `release`.
  void hold(Run& run) {
    run.held = true;  // the begin must know
    run.program->executor->begin(run);
    queue(run);
    ++held_;
  }
  void release(Run& run) {
    run.held = false;
    --held_;
    link(run);
  }
  /// One round over all runs in flight; true if anything moved. Forgets those that are done.
  /// `others`: sources that somebody else waits for.
  bool poll(std::span<ProgressSource* const> others = {}) {
    bool moved = false;
    bool stands = false;
    for (Run** at = &first_; *at != nullptr;) {
      Run& run = **at;
      if (run.program->executor->advance(run)) {
        run.moved = moved = true;
      } else {
        stands |= run.program->needs_progress;
      }
      if (run.done()) {
        forget(at);
      } else {
        at = &run.next_open;
      }
    }
    if (stands || !others.empty()) [[unlikely]]
      ask_sources(others);
    return moved;
  }
  /// Ends a run that has failed. Those begun after it on the same connections never get their turn.
  void abandon(Run& run) {
    run.program->executor->abandon(run);
    if (std::exchange(run.held, false)) --held_;
    for (Run** at = &first_; *at != nullptr; at = &(*at)->next_open) {
      if (*at == &run) return forget(at);
    }
  }
  [[nodiscard]] bool idle() const { return first_ == nullptr; }
  /// The oldest run in flight, or null.
  [[nodiscard]] const Run* first() const { return first_; }

 private:
  void queue(Run& run) {
    // Only the first can have been alone.
    if (first_ != nullptr && !first_->queued) first_->program->executor->queue(*first_);
    run.program->executor->queue(run);
  }
  void link(Run& run) {
    run.next_open = nullptr;
    *last_ = &run;
    last_ = &run.next_open;
  }
  /// Each once for all runs.
  [[gnu::noinline]] void ask_sources(std::span<ProgressSource* const> others) {
    for (ProgressSource* source : others) source->progress();
    ProgressSource* asked = nullptr;
    for (const Run* run = first_; run != nullptr; run = run->next_open) {
      for (ProgressSource* source : run->program->sources) {
        if (source == asked || std::ranges::find(others, source) != others.end()) continue;
        (asked = source)->progress();
      }
    }
  }
  void forget(Run** at) {
    Run& run = **at;
    if (last_ == &run.next_open) last_ = at;
    *at = run.next_open;
  }

  Run* first_ = nullptr;
  Run** last_ = &first_;
  std::size_t held_ = 0;
};

}  // namespace coll
