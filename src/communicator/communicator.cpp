// SPDX-License-Identifier: Apache-2.0
// The communicator, from joining to leaving.
#include "communicator/communicator.hpp"

#include <exception>

#include "communicator/calls/call_check.hpp"
#include "communicator/calls/call_digest.hpp"
#include "planner/plan_memory.hpp"
#include "planner/prediction.hpp"
#include "reduce/reduce.hpp"
#include "sys/clock.hpp"

namespace coll {
namespace {

Result<Membership> agree_as_part(const Assembly& part, const Joining& joining, Acquaintance known) {
  const Kinship* const kin = known.kin ? &*known.kin : nullptr;
  if (!known.start) known.start = start_part(part, kin, joining);
  if (known.texts.empty()) {
    COLL_ASSIGN(known.texts, part.exchange(known.start->text));
  }
  return finish_part(part, kin, *std::move(known.start), known.texts, joining.transports,
                     joining.interface, joining.settings);
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::join(const Joining& joining) {
  const Deadline deadline = after(joining.connect_s);
  const Result<OwnPlace> own = own_place(joining.device);
  COLL_ASSIGN(Meeting meeting, meet(joining.place, joining.rank, joining.size, deadline));
  const Assembly assembly = assembly_of(meeting, deadline);
  COLL_ASSIGN(Membership membership, agree_on_membership(assembly, joining.transports,
                                                         joining.interface, joining.settings, own));
  std::unique_ptr<Communicator> made(new Communicator(joining, std::move(membership)));
  COLL_TRY(made->engine_.prepare_devices(assembly));
  std::unique_ptr<Topic> topic;
  if (joining.size > 1) {
    COLL_ASSIGN(const auto plane, start_control(std::move(meeting), made->membership_.members));
    topic = plane->open_first();
  }
  COLL_TRY(made->start(std::move(topic)));
  return made;
}

Result<std::unique_ptr<Communicator>> Communicator::join(const Joining& joining,
                                                         std::unique_ptr<Topic> topic,
                                                         Acquaintance known) {
  std::unique_ptr<Communicator> made;
  if (known.agreed) {
    made.reset(new Communicator(joining, std::move(*known.agreed)));
  } else {
    const Assembly assembly = assembly_of(*topic, after(joining.connect_s));
    COLL_ASSIGN(Membership membership, agree_as_part(assembly, joining, std::move(known)));
    made.reset(new Communicator(joining, std::move(membership)));
    COLL_TRY(made->engine_.prepare_devices(assembly));
  }
  COLL_TRY(made->start(std::move(topic)));
  return made;
}

PartStart start_part(const Assembly& part, const Kinship* kin, const Joining& joining) {
  return start_part(part, kin, joining.transports, joining.interface, joining.settings,
                    own_place(joining.device));
}

Communicator::Communicator(const Joining& joining, Membership membership)
    : rank_(joining.rank),
      size_(joining.size),
      name_(joining.name),
      membership_(std::move(membership)),
      results_(own_core_caches(), membership_.neighbours),
      failure_(name_),
      engine_(joining.rank, joining.size, joining.deadline_s,
              WaitPolicy{joining.spin_us, membership_.neighbours.per_core}, membership_, results_,
              failure_) {}

Status Communicator::start(std::unique_ptr<Topic> topic) {
  if (topic) seats_ = {topic->plane(), topic->members(), topic->hub(), topic->id()};
  COLL_ASSIGN(watch_, start_watch(std::move(topic), membership_.members, engine_.board()));
  failure_.report_to(*watch_);
  engine_.attend_to(*watch_);
  recall_plans(world());
  // Asks the processor what it can do, which takes a virtual machine tens of microseconds.
  (void)reduce::copy_kernels();
  return {};
}

std::unique_ptr<Communicator> Communicator::refusing(Rank rank, Rank size, const Status& why) {
  Joining joining;
  joining.rank = rank;
  joining.size = size;
  std::unique_ptr<Communicator> made(new Communicator(joining, {}));
  made->failure_.set(why);
  return made;
}

bool Communicator::retire() noexcept {
  try {
    return engine_.retire(failed(
        Code::invalid_usage,
        "rank " + std::to_string(rank_) + " has left the communicator: its process is inside exit",
        "call operations before main returns or exit is called"));
  } catch (const std::exception&) {
    return engine_.retire(status_of_exception());
  }
}

Communicator::~Communicator() {
  engine_.finish();
  if (watch_) leave();
}

void Communicator::leave() noexcept {
  watch_->leave();
  if (world().layout.is_first_of_its_host(rank_)) leave_plans();
}

Status Communicator::abort() {
  if (!watch_) return status();
  // A thread whose call ends by this may destroy the communicator before this returns.
  const Engine::Guest guest(engine_);
  engine_.abort();
  return {};
}

Result<CallPrediction> Communicator::predict_call(const Request& request) const {
  if (!watch_) return status();
  const Call& call = request.call;
  const World& world = engine_.world_of(call);
  const PlanKey key = engine_.key_of(call);
  CallPrediction prediction;
  COLL_ASSIGN(prediction.plan, make_plan(world, key));
  const Plan& plan = prediction.plan;
  // In a gather or scatter of unequal blocks, only the root knows more blocks than its own.
  const bool knows_own = call.has_own_count() && has_root(call.collective) && call.root != rank_;
  const std::uint64_t blocks = call.unequal() ? (knows_own ? static_cast<std::uint64_t>(size_) : 1)
                                              : whole_blocks(call.collective, key.spec.ranks);
  const std::uint64_t bytes = call.count * size_of(call.type) * blocks;
  prediction.us = expect(world, plan, static_cast<double>(bytes)).us;
  const Rank rank = key.spec.ranks == 1 ? 0 : rank_;
  ProgramShape shape;
  shape.copies = plan.lanes;
  shape.message_chunks = plan.message_chunks;
  shape.slice_bytes = plan.slice_bytes;
  const Schedule schedule = plan.algorithm->build(key.spec, world.layout, rank);
  const std::size_t element = size_of(call.type);
  prediction.traffic = request.blocks != nullptr
                           ? traffic_of(schedule, shape, *request.blocks, element)
                           : traffic_of(schedule, shape, call.count, element);
  return prediction;
}

Result<std::string> Communicator::explain_call(const Call& call) const {
  if (!watch_) return status();
  const PlanKey key = engine_.key_of(call);
  const World& world = engine_.world_of(call);
  COLL_ASSIGN(const Plan plan, make_plan(world, key));
  std::string text = name_.empty() ? "" : "communicator " + name_ + "\n";
  text += explain(world, plan, key.size_class);
  if (engine_.gpu_of(call) != nullptr)
    text.append("moved by: ").append(engine_.mover_of(call)).append("\n");
  text += to_text(world.layout, rank_);
  text += "transports of rank " + std::to_string(rank_) + ":";
  for (Rank peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    text +=
        " " + std::to_string(peer) + ":" + membership_.paths[static_cast<std::size_t>(peer)].name;
  }
  text += size_ == 1 ? " none (one rank)\n" : "\n";
  return text;
}

}  // namespace coll
