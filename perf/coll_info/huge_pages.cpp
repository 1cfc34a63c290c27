// SPDX-License-Identifier: Apache-2.0
// Whether this machine backs memory with huge pages. It is tried, since settings do not say it.
#include "coll_info/huge_pages.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "sys/memory/shared_arena.hpp"
#include "sys/text_file.hpp"

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBlock = std::size_t{4} << 20;

/// The word in brackets of a setting such as "always [madvise] never".
std::string chosen(const std::string& name) {
  const std::string line = coll::first_line_of("/sys/kernel/mm/transparent_hugepage/" + name);
  const std::size_t begin = line.find('['), end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos) return "";
  return line.substr(begin + 1, end - begin - 1);
}

/// Is it a range of addresses, such as "7f00-7fff", that has a byte of the block?
std::optional<bool> meets_block(std::string_view range, std::uintptr_t block) {
  std::uintptr_t from = 0, to = 0;
  const char* const end = range.data() + range.size();
  const auto [dash, error] = std::from_chars(range.data(), end, from, 16);
  if (error != std::errc() || dash == end || *dash != '-') return {};
  if (std::from_chars(dash + 1, end, to, 16).ec != std::errc()) return {};
  return from < block + kBlock && block < to;
}

/// The bytes in huge pages of the mappings that meet the block. The rest of them is untouched.
std::size_t bytes_in_huge_pages(const std::byte* block) {
  const auto text = coll::read_file("/proc/self/smaps");
  if (!text.ok()) return 0;
  std::size_t kib = 0;
  bool of_block = false;
  for (std::string_view rest = *text; !rest.empty();) {
    std::string_view line = coll::take_line(rest);
    const std::string_view key = coll::take_word(line);
    if (const auto meets = meets_block(key, reinterpret_cast<std::uintptr_t>(block)))
      of_block = *meets;
    std::size_t amount = 0;
    if (of_block && (key == "AnonHugePages:" || key == "ShmemPmdMapped:") &&
        coll::is_number(coll::take_word(line), amount))
      kib += amount;
  }
  return kib << 10;
}

/// What the block at `begin` has once its pages are touched. Null: there is no block to try.
Json row_of(const std::string& setting, std::byte* begin) {
  if (begin != nullptr) std::memset(begin, 1, kBlock);
  return {{"setting", setting},
          {"tried_bytes", begin == nullptr ? 0 : kBlock},
          {"had_bytes", begin == nullptr ? 0 : bytes_in_huge_pages(begin)}};
}

Json of_arena() {
  const coll::SharedArena::OwnedBlock block = coll::SharedArena::own(kBlock, coll::ArenaUse::calls);
  return row_of(chosen("shmem_enabled"), block.get());
}

Json of_process() {
  const std::string setting = chosen("enabled");
  // Twice as long, so that there is a block that begins where a huge page does.
  void* const room =
      ::mmap(nullptr, 2 * kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return row_of(setting, nullptr);
  auto* const begin = static_cast<std::byte*>(room);
  std::byte* const block = begin + -reinterpret_cast<std::uintptr_t>(begin) % kBlock;
  (void)::madvise(block, kBlock, MADV_HUGEPAGE);
  Json row = row_of(setting, block);
  ::munmap(room, 2 * kBlock);
  return row;
}

std::string had_text(const Json& row) {
  const auto tried = row["tried_bytes"].get<std::size_t>();
  const auto had = row["had_bytes"].get<std::size_t>();
  const auto setting = row["setting"].get<std::string>();
  const std::string part = tried == 0     ? "unknown"
                           : had == 0     ? "no"
                           : had >= tried ? "yes"
                                          : fmt::format("{} of {} MiB", had >> 20, tried >> 20);
  return fmt::format("{} ({})", part, setting.empty() ? "the kernel has no setting" : setting);
}

}  // namespace

Json huge_pages() {
  return {{"coll_mem_alloc", of_arena()}, {"own_memory", of_process()}};
}

std::string huge_pages_text(const Json& pages) {
  return fmt::format("memory of coll_mem_alloc {}, other memory that asks for them {}",
                     had_text(pages["coll_mem_alloc"]), had_text(pages["own_memory"]));
}
