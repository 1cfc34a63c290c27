// SPDX-License-Identifier: Apache-2.0
// The thread that serves all control planes of a process.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "sys/clock.hpp"
#include "sys/fd.hpp"

namespace coll {

/// One for a process, as long as it has a control plane. It sleeps on the sockets of all of them
/// until the earliest time of a topic. It waits for nothing else: a peer that takes no bytes, or a
/// topic whose time has not come, holds up no other.
class ControlThread {
 public:
  /// Has sockets. What follows is called on the thread, with the mutex held.
  class Sockets {
   public:
    /// `socket`: as in `attend`; `events`: epoll's.
    virtual void on_news(std::uint32_t socket, std::uint32_t events) noexcept = 0;

   protected:
    ~Sockets() = default;

   private:
    friend class ControlThread;
    std::uint32_t number_ = 0;  ///< among those that the thread serves
  };
  /// Has things to do at times, or when somebody asks.
  class Task {
   public:
    /// Says when to be called again at the latest.
    virtual Deadline on_turn(Deadline now) noexcept = 0;

   protected:
    ~Task() = default;

   private:
    friend class ControlThread;
    std::size_t slot_ = 0;  ///< in `due_`
    Task* next_asked_ = nullptr;
    bool asked_ = false;
  };

  /// The process's; starts it if there is none.
  static Result<std::shared_ptr<ControlThread>> of_process();
  /// How many tasks its thread has, if there is one: topics, each of a communicator.
  static std::size_t tasks_of_process();
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;
  ~ControlThread();

  /// Guards all planes and topics of the process, too. Nobody waits for anything while holding it.
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

  /// A turn for the task soon. From any thread, with any mutex held; needs no memory.
  void ask(Task& task) noexcept;

  // --- with the mutex held
  void enter(Sockets& owner);
  /// Closes none; what `attend` was told of them is to be `forget`ten before.
  void leave(Sockets& owner);
  void enter(Task& task);
  void leave(Task& task);
  /// Gives the task its turn now.
  void turn(Task& task, Deadline now);
  /// Sleeps on the owner's `socket` for `events`; `first`: from now on.
  Status attend(const Sockets& owner, std::uint32_t socket, int fd, std::uint32_t events,
                bool first);
  /// Before the descriptor is closed: others may have a copy of the socket.
  void forget(int fd);

 private:
  struct Due {
    Deadline at;
    Task* task;
  };

  ControlThread() = default;
  void run();
  Deadline take_turns();
  Task* next_asked();
  void wake() noexcept;

  Fd ready_;  ///< epoll's
  Fd event_;
  std::mutex mutex_;  // guards the next four
  std::map<std::uint32_t, Sockets*> owners_;
  std::uint32_t last_number_ = 0;
  std::vector<Due> due_;
  bool stop_ = false;
  std::mutex asked_mutex_;  // guards the next one, and what tasks have of it
  Task* first_asked_ = nullptr;
  std::thread thread_;
};

}  // namespace coll
