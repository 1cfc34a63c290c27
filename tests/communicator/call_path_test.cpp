// SPDX-License-Identifier: Apache-2.0
// A repeated call allocates nothing, locks nothing and asks the operating system for nothing but,
// where it must wait long, a nap, and over TCP to send each message once.
#include <dlfcn.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

#include "communicator/calls/call_check.hpp"
#include "communicator/calls/unequal_call.hpp"
#include "rank_threads.hpp"

// SANITIZED: with a sanitizer, which has its own malloc and locks.
namespace {

thread_local bool t_counting = false;
thread_local int t_locks = 0;
std::atomic<int> g_allocations{0}, g_locks{0}, g_sends{0}, g_system_calls{0}, g_last_call{-1};

[[maybe_unused]] void count_lock() {
  if (!t_counting) return;
  ++g_locks;
  ++t_locks;
}

}  // namespace

#ifndef SANITIZED
extern "C" {
void* __libc_malloc(std::size_t);
int __pthread_mutex_lock(pthread_mutex_t*);

void* malloc(std::size_t bytes) {
  if (t_counting) ++g_allocations;
  return __libc_malloc(bytes);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static const Lock real = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  count_lock();
  return real(mutex);
}

/// Takes a lock of the loader's.
int dl_iterate_phdr(int (*visit)(dl_phdr_info*, std::size_t, void*), void* into) {
  using Iterate = int (*)(int (*)(dl_phdr_info*, std::size_t, void*), void*);
  static const Iterate real = reinterpret_cast<Iterate>(dlsym(RTLD_NEXT, "dl_iterate_phdr"));
  count_lock();
  return real(visit, into);
}

ssize_t send(int socket, const void* data, std::size_t bytes, int flags) {
  if (t_counting) ++g_sends;
  return syscall(SYS_sendto, socket, data, bytes, flags, nullptr, 0);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (t_counting) ++g_sends;
  return syscall(SYS_sendmsg, socket, message, flags);
}
}
#endif

namespace coll::testing {
namespace {

/// From now on each system call of this thread, but for those of waiting, arrives at the signal
/// handler.
void trap_system_calls() {
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    ++g_system_calls;
    g_last_call = info->si_syscall;
  };
  ASSERT_EQ(sigaction(SIGSYS, &action, nullptr), 0);
  constexpr auto kNumber = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  const auto allow = [](std::uint32_t number, std::uint8_t skip) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, skip, 0);
  };
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      allow(__NR_clock_gettime, 7),     // where the vDSO cannot read the clock
      allow(__NR_process_vm_readv, 6),  // the copy of what was lent
      allow(__NR_process_vm_writev, 5),
      allow(__NR_ppoll, 4),        // the nap
      allow(__NR_sched_yield, 3),  // ranks that share a core
      allow(__NR_rt_sigreturn, 2),
      allow(__NR_exit, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

TEST(CallPath, RepeatedCallsAllocateLockAndAskNothing) {
#ifdef SANITIZED
  GTEST_SKIP() << "sanitizers allocate on their own";
#endif
  RanksOptions options;
  options.transports = "shm";
  // An emulated machine may have no filters.
  if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) GTEST_SKIP() << "no seccomp here";
  run_ranks(2, options, [](Communicator& comm) {
    std::vector<float> in(100'000, 1.0f), out(200'000);
    const auto call = [&](Collective collective, std::uint64_t count) {
      Request request;
      request.call = {
          .collective = collective, .type = DataType::float32, .root = 0, .count = count};
      request.input = in.data();
      request.output = out.data();
      const bool fine =
          check_request(request, comm.rank(), comm.size()).ok() && comm.run(request).ok();
      if (!fine) std::abort();
    };
    const auto gather_unequal = [&] {
      const std::size_t counts[] = {1000, 1001};
      const UnequalCall given{
          .call = {.collective = Collective::all_gather, .type = DataType::float32},
          .send = in.data(),
          .recv = out.data(),
          .recv_counts = counts};
      const auto made = unequal_request(given, comm.rank(), comm.size());
      if (!made.ok() || !comm.run(made->request).ok()) std::abort();
    };
    const auto all = [&] {
      gather_unequal();
      for (const std::uint64_t count : {2U, 1000U, 50'000U}) {
        for (const Collective collective :
             {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
              Collective::broadcast, Collective::reduce}) {
          call(collective, count);
        }
      }
    };
    all();
    // A connection locks the pool when it asks for a block. Ranks of one process take blocks from
    // each other, but no connection asks more than three times for each of its 8 slots: then it has
    // all that it needs. Each of the 5 collectives has a connection with long messages.
    constexpr int kAsked = 5 * 3 * 8;
    int first_locks = 0, later_locks = 0;
    // A thread of its own for the trap, which cannot be taken off again.
    std::thread counted([&] {
      all();  // a thread keeps the blocks of its last call, and where buffers lie
      // This thread's heap, so that an allocation on the path is counted and not a crash for want
      // of mmap.
      std::free(std::malloc(1024));
      trap_system_calls();
      t_counting = true;
      for (int i = 0; i < 100; ++i) all();
      first_locks = std::exchange(t_locks, 0);
      for (int i = 0; i < 100; ++i) all();
      later_locks = t_locks;
      t_counting = false;
      syscall(SYS_exit, 0);  // the thread's own end makes system calls; this one is allowed
    });
    counted.join();
    EXPECT_EQ(g_allocations, 0);
    EXPECT_LE(first_locks, kAsked);
    EXPECT_EQ(later_locks, 0);
    EXPECT_EQ(g_system_calls, 0) << "the last one was number " << g_last_call;
  });
}

TEST(CallPath, OverTcpRepeatedCallsAllocateNothingAndSendEachMessageOnce) {
#ifdef SANITIZED
  GTEST_SKIP() << "sanitizers allocate on their own";
#endif
  static constexpr int kCalls = 100;
  RanksOptions options;
  options.transports = "tcp";
  run_ranks(2, options, [](Communicator& comm) {
    std::vector<float> in(4000, 1.0f), out(8000);
    for (const Collective collective :
         {Collective::broadcast, Collective::all_reduce, Collective::all_gather}) {
      for (const std::uint64_t count : {2U, 1000U, 4000U}) {
        Request request;
        request.call = {
            .collective = collective, .type = DataType::float32, .root = 0, .count = count};
        request.input = in.data();
        request.output = out.data();
        const auto call = [&] {
          if (!check_request(request, comm.rank(), comm.size()).ok() || !comm.run(request).ok())
            std::abort();
        };
        call();
        if (comm.rank() == 0) {
          g_allocations = g_locks = g_sends = 0;
          t_counting = true;
        }
        for (int i = 0; i < kCalls; ++i) call();
        t_counting = false;
        if (comm.rank() != 0) continue;
        EXPECT_EQ(g_allocations, 0) << name_of(collective) << ' ' << count;
        EXPECT_EQ(g_locks, 0) << name_of(collective) << ' ' << count;
        // Of these sizes each rank has one message for the other.
        EXPECT_EQ(g_sends, kCalls) << name_of(collective) << ' ' << count;
      }
    }
  });
}

}  // namespace
}  // namespace coll::testing
