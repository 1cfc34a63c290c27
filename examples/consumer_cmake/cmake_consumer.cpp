// SPDX-License-Identifier: Apache-2.0
// C++, built with CMake: what every rank has, everywhere.
#include <collectives/collectives.hpp>
#include <cstdio>
#include <vector>

int main() {
  auto joined = collectives::Communicator::from_environment();
  if (!joined) {
    std::fprintf(stderr, "joining: %s\n", joined.error().text.c_str());
    return 1;
  }
  collectives::Communicator& comm = *joined;

  const std::vector<float> mine(1, static_cast<float>(comm.rank() + 1));
  std::vector<float> everybodys(static_cast<std::size_t>(comm.size()));
  if (auto done = comm.all_gather<float>(mine, everybodys); !done) {
    std::fprintf(stderr, "all_gather: %s\n", done.error().text.c_str());
    return 1;
  }
  std::printf("rank %d of %d:", comm.rank(), comm.size());
  for (float value : everybodys) std::printf(" %g", static_cast<double>(value));
  std::printf("\n");
}
