// SPDX-License-Identifier: Apache-2.0
// What the two ends of a connection between devices give each other.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sys/cuda/device_memory.hpp"
#include "sys/cuda/registered_device_memory.hpp"
#include "sys/fd.hpp"
#include "sys/memory/memory_segment.hpp"
#include "sys/memory/peer_memory.hpp"
#include "sys/memory/shared_segments.hpp"
#include "sys/offered_objects.hpp"
#include "transports/device_words.hpp"
#include "transports/kernel_memory.hpp"

namespace coll {

/// How an end says why it does not work; "": it does.
struct CudaIpcText {
  char bytes[120] = {};

  static CudaIpcText of(const Status& status);
  [[nodiscard]] std::string text() const;
};

/// Are these proofs of one process?
bool is_same(const MemoryProof& one, const MemoryProof& other);

/// What an end tells the other: first who it is, and then where its memory is, too. All of one
/// host, so in its order of bytes.
struct CudaIpcHello {
  static constexpr std::uint64_t kVersion = 4;

  std::uint64_t version = kVersion;
  MemoryProof process;
  CudaUuid device{};
  std::uint32_t ordinal = 0;  ///< the device, as that process counts
  std::uint32_t offers = 0;   ///< it will make so many CudaIpcOffers
  std::uint32_t credits = 0;
  std::uint64_t context = 0;  ///< for an end in the same process
  std::uint64_t offered = 0;  ///< for an end in the same process: its CudaIpcEnd
  CudaIpcHandle ring{};       ///< for other processes
  std::uint64_t ring_offset = 0;
  SharedPlace words;
  std::uint64_t words_key[2] = {0, 0};  ///< what the file with the words begins with
  CudaIpcText failure;
};

/// Registered memory that an end's device may lend to the other end's.
struct CudaIpcOffer {
  CudaIpcHandle exported{};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  ///< 0: there is none
};

/// An end's own part: the ring that its device receives in, and behind it what kernels need
/// (kernel_memory.hpp), in that device's memory; and the words that its streams wait for, in memory
/// of the host. In its own process the other end shares both,
/// so they live as long as one of the ends. Another process has mappings of its own.
class CudaIpcEnd {
 public:
  CudaIpcEnd() = default;
  CudaIpcEnd(const CudaIpcEnd&) = delete;
  CudaIpcEnd& operator=(const CudaIpcEnd&) = delete;
  /// To free memory that another process has open is undefined (CUDA's manual, cuIpcGetMemHandle).
  /// So the ring then stays, until an end is destroyed after the process has closed it. A process
  /// that dies does not say so: then the ring stays for good.
  ~CudaIpcEnd();

  /// Takes the memory, once. If that fails, keep this one until nothing waits for the device any
  /// more: to free its memory may wait for streams.
  Status make(CudaContext context, std::size_t slot_bytes, std::uint32_t credits);

  /// The file of words: a key, by which the other end knows it, whether that has the ring open,
  /// then two rows of words.
  static constexpr std::size_t kKeyBytes = 64;
  static void set_open(const MemorySegment& file, bool open);
  static bool is_open(const MemorySegment& file);
  /// What was an end's, and the other process has still open.
  struct StillOpen {
    CudaPiece ring;
    MemorySegment file;
    CudaPiece pinned;  ///< unpinned first
    std::vector<RegisteredDeviceMemory::Kept> offered;
    std::unique_ptr<StillOpen> next;
  };
  /// Keeps no longer what was offered to processes that have closed it since. Frees nothing.
  static void drop_closed_offers();
  static std::size_t row(int index, std::uint32_t credits) {
    return kKeyBytes + static_cast<std::size_t>(index) * DeviceWords::bytes(credits);
  }
  static constexpr int kMaySend = 0, kMayReceive = 1;  ///< the rows

  [[nodiscard]] DeviceWords words(int index) const {
    return {file_.data() + row(index, credits_), credits_};
  }
  [[nodiscard]] CudaAddress ring() const { return ring_.address(); }
  /// What kernels need for sending and for receiving, of an end whose ring begins there.
  struct KernelParts {
    CudaAddress sending, receiving;
  };
  static KernelParts kernel_parts(CudaAddress ring, std::size_t slot_bytes, std::uint32_t credits);
  [[nodiscard]] CudaAddress words_address() const { return pinned_.address(); }
  [[nodiscard]] const std::byte* words_place() const { return file_.data(); }
  [[nodiscard]] std::size_t ring_bytes() const { return ring_bytes_; }
  [[nodiscard]] std::size_t words_bytes() const { return file_.size(); }

  /// Says in `hello` where all of it is, too.
  Status describe(CudaIpcHello& hello) const;
  /// And that what is registered of its device will be offered to another process.
  void will_offer(CudaIpcHello& hello);
  /// What is to be offered, one by one; `index` may be too large.
  [[nodiscard]] CudaIpcOffer offer(std::size_t index) const;
  /// The ends do not reach each other.
  void drop_offers() { offered_.clear(); }
  /// The other end finds there what was offered; 0: it does not.
  void note_found(std::size_t index, CudaAddress there);
  /// Of one process: the other end's device reaches what is registered here as this one does, and
  /// all else if it `shares` the context.
  void note_same_process(bool shares);
  /// Lets kernels know what they may lend (KernelRing::reaches).
  Status tell_kernels(std::size_t slot_bytes) const;
  /// The other end has opened the file with the words, or never will.
  void close_file() { descriptor_.reset(); }

 private:
  Status clear_kernel_parts(std::size_t slot_bytes);

  std::uint32_t credits_ = 0;
  std::vector<RegisteredDeviceMemory::Kept> offered_;
  std::array<std::uint64_t, KernelRing::kReaches> reaches_{};
  std::uint64_t key_[2] = {0, 0};
  std::size_t ring_bytes_ = 0;
  Fd descriptor_;
  CudaContext context_ = nullptr;
  CudaPiece ring_;
  MemorySegment file_;
  CudaPiece pinned_;                            ///< `file_`, which is unpinned first
  std::unique_ptr<StillOpen> place_when_open_;  ///< made beforehand: a destructor cannot fail
};

/// The other end's part, as the device of this end reaches it.
class CudaIpcReach {
 public:
  CudaIpcReach() = default;
  CudaIpcReach(CudaIpcReach&&) noexcept = default;
  CudaIpcReach& operator=(CudaIpcReach&& other) noexcept {
    std::swap(ring, other.ring);
    std::swap(words, other.words);
    std::swap(same_process_, other.same_process_);
    std::swap(file_, other.file_);
    std::swap(pinned_, other.pinned_);
    std::swap(opened_ring_, other.opened_ring_);
    std::swap(borrowed_, other.borrowed_);
    return *this;
  }
  ~CudaIpcReach();

  /// Says in `hello` which device an end of this context is on.
  static Status introduce(CudaContext context, CudaIpcHello& hello);
  /// By what the ends say of themselves: fails where they are known not to reach each other.
  static Status may_open(const CudaIpcHello& own, const CudaIpcHello& peer);
  /// Once. Fails where the device cannot reach it; then keep this one as CudaIpcEnd says.
  Status open(CudaContext context, const CudaIpcHello& own, const CudaIpcHello& peer);

  /// Opens what the other end offers; 0: it cannot be opened, and is not lent.
  CudaAddress open_offer(CudaContext context, const CudaIpcOffer& offer);

  CudaAddress ring = 0;
  CudaAddress words = 0;  ///< where the file of words begins

 private:
  Status share(CudaContext context, const CudaIpcHello& own, const CudaIpcHello& peer);
  Status map(CudaContext context, const CudaIpcHello& peer);

  std::shared_ptr<CudaIpcEnd> same_process_;
  CudaPiece opened_ring_;
  std::vector<CudaPiece> borrowed_;
  MemorySegment file_;
  CudaPiece pinned_;
};

}  // namespace coll
