// SPDX-License-Identifier: Apache-2.0
// The two ends of a connection that serves a device, with the work of its streams.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "emulation/cuda/cuda_on_test.hpp"
#include "transport_backend.hpp"
#include "transports/cuda_ipc/cuda_ipc_connection.hpp"
#include "transports/fake/fake_transport.hpp"
#include "transports/staging/staging_connection.hpp"

namespace coll::test {

using emulation_test::cuda;
using emulation_test::is_emulated;
using emulation_test::lack_of_second_gpu;
using emulation_test::name_of;
using emulation_test::OnDevice;
using emulation_test::TestMemory;
using emulation_test::TestStream;
using namespace emucuda;  // the driver's names

inline Backend shm() {
  return {.name = "shm", .make = make_shm_transport};
}
inline Backend fake(FakeScript script = {}) {
  script.seed = test_seed() + script.seed;
  auto network = std::make_shared<FakeNetwork>(std::move(script));
  return {.name = "fake",
          .make = [network](const TransportSpec& spec) -> Result<std::unique_ptr<Transport>> {
            return make_fake_transport(network, spec);
          }};
}

/// The messages of one direction in one call. Both ends make the same ones.
struct CallMessages {
  CallMessages(std::uint64_t seed, int count, std::size_t slot_bytes)
      : digest(seed * 2654435761U + 1), offsets{0} {
    std::mt19937_64 random(seed);
    const std::size_t edges[] = {0, 1, 64, slot_bytes - 1, slot_bytes};
    for (int i = 0; i < count; ++i) {
      const std::uint64_t draw = random();
      const std::size_t size =
          draw % 2 == 0 ? edges[draw / 2 % std::size(edges)] : draw / 2 % (slot_bytes + 1);
      offsets.push_back(offsets.back() + std::min(size, slot_bytes));
    }
    data.resize(offsets.back());
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  }
  /// As many empty messages: streams that are released in the midst of them touch no bytes.
  static CallMessages empty(std::uint64_t seed, int count) { return {seed, count, 0}; }
  [[nodiscard]] std::size_t count() const { return offsets.size() - 1; }
  [[nodiscard]] std::size_t bytes(std::size_t message) const {
    return offsets[message + 1] - offsets[message];
  }

  std::uint64_t digest;
  std::vector<std::size_t> offsets;  ///< in `data`, one more than messages
  std::vector<std::byte> data;
};

/// One end: what it sends and receives is begun by `send` and `receive`, goes on in `step`, and is
/// done when it is `over`.
class TestEnd {
 public:
  explicit TestEnd(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
  TestEnd(const TestEnd&) = delete;
  TestEnd& operator=(const TestEnd&) = delete;
  virtual ~TestEnd() = default;

  virtual void send(const CallMessages& call) = 0;
  virtual void receive(const CallMessages& call) = 0;
  virtual void step() = 0;
  [[nodiscard]] virtual bool over() = 0;
  /// What `receive` has brought is right.
  virtual void check() = 0;
  /// Ends the work after a failure; true once it has ended.
  virtual bool give_up() { return true; }
  [[nodiscard]] Connection& connection() { return *connection_; }

 private:
  std::unique_ptr<Connection> connection_;
};

/// A rank without a device.
class HostEnd final : public TestEnd {
 public:
  using TestEnd::TestEnd;
  void send(const CallMessages& call) override { add(to_send_, call); }
  void receive(const CallMessages& call) override { add(to_receive_, call); }
  void step() override {
    while (!to_send_.empty() && connection().send(to_send_.front().data(), to_send_.front().size(),
                                                  to_send_.front().digest))
      to_send_.erase(to_send_.begin());
    while (!to_receive_.empty()) {
      const Message& next = to_receive_.front();
      std::vector<std::byte> got(next.size() + 1);
      if (!connection().receive(got.data(), next.size(), next.digest)) break;
      got.resize(next.size());
      wrong_ += got == next.bytes ? 0 : 1;
      to_receive_.erase(to_receive_.begin());
    }
    nudge(connection());
  }
  bool over() override {
    return to_send_.empty() && to_receive_.empty() && all_flushed(connection());
  }
  void check() override { EXPECT_EQ(wrong_, 0) << "messages came wrong"; }

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::uint64_t digest;
    [[nodiscard]] const std::byte* data() const { return bytes.data(); }
    [[nodiscard]] std::size_t size() const { return bytes.size(); }
  };
  static void add(std::vector<Message>& to, const CallMessages& call) {
    for (std::size_t i = 0; i < call.count(); ++i) {
      const auto at = [&](std::size_t index) {
        return call.data.begin() + static_cast<std::ptrdiff_t>(call.offsets[index]);
      };
      to.push_back({{at(i), at(i + 1)}, call.digest});
    }
  }

  std::vector<Message> to_send_, to_receive_;
  int wrong_ = 0;
};

/// A rank with a device, which has a stream for each direction.
class DeviceEnd final : public TestEnd {
 public:
  /// `connection` is ready.
  DeviceEnd(std::unique_ptr<Connection> connection, int device)
      : TestEnd(std::move(connection)), device_(device), on_(std::make_unique<Retained>(device)) {
    port_ = this->connection().device_port();
    EXPECT_NE(port_, nullptr) << this->connection().status().text();
    const OnDevice now(device);
    out_ = std::make_unique<TestStream>();
    in_ = std::make_unique<TestStream>();
  }
  ~DeviceEnd() override {
    const OnDevice now(device_);
    out_.reset();
    in_.reset();
    sources_.clear();
    sinks_.clear();
  }

  [[nodiscard]] DevicePort& port() { return *port_; }
  [[nodiscard]] CUstream out() const { return *out_; }
  [[nodiscard]] CUstream in() const { return *in_; }

  void send(const CallMessages& call) override {
    announce_sending(call);
    const OnDevice now(device_);
    std::vector<std::byte> data = call.data;
    data.emplace_back();  // for there is no memory of 0 bytes
    sources_.push_back(std::make_unique<TestMemory<std::byte>>(data));
    send_from(sources_.back()->at(), call);
  }
  /// Only the device's part.
  void send_from(CUdeviceptr from, const CallMessages& call) {
    const DeviceRing& ring = port_->sending();
    for (std::size_t i = 0; i < call.count(); ++i) {
      const auto slot = static_cast<std::uint32_t>(i % ring.credits);
      take(ring, slot, *out_);
      if (call.bytes(i) > 0) {
        EXPECT_CUDA_OK(
            cuMemcpyAsync(ring.slot(slot), from + call.offsets[i], call.bytes(i), *out_));
      }
      EXPECT_CUDA_OK(cuStreamWriteValue32_v2(*out_, ring.signalled_word(slot), 1, 0));
    }
  }
  void announce_sending(const CallMessages& call) {
    for (std::size_t i = 0; i < call.count(); ++i)
      port_->will_send(slot_of(port_->sending(), i), call.bytes(i), call.digest);
  }

  void receive(const CallMessages& call) override {
    const OnDevice now(device_);
    sinks_.push_back({call.data, std::make_unique<TestMemory<std::byte>>(call.data.size() + 1)});
    receive_into(sinks_.back().memory->at(), call);
    announce_receiving(call);  // after the device's work, unlike sending
  }
  void receive_into(CUdeviceptr into, const CallMessages& call) {
    const DeviceRing& ring = port_->receiving();
    for (std::size_t i = 0; i < call.count(); ++i) {
      const auto slot = static_cast<std::uint32_t>(i % ring.credits);
      take(ring, slot, *in_);
      if (call.bytes(i) > 0) {
        EXPECT_CUDA_OK(cuMemcpyAsync(into + call.offsets[i], ring.slot(slot), call.bytes(i), *in_));
      }
      EXPECT_CUDA_OK(cuStreamWriteValue32_v2(*in_, ring.signalled_word(slot), 1, 0));
    }
  }
  void announce_receiving(const CallMessages& call) {
    for (std::size_t i = 0; i < call.count(); ++i)
      port_->will_receive(slot_of(port_->receiving(), i), call.bytes(i), call.digest);
  }

  void step() override {
    if (!port_->progress()) nudge(connection());
  }
  bool over() override { return port_->settled() && idle(); }
  [[nodiscard]] bool idle() const {
    return cuda().cuStreamQuery(*out_) == CUDA_SUCCESS &&
           cuda().cuStreamQuery(*in_) == CUDA_SUCCESS;
  }
  bool give_up() override {
    port_->release_all();
    return idle();
  }
  void check() override {
    const OnDevice now(device_);
    for (const Sink& sink : sinks_) {
      std::vector<std::byte> got = sink.memory->read();
      got.pop_back();
      EXPECT_EQ(got == sink.expected, true) << "of " << got.size() << " bytes some came wrong";
    }
  }

 private:
  /// Keeps the context, though it is not current.
  struct Retained {
    explicit Retained(int which) : device(which) {
      CUcontext context = nullptr;
      EXPECT_CUDA_OK(cuDevicePrimaryCtxRetain(&context, device));
    }
    Retained(const Retained&) = delete;
    Retained& operator=(const Retained&) = delete;
    ~Retained() { EXPECT_CUDA_OK(cuDevicePrimaryCtxRelease_v2(device)); }
    int device;
  };
  struct Sink {
    std::vector<std::byte> expected;
    std::unique_ptr<TestMemory<std::byte>> memory;  ///< one byte more
  };

  static std::uint32_t slot_of(const DeviceRing& ring, std::size_t message) {
    return static_cast<std::uint32_t>(message % ring.credits);
  }
  static void take(const DeviceRing& ring, std::uint32_t slot, CUstream stream) {
    EXPECT_CUDA_OK(
        cuStreamWaitValue32_v2(stream, ring.awaited_word(slot), 1, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, ring.awaited_word(slot), 0, 0));
  }

  int device_;
  std::unique_ptr<Retained> on_;
  DevicePort* port_ = nullptr;
  std::unique_ptr<TestStream> out_, in_;
  std::vector<std::unique_ptr<TestMemory<std::byte>>> sources_;
  std::vector<Sink> sinks_;
};

/// The primary context of a device, which stays.
inline CudaContext context_of_device(int device) {
  CUcontext context = nullptr;
  EXPECT_CUDA_OK(cuInit(0));
  EXPECT_CUDA_OK(cuDevicePrimaryCtxRetain(&context, device));
  EXPECT_NE(loaded_cuda_driver(), nullptr);
  return reinterpret_cast<CudaContext>(context);
}

/// Both have found out whether their devices reach each other, or one has failed.
inline bool settle_ipc(CudaIpcConnection& a, CudaIpcConnection& b) {
  return eventually([&] {
    a.poll();
    b.poll();
    const auto known = [](CudaIpcConnection& c) { return c.ready() || !c.status().ok(); };
    return known(a) && known(b);
  });
}

/// Both ends go on until they are over; false: one failed, or it took too long.
inline bool run_to_end(TestEnd& a, TestEnd& b) {
  const bool ended = eventually([&] {
    a.step();
    b.step();
    return (a.over() && b.over()) || !a.connection().status().ok() || !b.connection().status().ok();
  });
  EXPECT_TRUE(a.connection().status().ok()) << a.connection().status().text();
  EXPECT_TRUE(b.connection().status().ok()) << b.connection().status().text();
  EXPECT_TRUE(ended) << "took too long";
  const bool good = ended && a.over() && b.over();
  if (!good)
    eventually([&] { return static_cast<int>(a.give_up()) + static_cast<int>(b.give_up()) == 2; });
  return good;
}

}  // namespace coll::test
