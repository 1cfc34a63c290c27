// SPDX-License-Identifier: Apache-2.0
// Training with kept activations in host memory: the bits of training without, exactly the bytes of
// the formulas, and models that would not fit.
#include <gtest/gtest.h>

#include <mutex>

#include "../failure_of.hpp"
#include "../trainer_states.hpp"
#include "../training_ranks.hpp"
#include "estimate/estimate.hpp"
#include "model/gpt.hpp"
#include "optimizer/memory_optimizer.hpp"

namespace training {
namespace activation_offload_test {

const GptShape kModel{16, 8, 32, 6, 2};  // 8 units
constexpr std::size_t kSequences = 2, kLeaves = 4, kSteps = 2;
constexpr std::size_t kOutput = sizeof(float) * kSequences * 8 * 32;  ///< bytes of a unit's output
constexpr auto kToHost = DeviceLink::Way::to_host;
constexpr auto kToDevice = DeviceLink::Way::to_device;

struct Settings {
  std::size_t checkpoint = 0;
  bool on_host = false;
  MeshShape mesh = {};
  TrainerOptions options = {};
  double speed = 0;  ///< of the link, in bytes per second; 0: that of memory
  std::size_t limit = std::numeric_limits<std::size_t>::max();  ///< of the device's memory
};

/// What a run leaves on a rank.
struct Bytes {
  std::size_t units = 0;
  std::size_t activations = 0, all = 0;  ///< on the device, all: the most
  std::size_t host = 0, to_host = 0, to_device = 0;
  std::size_t validation = 0;  ///< that it moved
};

struct Trace {
  std::vector<double> losses;  ///< of steps, and of a validation
  States states;
  std::vector<Bytes> bytes;
};

Trace run(Settings how) {
  Trace trace;
  trace.bytes.resize(how.mesh.ranks());
  how.options.leaves = kLeaves;
  how.options.checkpoint = how.checkpoint;
  how.options.rate = {.most = 1e-2F, .warm_up = 1};
  std::mutex mutex;
  on_ranks(how.mesh.ranks(), [&](collectives::Communicator world) {
    Mesh mesh(std::move(world), how.mesh, true);
    Arena arena(how.limit);
    HostMemory host{Arena(), DeviceLink(how.speed)};
    const RuleSource source(kSequences, kModel.positions, kModel.vocabulary);
    Trainer trainer(
        how.options, gpt_units<float>(kModel), source, mesh, arena,
        [&](Owned owned) { return std::make_unique<MemoryOptimizer>(std::move(owned), arena); },
        nullptr, how.on_host ? &host : nullptr);
    std::vector<double> losses;
    for (std::size_t i = 0; i < kSteps; ++i) losses.push_back(trainer.step().loss);
    trainer.settle();
    Bytes bytes;
    bytes.units = trainer.units().size();
    bytes.activations = arena.bytes(Use::activations);
    bytes.all = arena.peak();
    bytes.host = host.arena.bytes();
    bytes.to_host = host.link.bytes(kToHost);
    bytes.to_device = host.link.bytes(kToDevice);
    losses.push_back(trainer.validate(4).loss);
    losses.push_back(trainer.step().loss);  // what a validation left in buffers does no harm
    bytes.validation = host.link.bytes(kToHost) - bytes.to_host * (kSteps + 1) / kSteps;
    const std::scoped_lock lock(mutex);
    trace.bytes[mesh.rank()] = bytes;
    if (mesh.rank() == 0) trace.losses = losses;
    add_states(trainer, trace.states);
  });
  return trace;
}

void expect_same(const Trace& one, const Trace& other) {
  EXPECT_EQ(one.losses, other.losses);
  expect_same_states(one.states, other.states);
}

/// Against a run that checkpoints and keeps all on the device, on one rank, with so many slots.
void expect_bytes(const Bytes& device, const Bytes& host, std::size_t checkpoint, std::size_t slots,
                  std::size_t leaves) {
  const std::size_t outputs = (host.units + checkpoint - 1) / checkpoint - 1;
  EXPECT_EQ(host.activations, device.activations - slots * outputs * kOutput +
                                  std::min<std::size_t>(outputs, 3) * kOutput);
  EXPECT_EQ(host.host, slots * outputs * kOutput);
  EXPECT_EQ(host.to_host, kSteps * leaves * outputs * kOutput);
  EXPECT_EQ(host.to_device, host.to_host);
  EXPECT_EQ(host.validation, 0U) << "an evaluation has no backward pass";
  EXPECT_EQ(device.host + device.to_host + device.to_device, 0U);
}

class ActivationOffload : public testing::TestWithParam<std::tuple<int, std::size_t>> {};

TEST_P(ActivationOffload, GivesTheSameBitsAndMovesEachOutputThereAndBack) {
  const auto [zero, checkpoint] = GetParam();
  const Trace alone = run({});
  for (const double speed : {0.0, 2e6}) {  // the slow one takes a millisecond for an output
    Settings how{.checkpoint = checkpoint, .mesh = {2, 1, 1}, .speed = speed};
    how.options.zero = zero;
    const Trace device = run(how);
    how.on_host = true;
    const Trace host = run(how);
    expect_same(alone, device);
    expect_same(alone, host);
    HostMemory memory;
    const StageOptions stage{.checkpoint = checkpoint, .host = &memory};
    how.options.leaves = kLeaves;
    const Estimate expected = estimate(how.options, gpt_units<float>(kModel),
                                       {kSequences, kModel.positions, {}, {}}, stage, 2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      expect_bytes(device.bytes[rank], host.bytes[rank], checkpoint, 1, kLeaves / 2);
      EXPECT_EQ(host.bytes[rank].activations, expected.of(Use::activations));
      EXPECT_EQ(host.bytes[rank].host, expected.host_activations);
      EXPECT_EQ(host.bytes[rank].to_host, kSteps * expected.moved_activations);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, ActivationOffload,
                         testing::Combine(testing::Values(0, 3),
                                          testing::Values<std::size_t>(1, 2, 3, 9)),
                         [](const auto& of) {
                           return "zero" + std::to_string(std::get<0>(of.param)) + "_every_" +
                                  std::to_string(std::get<1>(of.param)) + "_units";
                         });

TEST(ActivationOffloadInAPipeline, GivesTheSameBitsByEitherSchedule) {
  const Trace alone = run({});
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_forward_one_backward}) {
    for (const int zero : {0, 3}) {
      for (const double speed : {0.0, 2e6}) {
        SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", ZeRO " << zero
                                        << ", link " << speed);
        Settings how{.checkpoint = 1, .mesh = {1, 1, 2}, .speed = speed};
        how.options.pipeline = kind;
        how.options.zero = zero;
        const Trace device = run(how);
        how.on_host = true;
        const Trace host = run(how);
        expect_same(alone, host);
        const bool gpipe = kind == PipelineKind::gpipe;
        expect_bytes(device.bytes[0], host.bytes[0], 1, gpipe ? kLeaves : 2, kLeaves);
        expect_bytes(device.bytes[1], host.bytes[1], 1, gpipe ? kLeaves : 1, kLeaves);
      }
    }
  }
}

TEST(ActivationOffloadWithDroppedUnits, GivesTheSameBits) {
  Settings how;
  how.options.drop = 0.5;
  const Trace alone = run(how);
  how.checkpoint = 1;
  how.on_host = true;
  how.speed = 2e6;
  expect_same(alone, run(how));
}

TEST(ActivationOffloadUnderALimit, TrainsWhatWouldNotFit) {
  Settings how{.checkpoint = 1, .on_host = true};
  const Trace host = run(how);
  how.limit = host.bytes[0].all;
  expect_same(host, run(how));
  how.on_host = false;
  EXPECT_NE(failure_of([&] { run(how); }).find("for activations do not fit the limit"),
            std::string::npos);
}

}  // namespace activation_offload_test
}  // namespace training
