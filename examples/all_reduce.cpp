// SPDX-License-Identifier: Apache-2.0
// The smallest C++ program. Start it with any launcher: coll-run -n 4 -- all-reduce
#include <collectives/collectives.hpp>
#include <cstdio>
#include <vector>

int main() {
  auto comm = collectives::Communicator::from_environment();
  if (!comm) return std::fprintf(stderr, "%s\n", comm.error().text.c_str()), 1;

  std::vector<float> data(1000, static_cast<float>(comm->rank() + 1));
  if (auto done = comm->all_reduce(std::span(data)); !done)
    return std::fprintf(stderr, "%s\n", done.error().text.c_str()), 1;

  std::printf("rank %d of %d: 1 + ... + %d = %g\n", comm->rank(), comm->size(), comm->size(),
              static_cast<double>(data.front()));
}
