// SPDX-License-Identifier: Apache-2.0
// XML parsed for the readers, with positions in messages.
#include "topology/read/xml_text.hpp"

#include <algorithm>

namespace coll {
namespace {

constexpr int kDeepest = 200;  // readers recurse; real machines nest to about 30

bool too_deep(const pugi::xml_node& root) {
  int depth = 0;
  for (pugi::xml_node at = root; at;) {
    if (depth > kDeepest) return true;
    if (at.first_child()) {
      at = at.first_child();
      ++depth;
      continue;
    }
    while (at && at != root && !at.next_sibling()) {
      at = at.parent();
      --depth;
    }
    if (!at || at == root) return false;
    at = at.next_sibling();
  }
  return false;
}

}  // namespace

Result<pugi::xml_node> XmlText::parse() {
  const pugi::xml_parse_result result = document_.load_buffer(text_.data(), text_.size());
  if (!result)
    return unreadable(
        name_, line_of(text_, static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, result.offset))),
        std::string("XML: ") + result.description(),
        "the file is cut or was edited: write it again");
  const pugi::xml_node root = document_.document_element();
  if (too_deep(root))
    return unreadable(name_, 0, "elements nest deeper than 200", "no machine does: write it again");
  return root;
}

Status XmlText::fault(const pugi::xml_node& at, std::string_view what, std::string hint) const {
  const std::ptrdiff_t offset = at.offset_debug();
  return unreadable(name_, offset < 0 ? 0 : line_of(text_, static_cast<std::size_t>(offset)), what,
                    std::move(hint));
}

}  // namespace coll
