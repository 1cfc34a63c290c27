// SPDX-License-Identifier: Apache-2.0
// Makes an end's ring and words, and opens those of the other end.
#include "transports/cuda_ipc/cuda_ipc_end.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"
#include "sys/cuda/device_copies.hpp"
#include "sys/fork_safe_mutex.hpp"
#include "sys/memory/peer_file.hpp"
#include "sys/proof.hpp"

namespace coll {
namespace {

constexpr std::size_t kWordsUnit = 4096;

using OpenRings = std::unique_ptr<CudaIpcEnd::StillOpen>;

ForkSafeMutex g_open_rings_mutex;  // guards what follows
// Stays for good.
OpenRings& g_open_rings = *new OpenRings;

/// The device with this identity, as this process counts; nothing: it does not see the device.
std::optional<int> find_device(const CudaDriver& driver, const CudaUuid& wanted) {
  int device = -1;
  for (int ordinal = 0; driver.device_get(&device, ordinal) == 0; ++ordinal) {
    CudaUuid uuid{};
    if (driver.device_uuid(&uuid, device) == 0 &&
        std::memcmp(uuid.bytes, wanted.bytes, sizeof uuid.bytes) == 0)
      return device;
  }
  return std::nullopt;
}

/// What a function of the driver's says of what it was called for.
Status said(const std::string& what, int error) {
  return error == 0 ? Status() : loaded_cuda_driver()->failed_to(what, error);
}

/// Can the one device reach the memory of the other?
Status check_reach(const CudaDriver& driver, int device, int peer) {
  if (device == peer) return {};
  int can = 0;
  const int error = driver.can_access_peer(&can, device, peer);
  if (error == 0 && can != 0) return {};
  const std::string what =
      "GPU " + std::to_string(device) + " cannot reach the memory of GPU " + std::to_string(peer);
  return error != 0 ? driver.failed_to(what, error) : failed(Code::unsupported, what);
}

}  // namespace

CudaIpcText CudaIpcText::of(const Status& status) {
  CudaIpcText made;
  if (status.ok()) return made;
  // A text of no letters would say that it works.
  const std::string& told = status.failure()->what;
  const std::string what = told.empty() ? "it failed" : told;
  std::memcpy(made.bytes, what.data(), std::min(what.size(), sizeof made.bytes - 1));
  return made;
}

std::string CudaIpcText::text() const {
  return {bytes, strnlen(bytes, sizeof bytes)};
}

Status CudaIpcEnd::make(CudaContext context, std::size_t slot_bytes, std::uint32_t credits) {
  context_ = context;
  place_when_open_ = std::make_unique<StillOpen>();
  credits_ = credits;
  ring_bytes_ =
      kernel_parts(0, slot_bytes, credits).receiving + kernel_memory::receiver_bytes(credits);
  COLL_ASSIGN(ring_, CudaPiece::allocate(context, ring_bytes_));
  COLL_TRY(clear_kernel_parts(slot_bytes));
  const std::size_t bytes = round_up(row(2, credits), kWordsUnit);
  COLL_ASSIGN(descriptor_, MemorySegment::create("coll-words", bytes));
  COLL_ASSIGN(file_, MemorySegment::map(descriptor_, bytes));
  COLL_ASSIGN(pinned_, CudaPiece::pin(context, file_.data(), bytes));
  COLL_ASSIGN(const std::string key, random_bytes(sizeof key_));
  std::memcpy(key_, key.data(), sizeof key_);
  std::memcpy(file_.data(), key_, sizeof key_);
  words(kMaySend).set_all();
  return {};
}

void CudaIpcEnd::drop_closed_offers() {
  const std::lock_guard lock(g_open_rings_mutex);
  for (StillOpen* one = g_open_rings.get(); one != nullptr; one = one->next.get())
    if (!is_open(one->file)) one->offered.clear();
}

CudaIpcEnd::~CudaIpcEnd() {
  OpenRings closed;  // freed behind the lock: that may wait
  const std::lock_guard lock(g_open_rings_mutex);
  for (OpenRings* at = &g_open_rings; *at != nullptr;) {
    StillOpen& one = **at;
    if (is_open(one.file)) {
      at = &one.next;
      continue;
    }
    OpenRings behind = std::move(one.next);
    one.next = std::move(closed);
    closed = std::exchange(*at, std::move(behind));
  }
  if (place_when_open_ == nullptr || file_.data() == nullptr || !is_open(file_)) return;
  StillOpen& own = *place_when_open_;
  std::swap(own.ring, ring_);
  std::swap(own.file, file_);
  std::swap(own.pinned, pinned_);
  std::swap(own.offered, offered_);
  own.next = std::exchange(g_open_rings, std::move(place_when_open_));
}

void CudaIpcEnd::set_open(const MemorySegment& file, bool open) {
  auto* const word = reinterpret_cast<std::uint32_t*>(file.data() + sizeof key_);
  std::atomic_ref(*word).store(open ? 1 : 0, std::memory_order_release);
}

bool CudaIpcEnd::is_open(const MemorySegment& file) {
  auto* const word = reinterpret_cast<std::uint32_t*>(file.data() + sizeof key_);
  return std::atomic_ref(*word).load(std::memory_order_acquire) != 0;
}

CudaIpcReach::~CudaIpcReach() {
  if (opened_ring_.address() == 0) return;
  opened_ring_ = {};
  borrowed_.clear();
  CudaIpcEnd::set_open(file_, false);
}

CudaIpcEnd::KernelParts CudaIpcEnd::kernel_parts(CudaAddress ring, std::size_t slot_bytes,
                                                 std::uint32_t credits) {
  const CudaAddress sending = ring + round_up(credits * slot_bytes, kernel_memory::kAlignment);
  return {sending, sending + kernel_memory::sender_bytes()};
}

Status CudaIpcEnd::clear_kernel_parts(std::size_t slot_bytes) {
  const BesideCaptures beside(*loaded_cuda_driver());
  const KernelParts parts = kernel_parts(ring(), slot_bytes, credits_);
  const std::vector<std::byte> zeros(ring() + ring_bytes_ - parts.sending);
  DeviceCopies copies;  // which wait for no stream of the program's
  copies.add(reinterpret_cast<void*>(parts.sending), zeros.data(), zeros.size());
  return copies.finish();
}

Status CudaIpcEnd::describe(CudaIpcHello& hello) const {
  COLL_ASSIGN(const ExportedMemory exported, export_memory(context_, ring()));
  struct stat file {};
  if (::fstat(descriptor_.get(), &file) != 0) return system_failure("fstat of words", errno);
  hello.ring = exported.allocation;
  hello.ring_offset = exported.offset;
  hello.words = {.segment = 0, .descriptor = descriptor_.get(), .inode = file.st_ino, .offset = 0};
  std::memcpy(hello.words_key, key_, sizeof key_);
  return {};
}

void CudaIpcEnd::will_offer(CudaIpcHello& hello) {
  offered_ = RegisteredDeviceMemory::of_device(static_cast<int>(hello.ordinal));
  hello.offers = static_cast<std::uint32_t>(offered_.size());
}

CudaIpcOffer CudaIpcEnd::offer(std::size_t index) const {
  if (index >= offered_.size()) return {};
  const RegisteredDeviceMemory& one = *offered_[index];
  return {one.exported.allocation, one.exported.offset, one.bytes};
}

void CudaIpcEnd::note_found(std::size_t index, CudaAddress there) {
  if (index >= offered_.size()) return;
  const RegisteredDeviceMemory& one = *offered_[index];
  const std::uint64_t further = there - one.begin;
  if (there != 0 && further % 2 == 0) reaches_[one.entry] = further + 1;
}

void CudaIpcEnd::note_same_process(bool shares) {
  reaches_.fill(1);
  reaches_[0] = shares ? 1 : 0;
}

Status CudaIpcEnd::tell_kernels(std::size_t slot_bytes) const {
  static_assert(KernelRing::kReaches == RegisteredDeviceMemory::kMost + 1);
  if (std::ranges::count(reaches_, 0U) == KernelRing::kReaches) return {};  // as it is already
  const BesideCaptures beside(*loaded_cuda_driver());
  const CudaAddress to =
      kernel_parts(ring(), slot_bytes, credits_).sending + kernel_memory::kReachesAt;
  DeviceCopies copies;  // which wait for no stream of the program's
  copies.add(reinterpret_cast<void*>(to), reaches_.data(), sizeof reaches_);
  return copies.finish();
}

Status CudaIpcReach::introduce(CudaContext context, CudaIpcHello& hello) {
  const CudaDriver& driver = *loaded_cuda_driver();
  const CurrentContext current(driver, context);
  int device = -1;
  COLL_TRY(said("the context of a GPU", current.error()));
  COLL_TRY(said("the GPU of a context", driver.context_device(&device)));
  COLL_TRY(said("the identity of a GPU", driver.device_uuid(&hello.device, device)));
  hello.ordinal = static_cast<std::uint32_t>(device);
  hello.context = reinterpret_cast<std::uintptr_t>(context);
  return {};
}

bool is_same(const MemoryProof& one, const MemoryProof& other) {
  // Numbers of processes alone are not enough: there are namespaces of them.
  return one.pid == other.pid && one.number[0] == other.number[0] &&
         one.number[1] == other.number[1] && (one.number[0] | one.number[1]) != 0;
}

Status CudaIpcReach::may_open(const CudaIpcHello& own, const CudaIpcHello& peer) {
  if (peer.version != CudaIpcHello::kVersion || peer.credits != own.credits)
    return failed(Code::mismatch, "the ends have other versions or numbers of slots");
  const CudaDriver& driver = *loaded_cuda_driver();
  if (!is_same(own.process, peer.process)) {
    // Memory of a device that this process does not see can be opened all the same.
    const std::optional<int> device = find_device(driver, peer.device);
    return device ? check_reach(driver, static_cast<int>(own.ordinal), *device) : Status();
  }
  if (own.ordinal == peer.ordinal && own.context != peer.context)
    return failed(Code::unsupported, "the ends have two contexts of one GPU in one process");
  return check_reach(driver, static_cast<int>(own.ordinal), static_cast<int>(peer.ordinal));
}

Status CudaIpcReach::open(CudaContext context, const CudaIpcHello& own, const CudaIpcHello& peer) {
  COLL_TRY(may_open(own, peer));
  return is_same(own.process, peer.process) ? share(context, own, peer) : map(context, peer);
}

/// In one process the other end's addresses hold here too.
Status CudaIpcReach::share(CudaContext context, const CudaIpcHello& own, const CudaIpcHello& peer) {
  constexpr int kAlreadyEnabled = 704;  // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
  same_process_ = std::static_pointer_cast<CudaIpcEnd>(OfferedObject::find(peer.offered));
  if (same_process_ == nullptr) return failed(Code::peer_lost, "the other end has gone");
  if (own.ordinal != peer.ordinal) {
    const CudaDriver& driver = *loaded_cuda_driver();
    const CurrentContext current(driver, context);
    const BesideCaptures beside(driver);
    int error = current.error();
    if (error == 0) error = driver.enable_peer(reinterpret_cast<CudaContext>(peer.context), 0);
    if (error != kAlreadyEnabled) COLL_TRY(said("access to the other GPU's memory", error));
  }
  ring = same_process_->ring();
  COLL_ASSIGN(words, device_address(context, same_process_->words_place()));
  return {};
}

CudaAddress CudaIpcReach::open_offer(CudaContext context, const CudaIpcOffer& offer) {
  if (offer.bytes == 0) return 0;
  Result<CudaPiece> opened = CudaPiece::open(context, offer.exported);
  if (!opened.ok()) return 0;
  borrowed_.push_back(*std::move(opened));
  return borrowed_.back().address() + offer.offset;
}

/// Of another process this one has mappings of its own.
Status CudaIpcReach::map(CudaContext context, const CudaIpcHello& peer) {
  const std::size_t bytes = round_up(CudaIpcEnd::row(2, peer.credits), kWordsUnit);
  COLL_ASSIGN(const Fd file, open_peer_file(peer.process.pid, peer.words, PeerFileUse::write));
  COLL_ASSIGN(file_, MemorySegment::map(file, bytes));
  // Anybody's file may have that number; only the other end's has the key.
  if (std::memcmp(file_.data(), peer.words_key, sizeof peer.words_key) != 0)
    return failed(Code::unreachable, "the other process cannot be found on this host");
  COLL_ASSIGN(pinned_, CudaPiece::pin(context, file_.data(), bytes));
  CudaIpcEnd::set_open(file_, true);
  Result<CudaPiece> opened = CudaPiece::open(context, peer.ring);
  if (!opened.ok()) {
    CudaIpcEnd::set_open(file_, false);
    return opened.status();
  }
  opened_ring_ = *std::move(opened);
  ring = opened_ring_.address() + peer.ring_offset;
  words = pinned_.address();
  return {};
}

}  // namespace coll
