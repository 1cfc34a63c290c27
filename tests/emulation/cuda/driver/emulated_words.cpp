// SPDX-License-Identifier: Apache-2.0
// Stream memory operations: streams that wait for words of memory and write them.
#include <type_traits>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"
#include "emulation/cuda/driver/emulated_context.hpp"
#include "emulation/cuda/driver/emulated_nap.hpp"
#include "emulation/cuda/driver/memory/emulated_memory.hpp"

namespace emucuda {
namespace {

template <class Word>
bool satisfies(Word now, Word value, unsigned flags) {
  switch (flags) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return static_cast<Word>(~(now | value)) != 0;
    default:  // greater or equal, where numbers wrap around
      return static_cast<std::make_signed_t<Word>>(static_cast<Word>(now - value)) >= 0;
  }
}

template <class Word>
class WaitForWord final : public Operation {
 public:
  WaitForWord(Word* word, Word value, unsigned flags) : word_(word), value_(value), flags_(flags) {}
  void run(Stream& stream) override {
    constexpr long kNapLimit = 1'000'000;  // ns: copies and kernels that write a word wake nobody
    stream.doing(sizeof(Word) == 4 ? Doing::wait_word_32 : Doing::wait_word_64, word_, value_,
                 flags_);
    // Of values that are not enough nothing may be learnt, so only the last look acquires.
    const auto enough = [this](std::uint64_t now) {
      return satisfies(static_cast<Word>(now), value_, flags_) &&
             satisfies(std::atomic_ref(*word_).load(std::memory_order_acquire), value_, flags_);
    };
    await(
        word_, kNapLimit,
        [this] { return std::atomic_ref(*word_).load(std::memory_order_relaxed); }, enough);
  }

 private:
  Word* const word_;
  const Word value_;
  const unsigned flags_;
};

template <class Word>
class WriteWord final : public Operation {
 public:
  WriteWord(Word* word, Word value, unsigned flags)
      : word_(word),
        value_(value),
        barrier_((flags & CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) == 0) {}
  void run(Stream& stream) override {
    stream.doing(Doing::write, word_, value_);
    // Both orders stand here as constants: the thread sanitizer takes any other for the strongest.
    if (barrier_) {
      std::atomic_ref(*word_).store(value_, std::memory_order_release);
    } else {
      std::atomic_ref(*word_).store(value_, std::memory_order_relaxed);
    }
    wake(word_);
  }

 private:
  Word* const word_;
  const Word value_;
  const bool barrier_;
};

/// A word that a stream of the device can reach.
template <class Word>
bool is_word(CUdeviceptr address, const Stream& stream) {
  return address % sizeof(Word) == 0 && device_reaches(stream.context, address, sizeof(Word));
}

template <class Word>
CUresult wait(Stream* stream, CUdeviceptr address, Word value, unsigned flags) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (flags > CU_STREAM_WAIT_VALUE_NOR || !is_word<Word>(address, *stream))
    return CUDA_ERROR_INVALID_VALUE;
  return stream->accept(
      std::make_unique<WaitForWord<Word>>(reinterpret_cast<Word*>(address), value, flags));
}

template <class Word>
CUresult write(Stream* stream, CUdeviceptr address, Word value, unsigned flags) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER || !is_word<Word>(address, *stream)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return stream->accept(
      std::make_unique<WriteWord<Word>>(reinterpret_cast<Word*>(address), value, flags));
}

CUresult submit(Stream* stream, const CUstreamBatchMemOpParams& one) {
  switch (one.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return wait(stream, one.address, static_cast<std::uint32_t>(one.value), one.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return wait(stream, one.address, one.value, one.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return write(stream, one.address, static_cast<std::uint32_t>(one.value), one.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return write(stream, one.address, one.value, one.flags);
    case CU_STREAM_MEM_OP_BARRIER:
      return CUDA_SUCCESS;  // every write here is one unless it says otherwise
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

extern "C" {

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, std::uint32_t value,
                                unsigned flags) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  return wait(stream_of(stream), address, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                unsigned flags) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  return wait(stream_of(stream), address, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, std::uint32_t value,
                                 unsigned flags) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  return write(stream_of(stream), address, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                 unsigned flags) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  return write(stream_of(stream), address, value, flags);
}

/// What stands before an operation that is refused has been submitted.
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count,
                               CUstreamBatchMemOpParams* operations, unsigned flags) {
  constexpr unsigned kMost = 256;  // CUDA's documentation
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (operations == nullptr || count == 0 || count > kMost || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (const CUresult refused = submit(stream_of(stream), operations[i])) return refused;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace emucuda
