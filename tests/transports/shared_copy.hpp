// SPDX-License-Identifier: Apache-2.0
// A message that both ends copy, in one thread. The system calls that copy are the test's: so it
// decides which end copies when, and whether it can. Include it once in a program.
#pragma once
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sys/memory/peer_memory.hpp"
#include "transports/shm/shm_share.hpp"
#include "transports/shm_pair.hpp"

namespace coll::test {
namespace {

thread_local std::function<void()> before_read, before_write;
thread_local std::size_t bytes_read = 0, reads = 0;
std::atomic<std::size_t> bytes_written = 0;
std::atomic<int> writes = 0;
int write_error = 0;  ///< what the next ones fail with
bool is_proved = true;

void call_once(std::function<void()>& what) {
  if (const auto now = std::exchange(what, nullptr)) now();
}

}  // namespace
}  // namespace coll::test

extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* here, unsigned long count,
                                    const iovec* there, unsigned long there_count,
                                    unsigned long flags) noexcept {
  if (here->iov_len > 16) {
    coll::test::call_once(coll::test::before_read);
    coll::test::bytes_read += here->iov_len;
    ++coll::test::reads;
  } else if (here->iov_len > 1 && !coll::test::is_proved) {  // the proof of who a process is
    errno = EPERM;
    return -1;
  }
  return ::syscall(SYS_process_vm_readv, pid, here, count, there, there_count, flags);
}

extern "C" ssize_t process_vm_writev(pid_t pid, const iovec* here, unsigned long count,
                                     const iovec* there, unsigned long there_count,
                                     unsigned long flags) noexcept {
  coll::test::call_once(coll::test::before_write);
  if (coll::test::write_error != 0) {
    errno = coll::test::write_error;
    return -1;
  }
  ++coll::test::writes;
  coll::test::bytes_written += here->iov_len;
  return ::syscall(SYS_process_vm_writev, pid, here, count, there, there_count, flags);
}

namespace coll::test {
namespace {

constexpr std::size_t kLongest = 1 << 20;

std::string why_not() {
  return can_read_memory_of(memory_proof()) ? "" : "this machine forbids to read another process";
}

/// Rank 0 lends, rank 1 receives.
class SharedCopy : public ShmPair {
 protected:
  void SetUp() override {
    if (!why_not().empty()) GTEST_SKIP() << why_not();
    write_error = 0;
    is_proved = true;
    open(1);
  }
  void open(double ranks_per_core) {
    ASSERT_NO_FATAL_FAILURE(ShmPair::open(kLongest, ranks_per_core));
    // Only with a message that needs a slot do they learn how they reach each other.
    std::vector<std::byte> word(512);
    ASSERT_TRUE(sender->send(word.data(), word.size(), 0));
    ASSERT_TRUE(receiver->receive(word.data(), word.size(), 0));
    ASSERT_TRUE(receiver->send(word.data(), word.size(), 0));
    ASSERT_TRUE(sender->receive(word.data(), word.size(), 0));
    bytes_read = bytes_written = 0;
  }
  void TearDown() override {
    before_read = before_write = nullptr;
    is_proved = true;
  }

  /// The next message, lent.
  std::vector<std::byte> lend(std::size_t bytes) {
    std::vector<std::byte> data(bytes);
    for (std::byte& each : data) each = static_cast<std::byte>(random());
    EXPECT_TRUE(sender->lending()->lend(data.data(), bytes, 1));
    return data;
  }
  bool receive(std::vector<std::byte>& into) {
    return receiver->receive(into.data(), into.size(), 1);
  }
  /// The sender waits for what it has lent.
  bool waits() { return all_flushed(*sender); }
};

}  // namespace
}  // namespace coll::test
