// SPDX-License-Identifier: Apache-2.0
// Sets and reads socket options.
#include "transports/dial/dial_tuning.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>

#include "base/made_once.hpp"
#include "sys/net/socket.hpp"

namespace coll {
namespace {

constexpr int kIdleS = 10;              // seconds without a byte before the first question
constexpr int kIntervalS = 5;           // seconds between questions
constexpr int kQuestions = 4;           // unanswered ones that make a host silent: 30 s in all
constexpr unsigned kLongPathUs = 5000;  // far above what a busy host of the same rack needs

/// The system's default for new sockets; empty where it cannot be told.
const std::string& system_congestion_control() {
  return made_once([] {
    const Fd fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    char text[16] = {};
    socklen_t size = sizeof text - 1;
    if (!fresh || getsockopt(fresh.get(), IPPROTO_TCP, TCP_CONGESTION, text, &size) != 0)
      text[0] = 0;
    return std::string(text);
  });
}

bool take_congestion_control(int fd, const std::string& name) {
  return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                    static_cast<socklen_t>(name.size())) == 0;
}

bool info_of(int fd, tcp_info& info) {
  socklen_t size = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
}

}  // namespace

void tune_dialling(int fd) {
  if (system_congestion_control() != "bbr") return;
  if (!take_congestion_control(fd, "cubic")) take_congestion_control(fd, "reno");
}

void tune_connected(int fd) {
  set_nodelay(fd);
  set_keepalive(fd, kIdleS, kIntervalS, kQuestions);
  tcp_info info{};
  if (system_congestion_control() == "bbr" && info_of(fd, info) && info.tcpi_rtt > kLongPathUs) {
    take_congestion_control(fd, "bbr");
  }
}

bool host_silent(int fd) {
  tcp_info info{};
  if (!info_of(fd, info)) return false;
  constexpr unsigned kSilentMs = 1000 * (kIdleS + kIntervalS * kQuestions);
  return info.tcpi_last_ack_recv >= kSilentMs && info.tcpi_last_data_recv >= kSilentMs &&
         info.tcpi_retransmits + info.tcpi_probes >= kQuestions;
}

}  // namespace coll
