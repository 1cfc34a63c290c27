// SPDX-License-Identifier: Apache-2.0
// Ports of devices whose two ends are in one process: slots in memory of the device, words in
// pinned memory of the host.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "emulation/cuda/cuda_on_test.hpp"
#include "transports/device_port.hpp"
#include "transports/kernel_memory.hpp"

namespace coll::testing {

using namespace emulation_test;
using coll::name_of;
using emulation_test::name_of;

/// One direction of a connection.
class LoopRing {
 public:
  /// `lends`: the sender may lend all memory.
  LoopRing(std::size_t slot_bytes, std::uint32_t credits, bool lends)
      : slot_bytes_(slot_bytes), credits_(credits) {
    EXPECT_CUDA_OK(cuMemAlloc_v2(&slots_, slot_bytes * credits));
    void* words = nullptr;
    EXPECT_CUDA_OK(cuMemHostAlloc(&words, 2 * kStride * credits, 0));
    words_ = static_cast<std::byte*>(words);
    std::memset(words_, 0, 2 * kStride * credits);
    for (std::uint32_t slot = 0; slot < credits; ++slot) word(slot, true) = 1;
    EXPECT_CUDA_OK(cuMemHostGetDevicePointer_v2(&there_, words, 0));
    std::vector<std::byte> first(kernel_memory::sender_bytes() +
                                 kernel_memory::receiver_bytes(credits));
    for (std::uint32_t i = 0; lends && i < KernelRing::kReaches; ++i)
      first[kernel_memory::kReachesAt + i * sizeof(std::uint64_t)] = std::byte{1};
    EXPECT_CUDA_OK(cuMemAlloc_v2(&kernels_, first.size()));
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(kernels_, first.data(), first.size()));
  }
  LoopRing(const LoopRing&) = delete;
  LoopRing& operator=(const LoopRing&) = delete;
  ~LoopRing() {
    EXPECT_CUDA_OK(cuMemFree_v2(slots_));
    EXPECT_CUDA_OK(cuMemFreeHost(words_));
    EXPECT_CUDA_OK(cuMemFree_v2(kernels_));
  }
  [[nodiscard]] DeviceRing end(bool sender) const {
    DeviceRing ring;
    ring.slots = slots_;
    ring.stride = slot_bytes_;
    ring.credits = credits_;
    ring.awaited = there_ + row(sender);
    ring.signalled = there_ + row(!sender);
    ring.awaited_stride = ring.signalled_stride = kStride;
    ring.kernels = kernel_memory::ring_of(sender, kernels_,
                                          kernels_ + kernel_memory::sender_bytes(), credits_);
    return ring;
  }
  /// What that end awaits.
  [[nodiscard]] DeviceWords words(bool sender) const { return {words_ + row(sender), credits_}; }
  /// Of all words that an end waits for.
  void release(bool sender) {
    for (std::uint32_t slot = 0; slot < credits_; ++slot)
      std::atomic_ref(word(slot, sender)).store(1, std::memory_order_release);
  }
  /// The sender gets no slot, until it does.
  void block(bool blocked) {
    for (std::uint32_t slot = 0; slot < credits_; ++slot)
      std::atomic_ref(word(slot, true)).store(blocked ? 0 : 1, std::memory_order_release);
  }
  /// What the sender has signalled for a slot.
  [[nodiscard]] std::uint32_t sent(std::uint32_t slot) {
    return std::atomic_ref(word(slot, false)).load(std::memory_order_acquire);
  }
  [[nodiscard]] CUdeviceptr slots() const { return slots_; }
  /// The word `ready` of slot 0 and share 0.
  [[nodiscard]] CUdeviceptr ready() const { return kernels_ + kernel_memory::sender_bytes(); }
  /// All slots are free, and nothing is under way.
  [[nodiscard]] bool rests() {
    for (std::uint32_t slot = 0; slot < credits_; ++slot) {
      if (std::atomic_ref(word(slot, true)).load() != 1) return false;
      if (std::atomic_ref(word(slot, false)).load() != 0) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kStride = DeviceWords::kStride;
  /// The words that the sender awaits, then those that the receiver does.
  [[nodiscard]] std::size_t row(bool sender) const {
    return sender ? 0 : DeviceWords::bytes(credits_);
  }
  std::uint32_t& word(std::uint32_t slot, bool sender) {
    return *reinterpret_cast<std::uint32_t*>(words_ + row(sender) + slot * kStride);
  }
  std::size_t slot_bytes_;
  std::uint32_t credits_;
  CUdeviceptr slots_ = 0, there_ = 0, kernels_ = 0;
  std::byte* words_ = nullptr;
};

/// A message as an end announced it.
using Announced = std::tuple<std::uint32_t, std::size_t, std::uint64_t>;

class LoopPort final : public DevicePort {
 public:
  LoopPort(std::shared_ptr<LoopRing> sends, std::shared_ptr<LoopRing> receives)
      : sends_(std::move(sends)), receives_(std::move(receives)) {
    set_rings(sends_->end(true), sends_->words(true), receives_->end(false),
              receives_->words(false));
  }
  void will_send(std::uint32_t slot, std::size_t bytes, std::uint64_t digest) override {
    sent.emplace_back(slot, bytes, digest);
    ++messages;
  }
  void will_receive(std::uint32_t slot, std::size_t bytes, std::uint64_t digest) override {
    received.emplace_back(slot, bytes, digest);
    ++messages;
  }
  bool progress() override {
    ++looks;
    return false;
  }
  [[nodiscard]] Mark announced() const override { return messages; }
  [[nodiscard]] bool settled(Mark mark, Directions of) const override {
    return (of == Directions::receiving || mark <= settled_up_to) &&
           (of == Directions::sending || mark <= received_up_to);
  }
  void release_all() override {
    if (!releases) return;
    sends_->release(true);
    receives_->release(false);
  }

  void keep_for_device() override { kept = true; }
  void serve_no_kernels() {
    DeviceRing sending = this->sending(), receiving = this->receiving();
    sending.kernels = receiving.kernels = {};
    set_rings(sending, may_send(), receiving, may_receive());
  }

  std::vector<Announced> sent, received;
  bool kept = false;
  Mark messages = 0;
  Mark settled_up_to = ~Mark{0};   ///< of what is sent
  Mark received_up_to = ~Mark{0};  ///< the same of what is received
  bool releases = true;            ///< else whoever waits for its words is stuck
  std::uint64_t looks = 0;

 private:
  std::shared_ptr<LoopRing> sends_, receives_;
};

/// Has a port and nothing else: whatever else is asked of it is a failure.
class LoopConnection final : public Connection {
 public:
  LoopConnection(Rank peer, std::size_t slot_bytes, std::unique_ptr<LoopPort> port)
      : Connection(peer, slot_bytes), port_(std::move(port)) {}
  std::byte* acquire(std::size_t) override { return refuse(nullptr); }
  void commit(std::size_t, std::uint64_t) override { refuse(0); }
  bool send(const std::byte*, std::size_t, std::uint64_t) override { return refuse(false); }
  [[nodiscard]] Mark mark() const override { return refuse(Mark{0}); }
  bool flushed(Mark) override { return refuse(false); }
  const std::byte* peek(std::size_t, std::uint64_t) override { return refuse(nullptr); }
  void release() override { refuse(0); }
  bool receive(std::byte*, std::size_t, std::uint64_t) override { return refuse(false); }
  DevicePort* device_port() override { return port_.get(); }
  [[nodiscard]] bool ready() const override { return true; }
  [[nodiscard]] LoopPort* port() const { return port_.get(); }

 private:
  template <class T>
  static T refuse(T value) {
    ADD_FAILURE() << "a call of a device used the connection otherwise";
    return value;
  }
  std::unique_ptr<LoopPort> port_;
};

/// Both ends of all connections that are asked for.
class LoopNetwork {
 public:
  LoopNetwork(std::size_t slot_bytes, std::uint32_t credits, bool lends = false)
      : slot_bytes_((slot_bytes + 63) / 64 * 64), credits_(credits), lends_(lends) {}
  LoopConnection& end(Rank rank, Rank peer, std::uint32_t lane) {
    auto& place = ends_[{rank, peer, lane}];
    if (!place) {
      auto port = std::make_unique<LoopPort>(ring(rank, peer, lane), ring(peer, rank, lane));
      place = std::make_unique<LoopConnection>(peer, slot_bytes_, std::move(port));
    }
    return *place;
  }
  /// Nothing is under way on it.
  void block(Rank from, Rank to, std::uint32_t lane, bool blocked) {
    ring(from, to, lane)->block(blocked);
  }
  /// What a rank has signalled another one for a slot.
  std::uint32_t sent(Rank from, Rank to, std::uint32_t lane, std::uint32_t slot) {
    return ring(from, to, lane)->sent(slot);
  }
  CUdeviceptr slots(Rank from, Rank to) { return ring(from, to, 0)->slots(); }
  CUdeviceptr ready(Rank from, Rank to) { return ring(from, to, 0)->ready(); }
  /// Both ends of each connection were told of the same messages, and none is under way.
  void expect_at_rest() {
    for (auto& [key, ring] : rings_) {
      const auto [from, to, lane] = key;
      EXPECT_TRUE(ring->rests()) << from << " to " << to << ", lane " << lane;
      EXPECT_EQ(end(from, to, lane).port()->sent, end(to, from, lane).port()->received)
          << from << " to " << to << ", lane " << lane;
    }
  }
  /// Of one call since this was asked last: it used slot 0, 1, … again and again.
  void expect_slots_in_turn() {
    for_each_port([this](LoopPort& port) {
      for (auto* const announced : {&port.sent, &port.received}) {
        for (std::size_t i = 0; i < announced->size(); ++i)
          EXPECT_EQ(std::get<0>((*announced)[i]), i % credits_);
        announced->clear();
      }
    });
  }
  template <class Visit>
  void for_each_port(Visit visit) {
    for (auto& [key, end] : ends_) visit(*end->port());
  }

 private:
  using Key = std::tuple<Rank, Rank, std::uint32_t>;
  std::shared_ptr<LoopRing> ring(Rank from, Rank to, std::uint32_t lane) {
    auto& place = rings_[{from, to, lane}];
    if (!place) place = std::make_shared<LoopRing>(slot_bytes_, credits_, lends_);
    return place;
  }
  std::size_t slot_bytes_;
  std::uint32_t credits_;
  bool lends_;
  std::map<Key, std::shared_ptr<LoopRing>> rings_;
  std::map<Key, std::unique_ptr<LoopConnection>> ends_;
};

}  // namespace coll::testing
