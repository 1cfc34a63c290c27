// SPDX-License-Identifier: Apache-2.0
// The rendezvous' file, written and read.
#include "rendezvous/meeting_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sys/proof.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

constexpr std::string_view kHead = "collectives-rendezvous 1 ";

}  // namespace

std::string id_text(const UniqueId& id) {
  return to_hex(id.view());
}

std::optional<UniqueId> id_from_text(std::string_view text) {
  const std::string bytes = from_hex(text);
  if (bytes.size() != UniqueId::kBytes) return std::nullopt;
  UniqueId id;
  std::ranges::copy(bytes, id.bytes.begin());
  return id;
}

Status publish_id(const std::string& path, const UniqueId& id) {
  const Status written = replace_file(path, std::string(kHead) + id_text(id) + "\n", 0600);
  if (written.ok()) return written;
  const Failure& why = *written.failure();
  return failed(why.code, "rendezvous: " + why.what,
                "rank 0 must be able to write this file and the others to read it; "
                "COLL_RENDEZVOUS chooses another",
                why.error);
}

Result<std::optional<UniqueId>> read_id(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT || errno == ESTALE) return std::optional<UniqueId>();
    return system_failure("rendezvous: opening " + path, errno);
  }
  struct stat about = {};
  if (::fstat(fd.get(), &about) != 0)
    return system_failure("rendezvous: looking at " + path, errno);
  if (about.st_uid != ::geteuid()) {
    return failed(Code::invalid_usage,
                  "rendezvous: " + path + " belongs to user " + std::to_string(about.st_uid) +
                      ", this process to user " + std::to_string(::geteuid()),
                  "run all ranks as one user, or choose a file where nobody else can put one");
  }
  std::string text(kHead.size() + 2 * UniqueId::kBytes + 1, '\0');
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  if (got < 0) return system_failure("rendezvous: reading " + path, errno);
  text.resize(static_cast<std::size_t>(got));
  std::optional<UniqueId> id;
  if (text.starts_with(kHead) && text.ends_with('\n')) {
    id = id_from_text(std::string_view(text).substr(kHead.size(), 2 * UniqueId::kBytes));
  }
  if (!id) {
    return failed(Code::invalid_argument, "rendezvous: " + path + " holds something else",
                  "remove it, or choose another file");
  }
  return id;
}

void withdraw_id(const std::string& path, const UniqueId& id) {
  const auto there = read_id(path);
  if (there.ok() && *there && (*there)->bytes == id.bytes) ::unlink(path.c_str());
}

}  // namespace coll
