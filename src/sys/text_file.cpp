// SPDX-License-Identifier: Apache-2.0
// Reads and writes short files whole, with every failure reported.
#include "sys/text_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "sys/fd.hpp"
#include "sys/proof.hpp"

namespace coll {

Result<std::string> read_file(const std::filesystem::path& path, std::size_t most) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return system_failure("opening " + path.string(), errno);
  std::string text;
  std::size_t have = 0;
  while (true) {
    text.resize(have + std::max<std::size_t>(4096, have));
    const ssize_t got = ::read(file.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("reading " + path.string(), errno);
    have += static_cast<std::size_t>(got);
    if (have > most) {
      return failed(Code::invalid_argument,
                    path.string() + " is longer than " + std::to_string(most) + " bytes");
    }
    if (got == 0) break;
  }
  text.resize(have);
  return text;
}

Status replace_file(const std::filesystem::path& path, std::string_view text, unsigned mode) {
  // Others, also on other hosts, may write the same file, or wait for a name that they foresee.
  COLL_ASSIGN(const std::string random, random_bytes(8));
  const std::string unfinished = path.string() + "." + to_hex(random) + ".tmp";
  Fd file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file) return system_failure("creating " + unfinished, errno);
  const auto give_up = [&](const char* doing, int why) {
    ::unlink(unfinished.c_str());
    return system_failure(doing + unfinished, why);
  };
  while (!text.empty()) {
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return give_up("writing ", put < 0 ? errno : ENOSPC);
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  // Network file systems and quotas report a full disk only here.
  if (::close(file.release()) != 0) return give_up("writing ", errno);
  if (::rename(unfinished.c_str(), path.c_str()) != 0) return give_up("renaming ", errno);
  return {};
}

std::string first_line_of(const std::filesystem::path& path) {
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return {};
  std::string_view rest = *text;
  return std::string(take_line(rest));
}

std::string_view take_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  return line;
}

std::string_view take_word(std::string_view& rest) {
  constexpr std::string_view kSpace = " \t\r\n";
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(kSpace)));
  const std::string_view word = rest.substr(0, rest.find_first_of(kSpace));
  rest.remove_prefix(word.size());
  return word;
}

}  // namespace coll
