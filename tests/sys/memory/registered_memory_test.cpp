// SPDX-License-Identifier: Apache-2.0
// Memory of a program's own, registered or refused.
#include "sys/memory/registered_memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <string>

#include "mapped_file.hpp"
#include "sys/child_process.hpp"
#include "sys/memory/held_ranges.hpp"
#include "sys/memory/shared_arena.hpp"
#include "sys/memory/shared_segments.hpp"

namespace coll {
namespace {

using test::MappedFile;
using testing::in_child;

constexpr std::size_t kPage = 4096;

/// Memory that is registered for as long as this lives.
class Registered {
 public:
  Registered(const std::byte* data, std::size_t bytes) : data_(data) {
    const Status status = register_memory(data, bytes);
    EXPECT_TRUE(status.ok()) << status.text();
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() { EXPECT_TRUE(SharedSegments::remove(data_).ok()); }

 private:
  const std::byte* data_;
};

/// Refused as a bad argument with a text that has `words`, and not there afterwards.
void expect_refused(const std::byte* data, std::size_t bytes, const char* word, const char* hint) {
  const Status status = register_memory(data, bytes);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::invalid_argument) << status.text();
  EXPECT_NE(status.text().find(word), std::string::npos) << status.text();
  EXPECT_NE(status.text().find(hint), std::string::npos) << status.text();
  EXPECT_NE(status.text().find(std::to_string(bytes) + " bytes at 0x"), std::string::npos)
      << status.text();
}
void expect_refused(const MappedFile& file, const char* word, const char* hint) {
  expect_refused(file.data, file.bytes, word, hint);
  EXPECT_EQ(SharedSegments::find(file.data, 1), std::nullopt);
}

TEST(RegisteredMemory, LiesInItsFile) {
  const MappedFile file(8 * kPage);
  const Registered all(file.data + kPage, 6 * kPage);
  const auto place = SharedSegments::find(file.data + 2 * kPage + 5, 100);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->offset, 2 * kPage + 5);
  EXPECT_NE(place->segment, SharedPlace::kArena);
  struct stat status {};
  ASSERT_EQ(::fstat(static_cast<int>(place->descriptor), &status), 0);
  EXPECT_EQ(status.st_ino, place->inode);
  ASSERT_EQ(::fstat(file.file.get(), &status), 0);
  EXPECT_EQ(status.st_ino, place->inode);
  EXPECT_NE(::fcntl(static_cast<int>(place->descriptor), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(SharedSegments::find(file.data + kPage - 1, 2), std::nullopt) << "before it";
  EXPECT_EQ(SharedSegments::find(file.data + 7 * kPage - 1, 2), std::nullopt) << "behind it";
}

TEST(RegisteredMemory, AMappingOfAPartCountsFromThere) {
  const MappedFile file(8 * kPage);
  void* part = ::mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, file.file.get(), 3 * kPage);
  ASSERT_NE(part, MAP_FAILED);
  {
    const auto* data = static_cast<const std::byte*>(part);
    const Registered all(data, 2 * kPage);
    EXPECT_EQ(SharedSegments::find(data + 7, 1)->offset, 3 * kPage + 7);
  }
  ::munmap(part, 2 * kPage);
}

TEST(RegisteredMemory, IsSealedAndKeepsADescriptorOfItsOwn) {
  MappedFile file(kPage);
  EXPECT_EQ(file.seals(), 0);
  const Registered all(file.data, kPage);
  EXPECT_EQ(file.seals(), F_SEAL_SHRINK);
  file.file.reset();
  const auto place = SharedSegments::find(file.data, kPage);
  ASSERT_TRUE(place);
  EXPECT_EQ(::fcntl(static_cast<int>(place->descriptor), F_GET_SEALS), F_SEAL_SHRINK);
}

TEST(RegisteredMemory, OneThatIsSealedNeedsNoRightToWrite) {
  MappedFile file(kPage);
  ASSERT_EQ(::fcntl(file.file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
  file.file = Fd(
      ::open(("/proc/self/fd/" + std::to_string(file.file.get())).c_str(), O_RDONLY | O_CLOEXEC));
  const Registered all(file.data, kPage);
  EXPECT_TRUE(SharedSegments::find(file.data, kPage));
}

/// The kernel keeps pieces of it that are told apart as mappings of their own.
TEST(RegisteredMemory, AMappingInPiecesIsOne) {
  const MappedFile file(8 * kPage);
  ASSERT_EQ(::madvise(file.data + 2 * kPage, kPage, MADV_DONTDUMP), 0);
  ASSERT_EQ(::mprotect(file.data + 5 * kPage, kPage, PROT_READ), 0);
  const Registered all(file.data, 8 * kPage);
  EXPECT_EQ(SharedSegments::find(file.data, 8 * kPage)->offset, 0U);
}

/// Devices may use it, and nobody else can map it.
TEST(RegisteredMemory, PrivateMemoryIsHeldForDevicesAlone) {
  const std::string heap(100'000, 'x');
  const auto* const data = reinterpret_cast<const std::byte*>(heap.data());
  EXPECT_FALSE(held_range(data, heap.size()));
  const std::uint64_t ended = held_ranges_ended();
  {
    const Registered all(data, heap.size());
    const std::optional<HeldRange> held = held_range(data + 5, 100);
    ASSERT_TRUE(held);
    EXPECT_EQ(held->begin, data);
    EXPECT_EQ(held->bytes, heap.size());
    EXPECT_FALSE(held_range(data + 5, heap.size())) << "beyond its end";
    EXPECT_EQ(SharedSegments::find(data, 1), std::nullopt);
    const MappedFile file(kPage);  // whose place is found beside it
    const Registered shared(file.data, kPage);
    EXPECT_TRUE(SharedSegments::find(file.data, kPage));
    EXPECT_FALSE(register_memory(data + 50, 10).ok()) << "is registered already";
    EXPECT_EQ(in_child([&] { return held_range(data, 1) ? 1 : 0; }), 0);
  }
  EXPECT_FALSE(held_range(data, 1));
  EXPECT_EQ(held_ranges_ended() - ended, 2U);
}

TEST(RegisteredMemory, PrivateMemoryMayBeOfSeveralMappings) {
  const MappedFile file(3 * kPage);
  const MappedFile copied(Fd(::dup(file.file.get())), 3 * kPage, MAP_PRIVATE);
  ASSERT_NE(
      ::mmap(copied.data + kPage, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      MAP_FAILED);
  { const Registered all(copied.data, 3 * kPage); }
  ASSERT_EQ(::munmap(copied.data + kPage, kPage), 0);
  expect_refused(copied, "only 4096 bytes of it are private memory", "by itself");
}

TEST(RegisteredMemory, MemoryWithoutADescriptorIsRefused) {
  const MappedFile nameless(Fd(), kPage, MAP_SHARED | MAP_ANONYMOUS);
  expect_refused(nameless, "no descriptor", "after it is registered");
  MappedFile closed(kPage);
  closed.file.reset();
  expect_refused(closed, "no descriptor", "after it is registered");
}

TEST(RegisteredMemory, AFileThatCannotBeSealedIsRefused) {
  expect_refused(MappedFile(kPage, 0), "cannot be sealed against shrinking", "MFD_ALLOW_SEALING");

  std::string name = "/dev/shm/coll-test-XXXXXX";
  if (Fd file(::mkstemp(name.data())); file) {
    ::unlink(name.c_str());
    ASSERT_EQ(::ftruncate(file.get(), kPage), 0);
    expect_refused(MappedFile(std::move(file), kPage), "/dev/shm/coll-test", "memfd_create");
  }
  name = ::testing::TempDir() + "coll-test-XXXXXX";
  Fd file(::mkstemp(name.data()));
  ASSERT_TRUE(file) << name;
  ::unlink(name.c_str());
  ASSERT_EQ(::ftruncate(file.get(), kPage), 0);
  expect_refused(MappedFile(std::move(file), kPage), "cannot be sealed", "memfd_create");
}

TEST(RegisteredMemory, OneThatOnlyItsReaderHasIsRefused) {
  MappedFile file(kPage);
  file.file = Fd(
      ::open(("/proc/self/fd/" + std::to_string(file.file.get())).c_str(), O_RDONLY | O_CLOEXEC));
  expect_refused(file, "not for writing", "F_SEAL_SHRINK");
}

TEST(RegisteredMemory, WhatIsCoveredInPartIsRefused) {
  const MappedFile file(4 * kPage);
  ::munmap(file.data + 2 * kPage, kPage);
  expect_refused(file.data, 4 * kPage, "only 8192 bytes of it are one shared mapping",
                 "each mapping by itself");
  expect_refused(file.data + 2 * kPage, kPage, "nothing is mapped there", "mapped memory");
  expect_refused(file.data, ~std::size_t{0}, "only 8192 bytes", "each mapping by itself");
  // The same file again, but from its beginning.
  ASSERT_EQ(
      ::mmap(file.data + 2 * kPage, kPage, PROT_READ, MAP_SHARED | MAP_FIXED, file.file.get(), 0),
      file.data + 2 * kPage);
  expect_refused(file.data, 4 * kPage, "only 8192 bytes", "each mapping by itself");
  ASSERT_NE(::mmap(file.data + 2 * kPage, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1, 0),
            MAP_FAILED);
  expect_refused(file.data + kPage, 2 * kPage, "only 4096 bytes", "each mapping by itself");
}

TEST(RegisteredMemory, AFileThatEndsBeforeItsMappingIsRefused) {
  const MappedFile file(4 * kPage);
  ASSERT_EQ(::ftruncate(file.file.get(), 2 * kPage + 10), 0);
  expect_refused(file, "file ends before it does", "ftruncate");
  expect_refused(file.data + 3 * kPage, 1, "file ends before it does", "ftruncate");
  const Registered rest(file.data, 2 * kPage + 10);
}

TEST(RegisteredMemory, WhatOverlapsIsRefused) {
  const MappedFile file(8 * kPage);
  const Registered middle(file.data + 2 * kPage, 4 * kPage);
  for (const auto& [first, pages] : {std::pair{0, 8}, {0, 3}, {2, 4}, {3, 1}, {5, 3}}) {
    expect_refused(file.data + static_cast<std::size_t>(first) * kPage,
                   static_cast<std::size_t>(pages) * kPage, "16384 bytes are registered already",
                   "deregister");
  }
  const Registered before(file.data, 2 * kPage);
  const Registered behind(file.data + 6 * kPage, 2 * kPage);
  EXPECT_EQ(SharedSegments::find(file.data + 2 * kPage - 1, 2), std::nullopt) << "of two segments";
}

TEST(RegisteredMemory, MemoryFromTheArenaIsRefused) {
  const auto arena = SharedArena::of_this_process();
  ASSERT_TRUE(arena.ok()) << arena.status().text();
  const auto block = (*arena)->allocate(10 * kPage);
  ASSERT_TRUE(block.ok());
  expect_refused(*block, 10 * kPage, "from coll_mem_alloc", "already");
  EXPECT_FALSE(SharedSegments::remove(*block).ok());
  EXPECT_TRUE((*arena)->free(*block).ok());
}

TEST(RegisteredMemory, IsRemovedOnceByTheAddressItBeganAt) {
  const MappedFile file(4 * kPage);
  const std::uint64_t before = SharedSegments::removals();
  ASSERT_TRUE(register_memory(file.data, 4 * kPage).ok());
  const auto place = SharedSegments::find(file.data, 1);
  for (const std::byte* wrong : {file.data + 1, file.data + kPage, file.data - 1}) {
    EXPECT_EQ(SharedSegments::remove(wrong).code(), Code::invalid_argument);
  }
  EXPECT_EQ(SharedSegments::removals(), before);
  EXPECT_TRUE(SharedSegments::remove(file.data).ok());
  EXPECT_EQ(SharedSegments::removals(), before + 1);
  EXPECT_EQ(SharedSegments::find(file.data, 1), std::nullopt);
  struct stat status {};
  EXPECT_EQ(::fstat(static_cast<int>(place->descriptor), &status), -1)
      << "its descriptor is closed";
  EXPECT_EQ(SharedSegments::remove(file.data).code(), Code::invalid_argument) << "a second time";
  file.write(0, "still there");
  const Registered again(file.data, 4 * kPage);
  EXPECT_NE(SharedSegments::find(file.data, 1)->segment, place->segment);
}

TEST(RegisteredMemory, AForkHasNone) {
  const MappedFile file(4 * kPage);
  const Registered all(file.data, 2 * kPage);
  const auto place = SharedSegments::find(file.data, 1);
  ASSERT_TRUE(place);
  EXPECT_EQ(in_child([&] {
              if (SharedSegments::find(file.data, 1)) return 1;
              if (SharedSegments::remove(file.data).code() != Code::invalid_argument) return 2;
              if (::fcntl(static_cast<int>(place->descriptor), F_GETFD) != -1) return 3;
              if (!register_memory(file.data + kPage, 3 * kPage).ok()) return 4;
              const auto own = SharedSegments::find(file.data + kPage, 1);
              return own && own->segment != place->segment ? 0 : 5;
            }),
            0);
  EXPECT_EQ(SharedSegments::find(file.data, 1), place);
  EXPECT_EQ(SharedSegments::find(file.data + 2 * kPage, 1), std::nullopt);
}

TEST(RegisteredMemory, WithoutADescriptorLeftItSaysSo) {
  const MappedFile file(kPage);
  EXPECT_EQ(in_child([&] {
              const Fd lowest(::dup(file.file.get()));
              for (rlim_t more = 0; more < 2; ++more) {  // one is needed to look for the file's
                const rlim_t files = static_cast<rlim_t>(lowest.get()) + 1 + more;
                const rlimit limit{files, files};
                if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) break;
                const Status status = register_memory(file.data, kPage);
                if (status.code() == Code::out_of_resources) continue;
                std::cerr << status.text() << "\n";
                return 1;
              }
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace coll
