// SPDX-License-Identifier: Apache-2.0
// Memory that devices reach: what captures permit, who frees it, and words.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <set>

#include "emulation/cuda/cuda_on_test.hpp"
#include "sys/cuda/device_memory.hpp"
#include "sys/cuda/pinned_words.hpp"
#include "sys/cuda/primary_context.hpp"

namespace coll {
namespace {

using emulation_test::cuda;
using emulation_test::name_of;
using emulation_test::OnDevice;
using emulation_test::TestStream;
using namespace emucuda;  // the driver's names

CudaContext context_of_test() {
  return PrimaryContext::retain(*loaded_cuda_driver(), 0)->context;
}

bool is_known(CudaAddress address) {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  return cuda().cuMemGetAddressRange_v2(&base, &bytes, address) == CUDA_SUCCESS;
}

/// While this thread captures a stream, and the capture is none the worse for it.
TEST(CudaMemory, CapturesForbidNeitherToMakeNorToFreeIt) {
  const OnDevice device;
  CudaContext context = context_of_test();
  const std::unique_ptr<void, void (*)(void*)> page(std::aligned_alloc(4096, 4096), std::free);
  const auto make = [&](int kind) {
    const auto* const driver = loaded_cuda_driver();
    if (kind == 0) return CudaPiece::allocate(context, 100).status();
    if (kind == 1)
      return CudaPiece::pin(context, static_cast<std::byte*>(page.get()), 4096).status();
    return PinnedBlock::allocate(*driver, context, 100).status();
  };
  for (const int kind : {0, 1, 2}) {
    const TestStream stream;
    EXPECT_CUDA_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const Status made = make(kind);
    EXPECT_TRUE(made.ok()) << kind << ": " << made.text();
    CUdeviceptr refused = 0;
    CUgraph graph = nullptr;
    EXPECT_CUDA_OK(cuStreamEndCapture(stream, &graph));
    EXPECT_CUDA_OK(cuGraphDestroy(graph));
    // The captures that come then forbid as before.
    EXPECT_CUDA_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&refused, 100));
    EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
  }
}

TEST(CudaMemory, ItsOwnerFreesItOrAbandonsIt) {
  const OnDevice device;
  CudaContext context = context_of_test();
  for (const bool abandons : {false, true}) {
    CudaAddress device_memory = 0, pinned = 0;
    {
      auto piece = CudaPiece::allocate(context, 100);
      auto block = PinnedBlock::allocate(*loaded_cuda_driver(), context, 100);
      ASSERT_TRUE(piece.ok() && block.ok());
      device_memory = piece->address();
      pinned = block->address();
      CudaPiece moved = std::move(*piece);
      PinnedBlock moved_block = std::move(*block);
      EXPECT_TRUE(is_known(device_memory) && is_known(pinned));
      if (abandons) {
        moved.abandon();
        moved_block.abandon();
      }
    }
    EXPECT_EQ(is_known(device_memory), abandons);
    EXPECT_EQ(is_known(pinned), abandons);
    if (!abandons) continue;
    EXPECT_CUDA_OK(cuMemFree_v2(device_memory));
    EXPECT_CUDA_OK(cuMemFreeHost(reinterpret_cast<void*>(pinned)));
  }
}

TEST(CudaMemory, WhereThereIsNoneResourcesAreShort) {
  const OnDevice device;
  const auto none = CudaPiece::allocate(context_of_test(), std::size_t{1} << 50);
  EXPECT_EQ(none.status().code(), Code::out_of_resources) << none.status().text();
  const auto no_device = PrimaryContext::retain(*loaded_cuda_driver(), 1000);
  EXPECT_EQ(no_device.status().code(), Code::system);
  EXPECT_NE(no_device.status().text().find("CUDA device 1000: CUDA_ERROR_INVALID_DEVICE"),
            std::string::npos)
      << no_device.status().text();
}

/// More than one block of words: each is a word of its own, at the same place for both sides.
TEST(PinnedWords, AreWrittenByBothSides) {
  const OnDevice device;
  const TestStream stream;
  PinnedWords words(*loaded_cuda_driver(), context_of_test());
  std::set<std::uintptr_t> lines;
  std::vector<PinnedWord> all;
  for (int i = 0; i < 100; ++i) {
    const auto word = words.next();
    ASSERT_TRUE(word.ok()) << word.status().text();
    EXPECT_FALSE(word->is_set());
    EXPECT_TRUE(lines.insert(reinterpret_cast<std::uintptr_t>(word->here) / 64).second) << i;
    word->set(1);
    all.push_back(*word);
  }
  for (const PinnedWord& word : all) {
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(stream, word.there, 1, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, word.there, 0, 0));
  }
  stream.synchronize();
  for (const PinnedWord& word : all) EXPECT_FALSE(word.is_set());
}

TEST(PinnedWords, AreThereAfterTheyWereAbandoned) {
  const OnDevice device;
  for (const bool abandons : {false, true}) {
    std::optional<PinnedWords> words(std::in_place, *loaded_cuda_driver(), context_of_test());
    const auto word = words->next();
    ASSERT_TRUE(word.ok());
    if (abandons) words->abandon();
    words.reset();
    EXPECT_EQ(is_known(word->there), abandons);
  }
}

}  // namespace
}  // namespace coll
