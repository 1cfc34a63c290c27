// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: memory that ranks read in place, as users ask for it.
#include <gtest/gtest.h>

#include <collectives/collectives.hpp>
#include <cstdint>
#include <cstring>
#include <utility>

namespace {

using collectives::Communicator;
using collectives::Memory;

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
