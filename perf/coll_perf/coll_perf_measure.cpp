// SPDX-License-Identifier: Apache-2.0
// The loops that time a call.
#include "coll_perf/coll_perf_measure.hpp"

#include <algorithm>
#include <numeric>

#include "coll_perf/coll_perf_compute.hpp"

namespace perf {
namespace {

struct Batches {
  long calls;  ///< in each; turns of a call set
  long count;
};

class Stopwatch {
 public:
  Stopwatch(const Session& session, CallSet& set) : session_(session), set_(set) {}

  /// Seconds that `calls` turns back to back take this rank, from behind a barrier; adds the
  /// processor time to `cpu_s`.
  double run(long calls, double* cpu_s = nullptr) const {
    session_.barrier();
    const double cpu_before = cpu_s == nullptr ? 0 : session_.cpu_s();
    const double start = now();
    for (long i = 0; i < calls; ++i)
      if (const coll_status_t status = set_(); status != COLL_SUCCESS)
        session_.require_alike(status, set_.name().c_str());
    session_.synchronize();
    const double took = now() - start;
    if (cpu_s != nullptr) *cpu_s += session_.cpu_s() - cpu_before;
    return took;
  }

  /// Doubles the number of calls until they take a twentieth of the target: warm-up and estimate.
  /// The very first call plans and connects; it says nothing of the others.
  Batches calibrate(double target_s) const {
    run(1);
    double estimate = 0;
    for (long calls = 1, done = 0;;) {
      std::vector<double> took{run(calls)};
      session_.combine(took, Average::slowest);
      done += calls;
      estimate = took[0] / static_cast<double>(calls);
      if (took[0] > target_s / 20 || done > 100'000) break;
      const double wanted = std::min(1e5, target_s / 16 / std::max(estimate, 1e-7));
      calls = std::max(calls * 2, static_cast<long>(wanted));
    }
    Batches batches{};
    batches.calls = std::max(1L, static_cast<long>(target_s / 20 / std::max(estimate, 1e-8)));
    const double batch_s = std::max(estimate * static_cast<double>(batches.calls), 1e-8);
    batches.count = estimate > 0.25 ? 3 : std::max(5L, static_cast<long>(target_s / batch_s));
    batches.count = std::min(batches.count, 40L);
    return batches;
  }

  [[nodiscard]] Percentiles single_calls(long calls) const {
    std::vector<double> took(static_cast<std::size_t>(calls));
    session_.barrier();
    for (double& t : took) {
      const double start = now();
      if (const coll_status_t status = set_(); status != COLL_SUCCESS)
        session_.require_alike(status, set_.name().c_str());
      session_.synchronize();
      t = now() - start;
    }
    session_.combine(took, Average::slowest);
    std::sort(took.begin(), took.end());
    const std::size_t p99 = (took.size() * 99 + 99) / 100 - 1;
    return {took.front(), took[took.size() / 2], took[p99]};
  }

 private:
  const Session& session_;
  CallSet& set_;
};

}  // namespace

Sample measure(const Session& session, const Point& point, bool in_place,
               std::vector<std::unique_ptr<Buffers>>& buffers, const Options& options) {
  CallSet set(session, point, in_place, buffers,
              options.coalesce    ? CallSet::Together::parts
              : options.group > 1 ? CallSet::Together::grouped
                                  : CallSet::Together::in_turn);
  const Stopwatch watch(session, set);
  const double calls_of_turn = static_cast<double>(set.calls_of_turn());
  Sample sample;
  std::uint64_t wrong = 0;
  set.prepare(0);
  for (int check = 0; check < options.checks; ++check) {
    if (check > 0) set.prepare(static_cast<std::uint64_t>(check));
    watch.run(set.turns());
    wrong += set.verify();
  }
  set.settle();

  Batches batches{options.iterations, options.batches};
  if (options.iterations > 0)
    watch.run(options.warmup);
  else
    batches = watch.calibrate(options.target_s);
  std::vector<double> took(static_cast<std::size_t>(batches.count));
  std::vector<double> cpu{0};
  for (double& t : took)
    t = watch.run(batches.calls, &cpu[0]) / (static_cast<double>(batches.calls) * calls_of_turn);
  session.combine(cpu, Average::mean);
  session.combine(took, options.average);
  if (options.percentiles) sample.percentiles = watch.single_calls(std::min(batches.calls, 2000L));

  if (options.overlap != Compute::none)
    sample.overlap = measure_overlap(session, set, options.overlap, took[took.size() / 2],
                                     options.iterations, options.target_s);

  if (options.checks > 0) {
    if (set.first().repeatable()) wrong += set.verify();
    sample.wrong = session.sum(wrong);
  }
  sample.calls = batches.calls * batches.count * set.calls_of_turn();
  sample.cpu_s = cpu[0] / static_cast<double>(sample.calls);
  if (equal_blocks(point.operation) == Operation::sendrecv) {
    for (double& t : took) t /= 2;
    sample.cpu_s /= 2;
    if (sample.percentiles)
      for (double* t :
           {&sample.percentiles->min, &sample.percentiles->median, &sample.percentiles->p99})
        *t /= 2;
  }
  std::sort(took.begin(), took.end());
  sample.time_s = took[took.size() / 2];
  sample.min_s = took.front();
  sample.mean_s = std::accumulate(took.begin(), took.end(), 0.0) / static_cast<double>(took.size());
  sample.algbw = static_cast<double>(point.shape.bytes) / sample.time_s / 1e9;
  sample.busbw = sample.algbw * bus_factor(point.operation, session.size());
  sample.cores = sample.cpu_s * session.size() / sample.mean_s;
  // What comes next may wait for a whole GPU, and so for what other ranks still do there.
  session.barrier();
  return sample;
}

}  // namespace perf
