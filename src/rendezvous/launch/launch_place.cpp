// SPDX-License-Identifier: Apache-2.0
// Places from variables, launcher by launcher.
#include "rendezvous/launch/launch_place.hpp"

#include <unistd.h>

#include <charconv>
#include <optional>

#include "rendezvous/stores/job_board.hpp"
#include "sys/proof.hpp"

namespace coll {
namespace {

constexpr int kFurtherPorts = 15;
// Below what Linux gives to outgoing connections (32768 and up), so that these stay free.
constexpr unsigned kFirstPort = 20000;
constexpr unsigned kPorts = 12000;

std::string value(const GetVariable& get, const char* name) {
  const char* text = get(name);
  return text != nullptr ? text : "";
}

bool is_set(const GetVariable& get, const char* name) {
  const char* text = get(name);
  return text != nullptr && *text != '\0';
}

std::string with_secret(std::string key, std::string_view secret) {
  return key.append("\nsecret ").append(secret);
}

/// 128 bits in hexadecimal, as a UUID has: not a name that somebody has thought of.
bool is_random(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
  std::size_t digits = 0;
  for (const char c : text) {
    const bool digit = kDigits.find(c) != std::string_view::npos;
    if (!digit && c != '-') return false;
    if (digit) ++digits;
  }
  return digits >= 32;
}

/// A number that all ranks find from the same text.
unsigned number_from(const std::string& text) {
  const std::string hash = prove("port", text);
  return static_cast<unsigned>(static_cast<unsigned char>(hash[0])) << 16 |
         static_cast<unsigned>(static_cast<unsigned char>(hash[1])) << 8 |
         static_cast<unsigned>(static_cast<unsigned char>(hash[2]));
}

std::string host_and_port(const std::string& host, unsigned port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return (bare_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

/// The port that was asked for may be another's (torchrun keeps its own store there): every rank
/// knows the same few others, and the handshake tells who is who.
void add_ports(MeetingPlace& place, const std::string& host, unsigned port) {
  place.addresses.push_back(host_and_port(host, port));
  for (int i = 0; i < kFurtherPorts; ++i) {
    const unsigned further =
        kFirstPort + number_from(std::to_string(port) + "/" + std::to_string(i)) % kPorts;
    place.addresses.push_back(host_and_port(host, further));
  }
}

Result<unsigned> read_port(const GetVariable& get, const char* name) {
  const std::string text = value(get, name);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0 || port > 65535) {
    return failed(Code::invalid_argument, std::string(name) + "=" + text + " is no port",
                  "ports are 1 to 65535");
  }
  return port;
}

/// MASTER_ADDR and MASTER_PORT; nothing if neither is set.
Result<std::optional<MeetingPlace>> master_place(const GetVariable& get, const char* whose) {
  const bool address = is_set(get, "MASTER_ADDR");
  if (address != is_set(get, "MASTER_PORT")) {
    return failed(Code::invalid_usage,
                  std::string(address ? "MASTER_ADDR is set, MASTER_PORT is not"
                                      : "MASTER_PORT is set, MASTER_ADDR is not"),
                  "set both: the host and a port of rank 0");
  }
  if (!address) return std::optional<MeetingPlace>();
  COLL_ASSIGN(const unsigned port, read_port(get, "MASTER_PORT"));
  MeetingPlace place;
  place.kind = MeetingPlace::Kind::tcp;
  place.source = std::string("MASTER_ADDR, MASTER_PORT (") + whose + ")";
  // Not MASTER_ADDR: some operators give rank 0 "localhost" and the others its name.
  place.key = "master " + std::to_string(port) + " " + value(get, "TORCHELASTIC_RUN_ID") + " " +
              value(get, "TORCHELASTIC_RESTART_COUNT");
  // `torchrun --standalone` draws one; who wants to can for any other job.
  place.secret = is_random(value(get, "TORCHELASTIC_RUN_ID"));
  add_ports(place, value(get, "MASTER_ADDR"), port);
  return std::optional(std::move(place));
}

std::string temporary_directory(const GetVariable& get) {
  return is_set(get, "TMPDIR") ? value(get, "TMPDIR") : "/tmp";
}

Result<MeetingPlace> open_mpi_place(const GetVariable& get) {
  MeetingPlace place;
  // The daemon's address tells two mpirun apart that drew the same name for their job.
  place.key = "open mpi " + value(get, "PMIX_NAMESPACE") + " " + value(get, "PMIX_SERVER_URI2") +
              " " + value(get, "OMPI_MCA_orte_hnp_uri");
  if (value(get, "OMPI_COMM_WORLD_LOCAL_SIZE") == value(get, "OMPI_COMM_WORLD_SIZE")) {
    if (!is_set(get, "PMIX_NAMESPACE")) {
      return failed(Code::invalid_usage, "Open MPI's set lacks PMIX_NAMESPACE",
                    "start by mpirun, or set COLL_RENDEZVOUS");
    }
    place.kind = MeetingPlace::Kind::file;
    place.path = temporary_directory(get) + "/coll-" + std::to_string(geteuid()) + "-" +
                 to_hex(prove("path", place.key)).substr(0, 16);
    place.source = "Open MPI, all ranks on one host, " + place.path;
    return place;
  }
  place.kind = MeetingPlace::Kind::pmi;
  place.path = "pmix";
  place.source = "Open MPI's PMIx";
  // On several hosts the daemons' addresses differ from host to host.
  place.key = "open mpi " + value(get, "PMIX_NAMESPACE");
  return place;
}

Result<MeetingPlace> mpich_place(const GetVariable& get) {
  if (!is_set(get, "PMI_FD")) {
    return failed(Code::invalid_usage,
                  "MPICH's set (PMI_RANK, PMI_SIZE) says who this is, but not where to meet: "
                  "PMI_FD is not set",
                  "set COLL_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT");
  }
  MeetingPlace place;
  place.kind = MeetingPlace::Kind::pmi;
  place.path = "fd:" + value(get, "PMI_FD");
  place.source = "MPICH's PMI";
  place.key = "mpich " + value(get, "PMI_JOBID");
  return place;
}

Result<MeetingPlace> slurm_place(const GetVariable& get) {
  const char* const list =
      is_set(get, "SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const std::string first = first_host(value(get, list));
  const std::string job = value(get, "SLURM_JOB_ID") + "." + value(get, "SLURM_STEP_ID");
  MeetingPlace place;
  place.key = "slurm " + job;
  // What can be known of a job is no secret; what its PMIx server hands out is.
  if (is_set(get, "PMIX_NAMESPACE") && pmix_loads()) {
    place.kind = MeetingPlace::Kind::pmi;
    place.path = "pmix";
    place.source = "Slurm's PMIx";
    return place;
  }
  place.kind = MeetingPlace::Kind::tcp;
  place.source = std::string("Slurm, first host of ") + list + ", a port from the job's number";
  const unsigned port = kFirstPort + number_from("slurm " + job) % kPorts;
  if (first.empty() || !is_set(get, "SLURM_JOB_ID")) {
    return failed(Code::invalid_usage,
                  "Slurm's set (SLURM_PROCID, SLURM_NTASKS) says who this is, but not where to "
                  "meet: SLURM_STEP_NODELIST or SLURM_JOB_ID is not set",
                  "set COLL_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT");
  }
  add_ports(place, first, port);
  // Where node names do not resolve; it is rank 0's host only if srun was called there.
  if (is_set(get, "SLURM_LAUNCH_NODE_IPADDR")) {
    add_ports(place, value(get, "SLURM_LAUNCH_NODE_IPADDR"), port);
  }
  return place;
}

Result<MeetingPlace> own_place(Launcher launcher, Rank size, const GetVariable& get) {
  constexpr const char* kNames[] = {"COLL_RANK, COLL_SIZE", "torchrun", "Open MPI", "MPICH",
                                    "Slurm"};
  COLL_ASSIGN(std::optional<MeetingPlace> master,
              master_place(get, kNames[static_cast<int>(launcher)]));
  if (master) return *std::move(master);
  if (size == 1) {
    MeetingPlace alone;
    alone.source = "one rank";
    return alone;
  }
  switch (launcher) {
    case Launcher::open_mpi:
      return open_mpi_place(get);
    case Launcher::mpich:
      return mpich_place(get);
    case Launcher::slurm:
      return slurm_place(get);
    case Launcher::torchrun:
    case Launcher::coll:
      break;
  }
  return failed(Code::invalid_usage,
                "this process has its rank from " +
                    std::string(kNames[static_cast<int>(launcher)]) +
                    ", but nothing says where to meet",
                "set COLL_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT");
}

}  // namespace

std::string first_host(std::string_view list) {
  const std::size_t end = list.find_first_of(",[");
  std::string host(list.substr(0, end));
  if (end == std::string_view::npos || list[end] == ',') return host;
  const std::string_view inside = list.substr(end + 1);
  host += inside.substr(0, inside.find_first_of(",-]"));
  // "rack[1-2]node7": what follows the bracket belongs to the name, and may have brackets again.
  const std::size_t close = inside.find(']');
  if (close == std::string_view::npos) return {};
  return host + first_host(inside.substr(close + 1));
}

Result<MeetingPlace> place_from_text(std::string_view text, std::string_view key,
                                     std::string_view secret, std::string source) {
  MeetingPlace place;
  place.key = with_secret(std::string(key), secret);
  place.secret = !secret.empty();
  place.source = std::move(source);
  if (text.starts_with("tcp://")) {
    std::string address(text.substr(6));
    while (address.ends_with('/')) address.pop_back();
    const std::size_t colon = address.rfind(':');
    if (colon != std::string::npos && colon > 0 && colon + 1 < address.size() &&
        address.find_first_not_of("0123456789", colon + 1) == std::string::npos) {
      place.kind = MeetingPlace::Kind::tcp;
      place.addresses.push_back(std::move(address));
      return place;
    }
  }
  if (text.starts_with("file:///") && text.size() > 8) {
    place.kind = MeetingPlace::Kind::file;
    place.path = text.substr(7);
    return place;
  }
  return failed(
      Code::invalid_argument,
      "\"" + std::string(text) + "\" is no rendezvous (" + place.source + ")",
      "write tcp://HOST:PORT, where rank 0 listens, or file:///PATH, which all ranks share");
}

Result<MeetingPlace> launch_place(Launcher launcher, Rank size, const GetVariable& get) {
  const std::string secret = value(get, "COLL_SECRET");
  if (is_set(get, "COLL_RENDEZVOUS")) {
    COLL_ASSIGN(MeetingPlace place, place_from_text(value(get, "COLL_RENDEZVOUS"),
                                                    "COLL_RENDEZVOUS", secret, "COLL_RENDEZVOUS"));
    place.interfaces = value(get, "COLL_INTERFACE");
    return place;
  }
  COLL_ASSIGN(MeetingPlace place, own_place(launcher, size, get));
  place.key = with_secret(std::move(place.key), secret);
  place.secret = place.secret || !secret.empty();
  place.interfaces = value(get, "COLL_INTERFACE");
  return place;
}

}  // namespace coll
