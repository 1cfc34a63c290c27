// SPDX-License-Identifier: Apache-2.0
// sys/: the operating system as values and owners. This file: processors as Linux lists them.
#include "sys/cpu_list.hpp"

namespace coll {

cpu_set_t read_cpu_list(std::istream& list) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int first = 0; list >> first;) {
    int last = first;
    if (list.peek() == '-') {
      list.get();
      list >> last;
    }
    for (int cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) {
      if (cpu >= 0) CPU_SET(static_cast<std::size_t>(cpu), &cpus);
    }
    list.get();
  }
  return cpus;
}

}  // namespace coll
