// SPDX-License-Identifier: Apache-2.0
// Which processes may open each other's files.
#include "sys/memory/peer_file.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/check.hpp"
#include "sys/child_process.hpp"

namespace coll {
namespace {

/// What a process says that is in a namespace of processes of its own, or not; "": it has none.
std::string domain_of_process(bool apart) {
  std::array<int, 2> ends{};
  COLL_CHECK(::pipe(ends.data()) == 0, "pipe");
  const Fd in(ends[0]), out(ends[1]);
  const auto say = [&out] {
    const std::string domain = domain_of_peer_files();
    return ::write(out.get(), domain.data(), domain.size()) > 0 ? 0 : 1;
  };
  const int said = testing::in_child([&] {
    if (apart && ::unshare(CLONE_NEWPID) != 0) return 1;
    return testing::in_child(say);  // the next child is in the new namespace, the caller is not
  });
  if (said != 0) return "";
  std::array<char, 256> text{};
  const ssize_t got = ::read(in.get(), text.data(), text.size());
  return {text.data(), got < 0 ? 0 : static_cast<std::size_t>(got)};
}

TEST(PeerFile, ADomainIsOfOneNamespaceOfProcesses) {
  const std::string own = domain_of_peer_files();
  EXPECT_FALSE(own.empty());
  EXPECT_EQ(domain_of_process(false), own);
  const std::string apart = domain_of_process(true);
  if (apart.empty()) GTEST_SKIP() << "this user may have no namespace of processes";
  EXPECT_NE(apart, own);
}

}  // namespace
}  // namespace coll
