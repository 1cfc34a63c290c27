// SPDX-License-Identifier: Apache-2.0
// What stands before each frame of a control plane.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/control_message.hpp"

namespace coll {

/// The topic (8 bytes), and whether this is the last frame of the topic in this direction (1 byte).
struct TopicHeader {
  static constexpr std::size_t kBytes = 9;
  std::uint64_t topic = 0;
  bool closing = false;

  /// Nothing where it makes no sense.
  static std::optional<TopicHeader> read(std::string_view frame) {
    MessageReader in(frame.substr(0, kBytes));
    const std::uint64_t topic = in.u64();
    const std::uint8_t closing = in.u8();
    if (!in.whole() || closing > 1) return std::nullopt;
    return TopicHeader{topic, closing == 1};
  }
};

inline std::shared_ptr<const std::string> topic_frame(std::uint64_t topic, bool closing,
                                                      std::string_view frame) {
  MessageWriter out;
  out.u64(topic).u8(closing ? 1 : 0).raw(frame);
  return std::make_shared<const std::string>(out.bytes());
}

}  // namespace coll
