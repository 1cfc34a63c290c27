// SPDX-License-Identifier: Apache-2.0
// PMI-1, the text protocol of MPICH's launchers.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/made_once.hpp"
#include "rendezvous/stores/job_board.hpp"

// One line per message, "cmd=NAME key=value …\n", over a descriptor that the launcher left open
// (MPICH, src/pmi: PMI-1 wire protocol). Values put before a barrier can be got after it.

namespace coll {
namespace {

/// The process's line to its launcher. Opened once; a launcher takes a process that ends without
/// saying goodbye for a crash.
struct Line {
  const pid_t owner = ::getpid();
  std::mutex mutex;
  int fd = -1;
  bool open = false;
  std::string kvs;
  std::string unread;
  /// Passed so far: all processes of the job count alike. Odd between the two that each use takes.
  unsigned barriers = 0;
  bool in_barrier = false;  ///< said to be in one, and has not heard its end
};
Line& line() {
  return *made_once([] { return std::make_unique<Line>(); });
}

Status send_line(Line& pmi, const std::string& command) {
  const std::string text = command + "\n";
  std::size_t sent = 0;
  while (sent < text.size()) {
    ssize_t now = ::send(pmi.fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == ENOTSOCK) {
      now = ::write(pmi.fd, text.data() + sent, text.size() - sent);
    }
    if (now < 0 && errno != EINTR) {
      return system_failure("PMI: telling the launcher " + command, errno);
    }
    if (now > 0) sent += static_cast<std::size_t>(now);
  }
  return {};
}

Result<std::string> read_line(Line& pmi, Deadline deadline, const std::string& asked) {
  for (;;) {
    if (const auto end = pmi.unread.find('\n'); end != std::string::npos) {
      std::string text = pmi.unread.substr(0, end);
      pmi.unread.erase(0, end + 1);
      return text;
    }
    if (pmi.unread.size() > 65536) return failed(Code::mismatch, "PMI: an endless line");
    pollfd one{pmi.fd, POLLIN, 0};
    const int ready = ::poll(&one, 1, poll_timeout(deadline));
    if (ready == 0 && Clock::now() >= deadline) {
      return failed(Code::deadline, "PMI: the launcher did not answer \"" + asked + "\" in time",
                    "all processes of the job must create the communicator");
    }
    if (ready == 0) continue;
    char bytes[4096];
    const ssize_t got = ready < 0 ? -1 : ::read(pmi.fd, bytes, sizeof bytes);
    if (got == 0) return failed(Code::peer_lost, "PMI: the launcher closed its line");
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
      return system_failure("PMI: reading the launcher's answer", errno);
    }
    if (got > 0) pmi.unread.append(bytes, static_cast<std::size_t>(got));
  }
}

/// The value of `key` in "cmd=x key=value …".
std::string field(const std::string& answer, const std::string& key) {
  const std::string spaced = " " + answer + " ";
  const auto at = spaced.find(" " + key + "=");
  if (at == std::string::npos) return {};
  const auto from = at + key.size() + 2;
  return spaced.substr(from, spaced.find_first_of(" \n", from) - from);
}

/// Wants this answer to what was asked, with rc=0 if it has an rc.
Result<std::string> answer_to(Line& pmi, const std::string& command, const std::string& wants,
                              Deadline deadline) {
  COLL_ASSIGN(std::string answer, read_line(pmi, deadline, command));
  const std::string rc = field(answer, "rc");
  if (field(answer, "cmd") != wants || (!rc.empty() && rc != "0")) {
    return failed(Code::mismatch,
                  "PMI: the launcher answers \"" + command + "\" with \"" + answer + "\"",
                  "the launcher speaks another PMI; set COLL_RENDEZVOUS, or MASTER_ADDR and "
                  "MASTER_PORT");
  }
  return answer;
}

/// For what the launcher answers without anybody else, so that it leaves no answer on the line.
Deadline at_least_briefly(Deadline deadline) {
  return std::max(deadline, Deadline(Clock::now() + std::chrono::seconds(2)));
}

Result<std::string> ask(Line& pmi, const std::string& command, const std::string& wants,
                        Deadline deadline) {
  COLL_TRY(send_line(pmi, command));
  return answer_to(pmi, command, wants, deadline);
}

/// Passes the barrier, or goes on waiting in the one where an earlier try's time was up: the
/// launcher answers once, however late.
Status pass_barrier(Line& pmi, Deadline deadline) {
  const std::string command = "cmd=barrier_in";
  if (!pmi.in_barrier) COLL_TRY(send_line(pmi, command));
  pmi.in_barrier = true;
  COLL_TRY(answer_to(pmi, command, "barrier_out", deadline).status());
  pmi.in_barrier = false;
  ++pmi.barriers;
  return {};
}

void say_goodbye() {
  Line& pmi = line();
  if (pmi.owner != ::getpid()) return;
  const std::lock_guard lock(pmi.mutex);
  if (!pmi.open) return;
  [[maybe_unused]] const auto answer =
      ask(pmi, "cmd=finalize", "finalize_ack", Clock::now() + std::chrono::seconds(2));
  pmi.open = false;
}

Status open_line(Line& pmi, int fd, Deadline deadline) {
  if (pmi.open) return {};
  pmi.fd = fd;
  COLL_ASSIGN(const std::string init,
              ask(pmi, "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline));
  pmi.open = true;
  std::atexit(say_goodbye);
  COLL_ASSIGN(const std::string kvs, ask(pmi, "cmd=get_my_kvsname", "my_kvsname", deadline));
  pmi.kvs = field(kvs, "kvsname");
  return {};
}

}  // namespace

Status line_of_the_parent(const char* store) {
  return failed(Code::invalid_usage,
                std::string(store) +
                    ": the launcher speaks to the process that it started, and this "
                    "is a child of it, made by fork",
                "set COLL_RENDEZVOUS for ranks in children, or join before the fork");
}

Result<std::string> share_by_pmi(int fd, const std::string& name, const std::string& text,
                                 bool gives, Deadline deadline) {
  Line& pmi = line();
  if (pmi.owner != ::getpid()) return line_of_the_parent("PMI");
  const std::lock_guard lock(pmi.mutex);
  COLL_TRY(open_line(pmi, fd, deadline));
  const auto gathered = [&] { return pmi.barriers % 2 == 1; };
  // What an earlier try has put leads to a door that is closed.
  if (gives && gathered() && pmi.in_barrier) COLL_TRY(pass_barrier(pmi, deadline));
  // Nothing is put before all are there: the others would find it however late they come.
  if (!gathered()) COLL_TRY(pass_barrier(pmi, deadline));
  // Nothing can be put twice.
  const std::string key = name + "-" + std::to_string(pmi.barriers);
  if (gives) {
    if (Clock::now() >= deadline) {
      return failed(Code::deadline, "PMI: all processes of the job came, but too late",
                    "try again: the others wait");
    }
    COLL_ASSIGN(const std::string put,
                ask(pmi, "cmd=put kvsname=" + pmi.kvs + " key=" + key + " value=" + text,
                    "put_result", at_least_briefly(deadline)));
  }
  COLL_TRY(pass_barrier(pmi, deadline));
  if (gives) return text;
  COLL_ASSIGN(const std::string got, ask(pmi, "cmd=get kvsname=" + pmi.kvs + " key=" + key,
                                         "get_result", at_least_briefly(deadline)));
  return field(got, "value");
}

}  // namespace coll
