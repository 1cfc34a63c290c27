// SPDX-License-Identifier: Apache-2.0
// Counts what the processor has to do for a device, and has done.
#pragma once
#include <cstdint>

#include "base/kept_queue.hpp"
#include "transports/device_port.hpp"

namespace coll {

/// What was announced at a port to be sent and received, by numbers that go round.
class AnnouncedMessages {
 public:
  void announce_sending() { ++sending_; }
  void announce_receiving() { ++receiving_; }
  /// The next one was sent; the inner connection's mark behind it.
  void sent(Mark behind) { unflushed_.push({++sent_, behind}); }
  void received() { ++received_; }
  /// Whether what was sent will arrive without this process; true if more of it will. `flushed`:
  /// the inner connection's function.
  template <class Flushed>
  bool flush(Flushed flushed) {
    bool any = false;
    for (; !unflushed_.empty() && flushed(unflushed_.front().behind); unflushed_.pop()) {
      flushed_ = unflushed_.front().number;
      any = true;
    }
    return any;
  }

  [[nodiscard]] Mark mark() const { return Mark{sending_} << 32 | receiving_; }
  [[nodiscard]] bool is_over(Mark mark, Directions of) const {
    const bool sent = of == Directions::receiving ||
                      has_reached(flushed_, static_cast<std::uint32_t>(mark >> 32));
    const bool received =
        of == Directions::sending || has_reached(received_, static_cast<std::uint32_t>(mark));
    return sent && received;
  }

 private:
  struct Sent {
    std::uint32_t number = 0;
    Mark behind = 0;
  };
  static bool has_reached(std::uint32_t now, std::uint32_t wanted) {
    return static_cast<std::int32_t>(now - wanted) >= 0;
  }

  std::uint32_t sending_ = 0, receiving_ = 0;
  std::uint32_t sent_ = 0, flushed_ = 0, received_ = 0;
  KeptQueue<Sent> unflushed_;
};

}  // namespace coll
