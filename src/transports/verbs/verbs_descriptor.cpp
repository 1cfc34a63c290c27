// SPDX-License-Identifier: Apache-2.0
// Descriptors as text, and whether two of them fit.
#include "transports/verbs/verbs_descriptor.hpp"

#include <algorithm>

#include "sys/proof.hpp"
#include "sys/text_file.hpp"
#include "transports/verbs/verbs_ways.hpp"

namespace coll {
namespace {

std::string rail_text(const VerbsDescriptor::Rail& rail) {
  const std::string_view bytes(reinterpret_cast<const char*>(rail.gid.data()), rail.gid.size());
  const char* const kind = rail.near ? (rail.ethernet ? "e:" : "i:") : rail.ethernet ? "E:" : "I:";
  return kind + to_hex(bytes);
}

bool read_rail(std::string_view word, VerbsDescriptor::Rail& rail) {
  if (word.size() < 2 || word[1] != ':') return false;
  const std::size_t kind = std::string_view("eiEI").find(word[0]);
  if (kind == std::string_view::npos) return false;
  rail.ethernet = kind % 2 == 0;
  rail.near = kind < 2;
  const std::string bytes = from_hex(std::string(word.substr(2)));
  if (bytes.size() != rail.gid.size()) return false;
  std::ranges::copy(bytes, reinterpret_cast<char*>(rail.gid.data()));
  return true;
}

}  // namespace

std::string VerbsDescriptor::text() const {
  std::string text = "verbs/" + std::to_string(version) + " " + std::to_string(pairs);
  for (const Rail& rail : rails) text += " " + rail_text(rail);
  return text + " | " + dial;
}

Result<VerbsDescriptor> VerbsDescriptor::parse(std::string_view text) {
  VerbsDescriptor result;
  const auto not_understood = [&] {
    return failed(Code::mismatch,
                  "\"" + std::string(text.substr(0, 80)) + "\" is no verbs descriptor",
                  "run the same version of the library on all ranks");
  };
  std::string_view rest = text.substr(0, 8192);
  std::string_view head = take_word(rest);
  if (!head.starts_with("verbs/")) return not_understood();
  head.remove_prefix(6);
  if (!is_number(head, result.version)) return not_understood();
  // Later versions may write what follows in another way.
  if (result.version != kVerbsWireVersion) return result;
  if (!is_number(take_word(rest), result.pairs) || result.pairs == 0) return not_understood();
  for (;;) {
    const std::string_view word = take_word(rest);
    if (word == "|") break;
    Rail rail;
    if (!read_rail(word, rail)) return not_understood();
    result.rails.push_back(rail);
  }
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (result.rails.empty() || rest.empty()) return not_understood();
  result.dial = rest;
  return result;
}

Status verbs_accepts(const VerbsDescriptor& one, const VerbsDescriptor& other) {
  if (one.version != other.version)
    return failed(Code::mismatch,
                  "verbs wire versions differ: " + std::to_string(one.version) + " here, " +
                      std::to_string(other.version) + " there",
                  "run the same version of the library on all ranks");
  for (const std::size_t i : verbs_shape(one, other).rails) {
    const auto &a = one.rails[i], &b = other.rails[i];
    if (a.ethernet == b.ethernet && (!a.ethernet || is_ipv4_gid(a.gid) == is_ipv4_gid(b.gid)))
      continue;
    return failed(Code::unreachable,
                  "the ports of number " + std::to_string(i) + " do not reach each other: GID " +
                      rail_text(a) + " here, " + rail_text(b) +
                      " there (e, E: Ethernet, i, I: InfiniBand)",
                  "choose ports with COLL_INTERFACE, or addresses of one kind with gid=INDEX in "
                  "COLL_VERBS");
  }
  return {};
}

VerbsShape verbs_shape(const VerbsDescriptor& one, const VerbsDescriptor& other) {
  const std::size_t common = std::min(one.rails.size(), other.rails.size());
  VerbsShape shape;
  // Near both ends; near either; whatever there is.
  for (const int least : {2, 1, 0}) {
    for (std::size_t i = 0; i < common && shape.rails.size() < VerbsMeeting::kMostPairs; ++i)
      if (int{one.rails[i].near} + int{other.rails[i].near} >= least) shape.rails.push_back(i);
    if (!shape.rails.empty()) break;
  }
  shape.pairs = std::min<std::size_t>(shape.rails.size() * std::min(one.pairs, other.pairs),
                                      VerbsMeeting::kMostPairs);
  return shape;
}

}  // namespace coll
