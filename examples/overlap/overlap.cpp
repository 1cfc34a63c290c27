// SPDX-License-Identifier: Apache-2.0
// Overlap in C++: the ranks sum one bucket of gradients while they compute the next.
// c++ -std=c++20 overlap.cpp -o overlap $(pkg-config --cflags --libs collectives)
// coll-run -n 2 -- ./overlap
#include <collectives/collectives.hpp>
#include <cstdio>
#include <span>
#include <vector>

namespace {

/// Stands for a backward pass.
void compute(std::vector<float>& gradients, int seed) {
  for (float& gradient : gradients) gradient = static_cast<float>(seed);
}

collectives::Result<void> sum(collectives::Communicator& comm,
                              std::vector<std::vector<float>>& buckets) {
  auto stream = collectives::Stream::create();
  if (!stream) return stream.error();
  int seed = comm.rank();
  for (auto& bucket : buckets) {
    compute(bucket, seed++);
    auto queued = comm.all_reduce(std::span(bucket), COLL_SUM, &*stream);  // returns at once
    if (!queued) return queued;
  }
  return stream->synchronize();  // waits for all
}

int fail(const collectives::Error& error) {
  std::fprintf(stderr, "%s\n", error.text.c_str());
  return 1;
}

}  // namespace

int main() {
  std::vector<std::vector<float>> buckets(4, std::vector<float>(1 << 18));
  auto comm = collectives::Communicator::from_environment();
  if (!comm) return fail(comm.error());

  if (auto done = sum(*comm, buckets); !done) return fail(done.error());
  std::printf("rank %d of %d:", comm->rank(), comm->size());
  for (const auto& bucket : buckets) std::printf(" %g", static_cast<double>(bucket.back()));
  std::printf("\n");
}
