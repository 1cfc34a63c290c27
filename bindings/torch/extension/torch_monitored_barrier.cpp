// SPDX-License-Identifier: Apache-2.0
// A barrier by which rank 0 learns which ranks have not come. It goes over PyTorch's store, so it
// also works where the ranks hang in an operation, and leaves nothing behind when it fails.
#include "torch_backend.hpp"
#include "torch_store.hpp"

namespace collectives_torch {

namespace {

std::string joined(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

}  // namespace

void CollBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  const Milliseconds timeout =
      options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const auto left = [&] {
    return std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
  };
  const std::string prefix = "monitored_barrier/" + std::to_string(monitored_barriers_++) + "/";
  const std::string verdict_key = prefix + "verdict";
  StoreConnection store(store_);

  if (rank_ != 0) {
    store->set(prefix + std::to_string(rank_), std::string("here"));
    const bool told = comes(*store, verdict_key, left());
    const std::string verdict = told ? store->get_to_str(verdict_key) : "no word in time";
    store.keep();
    if (verdict != "passed") {
      C10_THROW_ERROR(DistBackendError,
                      "coll: Rank " + std::to_string(rank_) +
                          " successfully reached monitoredBarrier, but received errors while "
                          "waiting for send/recv from rank 0: " +
                          verdict);
    }
    return;
  }

  std::vector<int> passed, missing;
  std::string verdict = "passed";
  for (int rank = 1; rank < size_; ++rank) {
    const bool in_time = left().count() > 0;
    if (comes(*store, prefix + std::to_string(rank), left())) {
      passed.push_back(rank);
      continue;
    }
    if (!in_time && missing.empty()) {
      verdict = "Rank 0 timed out in monitoredBarrier after " + std::to_string(timeout.count()) +
                " ms, before rank " + std::to_string(rank) + " came";
    }
    missing.push_back(rank);
    if (!wait_for_all) break;
  }
  if (!missing.empty() && verdict == "passed") {
    verdict = (missing.size() == 1 ? "Rank " : "Ranks ") + joined(missing) +
              " failed to pass monitoredBarrier in " + std::to_string(timeout.count()) + " ms";
  }
  store->set(verdict_key, verdict);
  store.keep();
  if (!missing.empty()) {
    C10_THROW_ERROR(DistBackendError,
                    "coll: [Rank 0 of group '" + group_->who().name + "']: " + verdict +
                        (passed.empty() ? "" : "; ranks that passed: " + joined(passed)));
  }
}

}  // namespace collectives_torch
