// SPDX-License-Identifier: Apache-2.0
// A second process of a test: the same program, which runs one test that is disabled otherwise.
#pragma once
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <type_traits>

namespace emulation_test {

/// One end of the way between the two processes.
class ProcessLink {
 public:
  explicit ProcessLink(int socket) : socket_(socket) {
    const timeval limit{30, 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ProcessLink(const ProcessLink&) = delete;
  ProcessLink& operator=(const ProcessLink&) = delete;
  ~ProcessLink() { close(socket_); }

  /// Sends a value, and a copy of a descriptor with it.
  template <class T>
  void send(const T& value, int descriptor = -1) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T copy = value;
    iovec bytes{&copy, sizeof copy};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    EXPECT_EQ(sendmsg(socket_, &message, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof(T)));
  }
  template <class T>
  T receive(int* descriptor = nullptr) const {
    T value{};
    iovec bytes{&value, sizeof value};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    EXPECT_EQ(recvmsg(socket_, &message, 0), static_cast<ssize_t>(sizeof(T)));
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (descriptor != nullptr && header != nullptr)
      std::memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
    return value;
  }
  /// Both have got here.
  void meet() const {
    send('.');
    receive<char>();
  }

 private:
  int socket_;
};

constexpr int kSocketOfOther = 200;  // where the second process finds it

/// Begins the second process, with a test that its name names. At the end that test must have
/// passed.
class OtherProcess {
 public:
  explicit OtherProcess(const std::string& test) : link_(start(test)) {}
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() {
    int status = -1;
    waitpid(process_, &status, 0);
    EXPECT_EQ(status, 0) << "the second process failed";
  }
  [[nodiscard]] const ProcessLink& link() const { return link_; }

 private:
  int start(const std::string& test) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=" + test;
    std::string also = "--gtest_also_run_disabled_tests";
    char* arguments[] = {program.data(), filter.data(), also.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kSocketOfOther);
    EXPECT_EQ(posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    return ends[0];
  }

  pid_t process_ = -1;
  ProcessLink link_;
};

}  // namespace emulation_test
