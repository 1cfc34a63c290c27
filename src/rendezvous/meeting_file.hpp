// SPDX-License-Identifier: Apache-2.0
// A unique id left in a file for the others.
#pragma once
#include <optional>
#include <string>

#include "base/status.hpp"
#include "rendezvous/unique_id.hpp"

namespace coll {

/// Puts the id there in one step (a temporary file beside it, renamed), readable by this user only.
Status publish_id(const std::string& path, const UniqueId& id);

/// The id in the file; nothing while there is no such file. A file that is something else, or
/// another user's, is an error.
Result<std::optional<UniqueId>> read_id(const std::string& path);

/// Removes the file if it still holds this id.
void withdraw_id(const std::string& path, const UniqueId& id);

/// The id as one word of text, and back; nothing if it is none.
std::string id_text(const UniqueId& id);
std::optional<UniqueId> id_from_text(std::string_view text);

}  // namespace coll
