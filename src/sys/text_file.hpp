// SPDX-License-Identifier: Apache-2.0
// Reads and writes short files whole, with every failure reported.
#pragma once
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/status.hpp"

namespace coll {

/// A whole file, which may be one of /proc that has no size; refuses more than `most` bytes. (Not
/// std::ifstream: where memory runs out, a stream only ends early.)
Result<std::string> read_file(const std::filesystem::path& path, std::size_t most = 64 << 20);
/// Writes a file whole, in place of the one that was there: who reads it meanwhile sees all of the
/// old text or all of the new. `mode` as open(2) takes it.
Status replace_file(const std::filesystem::path& path, std::string_view text, unsigned mode = 0666);
/// The first line of a file, "" where it cannot be read: how /sys tells a value.
std::string first_line_of(const std::filesystem::path& path);
/// Takes the next line off `rest`, without its end.
std::string_view take_line(std::string_view& rest);
/// Takes the next word off `rest`, "" where there is none: what spaces, tabs or line ends divide.
std::string_view take_word(std::string_view& rest);

/// Is the word a number, and nothing else?
template <class Number>
bool is_number(std::string_view word, Number& number) {
  const char* const end = word.data() + word.size();
  const auto [after, error] = std::from_chars(word.data(), end, number);
  return error == std::errc() && after == end;
}

}  // namespace coll
