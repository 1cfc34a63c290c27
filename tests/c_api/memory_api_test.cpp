// SPDX-License-Identifier: Apache-2.0
// Memory that ranks read in place, as users ask for it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <collectives/collectives.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace {

using collectives::Communicator;
using collectives::Memory;
using collectives::Registration;

bool last_error_says(const char* word) {
  return std::strstr(coll_last_error(), word) != nullptr;
}

TEST(CApi, MemoryIsZeroedAlignedAndGivenBack) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, size_t{3} << 20}) {
    void* memory = nullptr;
    ASSERT_EQ(coll_mem_alloc(&memory, bytes), COLL_SUCCESS) << coll_last_error();
    ASSERT_NE(memory, nullptr);
    const size_t unit = bytes >= size_t{2} << 20 ? size_t{2} << 20 : 4096;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % unit, 0U);
    auto* data = static_cast<unsigned char*>(memory);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], 0) << i;
    std::memset(memory, 0xff, bytes);
    EXPECT_EQ(coll_mem_free(memory), COLL_SUCCESS) << coll_last_error();
  }
  EXPECT_EQ(coll_mem_free(nullptr), COLL_SUCCESS);
}

TEST(CApi, MemoryRefusesBadArgumentsWithAReason) {
  EXPECT_EQ(coll_mem_alloc(nullptr, 1), COLL_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_says("coll_mem_alloc") && last_error_says("memory is null"))
      << coll_last_error();

  void* untouched = &untouched;
  EXPECT_EQ(coll_mem_alloc(&untouched, SIZE_MAX), COLL_OUT_OF_RESOURCES);
  EXPECT_TRUE(last_error_says("18446744073709551615 bytes")) << coll_last_error();
  EXPECT_EQ(untouched, &untouched);

  int local = 0;
  EXPECT_EQ(coll_mem_free(&local), COLL_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_says("not from coll_mem_alloc")) << coll_last_error();
  void* memory = nullptr;
  ASSERT_EQ(coll_mem_alloc(&memory, 10'000), COLL_SUCCESS);
  EXPECT_EQ(coll_mem_free(static_cast<char*>(memory) + 4096), COLL_INVALID_ARGUMENT);
  EXPECT_EQ(coll_mem_free(memory), COLL_SUCCESS);
  EXPECT_EQ(coll_mem_free(memory), COLL_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_says("freed already")) << coll_last_error();
}

/// Pages that could be registered: a memfd that may be sealed, mapped as shared.
class Pages {
 public:
  static constexpr size_t kBytes = 4 * 4096;

  explicit Pages(unsigned flags = MFD_ALLOW_SEALING, int sharing = MAP_SHARED)
      : file_(memfd_create("coll-test", MFD_CLOEXEC | flags)) {
    EXPECT_EQ(ftruncate(file_, kBytes), 0);
    data = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, sharing, file_, 0));
    EXPECT_NE(data, MAP_FAILED);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    munmap(data, kBytes);
    close_file();
  }
  void close_file() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }
  char* data;

 private:
  int file_;
};

/// Refused with a text that has `what` is wrong and `what_to_do`.
void expect_refused(const void* address, size_t bytes, const char* what, const char* what_to_do) {
  ASSERT_EQ(coll_mem_register(address, bytes), COLL_INVALID_ARGUMENT) << what;
  for (const char* word : {"coll_mem_register", what, what_to_do})
    EXPECT_TRUE(last_error_says(word)) << word << " is not in: " << coll_last_error();
}

TEST(CApi, MemoryIsRegisteredAndGivenBackAsItWas) {
  Pages pages;
  ASSERT_EQ(coll_mem_register(pages.data, Pages::kBytes), COLL_SUCCESS) << coll_last_error();
  pages.close_file();
  std::memset(pages.data, 7, Pages::kBytes);
  EXPECT_EQ(coll_mem_deregister(pages.data), COLL_SUCCESS) << coll_last_error();
  EXPECT_EQ(pages.data[Pages::kBytes - 1], 7);
  EXPECT_EQ(coll_mem_deregister(nullptr), COLL_SUCCESS);
}

TEST(CApi, PrivateMemoryIsRegisteredForDevices) {
  const std::vector<char> heap(Pages::kBytes);
  ASSERT_EQ(coll_mem_register(heap.data(), heap.size()), COLL_SUCCESS) << coll_last_error();
  expect_refused(heap.data() + 1, 1, "registered already", "deregister");
  EXPECT_EQ(coll_mem_deregister(heap.data()), COLL_SUCCESS) << coll_last_error();
}

TEST(CApi, RegisteringRefusesWhatItCannotTakeWithAReason) {
  expect_refused(nullptr, 1, "address is null", "");
  const Pages pages;
  expect_refused(pages.data, 0, "bytes is 0", "register memory");
  Pages closed;
  closed.close_file();
  expect_refused(closed.data, Pages::kBytes, "no descriptor", "after it is registered");
  const Pages loose(0);
  expect_refused(loose.data, Pages::kBytes, "cannot be sealed", "MFD_ALLOW_SEALING");
  expect_refused(pages.data, Pages::kBytes + 4096, "only 16384 bytes", "by itself");
  void* given = nullptr;
  ASSERT_EQ(coll_mem_alloc(&given, 4096), COLL_SUCCESS) << coll_last_error();
  expect_refused(given, 4096, "from coll_mem_alloc", "in place already");
  EXPECT_EQ(coll_mem_free(given), COLL_SUCCESS);
  ASSERT_EQ(coll_mem_register(pages.data, 8192), COLL_SUCCESS) << coll_last_error();
  expect_refused(pages.data + 4096, 8192, "registered already", "deregister");
  EXPECT_EQ(coll_mem_deregister(pages.data), COLL_SUCCESS);
}

TEST(CApi, OnlyWhatIsRegisteredIsDeregistered) {
  const Pages pages;
  for (const char* wrong : {pages.data, pages.data + 1}) {
    EXPECT_EQ(coll_mem_deregister(wrong), COLL_INVALID_ARGUMENT);
    EXPECT_TRUE(last_error_says("coll_mem_deregister") && last_error_says("no registered memory"))
        << coll_last_error();
  }
  ASSERT_EQ(coll_mem_register(pages.data, Pages::kBytes), COLL_SUCCESS) << coll_last_error();
  EXPECT_EQ(coll_mem_deregister(pages.data + 1), COLL_INVALID_ARGUMENT);
  EXPECT_EQ(coll_mem_free(pages.data), COLL_INVALID_ARGUMENT);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = coll_mem_deregister(pages.data) == COLL_INVALID_ARGUMENT;
    const bool anew = coll_mem_register(pages.data, 4096) == COLL_SUCCESS;
    _exit(refused && anew && coll_mem_deregister(pages.data) == COLL_SUCCESS ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "a fork has registered nothing";
  EXPECT_EQ(coll_mem_deregister(pages.data), COLL_SUCCESS) << coll_last_error();
  EXPECT_EQ(coll_mem_deregister(pages.data), COLL_INVALID_ARGUMENT) << "a second time";
}

TEST(CppFace, ARegistrationEndsWithItsOwner) {
  const Pages pages;
  const auto is_registered = [&] {
    const coll_status_t again = coll_mem_register(pages.data, 1);
    if (again == COLL_SUCCESS) coll_mem_deregister(pages.data);
    return again != COLL_SUCCESS;
  };
  auto made = Registration::of(pages.data, Pages::kBytes);
  ASSERT_TRUE(made) << made.error().text;
  {
    const Registration moved = *std::move(made);
    EXPECT_TRUE(is_registered());
  }
  EXPECT_FALSE(is_registered());
  const Registration again = *Registration::of(pages.data, 1);
  const auto refused = Registration::of(pages.data, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, COLL_INVALID_ARGUMENT);
  EXPECT_NE(refused.error().text.find("registered already"), std::string::npos);
}

TEST(CppFace, MemoryHasOneOwner) {
  auto made = Memory::allocate(103);
  ASSERT_TRUE(made) << made.error().text;
  Memory first = std::move(*made);
  EXPECT_EQ(made->data(), nullptr);
  EXPECT_EQ(made->size(), 0U);
  EXPECT_TRUE(made->as<int>().empty());
  EXPECT_EQ(first.size(), 103U);
  const std::span<int> ints = first.as<int>();
  EXPECT_EQ(ints.size(), 25U);
  EXPECT_EQ(static_cast<void*>(ints.data()), first.data());
  void* const address = first.data();
  auto second = Memory::allocate(1);
  ASSERT_TRUE(second) << second.error().text;
  *second = std::move(first);
  EXPECT_EQ(second->data(), address);
  EXPECT_EQ(second->size(), 103U);
  { const Memory gone = *std::move(second); }
  EXPECT_EQ(coll_mem_free(address), COLL_INVALID_ARGUMENT) << "its owner has freed it";
}

TEST(CppFace, NoMemoryIsAnError) {
  const auto made = Memory::allocate(SIZE_MAX);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, COLL_OUT_OF_RESOURCES);
  EXPECT_NE(made.error().text.find("bytes"), std::string::npos) << made.error().text;
}

TEST(CppFace, MemoryOutlivesCommunicators) {
  auto memory = Memory::allocate(64);
  ASSERT_TRUE(memory) << memory.error().text;
  const std::span<float> values = memory->as<float>();
  values[15] = 5;
  for (int round = 0; round < 2; ++round) {
    coll_unique_id_t id;
    ASSERT_EQ(coll_get_unique_id(&id), COLL_SUCCESS) << coll_last_error();
    auto comm = Communicator::join(id, 1, 0);
    ASSERT_TRUE(comm) << comm.error().text;
    const auto done = comm->all_reduce<float>(values, COLL_SUM);
    EXPECT_TRUE(done) << done.error().text;
  }
  EXPECT_EQ(values[15], 5.0F);
}

}  // namespace
