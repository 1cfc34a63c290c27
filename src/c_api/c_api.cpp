// SPDX-License-Identifier: Apache-2.0
// The C ABI of communicators.
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/knobs.hpp"
#include "base/log.hpp"
#include "c_api/c_api_config.hpp"
#include "c_api/c_api_door.hpp"
#include "c_api/c_api_joining.hpp"
#include "c_api/callers_store.hpp"
#include "c_api/open_group.hpp"
#include "communicator/duplicate.hpp"
#include "communicator/join_turn.hpp"
#include "communicator/split.hpp"
#include "rendezvous/given_links.hpp"
#include "rendezvous/launch/launch_place.hpp"
#include "rendezvous/unique_id.hpp"

using coll::caught;
using coll::Code;
using coll::failed;
using coll::guarded;
using coll::null_argument;
using coll::refuse_null;
using coll::Result;
using coll::Status;

namespace {

/// Joins as a part's rank, if that part is a topic, or where `joining` says.
Result<std::unique_ptr<coll::Communicator>> make_communicator(const coll::Joining& joining,
                                                              coll::Part* part) {
  if (part == nullptr || !part->topic) return coll::Communicator::join(joining);
  return coll::Communicator::join(joining, std::move(part->topic), std::move(part->known));
}

Status join_now(coll::Joining joining, coll::JoinTurn* turn, coll::Part* part, coll_comm_t* comm) {
  if (turn != nullptr) COLL_TRY(turn->wait(joining));
  auto made = std::make_unique<coll_comm>();
  made->settings = joining;
  made->settings.place = {};            // of this communicator's own meeting
  made->settings.settings.tuning = {};  // the process has it
  joining.place.interfaces = joining.interface;
  if (joining.size > 1) joining.settings.tuning = coll::process_tuning();
  COLL_ASSIGN(made->communicator, make_communicator(joining, part));
  // What comes from this one plans as its ranks agreed, not as this rank asked for.
  const coll::World& world = made->communicator->world();
  made->settings.settings.algorithm = world.algorithm;
  made->settings.settings.order = world.order;
  made->settings.settings.lanes = world.cut.lanes;
  made->settings.settings.slice_bytes = world.cut.slice_bytes;
  coll::LiveCommunicators::of_process().enter(made->communicator);
  *comm = made.release();
  return {};
}

/// `at_failure` cleans up, where the join fails. `part`: of a communicator, or null.
Status join(coll::Joining joining, coll_joining_t* handle, coll_comm_t* comm,
            const std::function<void()>& at_failure = {},
            const std::shared_ptr<coll::Part>& part = nullptr) {
  coll::LiveCommunicators::of_process().expect_exit();
  const std::shared_ptr<coll::JoinTurn> turn = part ? nullptr : coll::JoinTurn::line_up(joining);
  Status begun = coll::carry_out(
      handle,
      [joining = std::move(joining), turn, at_failure, part](coll_comm_t* made) {
        Status joined = caught([&] { return join_now(joining, turn.get(), part.get(), made); });
        if (!joined.ok() && at_failure) at_failure();
        return joined;
      },
      comm);
  if (handle != nullptr && !begun.ok() && at_failure) at_failure();
  return begun;
}

Status check_place(const char* function, const coll_comm_t* comm, int size, int rank) {
  if (comm == nullptr) return null_argument(function, "comm");
  if (size < 1 || rank < 0 || rank >= size) {
    return failed(Code::invalid_argument,
                  std::string(function) + ": rank " + std::to_string(rank) + " of size " +
                      std::to_string(size) + " does not exist",
                  "ranks are 0 to size - 1");
  }
  return {};
}

/// The settings of a communicator made from `parent`: the config's, or else the parent's.
Result<coll::Joining> joining_from(const coll_comm& parent, const coll_config_t* config) {
  if (config == nullptr) {
    coll::Joining joining = parent.settings;
    joining.name.clear();
    return joining;
  }
  COLL_ASSIGN(const coll_config_t chosen, coll::read_config(config));
  COLL_ASSIGN(coll::Joining joining, coll::joining_of(chosen));
  if (chosen.device == nullptr) joining.device = parent.settings.device;
  return joining;
}

Result<coll::PartJoining> part_joining_from(const coll_comm& parent, const coll_config_t* config) {
  COLL_ASSIGN(coll::Joining joining, joining_from(parent, config));
  joining.settings.tuning = coll::process_tuning();
  const coll::Joining& old = parent.settings;
  const bool same_paths =
      joining.interface == old.interface &&
      std::ranges::equal(joining.transports, old.transports, {}, &coll::TransportChoice::name,
                         &coll::TransportChoice::name);
  return coll::PartJoining{std::move(joining), same_paths};
}

/// May the new communicator's ranks go on as the old one's?
bool keeps_settings(const coll::PartJoining& how, const coll::Joining& old) {
  return how.same_paths && how.joining.settings.same_knobs(old.settings) &&
         how.joining.device.name.empty() && old.device.name.empty();
}

Status join_part(coll::Part mine, coll::Joining joining, coll_joining_t* handle,
                 coll_comm_t* comm) {
  joining.place = mine.place;
  joining.rank = mine.rank;
  joining.size = mine.size;
  // Where it has failed early, the first rank's door is still open.
  const bool meets = mine.size > 1 && !mine.topic;
  const auto close_door = [meets, place = mine.place] {
    if (meets) static_cast<void>(coll::take_door(place));
  };
  const auto part = std::make_shared<coll::Part>(std::move(mine));
  return join(std::move(joining), handle, comm, close_door, part);
}

Result<coll::MeetingPlace> place_at(const std::string& rendezvous) {
  return coll::place_from_text(rendezvous, "rendezvous", coll::knobs().secret,
                               "rendezvous " + rendezvous);
}

}  // namespace

extern "C" {

coll_status_t coll_get_unique_id(coll_unique_id_t* id) {
  if (id == nullptr) return refuse_null("coll_get_unique_id", "id");
  return guarded([&]() -> Status {
    COLL_ASSIGN(const coll::UniqueId made, coll::make_unique_id(coll::knobs().interface));
    static_assert(sizeof(made.bytes) == COLL_UNIQUE_ID_BYTES &&
                  coll::kUnusedIds == COLL_UNUSED_IDS_MAX);
    std::memcpy(id->bytes, made.bytes.data(), sizeof id->bytes);
    return {};
  });
}

coll_status_t coll_comm_init_rank(coll_comm_t* comm, int size, const coll_unique_id_t* id, int rank,
                                  const coll_config_t* config) {
  return guarded([&]() -> Status {
    COLL_TRY(check_place("coll_comm_init_rank", comm, size, rank));
    if (id == nullptr) return null_argument("coll_comm_init_rank", "id");
    COLL_ASSIGN(const coll_config_t chosen, coll::read_config(config));
    COLL_ASSIGN(coll::Joining joining, coll::joining_of(chosen));
    coll::UniqueId unique;
    std::memcpy(unique.bytes.data(), id->bytes, sizeof id->bytes);
    COLL_ASSIGN(joining.place, coll::place_of(unique, coll::knobs().secret));
    joining.rank = rank;
    joining.size = size;
    return join(std::move(joining), chosen.joining, comm);
  });
}

coll_status_t coll_comm_init(coll_comm_t* comm, int size, int rank, const coll_config_t* config) {
  return guarded([&]() -> Status {
    COLL_TRY(check_place("coll_comm_init", comm, size, rank));
    COLL_ASSIGN(const coll_config_t chosen, coll::read_config(config));
    const std::string rendezvous = coll::chosen_text(chosen.rendezvous, coll::knobs().rendezvous);
    if (rendezvous.empty()) {
      return failed(Code::invalid_argument, "coll_comm_init: no rendezvous is given",
                    "set config->rendezvous or COLL_RENDEZVOUS to tcp://HOST:PORT or file:///PATH");
    }
    COLL_ASSIGN(coll::MeetingPlace place, place_at(rendezvous));
    COLL_ASSIGN(coll::Joining joining, coll::joining_of(chosen));
    joining.place = std::move(place);
    joining.rank = rank;
    joining.size = size;
    return join(std::move(joining), chosen.joining, comm);
  });
}

coll_status_t coll_comm_init_store(coll_comm_t* comm, int size, int rank, const coll_store_t* store,
                                   const char* key, const coll_config_t* config) {
  return guarded([&]() -> Status {
    COLL_TRY(check_place("coll_comm_init_store", comm, size, rank));
    COLL_TRY(coll::CallersStore::check(store));
    if (key == nullptr || *key == '\0') {
      return failed(Code::invalid_argument, "coll_comm_init_store: the key is empty",
                    "give all ranks of the communicator the same word");
    }
    COLL_ASSIGN(const coll_config_t chosen, coll::read_config(config));
    if (chosen.joining != nullptr) {
      return failed(Code::invalid_argument,
                    "coll_comm_init_store: the functions of the store are called during this call "
                    "only, so it cannot end before the ranks have met",
                    "leave `joining` null");
    }
    COLL_ASSIGN(coll::Joining joining, coll::joining_of(chosen));
    coll::CallersStore calls(*store);
    joining.place.kind = coll::MeetingPlace::Kind::store;
    joining.place.path = key;
    joining.place.key = coll::knobs().secret;
    joining.place.source = "key \"" + joining.place.path + "\" of the program's store";
    joining.place.program_store = &calls;
    joining.rank = rank;
    joining.size = size;
    return join(std::move(joining), chosen.joining, comm);
  });
}

coll_status_t coll_comm_init_fds(coll_comm_t* comm, int size, int rank, const int* fds,
                                 const coll_config_t* config) {
  return guarded([&]() -> Status {
    COLL_TRY(check_place("coll_comm_init_fds", comm, size, rank));
    if (fds == nullptr && size > 1) return null_argument("coll_comm_init_fds", "fds");
    COLL_ASSIGN(const coll_config_t chosen, coll::read_config(config));
    COLL_ASSIGN(coll::Joining joining, coll::joining_of(chosen));
    joining.place.kind = coll::MeetingPlace::Kind::links;
    COLL_ASSIGN(std::vector<coll::Fd> links, coll::duplicate_links(fds, rank, size));
    joining.place.links = std::make_shared<std::vector<coll::Fd>>(std::move(links));
    // While the program has its own ends, others see this rank's failure only where it says so.
    const auto shut_down = [all = joining.place.links] {
      for (const coll::Fd& one : *all) ::shutdown(one.get(), SHUT_RDWR);
    };
    joining.place.key = coll::knobs().secret;
    joining.place.source = "given sockets";
    joining.rank = rank;
    joining.size = size;
    return join(std::move(joining), chosen.joining, comm, shut_down);
  });
}

coll_status_t coll_comm_init_env(coll_comm_t* comm, const coll_config_t* config) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("coll_comm_init_env", "comm");
    COLL_ASSIGN(const coll_config_t chosen, coll::read_config(config));
    const auto get = [](const char* name) -> const char* {
      return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): launchers set these before main
    };
    COLL_ASSIGN(coll::Launch launch, coll::read_launch(get));
    if (chosen.rendezvous != nullptr) {
      COLL_ASSIGN(launch.place, place_at(chosen.rendezvous));
    }
    COLL_ASSIGN(coll::Joining joining, coll::joining_of(chosen));
    joining.place = std::move(launch.place);
    joining.rank = launch.rank;
    joining.size = launch.size;
    coll::log_set_rank(launch.rank);
    return join(std::move(joining), chosen.joining, comm);
  });
}

coll_status_t coll_comm_split(coll_comm_t comm, int color, int key, const coll_config_t* config,
                              coll_comm_t* part) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("coll_comm_split", "comm");
    coll::PartJoining how;
    const Result<coll::SplitWish> wish = caught([&]() -> Result<coll::SplitWish> {
      if (part == nullptr) return null_argument("coll_comm_split", "part");
      if (color < 0 && color != COLL_SPLIT_NONE) {
        return failed(Code::invalid_argument,
                      "coll_comm_split: color " + std::to_string(color) + " is negative",
                      "give 0 or more, or COLL_SPLIT_NONE");
      }
      COLL_ASSIGN(how, part_joining_from(*comm, config));
      return coll::SplitWish{color == COLL_SPLIT_NONE ? std::nullopt : std::optional(color), key};
    });
    COLL_ASSIGN(std::optional<coll::Part> mine, coll::split(*comm->communicator, wish, how));
    *part = nullptr;
    if (mine)
      return join_part(*std::move(mine), std::move(how.joining), coll::joining_handle(config),
                       part);
    return coll::carry_out(
        coll::joining_handle(config), [](coll_comm_t*) { return Status{}; }, part);
  });
}

coll_status_t coll_comm_duplicate(coll_comm_t comm, const coll_config_t* config,
                                  coll_comm_t* copy) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("coll_comm_duplicate", "comm");
    coll::PartJoining how;
    const Result<coll::SplitWish> wish = caught([&]() -> Result<coll::SplitWish> {
      if (copy == nullptr) return null_argument("coll_comm_duplicate", "copy");
      COLL_ASSIGN(how, part_joining_from(*comm, config));
      return coll::SplitWish{0, comm->communicator->rank()};
    });
    COLL_ASSIGN(
        std::optional<coll::Part> mine,
        coll::duplicate(*comm->communicator, wish, how, keeps_settings(how, comm->settings)));
    *copy = nullptr;
    return join_part(*std::move(mine), std::move(how.joining), coll::joining_handle(config), copy);
  });
}

coll_status_t coll_comm_subset(coll_comm_t comm, const int* ranks, int count,
                               const coll_config_t* config, coll_comm_t* part) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("coll_comm_subset", "comm");
    if (part == nullptr) return null_argument("coll_comm_subset", "part");
    if (ranks == nullptr) return null_argument("coll_comm_subset", "ranks");
    if (count < 1) {
      return failed(Code::invalid_argument,
                    "coll_comm_subset: count " + std::to_string(count) + " names no rank");
    }
    COLL_ASSIGN(coll::PartJoining how, part_joining_from(*comm, config));
    const std::span named(ranks, static_cast<std::size_t>(count));
    COLL_ASSIGN(coll::Part mine, coll::subset(*comm->communicator, named, how));
    return join_part(std::move(mine), std::move(how.joining), coll::joining_handle(config), part);
  });
}

coll_status_t coll_comm_destroy(coll_comm_t comm) {
  if (comm == nullptr) return refuse_null("coll_comm_destroy", "comm");
  const coll_status_t free = guarded([&] {
    return coll::OpenGroup::check_free("coll_comm_destroy", [&](const coll::GroupedCall& call) {
      return call.communicator == comm->communicator.get();
    });
  });
  if (free != COLL_SUCCESS) return free;
  delete comm;
  return COLL_SUCCESS;
}

coll_status_t coll_comm_abort(coll_comm_t comm) {
  if (comm == nullptr) return refuse_null("coll_comm_abort", "comm");
  return guarded([&]() -> Status { return comm->communicator->abort(); });
}

}  // extern "C"
