// SPDX-License-Identifier: Apache-2.0
// XML as readers want it: attributes as numbers, and the line of an element.
#pragma once
#include <pugixml.hpp>

#include "topology/reader_text.hpp"

namespace coll {

/// A parsed text; elements know their line.
class XmlText {
 public:
  XmlText(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  /// The document's only root element; fails if the text is no XML or nested too deep.
  Result<pugi::xml_node> parse();
  [[nodiscard]] Status fault(const pugi::xml_node& at, std::string_view what,
                             std::string hint) const;

 private:
  std::string_view text_, name_;
  pugi::xml_document document_;
};

inline std::string_view attribute(const pugi::xml_node& node, const char* key) {
  return node.attribute(key).value();
}

template <class T>
T attribute_or(const pugi::xml_node& node, const char* key, T otherwise) {
  return number<T>(trimmed(attribute(node, key))).value_or(otherwise);
}

}  // namespace coll
