// SPDX-License-Identifier: Apache-2.0
// The lines in which threads wait to join.
#include "communicator/join_turn.hpp"

#include <pthread.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "sys/clock.hpp"

namespace coll {
namespace {

constexpr auto kGlance = std::chrono::milliseconds(5);  // between two looks at the line

/// All lines of the process. The mutex is also held over a fork.
struct Lines {
  std::mutex mutex;
  std::map<std::string, std::deque<std::uint64_t>> waiting;  ///< the first of each joins now
  std::uint64_t last = 0;

  static Lines& of_process() {
    static auto* const one = new Lines;  // made at load; threads may join to the very end
    return *one;
  }

 private:
  Lines() {
    const auto before = [] { of_process().mutex.lock(); };
    const auto in_parent = [] { of_process().mutex.unlock(); };
    const auto in_child = [] {
      of_process().waiting.clear();  // those threads are the parent's
      of_process().mutex.unlock();
    };
    if (pthread_atfork(before, in_parent, in_child) != 0) {
      throw std::bad_alloc();  // the only reason it has to fail
    }
  }
};

/// Made while the library is loaded: no fork comes in between.
[[maybe_unused]] const Lines& kLinesAtLoad = Lines::of_process();

std::string line_of(const Joining& joining) {
  std::string line =
      std::to_string(joining.rank) + " " + joining.place.key + " " + joining.place.path;
  for (const std::string& address : joining.place.addresses) line += " " + address;
  return line;
}

}  // namespace

std::unique_ptr<JoinTurn> JoinTurn::line_up(const Joining& joining) {
  const MeetingPlace::Kind kind = joining.place.kind;
  if (kind == MeetingPlace::Kind::unique_id || kind == MeetingPlace::Kind::store ||
      kind == MeetingPlace::Kind::links) {
    return nullptr;
  }
  std::unique_ptr<JoinTurn> turn(new JoinTurn(line_of(joining)));
  Lines& lines = Lines::of_process();
  const std::lock_guard lock(lines.mutex);
  lines.waiting[turn->line_].push_back(lines.last + 1);
  turn->number_ = ++lines.last;
  return turn;
}

Status JoinTurn::wait(Joining& joining) {
  Lines& lines = Lines::of_process();
  std::unique_lock lock(lines.mutex);
  const std::deque<std::uint64_t>& line = lines.waiting[line_];
  const auto begin = Clock::now();
  while (line.front() != number_) {
    lock.unlock();
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (waited.count() >= joining.connect_s) {
      return failed(Code::deadline,
                    "another thread of this process was joining at the same place (" +
                        joining.place.source + ") as rank " + std::to_string(joining.rank) +
                        " all the time",
                    "join one communicator after another, in the same order on all ranks");
    }
    std::this_thread::sleep_for(kGlance);
    lock.lock();
  }
  const std::chrono::duration<double> waited = Clock::now() - begin;
  joining.connect_s = std::max(joining.connect_s - waited.count(), 0.0);
  return {};
}

JoinTurn::~JoinTurn() {
  Lines& lines = Lines::of_process();
  const std::lock_guard lock(lines.mutex);
  const auto line = lines.waiting.find(line_);
  if (line == lines.waiting.end()) return;
  std::erase(line->second, number_);
  if (line->second.empty()) lines.waiting.erase(line);
}

}  // namespace coll
