// SPDX-License-Identifier: Apache-2.0
// Another process's memory is read, or it is said why not.
#include "sys/memory/peer_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <vector>

#include "sys/fd.hpp"

namespace coll {
namespace {

/// A child that has said where its memory is, and waits until its end.
class Child {
 public:
  struct Word {
    MemoryProof proof;
    std::uint64_t address = 0;
  };

  /// `prepare` runs in the child; what it returns is its address.
  template <class Prepare>
  explicit Child(Prepare prepare) {
    int both[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both), 0);
    Fd theirs(both[1]);
    socket_ = Fd(both[0]);
    pid = ::fork();
    if (pid == 0) {
      socket_.reset();
      Word mine;
      mine.address = reinterpret_cast<std::uint64_t>(prepare());
      mine.proof = memory_proof();
      if (::send(theirs.get(), &mine, sizeof mine, MSG_NOSIGNAL) < 0) ::_exit(1);
      char end = 0;
      (void)::recv(theirs.get(), &end, 1, 0);  // until the parent is done
      ::_exit(0);
    }
    theirs.reset();
    EXPECT_EQ(::recv(socket_.get(), &word, sizeof word, 0), static_cast<ssize_t>(sizeof word));
  }
  ~Child() { end(); }
  void end() {
    if (pid <= 0) return;
    socket_.reset();
    ::waitpid(std::exchange(pid, 0), nullptr, 0);
  }

  pid_t pid = -1;
  Word word;

 private:
  Fd socket_;
};

/// Twice the same address, with other content in the child.
constexpr std::size_t kBytes = 3 * 4096 + 5;
std::vector<std::byte>& content() {
  static std::vector<std::byte> bytes(kBytes, std::byte{1});
  return bytes;
}
const std::byte* write_content() {
  for (std::size_t i = 0; i < kBytes; ++i) content()[i] = static_cast<std::byte>(i * 7);
  return content().data();
}

/// Where the kernel lets nobody read other processes there is nothing to test but that it is said.
bool forbidden(const Child& child) {
  std::byte byte{};
  return read_peer_memory(child.pid, child.word.address, &byte, 1).code() == Code::unsupported;
}

TEST(PeerMemory, IsReadAsItIsThere) {
  ASSERT_EQ(content().size(), kBytes);
  Child child(write_content);
  if (forbidden(child)) {
    EXPECT_FALSE(can_read_memory_of(child.word.proof));
    GTEST_SKIP() << "the kernel forbids it";
  }
  EXPECT_TRUE(can_read_memory_of(child.word.proof));
  std::vector<std::byte> got(kBytes + 1, std::byte{0xa5});
  const std::pair<std::size_t, std::size_t> ranges[] = {
      {0, kBytes}, {1, 1}, {4095, 4098}, {kBytes - 1, 1}, {7, 0}};
  for (const auto& [offset, bytes] : ranges) {
    std::ranges::fill(got, std::byte{0xa5});
    const Status read = read_peer_memory(child.pid, child.word.address + offset, got.data(), bytes);
    ASSERT_TRUE(read.ok()) << read.text();
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(got[i], static_cast<std::byte>((offset + i) * 7)) << i;
    EXPECT_EQ(got[bytes], std::byte{0xa5});
  }
  EXPECT_EQ(content().front(), std::byte{1}) << "it is the child's, not this one's";
  EXPECT_EQ(content().back(), std::byte{1});
}

TEST(PeerMemory, OfADeadProcessIsThatOfALostPeer) {
  Child child(write_content);
  if (forbidden(child)) GTEST_SKIP() << "the kernel forbids it";
  const pid_t pid = child.pid;
  std::byte byte{};
  // Dead, but not waited for: its number is still its own.
  ::kill(pid, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  Status read = read_peer_memory(pid, child.word.address, &byte, 1);
  EXPECT_EQ(read.code(), Code::peer_lost) << read.text();
  child.end();
  read = read_peer_memory(pid, child.word.address, &byte, 1);
  EXPECT_EQ(read.code(), Code::peer_lost) << read.text();
  EXPECT_NE(read.text().find(std::to_string(pid)), std::string::npos) << read.text();
  EXPECT_FALSE(can_read_memory_of(child.word.proof));
}

/// Two pages of which only the first is there.
const std::byte* map_one_of_two_pages() {
  void* pages = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) ::_exit(1);
  std::memset(pages, 9, 4096);
  ::munmap(static_cast<std::byte*>(pages) + 4096, 4096);
  return static_cast<const std::byte*>(pages);
}

TEST(PeerMemory, ThatIsNotMappedIsAFailure) {
  Child child(map_one_of_two_pages);
  if (forbidden(child)) GTEST_SKIP() << "the kernel forbids it";
  std::array<std::byte, 8192> got{};
  EXPECT_TRUE(read_peer_memory(child.pid, child.word.address, got.data(), 4096).ok());
  for (const std::uint64_t offset : {4096U, 4090U}) {  // not at all, and not wholly
    const Status read = read_peer_memory(child.pid, child.word.address + offset, got.data(), 100);
    EXPECT_FALSE(read.ok());
    EXPECT_NE(read.code(), Code::peer_lost) << read.text();
  }
  EXPECT_FALSE(read_peer_memory(child.pid, 0, got.data(), 1).ok());
}

TEST(PeerMemory, IsThisProcesssOwnToo) {
  const MemoryProof proof = memory_proof();
  EXPECT_EQ(proof.pid, ::getpid());
  std::uint64_t number[2] = {0, 0};
  const Status read = read_peer_memory(proof.pid, proof.address,
                                       reinterpret_cast<std::byte*>(number), sizeof number);
  if (read.code() == Code::unsupported) GTEST_SKIP() << "the kernel forbids it";
  ASSERT_TRUE(read.ok()) << read.text();
  EXPECT_EQ(std::memcmp(number, proof.number, sizeof number), 0);
  EXPECT_TRUE(can_read_memory_of(proof));
}

TEST(PeerMemory, IsRefusedToWhoReadsAnotherNumberThere) {
  Child child(write_content);
  if (forbidden(child)) GTEST_SKIP() << "the kernel forbids it";
  const MemoryProof right = child.word.proof;
  ASSERT_TRUE(can_read_memory_of(right));
  for (const int word : {0, 1}) {
    MemoryProof wrong = right;
    wrong.number[word] ^= 1;
    EXPECT_FALSE(can_read_memory_of(wrong)) << word;
  }
  MemoryProof wrong = right;
  wrong.address = child.word.address;
  EXPECT_FALSE(can_read_memory_of(wrong));
  wrong.address = 0;
  EXPECT_FALSE(can_read_memory_of(wrong));
  wrong = right;
  wrong.pid = ::getpid();  // as a process of another namespace may be called
  EXPECT_FALSE(can_read_memory_of(wrong));
  wrong.pid = 0;
  EXPECT_FALSE(can_read_memory_of(wrong));
  // Zero, which memory often is, proves nothing.
  static std::uint64_t zero[2] = {0, 0};
  EXPECT_FALSE(can_read_memory_of({::getpid(), reinterpret_cast<std::uint64_t>(&zero), {0, 0}}));
}

TEST(MemoryProof, StaysTheSameAndIsAnotherInEachFork) {
  const MemoryProof mine = memory_proof();
  const MemoryProof again = memory_proof();
  EXPECT_EQ(mine.address, again.address);
  EXPECT_TRUE(std::ranges::equal(mine.number, again.number));
  EXPECT_FALSE(mine.number[0] == 0 && mine.number[1] == 0);
  Child a(write_content), b(write_content);
  EXPECT_EQ(a.word.proof.pid, a.pid);
  EXPECT_FALSE(std::ranges::equal(a.word.proof.number, mine.number));
  EXPECT_FALSE(std::ranges::equal(b.word.proof.number, mine.number));
  EXPECT_FALSE(std::ranges::equal(a.word.proof.number, b.word.proof.number));
}

}  // namespace
}  // namespace coll
