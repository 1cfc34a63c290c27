// SPDX-License-Identifier: Apache-2.0
// Reading texts: from a file, and from the program `bible`.
#include "text.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "../memory/failure.hpp"
#include "draw.hpp"

namespace training {
namespace {

constexpr std::size_t kVerses = 31102;
// The shell's status for a command that is not there.
constexpr const char* kBible =
    "command -v bible >/dev/null || exit 127; exec bible -f gen1:1-rev22:21 </dev/null";
constexpr int kNotFound = 127;

/// Reads on to the end, or until there is too much. The stream stays open.
std::string all_of(std::FILE* file) {
  std::string text;
  std::array<char, std::size_t{1} << 16U> block;
  while (const std::size_t read = std::fread(block.data(), 1, block.size(), file)) {
    text.append(block.data(), read);
    if (text.size() > kMostRows) break;
  }
  return text;
}

[[noreturn]] void refuse_bible(const std::string& what) {
  throw Failure(
      fmt::format("The King James text cannot be read: {}. Install Debian's packages "
                  "(apt-get install bible-kjv bible-kjv-text), or name other data with "
                  "--data, such as text:PATH or markov.",
                  what));
}

/// "Ge1:1 In the beginning ..." without its first word, which is a reference: "Ge1:1".
std::string_view verse_of(std::string_view line) {
  const std::size_t colon = line.find(':'), space = line.find(' ');
  constexpr std::string_view kDigits = "0123456789";
  if (colon == 0 || colon == std::string_view::npos || space == std::string_view::npos ||
      colon + 1 >= space || kDigits.find(line[colon - 1]) == std::string_view::npos ||
      line.substr(colon + 1, space - colon - 1).find_first_not_of(kDigits) !=
          std::string_view::npos) {
    refuse_bible(
        fmt::format("`bible` gave a line without a verse's reference, \"{}\"", line.substr(0, 40)));
  }
  const std::size_t begin = line.find_first_not_of(' ', space);
  return begin == std::string_view::npos ? std::string_view() : line.substr(begin);
}

}  // namespace

Text text_of(std::string name, std::string_view characters) {
  std::array<std::uint8_t, 256> symbol{};
  std::array<bool, 256> occurs{};
  for (const char c : characters) occurs[static_cast<std::uint8_t>(c)] = true;
  Text text{std::move(name), {}, {}};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (!occurs[byte]) continue;
    symbol[byte] = static_cast<std::uint8_t>(text.alphabet.size());
    text.alphabet += static_cast<char>(byte);
  }
  text.symbols.resize(characters.size());
  std::ranges::transform(characters, text.symbols.begin(),
                         [&](char c) { return symbol[static_cast<std::uint8_t>(c)]; });
  return text;
}

Text bible_text() {
  // NOLINTNEXTLINE(bugprone-command-processor): whoever sets PATH may choose the program
  std::FILE* pipe = popen(kBible, "re");
  if (pipe == nullptr) refuse_bible(fmt::format("no shell: {}", std::strerror(errno)));
  const std::string lines = all_of(pipe);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFound)
    refuse_bible("the program `bible` is not installed");
  if (status != 0) refuse_bible(fmt::format("`bible` failed with status {:#x}", status));

  std::string text;
  text.reserve(lines.size());
  std::size_t verses = 0;
  for (std::size_t at = 0; at < lines.size(); ++verses) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    text += verse_of(std::string_view(lines).substr(at, end - at));
    text += '\n';
    at = end + 1;
  }
  if (verses != kVerses)
    refuse_bible(fmt::format("`bible` gave {} verses instead of {}", verses, kVerses));
  return text_of("the King James Bible", text);
}

Text file_text(const std::string& path) {
  errno = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             std::fclose);
  const std::string text = file ? all_of(file.get()) : std::string();
  if (!file || std::ferror(file.get()) != 0)
    throw Failure(fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
  if (text.empty()) throw Failure(fmt::format("{} is empty: training needs a text.", path));
  if (text.size() > kMostRows)
    throw Failure(fmt::format("{} has more than {} bytes: use a part of it.", path, kMostRows));
  return text_of(path, text);
}

}  // namespace training
