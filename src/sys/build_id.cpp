// SPDX-License-Identifier: Apache-2.0
// Finds the note of the linker among what the loader has mapped.
#include "sys/build_id.hpp"

#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "sys/proof.hpp"

namespace coll {
namespace {

/// A segment of an object that the loader has mapped.
std::string_view segment_of(const dl_phdr_info& object, const ElfW(Phdr) & header) {
  return {reinterpret_cast<const char*>(object.dlpi_addr + header.p_vaddr), header.p_memsz};
}

std::span<const ElfW(Phdr)> headers_of(const dl_phdr_info& object) {
  return {object.dlpi_phdr, object.dlpi_phnum};
}

bool has(const dl_phdr_info& object, const char* address) {
  return std::ranges::any_of(headers_of(object), [&](const ElfW(Phdr) & header) {
    const std::string_view bytes = segment_of(object, header);
    return header.p_type == PT_LOAD && address >= bytes.data() &&
           address < bytes.data() + bytes.size();
  });
}

/// The build ID among a segment's notes: each has a header, a name and its contents, both filled
/// up to four bytes (elf(5)).
std::string_view id_among(std::string_view notes) {
  const auto filled = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof header) {
    std::memcpy(&header, notes.data(), sizeof header);
    notes.remove_prefix(sizeof header);
    const std::size_t name = filled(header.n_namesz), contents = filled(header.n_descsz);
    if (notes.size() < name || notes.size() - name < contents) break;
    if (header.n_type == NT_GNU_BUILD_ID && notes.starts_with("GNU"))
      return notes.substr(name, header.n_descsz);
    notes.remove_prefix(name + contents);
  }
  return {};
}

}  // namespace

std::string build_id() {
  const auto look = [](dl_phdr_info* object, std::size_t, void* found) {
    static constexpr char kHere = 0;  // of the object that this function is in, too
    if (!has(*object, &kHere)) return 0;
    for (const ElfW(Phdr) & header : headers_of(*object)) {
      if (header.p_type != PT_NOTE) continue;
      const std::string_view id = id_among(segment_of(*object, header));
      if (!id.empty()) *static_cast<std::string_view*>(found) = id;
    }
    return 1;
  };
  std::string_view id;
  ::dl_iterate_phdr(look, &id);
  return to_hex(id);
}

}  // namespace coll
