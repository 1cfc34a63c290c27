// SPDX-License-Identifier: Apache-2.0
// Words sent and collected.
#include "transports/verbs/verbs_control.hpp"

#include <cstring>
#include <span>

namespace coll {

void VerbsControl::end(const Moved& moved) {
  ended_ = true;
  error_ = moved.error;
}

void VerbsControl::say(const VerbsWord& word) {
  const auto bytes = std::as_bytes(std::span(&word, 1));
  unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  push();
}

void VerbsControl::push() {
  if (unsent_.empty() || !socket_) return;
  const Moved moved = send_some(socket_.get(), unsent_);
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(moved.bytes));
  // What the peer said before it went is still to be heard.
  if (moved.bytes == 0 && !moved.would_block()) unsent_.clear();
}

std::optional<VerbsWord> VerbsControl::hear() {
  while (!ended_ && have_ < heard_.size()) {
    const Moved moved = recv_some(socket_.get(), std::span(heard_).subspan(have_));
    if (moved.bytes == 0) {
      if (!moved.would_block()) end(moved);
      return {};
    }
    have_ += moved.bytes;
  }
  if (have_ < heard_.size()) return {};
  have_ = 0;
  VerbsWord word;
  std::memcpy(&word, heard_.data(), sizeof word);
  return word;
}

}  // namespace coll
