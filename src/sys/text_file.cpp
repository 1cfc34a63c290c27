// SPDX-License-Identifier: Apache-2.0
// Reads short files whole, with every failure reported.
#include "sys/text_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sys/fd.hpp"

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
