// SPDX-License-Identifier: Apache-2.0
// Every port for devices moves messages, between all the kinds of ends that it serves.
#include "device_ends.hpp"

namespace coll::test {
namespace {

constexpr std::size_t kSlotBytes = 8192;  // some messages are worth lending, some are not
constexpr std::uint32_t kInnerCredits = 2;

enum class Side : std::uint8_t { host, staging, cuda_ipc };

struct PortBackend {
  std::string name;
  Backend inner;
  Side sides[2];
  int devices[2];
  std::uint32_t credits;
};
void PrintTo(const PortBackend& backend, std::ostream* out) {
  *out << backend.name;
}

Backend tcp() {
  return {.name = "tcp", .make = make_tcp_transport};
}
/// Two ranks with a connection of the wanted kind.
class PortPair {
 public:
  explicit PortPair(const PortBackend& backend, std::size_t slot_bytes = kSlotBytes)
      : ranks_(backend.inner) {
    std::unique_ptr<Connection> opened[2];
    for (const Rank rank : {0, 1}) {
      opened[rank] = ranks_.open(
          rank, {.peer = 1 - rank, .lane = 0, .slot_bytes = slot_bytes, .credits = kInnerCredits});
      if (opened[rank] == nullptr) return;
    }
    if (!ranks_.settle(*opened[0], *opened[1])) return;
    CudaIpcConnection* ipc[2] = {nullptr, nullptr};
    for (const int i : {0, 1}) {
      if (backend.sides[i] == Side::host) continue;
      const CudaContext context = context_of_device(backend.devices[i]);
      if (backend.sides[i] == Side::staging) {
        opened[i] =
            std::make_unique<StagingConnection>(std::move(opened[i]), context, backend.credits);
      } else {
        auto made = std::make_unique<CudaIpcConnection>(std::move(opened[i]), context,
                                                        backend.credits, false);
        ipc[i] = made.get();
        opened[i] = std::move(made);
      }
    }
    if (ipc[0] != nullptr && ipc[1] != nullptr) {
      EXPECT_TRUE(settle_ipc(*ipc[0], *ipc[1]));
      for (CudaIpcConnection* one : ipc)
        EXPECT_TRUE(one->reaches()) << one->refusal() << one->status().text();
      if (!ipc[0]->reaches() || !ipc[1]->reaches()) return;
    }
    for (const int i : {0, 1}) {
      if (backend.sides[i] == Side::host) {
        ends_[i] = std::make_unique<HostEnd>(std::move(opened[i]));
      } else {
        ends_[i] = std::make_unique<DeviceEnd>(std::move(opened[i]), backend.devices[i]);
      }
    }
  }

  [[nodiscard]] bool good() const { return ends_[0] != nullptr && ends_[1] != nullptr; }
  TestEnd& operator[](int index) { return *ends_[index]; }
  DeviceEnd& device(int index) { return dynamic_cast<DeviceEnd&>(*ends_[index]); }
  void drop(int index) { ends_[index].reset(); }

  /// A call with messages in both directions; `counts` of rank 0's and rank 1's.
  void begin(std::uint64_t seed, int from_0, int from_1) {
    const CallMessages there(2 * seed, from_0, kSlotBytes), back(2 * seed + 1, from_1, kSlotBytes);
    ends_[0]->send(there);
    ends_[1]->send(back);
    ends_[0]->receive(back);
    ends_[1]->receive(there);
  }
  bool finish() {
    if (!run_to_end(*ends_[0], *ends_[1])) return false;
    ends_[0]->check();
    ends_[1]->check();
    return true;
  }

 private:
  Ranks ranks_;
  std::unique_ptr<TestEnd> ends_[2];
};

std::vector<PortBackend> all_backends(bool with_hosts) {
  std::vector<PortBackend> all;
  for (const std::uint32_t credits : {1U, 3U}) {
    const auto add = [&](std::string name, Backend inner, Side a, Side b, int device_b) {
      all.push_back({std::move(name) + "_" + std::to_string(credits),
                     std::move(inner),
                     {a, b},
                     {0, device_b},
                     credits});
    };
    const FakeScript script{.max_delay = 3,
                            .max_refusals = 2,
                            .vary_credits = true,
                            .least_loan = 100,
                            .least_landing = 100};
    add("staging_shm", shm(), Side::staging, Side::staging, 0);
    add("staging_tcp", tcp(), Side::staging, Side::staging, 1);
    add("staging_fake", fake(script), Side::staging, Side::staging, 0);
    // The fake network's processor reaches the memory of emulated GPUs only.
    FakeScript direct = script;
    direct.serves_gpus = is_emulated();
    add("staging_direct_fake", fake(direct), Side::staging, Side::staging, 1);
    add("ipc_shm", shm(), Side::cuda_ipc, Side::cuda_ipc, 0);
    add("ipc_tcp_two_gpus", tcp(), Side::cuda_ipc, Side::cuda_ipc, 1);
    add("ipc_fake", fake(script), Side::cuda_ipc, Side::cuda_ipc, 0);
    if (!with_hosts) continue;
    add("staging_to_host_shm", shm(), Side::staging, Side::host, 0);
    add("host_to_staging_tcp", tcp(), Side::host, Side::staging, 0);
    add("staging_to_host_fake", fake(script), Side::staging, Side::host, 0);
    add("staging_direct_to_host_fake", fake(direct), Side::staging, Side::host, 0);
  }
  return all;
}

class DevicePorts : public testing::TestWithParam<PortBackend> {
 protected:
  void SetUp() override {
    const PortBackend& backend = GetParam();
    if (backend.devices[1] == 0) return;
    const bool ipc = backend.sides[0] == Side::cuda_ipc;
    if (const std::string lack = lack_of_second_gpu(ipc); !lack.empty()) GTEST_SKIP() << lack;
  }
};
class DevicePairs : public DevicePorts {};  // a device at either end
std::string name_of_port(const testing::TestParamInfo<PortBackend>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, DevicePorts, testing::ValuesIn(all_backends(true)), name_of_port);
INSTANTIATE_TEST_SUITE_P(All, DevicePairs, testing::ValuesIn(all_backends(false)), name_of_port);

/// Calls of random numbers of messages, which end anywhere in the ring; all begun at once.
TEST_P(DevicePorts, MoveRandomMessagesOfManyCalls) {
  PortPair pair(GetParam());
  ASSERT_TRUE(pair.good());
  std::mt19937_64 random(test_seed());
  const std::uint64_t most = 4ULL * GetParam().credits + 1;
  for (int round = 0; round < 3; ++round) {
    for (int call = 0; call < 6; ++call)
      pair.begin(random(), static_cast<int>(random() % most), static_cast<int>(random() % most));
    ASSERT_TRUE(pair.finish());
  }
}

TEST_P(DevicePorts, BeginEachCallAtSlotZero) {
  PortPair pair(GetParam());
  ASSERT_TRUE(pair.good());
  const int credits = static_cast<int>(GetParam().credits);
  std::uint64_t seed = test_seed();
  for (const int count : {credits + 1, 1, 1, credits, 2 * credits - 1, 0, 1}) {
    pair.begin(++seed, count, 1);
    ASSERT_TRUE(pair.finish());
  }
}

/// What the host sends and receives over the same connection, before calls of devices and behind.
TEST_P(DevicePorts, LeaveTheConnectionToTheHostMeanwhile) {
  PortPair pair(GetParam());
  ASSERT_TRUE(pair.good());
  std::uint64_t seed = test_seed();
  for (std::uint64_t round = 0; round < 3; ++round) {
    Connection& from = pair[0].connection();
    Connection& to = pair[1].connection();
    const std::vector<std::byte> sent(100 + round, std::byte{42});
    std::vector<std::byte> got(sent.size());
    ASSERT_TRUE(eventually([&] { return from.send(sent.data(), sent.size(), round); }));
    ASSERT_TRUE(eventually([&] {
      nudge(from);
      nudge(to);
      return to.receive(got.data(), got.size(), round);
    })) << to.status().text();
    EXPECT_EQ(got == sent, true);
    pair.begin(++seed, 2, 3);
    ASSERT_TRUE(pair.finish());
  }
}

TEST_P(DevicePairs, SayWhenAllIsOver) {
  PortPair pair(GetParam());
  ASSERT_TRUE(pair.good());
  for (const int i : {0, 1}) EXPECT_TRUE(pair.device(i).port().settled());
  const CallMessages call(test_seed(), 1, kSlotBytes);
  pair[0].send(call);
  EXPECT_FALSE(pair.device(0).port().settled()) << "nothing has been sent yet";
  pair[1].receive(call);
  EXPECT_FALSE(pair.device(1).port().settled()) << "nothing has been received yet";
  ASSERT_TRUE(pair.finish());
}

/// An end that is over may turn to something else for long: what it has sent arrives all the same.
TEST_P(DevicePorts, NeedNoMoreHelpOnceTheyAreOver) {
  PortPair pair(GetParam());
  ASSERT_TRUE(pair.good());
  std::uint64_t seed = test_seed();
  for (int round = 0; round < 10; ++round) {
    const CallMessages call(++seed, 2, kSlotBytes);
    pair[0].send(call);
    pair[1].receive(call);
    ASSERT_TRUE(eventually([&] {
      pair[0].step();
      if (pair[0].over()) return true;
      pair[1].step();
      return pair[0].over();
    }));
    ASSERT_TRUE(eventually([&] {
      pair[1].step();
      return pair[1].over();
    }));
    pair[1].check();
  }
}

class PortGraph {
 public:
  explicit PortGraph(CUstream stream) : stream_(stream) {
    EXPECT_CUDA_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  }
  PortGraph(const PortGraph&) = delete;
  PortGraph& operator=(const PortGraph&) = delete;
  ~PortGraph() { EXPECT_CUDA_OK(cuGraphExecDestroy(exec_)); }
  void end() {
    CUgraph graph = nullptr;
    EXPECT_CUDA_OK(cuStreamEndCapture(stream_, &graph));
    EXPECT_CUDA_OK(cuGraphInstantiateWithFlags(&exec_, graph, 0));
    EXPECT_CUDA_OK(cuGraphDestroy(graph));
  }
  void launch() { EXPECT_CUDA_OK(cuGraphLaunch(exec_, stream_)); }

 private:
  CUstream stream_;
  CUgraphExec exec_ = nullptr;
};

/// The device's work is captured once. Who has to be told of messages is told at each launch.
TEST_P(DevicePairs, ReplayWhatWasCapturedOnce) {
  PortPair pair(GetParam());
  ASSERT_TRUE(pair.good());
  const std::uint64_t seed = test_seed();
  const int count = 2 * static_cast<int>(GetParam().credits) + 1;
  const CallMessages call(seed, count, kSlotBytes);
  DeviceEnd& from = pair.device(0);
  DeviceEnd& to = pair.device(1);
  const OnDevice on(GetParam().devices[0]);
  const TestMemory<std::byte> source(call.data.size() + 1);
  const OnDevice there(GetParam().devices[1]);
  const TestMemory<std::byte> sink(call.data.size() + 1);
  PortGraph sends(from.out());
  from.send_from(source.at(), call);
  sends.end();
  PortGraph receives(to.in());
  to.receive_into(sink.at(), call);
  receives.end();
  const bool ipc = GetParam().sides[0] == Side::cuda_ipc;
  std::mt19937_64 random(seed);
  for (int replay = 0; replay < 30; ++replay) {
    std::vector<std::byte> data(call.data.size() + 1);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
    data.back() = {};
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(source.at(), data.data(), data.size()));
    if (!ipc || replay == 0) {
      from.announce_sending(call);
      to.announce_receiving(call);
    }
    receives.launch();
    sends.launch();
    ASSERT_TRUE(run_to_end(from, to));
    ASSERT_EQ(sink.read() == data, true) << "replay " << replay;
  }
}

TEST_P(DevicePairs, FindOutThatTheEndsAreInDifferentCalls) {
  PortPair pair(GetParam());
  ASSERT_TRUE(pair.good());
  const std::uint64_t seed = test_seed();
  pair.begin(seed, 2, 2);
  ASSERT_TRUE(pair.finish());
  // Of the same lengths, so only the digest differs.
  const CallMessages sent = CallMessages::empty(seed, 1);
  CallMessages expected = sent;
  expected.digest += 1;
  pair[0].send(sent);
  pair[1].receive(expected);
  EXPECT_TRUE(eventually([&] {
    pair[0].step();
    pair[1].step();
    return !pair[1].connection().status().ok();
  }));
  EXPECT_EQ(pair[1].connection().status().code(), Code::mismatch);
  EXPECT_EQ(pair[1].connection().status().rank(), 0);
  std::byte nothing{};
  EXPECT_FALSE(pair[1].connection().send(&nothing, 1, 0)) << "it has failed";
  EXPECT_TRUE(eventually([&] { return pair[0].give_up() && pair[1].give_up(); }));
}

/// Streams that wait for slots and for messages, and nobody comes to the other end.
TEST_P(DevicePairs, EndTheWaitingOfStreams) {
  const int credits = static_cast<int>(GetParam().credits);
  const CallMessages call = CallMessages::empty(test_seed(), 3 * credits);
  for (const int i : {0, 1}) {
    PortPair pair(GetParam());
    ASSERT_TRUE(pair.good());
    DeviceEnd& end = pair.device(i);
    end.send(call);
    end.receive(call);
    EXPECT_EQ(cuda().cuStreamQuery(end.out()), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuda().cuStreamQuery(end.in()), CUDA_ERROR_NOT_READY);
    EXPECT_TRUE(eventually([&] { return end.give_up(); }));
  }
}

/// The other end's process has lost it, and a stream of this end waits for a message.
TEST(StagingPort, SeesThatThePeerIsGone) {
  PortPair pair({"", fake({}), {Side::staging, Side::staging}, {0, 0}, 2});
  ASSERT_TRUE(pair.good());
  const std::uint64_t seed = test_seed();
  pair.begin(seed, 3, 3);
  ASSERT_TRUE(pair.finish());
  pair.drop(1);
  DeviceEnd& left = pair.device(0);
  left.receive(CallMessages(seed, 1, kSlotBytes));
  EXPECT_TRUE(eventually([&] {
    left.step();
    return !left.connection().status().ok();
  }));
  EXPECT_EQ(left.connection().status().code(), Code::peer_lost);
  EXPECT_FALSE(left.idle());
  EXPECT_FALSE(left.port().progress());
  EXPECT_TRUE(eventually([&] { return left.give_up(); }));
}

/// A message that the inner connection can lend is not copied into it.
TEST(StagingPort, LendsWhereItCan) {
  auto network = std::make_shared<FakeNetwork>(FakeScript{.least_loan = 100});
  const Backend lending{
      .name = "lending",
      .make = [network](const TransportSpec& spec) -> Result<std::unique_ptr<Transport>> {
        return make_fake_transport(network, spec);
      }};
  PortPair pair({"", lending, {Side::staging, Side::host}, {0, 0}, 2});
  ASSERT_TRUE(pair.good());
  const CallMessages call(test_seed(), 20, kSlotBytes);
  std::uint64_t long_ones = 0;
  for (std::size_t i = 0; i < call.count(); ++i) long_ones += call.bytes(i) >= 100 ? 1U : 0U;
  pair[0].send(call);
  pair[1].receive(call);
  ASSERT_TRUE(pair.finish());
  EXPECT_EQ(network->loans(), long_ones);
}

TEST(StagingPort, HasItsOwnMemoryInItsBufferBytes) {
  const PortBackend backend{"", shm(), {Side::staging, Side::host}, {0, 0}, 3};
  PortPair pair(backend);
  ASSERT_TRUE(pair.good());
  EXPECT_GE(pair[0].connection().buffer_bytes(),
            pair[1].connection().buffer_bytes() + 2 * 3 * kSlotBytes);
  EXPECT_EQ(pair[1].connection().device_port(), nullptr);
}

}  // namespace
}  // namespace coll::test
