// SPDX-License-Identifier: Apache-2.0
// Schedules bound to ports and to memory of the device, as an image for the kernel.
#include "executor/device/fused/fused_program.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "executor/device/device_run.hpp"

namespace coll {
namespace {

using fused::FusedArguments;
using fused::FusedLane;
using fused::FusedLink;
using fused::FusedStep;
using fused::FusedWay;

constexpr std::uint64_t round_up_to(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

Status bind_ports(FusedProgram& program) {
  for (Connection* connection : program.connections) {
    COLL_ASSIGN(DevicePort* const port,
                device_port_of(*connection, program.shape.slice_bytes, true));
    program.ports.push_back(port);
  }
  program.next_send.resize(program.ports.size());
  program.next_receive.resize(program.ports.size());
  return {};
}

FusedWay way_of(const DeviceRing& ring, Rank peer) {
  FusedWay way;
  way.slots = ring.slots;
  way.ready = ring.kernels.ready;
  way.lines = ring.kernels.lines;
  way.read = ring.kernels.read;
  way.count = ring.kernels.count;
  way.reaches = ring.kernels.reaches;
  way.stride = static_cast<std::uint32_t>(ring.stride);
  way.credits = ring.credits;
  way.peer = static_cast<std::uint32_t>(peer);
  return way;
}

FusedStep step_of(const BoundStep& step) {
  FusedStep made;
  made.from_space = static_cast<std::uint8_t>(step.from_space);
  made.with_space = static_cast<std::uint8_t>(step.with_space);
  made.into_space = static_cast<std::uint8_t>(step.into_space);
  if (step.finish) made.flags = FusedStep::kFinish;
  if (step.lend == BoundStep::When::always) made.flags |= FusedStep::kLends;
  if (step.lend == BoundStep::When::if_apart) made.flags |= FusedStep::kLendsApart;
  if (step.receives) made.source = step.source;
  if (step.sends) made.target = step.target;
  made.from_block = step.from.block;
  made.with_block = step.with.block;
  made.into_block = step.into.block;
  made.part = step.length.part;
  made.count = step.count;
  if (step.wait_lane != 0xff) {
    made.wait_lane = step.wait_lane;
    made.wait_step = step.wait_step;
  }
  return made;
}

/// The lanes, links and steps of a program as the kernel reads them.
struct Image {
  std::vector<FusedLane> lanes;
  std::vector<FusedLink> links;
  std::vector<FusedStep> steps;

  explicit Image(const FusedProgram& program);
  [[nodiscard]] std::size_t links_at() const { return lanes.size() * sizeof(FusedLane); }
  [[nodiscard]] std::size_t steps_at() const {
    return links_at() + links.size() * sizeof(FusedLink);
  }
  [[nodiscard]] std::size_t bytes() const { return steps_at() + steps.size() * sizeof(FusedStep); }
  void write(unsigned char* to) const {
    write_row(to, lanes);
    write_row(to + links_at(), links);
    write_row(to + steps_at(), steps);
  }

 private:
  template <class Row>
  static void write_row(unsigned char* to, const std::vector<Row>& row) {
    if (!row.empty()) std::memcpy(to, row.data(), row.size() * sizeof(Row));
  }
};

Image::Image(const FusedProgram& program) {
  for (const BoundStep& step : program.steps) steps.push_back(step_of(step));
  for (const BoundStep& step : program.steps) {
    if (step.wait_lane == 0xff) continue;
    const Program::Lane& awaited = program.lanes[step.wait_lane];  // of the first copy, as all
    const auto at = static_cast<std::size_t>(awaited.begin - program.steps.data()) + step.wait_step;
    steps[at].flags |= FusedStep::kAwaited;
  }
  for (const Program::Lane& bound : program.lanes) {
    FusedLane lane;
    lane.first_step = static_cast<std::uint32_t>(bound.begin - program.steps.data());
    lane.steps = static_cast<std::uint32_t>(bound.end - bound.begin);
    lane.first_link = static_cast<std::uint32_t>(links.size());
    lane.links = static_cast<std::uint32_t>(bound.connections.size());
    lane.first_pass = static_cast<std::uint32_t>(bound.first_pass);
    lane.first_sibling = bound.first_sibling;
    lane.scratch = reinterpret_cast<std::uintptr_t>(bound.scratch);
    lanes.push_back(lane);
    for (Connection* connection : bound.connections) {
      const DevicePort& port = *connection->device_port();
      links.push_back({way_of(port.sending(), connection->peer()),
                       way_of(port.receiving(), connection->peer())});
    }
    for (std::uint32_t i = 0; i < lane.steps; ++i) {
      FusedStep& step = steps[lane.first_step + i];
      if (step.target != FusedStep::kNone)
        step.sent = links[lane.first_link + step.target].sending.messages++;
      if (step.source != FusedStep::kNone)
        step.received = links[lane.first_link + step.source].receiving.messages++;
    }
    if (bound.connections.empty()) links.emplace_back();  // every lane has one that can be named
  }
}

bool is_one_shot(const Schedule& schedule, const FusedShape& shape) {
  return shape.one_shot && schedule.spec.collective == Collective::all_reduce &&
         schedule.spec.ranks > 1 &&
         static_cast<std::uint32_t>(schedule.spec.ranks) <= fused::kOneShotRanks &&
         schedule == shape.one_shot(schedule.spec, schedule.rank);
}

/// Puts progress words, the image if it is long, and scratch into memory of the device.
Status give_memory(FusedProgram& program, const StreamDevice& device, CudaStream uploads) {
  constexpr std::uint64_t kUnit = 256;
  const bool waits = std::ranges::any_of(
      program.steps, [](const BoundStep& step) { return step.wait_lane != 0xff; });
  const std::size_t progress =
      waits ? round_up_to(program.lanes.size() * program.shares * sizeof(std::uint64_t), kUnit) : 0;
  const std::size_t image = Image(program).bytes();
  const bool is_long = image > FusedArguments::kShortImage;
  const std::size_t begin_of_scratch = progress + (is_long ? round_up_to(image, kUnit) : 0);
  const std::size_t bytes = begin_of_scratch + program.scratch_bytes * program.lanes.size();
  if (bytes > 0) {
    COLL_ASSIGN(program.memory, CudaPiece::allocate(device.context(), bytes));
  }
  const CudaAddress memory = program.memory.address();
  if (program.scratch_bytes > 0)
    give_scratch(program, reinterpret_cast<std::byte*>(memory + begin_of_scratch));

  const Image made(program);  // now that lanes have their scratch
  FusedArguments& arguments = program.arguments;
  arguments.links_at = static_cast<std::uint32_t>(made.links_at());
  arguments.steps_at = static_cast<std::uint32_t>(made.steps_at());
  if (waits) arguments.progress = memory;
  std::vector<unsigned char> first(begin_of_scratch);
  if (is_long) {
    arguments.image = memory + progress;
    made.write(first.data() + progress);
  } else {
    made.write(arguments.short_image);
  }
  if (first.empty()) return {};
  int error = device.driver().copy_async(memory, reinterpret_cast<std::uintptr_t>(first.data()),
                                         first.size(), uploads);
  if (error == 0) error = device.driver().stream_synchronize(uploads);
  return error == 0 ? Status() : device.failed_to("copying a program to it", error);
}

}  // namespace

Result<std::unique_ptr<Program>> bind_fused(const Schedule& schedule, const ProgramShape& shape,
                                            const ConnectionSource& connection,
                                            const FusedShape& fused, const StreamDevice& device,
                                            unsigned blocks, CudaStream uploads) {
  if (schedule.spec.unequal)
    return failed(Code::unsupported, "fused kernels take equal blocks only");
  auto program = std::make_unique<FusedProgram>();
  ProgramShape lending = shape;  // whether it is lent, the kernel finds out for each message
  lending.loans = Loans::shared;
  COLL_TRY(bind_steps(*program, schedule, lending, connection));
  const auto lanes = static_cast<unsigned>(program->lanes.size());
  if (lanes > blocks) {
    return failed(Code::unsupported, "a fused kernel of " + std::to_string(lanes) +
                                         " lanes needs as many blocks, and only " +
                                         std::to_string(blocks) + " can run at once");
  }
  COLL_TRY(bind_ports(*program));
  program->combines = std::ranges::any_of(
      program->steps, [](const BoundStep& step) { return step.with_space != Space::none; });
  program->one_shot = is_one_shot(schedule, fused);
  program->most_short = std::min(fused.most_short, KernelRing::kShortBytes);
  program->shares = std::clamp<std::uint32_t>(
      shape.slice_bytes / shape.message_chunks / std::max(1U, fused.least_share), 1,
      KernelRing::kShares);
  program->blocks_of_lane = lanes == 0 ? 1 : std::min(program->shares, blocks / lanes);
  FusedArguments& arguments = program->arguments;
  arguments.parts = program->chunks.parts;
  arguments.copies = shape.copies;
  arguments.lanes = lanes;
  arguments.ranks = static_cast<std::uint32_t>(schedule.spec.ranks);
  arguments.rank = static_cast<std::uint32_t>(schedule.rank);
  COLL_TRY(give_memory(*program, device, uploads));
  bind_turns(*program);
  return std::unique_ptr<Program>(std::move(program));
}

FusedLaunch cut_for_kernel(const FusedProgram& program, const Windows& windows,
                           std::size_t element_bytes, FusedArguments& arguments) {
  arguments.count = windows.count;
  arguments.elements = windows.elements;
  arguments.chunk = windows.chunk;
  arguments.passes = windows.passes;
  arguments.element_bytes = static_cast<std::uint32_t>(element_bytes);
  const std::uint64_t longest = windows.chunk * program.shape.message_chunks * element_bytes;
  const bool is_short = longest <= program.most_short;
  arguments.is_short = is_short ? 1 : 0;
  const std::uint64_t grain = std::max<std::uint64_t>(1, 64 / element_bytes);
  arguments.share = windows.chunk;
  if (!is_short && program.shares > 1) {
    arguments.share = round_up_to((windows.chunk + program.shares - 1) / program.shares, grain);
  }
  arguments.shares =
      static_cast<std::uint32_t>((windows.chunk + arguments.share - 1) / arguments.share);
  const std::uint64_t row =
      round_up_to(std::max<std::uint64_t>(1, windows.count * element_bytes), 16);
  const bool one_shot = program.one_shot && is_short && windows.passes == 1 &&
                        row * arguments.ranks <= fused::kOneShotBytes;
  arguments.one_shot = one_shot ? 1 : 0;
  // Further copies have no passes.
  const auto copies =
      static_cast<unsigned>(std::min<std::uint64_t>(program.shape.copies, windows.passes));
  return {std::min(program.blocks_of_lane, arguments.shares),
          arguments.lanes / program.shape.copies * copies,
          is_short && !one_shot ? fused::kShortThreads : fused::kThreads};
}

}  // namespace coll
