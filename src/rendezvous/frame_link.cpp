// SPDX-License-Identifier: Apache-2.0
// Frames pieced together from what sockets give.
#include "rendezvous/frame_link.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <span>

#include "sys/net/socket.hpp"

namespace coll {

short FrameLink::events() const {
  return static_cast<short>(POLLIN | (sending() ? POLLOUT : 0));
}

void FrameLink::send(std::string_view frame) {
  send(std::make_shared<const std::string>(frame));
}

void FrameLink::send(std::shared_ptr<const std::string> frame) {
  queue(std::move(frame));
  push();
}

void FrameLink::queue(std::shared_ptr<const std::string> frame) {
  Outgoing next;
  for (unsigned i = 0; i < 4; ++i) {
    next.head[i] = static_cast<char>(frame->size() >> (8 * i) & 0xff);
  }
  next.body = std::move(frame);
  out_.push_back(std::move(next));
}

void FrameLink::push(std::size_t most) {
  while (!out_.empty() && most > 0) {
    Outgoing& first = out_.front();
    const std::size_t of_head = std::min(first.sent, first.head.size());
    const std::size_t of_body = first.sent - of_head;
    const std::size_t head = std::min(first.head.size() - of_head, most);
    const std::size_t body = std::min(first.body->size() - of_body, most - head);
    // sendmsg(2) only reads what iovec points to.
    const iovec pieces[] = {{first.head.data() + of_head, head},
                            {const_cast<char*>(first.body->data()) + of_body, body}};
    const Moved moved = send_some(fd_.get(), pieces);
    if (moved.bytes == 0) {
      // A broken link shows when it is read; what was queued for it is of no use any more.
      if (!moved.would_block()) out_.clear();
      return;
    }
    sent_ += moved.bytes;
    most -= moved.bytes;
    first.sent += moved.bytes;
    if (first.sent == first.head.size() + first.body->size()) out_.erase(out_.begin());
  }
}

FrameLink::Got FrameLink::receive(std::string& frame) {
  std::size_t all = kAll;
  return receive(frame, all);
}

FrameLink::Got FrameLink::receive(std::string& frame, std::size_t& budget) {
  for (;;) {
    std::span<char> into;
    if (head_have_ < head_.size()) {
      into = std::span(head_).subspan(head_have_);
    } else {
      // Grows with what really comes, so that a stranger's length costs nothing.
      std::size_t size = 0;
      for (unsigned i = 0; i < 4; ++i) {
        size |= static_cast<std::size_t>(static_cast<unsigned char>(head_[i])) << (8 * i);
      }
      if (size > limit_) return Got::garbage;
      if (body_have_ == size) {
        frame = std::move(body_);
        body_.clear();
        head_have_ = body_have_ = 0;
        return Got::frame;
      }
      body_.resize(std::min(size, body_have_ + 65536));
      into = std::span(body_).subspan(body_have_);
    }
    if (budget == 0) return Got::nothing;
    into = into.first(std::min(into.size(), budget));
    const Moved moved = recv_some(fd_.get(), std::as_writable_bytes(into));
    if (moved.bytes == 0) return moved.would_block() ? Got::nothing : Got::closed;
    budget -= moved.bytes;
    (head_have_ < head_.size() ? head_have_ : body_have_) += moved.bytes;
  }
}

void FrameLink::finish_sending(Deadline until) {
  while (sending()) {
    const Result<bool> writable = wait_for(fd(), POLLOUT, until);
    if (!writable.ok() || !*writable) return;
    push();
  }
}

void FrameLink::shut() noexcept {
  ::shutdown(fd_.get(), SHUT_RDWR);
}

void FrameLink::hang_up() {
  shut();
  close();
}

}  // namespace coll
