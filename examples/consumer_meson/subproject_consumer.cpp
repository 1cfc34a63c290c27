// SPDX-License-Identifier: Apache-2.0
// C++, with the library as a Meson subproject.
#include <collectives/collectives.hpp>
#include <cstdio>

int main() {
  auto comm = collectives::Communicator::from_environment();
  if (!comm || !comm->barrier()) return 1;
  std::printf("rank %d of %d: version %d\n", comm->rank(), comm->size(), coll_version());
}
