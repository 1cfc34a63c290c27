// SPDX-License-Identifier: Apache-2.0
// Groups in C++: every rank sends to the next rank and receives from the previous one.
// c++ -std=c++20 groups.cpp -o groups $(pkg-config --cflags --libs collectives)
// coll-run -n 4 -- ./groups
#include <collectives/collectives.hpp>
#include <cstdio>
#include <span>
#include <vector>

namespace {

collectives::Result<void> pass_on(collectives::Communicator& comm, std::span<const float> out,
                                  std::span<float> in) {
  const int rank = comm.rank(), size = comm.size();
  auto group = collectives::Group::start();
  if (!group) return group.error();
  if (auto sent = comm.send(out, (rank + 1) % size); !sent) return sent;
  if (auto got = comm.recv(in, (rank + size - 1) % size); !got) return got;
  return group->end();  // waits: only now `in` has its values
}

int fail(const collectives::Error& error) {
  std::fprintf(stderr, "%s\n", error.text.c_str());
  return 1;
}

}  // namespace

int main() {
  auto comm = collectives::Communicator::from_environment();
  if (!comm) return fail(comm.error());

  std::vector<float> out(1 << 20, static_cast<float>(comm->rank())), in(out.size());
  if (auto done = pass_on(*comm, out, in); !done) return fail(done.error());
  std::printf("rank %d of %d: from rank %g\n", comm->rank(), comm->size(),
              static_cast<double>(in.back()));
}
