// SPDX-License-Identifier: Apache-2.0
// Memory that processes share, as another one sees it.
#include "sys/memory/peer_segments.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <string>

#include "mapped_file.hpp"
#include "sys/child_process.hpp"
#include "sys/memory/memory_segment.hpp"
#include "sys/memory/registered_memory.hpp"
#include "sys/memory/shared_arena.hpp"
#include "sys/net/unix_socket.hpp"

namespace coll {
namespace {

constexpr std::size_t kWindow = SharedPlace::kWindow;

/// The two ends of a line between parent and child.
std::array<Fd, 2> make_line() {
  std::array<int, 2> ends{};
  COLL_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0, "line");
  return {Fd(ends[0]), Fd(ends[1])};
}

/// What the child says of its memory.
struct Word {
  SharedPlace place;
  std::uint64_t size = 0;  ///< of the segment
  std::int64_t pid = ::getpid();
};

void tell(const Fd& line, const Word& word, int passed = -1) {
  const auto sent = unix_send(line, std::as_bytes(std::span(&word, 1)), {passed});
  COLL_CHECK(sent.ok() && *sent, "tell");
}

UnixPacket hear(const Fd& line, Word* word) {
  pollfd one{line.get(), POLLIN, 0};
  COLL_CHECK(::poll(&one, 1, 30'000) == 1, "nothing comes");
  auto packet = unix_receive(line, std::as_writable_bytes(std::span(word, 1)));
  COLL_CHECK(packet.ok() && packet->has_value(), "nothing came");
  return **std::move(packet);
}

SharedPlace in_arena(std::uint64_t offset) {
  return {.segment = SharedPlace::kArena, .offset = offset};
}

void expect_text(PeerSegments& peer, const SharedPlace& at, const std::string& text) {
  const Result<const std::byte*> place = peer.at(at, text.size());
  ASSERT_TRUE(place.ok()) << place.status().text();
  EXPECT_EQ(std::memcmp(*place, text.data(), text.size()), 0) << text;
}

/// As not being there, which the text says.
bool refused(PeerSegments& peer, const SharedPlace& at, std::size_t bytes) {
  const Result<const std::byte*> place = peer.at(at, bytes);
  return !place.ok() && place.status().code() == Code::invalid_argument &&
         place.status().text().find(std::to_string(at.offset)) != std::string::npos;
}
bool refused(PeerSegments& peer, std::uint64_t offset, std::size_t bytes) {
  return refused(peer, in_arena(offset), bytes);
}

void expect_no_memory(PeerSegments peer) {
  const Result<const std::byte*> place = peer.at(in_arena(0), 1);
  ASSERT_FALSE(place.ok());
  EXPECT_EQ(place.status().code(), Code::invalid_argument);
  EXPECT_NE(place.status().text().find("not sealed against shrinking"), std::string::npos)
      << place.status().text();
}

TEST(PeerSegments, ReadsWhatAnotherProcessWritesAlsoLaterAndInSeveralWindows) {
  const auto line = make_line();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const auto own = SharedArena::of_this_process();
    const auto first = (*own)->allocate(4096);
    (void)(*own)->allocate(kWindow);
    const auto second = (*own)->allocate(4096);
    if (!second.ok()) ::_exit(1);
    std::memcpy(*first + 100, "early", 5);
    std::memcpy(*second, "beyond", 6);
    tell(line[1], {*SharedSegments::find(*first + 100, 5), (*own)->size()},
         static_cast<int>((*own)->place().descriptor));
    tell(line[1], {*SharedSegments::find(*second, 6)});
    Word ignored;
    (void)hear(line[1], &ignored);
    std::memcpy(*first + 100, "after", 5);
    tell(line[1], {});
    (void)hear(line[1], &ignored);
    ::_exit((*first)[100] == std::byte{'a'} ? 0 : 2);
  }
  Word first, second, ignored;
  PeerSegments peer(std::move(hear(line[0], &first).passed[0]));
  (void)hear(line[0], &second);
  ASSERT_GE(first.size, 2 * kWindow) << "this test needs two windows";
  expect_text(peer, first.place, "early");
  expect_text(peer, second.place, "beyond");
  tell(line[0], {});
  (void)hear(line[0], &ignored);
  expect_text(peer, first.place, "after");
  EXPECT_TRUE(peer.at(in_arena(first.size - 1), 1).ok());
  EXPECT_TRUE(refused(peer, first.size - 1, 2));
  EXPECT_TRUE(refused(peer, first.size, 1));
  EXPECT_TRUE(refused(peer, ~std::uint64_t{0}, 1));
  EXPECT_TRUE(refused(peer, ~std::uint64_t{0}, 2));
  EXPECT_TRUE(refused(peer, kWindow - 1, 2)) << "of two windows";
  EXPECT_TRUE(refused(peer, 0, kWindow + 1));
  EXPECT_TRUE(peer.at(in_arena(0), kWindow).ok());
  PeerSegments moved = std::move(peer);
  expect_text(moved, second.place, "beyond");
  tell(line[0], {});
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  expect_text(moved, second.place, "beyond");  // what is mapped outlives its maker
}

TEST(PeerSegments, WhatItMapsIsNotForWriting) {
  auto memory = MemorySegment::create("coll-test", kWindow);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  PeerSegments peer(*std::move(memory));
  const auto place = peer.at(in_arena(0), 1);
  ASSERT_TRUE(place.ok()) << place.status().text();
  const auto line = make_line();  // the kernel says EFAULT where we would die
  ASSERT_EQ(::write(line[0].get(), "x", 1), 1);
  EXPECT_EQ(::read(line[1].get(), const_cast<std::byte*>(*place), 1), -1);
  EXPECT_EQ(errno, EFAULT);
}

/// What is asked for to be written is mapped apart.
TEST(PeerSegments, WhatIsToBeWrittenIsWrittenToTheArena) {
  auto memory = MemorySegment::create("coll-test", 2 * kWindow);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  const auto own = MemorySegment::map(*memory, 2 * kWindow);
  ASSERT_TRUE(own.ok());
  PeerSegments peer(*std::move(memory));
  for (const std::uint64_t offset : {std::uint64_t{5}, kWindow + 7, std::uint64_t{6}}) {
    const Result<std::byte*> place = peer.to_write(offset, 1);
    ASSERT_TRUE(place.ok()) << place.status().text();
    **place = std::byte{9};
    EXPECT_EQ(own->data()[offset], std::byte{9});
    const auto seen = peer.at(in_arena(offset), 1);
    ASSERT_TRUE(seen.ok() && *seen != *place);
    EXPECT_EQ(**seen, std::byte{9});
  }
  EXPECT_FALSE(peer.to_write(2 * kWindow, 1).ok());
  EXPECT_FALSE(peer.to_write(kWindow - 1, 2).ok());
  EXPECT_FALSE(peer.to_write(0, 2 * kWindow).ok());
}

// Beyond its end we would die of SIGBUS.
TEST(PeerSegments, NothingIsReadBeyondTheEndOfAShortOne) {
  auto memory = MemorySegment::create("coll-test", 10'000);
  ASSERT_TRUE(memory.ok()) << memory.status().text();
  PeerSegments peer(*std::move(memory));
  EXPECT_TRUE(refused(peer, 0, 10'001));
  EXPECT_TRUE(peer.at(in_arena(0), 10'000).ok());
  EXPECT_TRUE(peer.at(in_arena(9'999), 1).ok());
  EXPECT_TRUE(refused(peer, 9'999, 2));
  EXPECT_TRUE(refused(peer, 10'000, 1));
  EXPECT_TRUE(refused(peer, 1, ~std::size_t{0}));
  EXPECT_TRUE(refused(peer, 2 << 20, 4096));
  EXPECT_TRUE(refused(peer, kWindow + 1, 1));
}

TEST(PeerSegments, OneThatMayShrinkIsRefused) {
  Fd memory(::memfd_create("coll-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(memory.get(), static_cast<off_t>(kWindow)), 0);
  ASSERT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  expect_no_memory(PeerSegments(std::move(memory)));
}

TEST(PeerSegments, WhatIsNoMemoryIsRefused) {
  auto line = make_line();
  expect_no_memory(PeerSegments(std::move(line[0])));
  expect_no_memory(PeerSegments(Fd()));
}

// --- segments that are not passed, but opened

/// A process that registers memory, and what this one sees of it.
class Registrant {
 public:
  /// `serve(line)` runs in the child after its arena was told.
  template <class Serve>
  explicit Registrant(Serve serve) : line_(make_line()) {
    child_ = ::fork();
    if (child_ == 0) {
      ::alarm(60);
      line_[0].reset();
      const auto own = SharedArena::of_this_process();
      tell(line_[1], {(*own)->place()}, static_cast<int>((*own)->place().descriptor));
      serve(line_[1]);
      ::_exit(0);
    }
    line_[1].reset();
    arena_ = std::move(hear(line_[0], &word_).passed[0]);
  }
  Registrant(const Registrant&) = delete;
  Registrant& operator=(const Registrant&) = delete;
  ~Registrant() {
    line_[0].reset();
    ::waitpid(child_, nullptr, 0);
  }

  [[nodiscard]] PeerSegments segments() const {
    return PeerSegments(Fd(::dup(arena_.get())), word_.pid, word_.place);
  }
  [[nodiscard]] const Word& word() const { return word_; }
  [[nodiscard]] const Fd& arena() const { return arena_; }
  [[nodiscard]] const Fd& line() const { return line_[0]; }
  SharedPlace next() {
    Word word;
    (void)hear(line(), &word);
    return word.place;
  }
  /// Lets the child go on.
  void go_on() { tell(line(), {}); }

 private:
  std::array<Fd, 2> line_;
  pid_t child_ = 0;
  Word word_;
  Fd arena_;
};

/// In the child: until the parent wants the next, or is done.
void wait(const Fd& line) {
  char word = 0;
  (void)::recv(line.get(), &word, 1, 0);
}

SharedPlace registered(const test::MappedFile& file) {
  COLL_CHECK(register_memory(file.data, file.bytes).ok(), "register");
  return *SharedSegments::find(file.data, 1);
}

#define SKIP_UNLESS_IT_OPENS(peer) \
  if (!(peer).opens()) GTEST_SKIP() << "the kernel shows no descriptors of other processes"

TEST(PeerSegments, ReadsWhatAnotherProcessRegisters) {
  Registrant other([](const Fd& line) {
    const test::MappedFile small(10'000), large(2 * kWindow + 10);
    small.write(9'995, "small");
    large.write(2 * kWindow, "large");
    tell(line, {registered(small)});
    tell(line, {registered(large)});
    wait(line);
    small.write(9'995, "later");
    tell(line, {});
    wait(line);
  });
  PeerSegments peer = other.segments();
  SKIP_UNLESS_IT_OPENS(peer);
  SharedPlace small = other.next(), large = other.next();
  small.offset = 9'995;
  large.offset = 2 * kWindow;
  expect_text(peer, small, "small");
  expect_text(peer, large, "large");
  expect_text(peer, small, "small");
  EXPECT_TRUE(refused(peer, small, 6));
  large.offset += 4;
  EXPECT_TRUE(refused(peer, large, 7));
  large.offset = kWindow - 1;
  EXPECT_TRUE(peer.at(large, 1).ok());
  EXPECT_TRUE(refused(peer, large, 2)) << "of two windows";
  other.go_on();
  (void)other.next();
  expect_text(peer, small, "later");
  EXPECT_EQ(*static_cast<const char*>(static_cast<const void*>(*peer.at(in_arena(0), 1))), 0);
}

TEST(PeerSegments, OpensOnlyWhereTheProcessIsWhoItSaysToBe) {
  Registrant other(wait);
  const Word& word = other.word();
  SKIP_UNLESS_IT_OPENS(other.segments());
  const auto opens = [&](std::int64_t pid, const SharedPlace& place) {
    return PeerSegments(Fd(::dup(other.arena().get())), pid, place).opens();
  };
  EXPECT_TRUE(opens(word.pid, word.place));
  EXPECT_FALSE(opens(::getpid(), word.place)) << "as a process of another namespace may be called";
  EXPECT_FALSE(opens(0, word.place));
  EXPECT_FALSE(opens(-1, word.place));
  SharedPlace wrong = word.place;
  wrong.inode += 1;
  EXPECT_FALSE(opens(word.pid, wrong));
  wrong = word.place;
  wrong.descriptor = 999;
  EXPECT_FALSE(opens(word.pid, wrong));
  EXPECT_FALSE(PeerSegments(Fd(), word.pid, word.place).opens());
  const test::MappedFile mine(4096);
  EXPECT_FALSE(PeerSegments(Fd(::dup(mine.file.get())), word.pid, word.place).opens());
  // Then nothing is read but what was passed.
  PeerSegments blind(Fd(::dup(other.arena().get())));
  SharedPlace place = word.place;
  place.segment = 7;
  EXPECT_EQ(blind.at(place, 1).status().code(), Code::unsupported);
  EXPECT_TRUE(blind.at(word.place, 1).ok());
}

TEST(PeerSegments, WhatADescriptorIsNotIsNotRead) {
  Registrant other([](const Fd& line) {
    const test::MappedFile loose(4096), good(4096);
    std::array<int, 2> pipe{};
    COLL_CHECK(::pipe(pipe.data()) == 0, "pipe");
    for (const int number : {loose.file.get(), pipe[0], pipe[1], line.get()}) {
      struct stat status {};
      COLL_CHECK(::fstat(number, &status) == 0, "fstat");
      tell(line, {{.segment = 2, .descriptor = number, .inode = status.st_ino, .offset = 0}});
    }
    tell(line, {registered(good)});
    wait(line);
  });
  PeerSegments peer = other.segments();
  SKIP_UNLESS_IT_OPENS(peer);
  EXPECT_NE(peer.at(other.next(), 1).status().text().find("not sealed"), std::string::npos);
  for (int kind = 0; kind < 3; ++kind) EXPECT_FALSE(peer.at(other.next(), 1).ok()) << kind;
  SharedPlace wrong = other.next();
  wrong.inode ^= 1;
  EXPECT_NE(peer.at(wrong, 1).status().text().find("another inode"), std::string::npos);
  wrong.inode ^= 1;
  wrong.descriptor = 999;
  EXPECT_FALSE(peer.at(wrong, 1).ok());
}

/// The kernel gives the number of the descriptor again at once.
TEST(PeerSegments, WhatWasRemovedIsLetGoAndItsNumberIsAnothers) {
  Registrant other([](const Fd& line) {
    const test::MappedFile stays(4096);
    stays.write(0, "stays");
    tell(line, {registered(stays)});
    for (const char* text : {"one", "two", "three"}) {
      const test::MappedFile file(4096);
      file.write(0, text);
      tell(line, {registered(file), SharedSegments::removals()});
      wait(line);
      COLL_CHECK(SharedSegments::remove(file.data).ok(), "remove");
    }
    tell(line, {{}, SharedSegments::removals()});
    wait(line);
  });
  PeerSegments peer = other.segments();
  SKIP_UNLESS_IT_OPENS(peer);
  const SharedPlace stays = other.next();
  expect_text(peer, stays, "stays");
  const std::size_t before = test::mappings_of_tests();
  Word first, word;
  (void)hear(other.line(), &first);
  expect_text(peer, first.place, "one");
  for (const char* text : {"two", "three"}) {
    other.go_on();
    (void)hear(other.line(), &word);
    ASSERT_EQ(word.place.descriptor, first.place.descriptor) << "else this test shows less";
    EXPECT_NE(word.place.segment, first.place.segment);
    peer.release_removed(word.size);
    expect_text(peer, word.place, text);
    EXPECT_EQ(test::mappings_of_tests(), before + 1);
    EXPECT_FALSE(peer.at(first.place, 1).ok());
  }
  other.go_on();
  (void)hear(other.line(), &word);
  EXPECT_EQ(test::mappings_of_tests(), before + 1) << "nobody has said so";
  peer.release_removed(word.size);
  EXPECT_EQ(test::mappings_of_tests(), before);
  expect_text(peer, stays, "stays");
}

TEST(PeerSegments, WhatIsMappedOutlivesItsProcess) {
  auto other = std::make_unique<Registrant>([](const Fd& line) {
    const test::MappedFile mapped(4096), unseen(4096);
    mapped.write(0, "mapped");
    tell(line, {registered(mapped)});
    tell(line, {registered(unseen)});
    wait(line);
  });
  PeerSegments peer = other->segments();
  SKIP_UNLESS_IT_OPENS(peer);
  const SharedPlace mapped = other->next(), unseen = other->next();
  expect_text(peer, mapped, "mapped");
  other->go_on();
  other.reset();
  expect_text(peer, mapped, "mapped");
  EXPECT_FALSE(peer.at(unseen, 1).ok());
}

}  // namespace
}  // namespace coll
