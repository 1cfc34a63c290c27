// SPDX-License-Identifier: Apache-2.0
// Births and ends of process groups, and their errors.
#include "torch_group.hpp"

#include <cmath>
#include <cstring>

#include "torch_store.hpp"
#include "torch_work.hpp"

namespace collectives_torch {

namespace {

/// PyTorch's store as the library reads it. Nothing may throw through the library: the text of an
/// exception is kept.
struct LentStore {
  StoreConnection store;
  std::string failure = {};

  coll_status_t set(const char* key, const char* value, std::size_t bytes) noexcept {
    try {
      store->set(key, std::vector<std::uint8_t>(value, value + bytes));
      return COLL_SUCCESS;
    } catch (const std::exception& error) {
      failure = error.what();
      return COLL_SYSTEM;
    }
  }
  coll_status_t get(const char* key, char* value, std::size_t capacity, std::size_t* bytes,
                    double timeout_s) noexcept {
    try {
      const Milliseconds timeout(static_cast<std::int64_t>(std::ceil(timeout_s * 1000)));
      if (!comes(*store, key, timeout)) return COLL_DEADLINE;
      const std::vector<std::uint8_t> found = store->get(key);
      *bytes = found.size();
      if (found.size() <= capacity) std::memcpy(value, found.data(), found.size());
      return COLL_SUCCESS;
    } catch (const std::exception& error) {
      failure = error.what();
      return COLL_SYSTEM;
    }
  }
};

coll_store_t lend(LentStore& to_lend) {
  coll_store_t store = COLL_STORE_INIT;
  store.context = &to_lend;
  store.set = [](void* context, const char* key, const char* value, std::size_t bytes) {
    return static_cast<LentStore*>(context)->set(key, value, bytes);
  };
  store.get = [](void* context, const char* key, char* value, std::size_t capacity,
                 std::size_t* bytes, double timeout_s) {
    return static_cast<LentStore*>(context)->get(key, value, capacity, bytes, timeout_s);
  };
  return store;
}

coll_config_t config_of(const std::string& name, Milliseconds timeout) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.name = name.c_str();
  config.deadline_s = seconds(timeout);
  config.connect_s = seconds(timeout);
  return config;
}

std::string describe(const Identity& who) {
  std::string text = "rank " + std::to_string(who.rank) + " of " + std::to_string(who.size) +
                     " in group '" + who.name + "'";
  const auto rank = static_cast<std::size_t>(who.rank);
  if (rank < who.global_ranks.size() && who.global_ranks[rank] != who.rank) {
    text += " (global rank " + std::to_string(who.global_ranks[rank]) + ")";
  }
  return text;
}

Identity shortened(Identity who) {
  if (who.name.size() > COLL_NAME_BYTES_MAX) who.name.resize(COLL_NAME_BYTES_MAX);
  return who;
}

}  // namespace

Group::Group(Identity who, collectives::Communicator communicator)
    : who_(std::move(who)), communicator_(std::move(communicator)) {}

std::shared_ptr<Group> Group::join(const c10::intrusive_ptr<c10d::Store>& store, Identity who,
                                   Milliseconds timeout) {
  who = shortened(std::move(who));
  LentStore lent{StoreConnection(store)};
  const coll_config_t config = config_of(who.name, timeout);
  auto joined = collectives::Communicator::join_by(lend(lent), "coll", who.size, who.rank, &config);
  if (!joined) {
    C10_THROW_ERROR(DistBackendError,
                    "coll: " + describe(who) + " could not join: " + joined.error().text +
                        (lent.failure.empty() ? "" : "; the store says: " + lent.failure));
  }
  if (lent.failure.empty()) lent.store.keep();
  return std::make_shared<Group>(std::move(who), *std::move(joined));
}

std::shared_ptr<Group> Group::subset(const std::vector<int>& ranks, Identity who,
                                     Milliseconds timeout) {
  who = shortened(std::move(who));
  const coll_config_t config = config_of(who.name, timeout);
  auto made =
      with_communicator([&](auto& communicator) { return communicator.subset(ranks, &config); });
  if (!made) {
    C10_THROW_ERROR(DistBackendError, "coll: " + describe(who_) + " could not make group '" +
                                          who.name + "': " + made.error().text);
  }
  return std::make_shared<Group>(std::move(who), *std::move(made));
}

bool Group::is_open() const {
  const std::shared_lock lock(communicator_mutex_);
  return communicator_.has_value();
}

void Group::abort() {
  const std::shared_lock lock(communicator_mutex_);
  if (communicator_) (void)communicator_->abort();
}

void Group::shutdown() {
  wait_for_works();  // without the lock, so that abort() can end them
  const std::unique_lock lock(communicator_mutex_);
  communicator_.reset();
}

std::exception_ptr Group::exception(const std::string& operation, coll_status_t code,
                                    int rank_at_fault, const std::string& text,
                                    Milliseconds timeout) const {
  std::string line = "coll: " + operation + " failed on " + describe(who_) + ": ";
  if (code == COLL_DEADLINE)
    line += "Timed out waiting " + std::to_string(timeout.count()) + "ms: ";
  line += text;
  const auto fault = static_cast<std::size_t>(rank_at_fault);
  if (rank_at_fault >= 0 && fault < who_.global_ranks.size() &&
      who_.global_ranks[fault] != rank_at_fault) {
    line += " (rank " + std::to_string(rank_at_fault) + " of this group is global rank " +
            std::to_string(who_.global_ranks[fault]) + ")";
  }
  try {
    if (code == COLL_INVALID_ARGUMENT) C10_THROW_ERROR(ValueError, line);
    C10_THROW_ERROR(DistBackendError, line);
  } catch (...) {
    return std::current_exception();
  }
}

void Group::throw_last(const std::string& operation, coll_status_t code,
                       Milliseconds timeout) const {
  const collectives::Error error = collectives::detail::last_error(code);
  std::rethrow_exception(exception(operation, code, error.rank, error.text, timeout));
}

void Group::throw_shut_down() const {
  C10_THROW_ERROR(DistBackendError, "coll: " + describe(who_) + " has shut down");
}

void Group::add_in_flight(const c10::intrusive_ptr<GroupWork>& work) {
  const std::lock_guard lock(in_flight_mutex_);
  in_flight_.emplace(work->getCompletionKey(), work);
}

c10::intrusive_ptr<GroupWork> Group::remove_in_flight(std::uint64_t key) {
  const std::lock_guard lock(in_flight_mutex_);
  const auto found = in_flight_.find(key);
  if (found == in_flight_.end()) return {};
  c10::intrusive_ptr<GroupWork> work = std::move(found->second);
  in_flight_.erase(found);
  return work;
}

void Group::wait_for_works() const {
  for (const auto& work : in_flight(/*messages_too=*/true)) work->wait_quietly();
}

std::vector<c10::intrusive_ptr<GroupWork>> Group::in_flight(bool messages_too) const {
  std::vector<c10::intrusive_ptr<GroupWork>> works;
  const std::lock_guard lock(in_flight_mutex_);
  for (const auto& [key, work] : in_flight_) {
    if (messages_too || !c10d::isP2POp(work->retrieveOpType())) works.push_back(work);
  }
  return works;
}

}  // namespace collectives_torch
