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
  Outgoing next;
  for (unsigned i = 0; i < 4; ++i) {
    next.head[i] = static_cast<char>(frame->size() >> (8 * i) & 0xff);
  }
  next.body = std::move(frame);
  out_.push_back(std::move(next));
  push();
}

void FrameLink::push() {
  while (!out_.empty()) {
    Outgoing& first = out_.front();
    const std::size_t of_head = std::min(first.sent, first.head.size());
    const std::size_t of_body = first.sent - of_head;
    // sendmsg(2) only reads what iovec points to.
    const iovec pieces[] = {
        {first.head.data() + of_head, first.head.size() - of_head},
        {const_cast<char*>(first.body->data()) + of_body, first.body->size() - of_body}};
    const Moved moved = send_some(fd_.get(), pieces);
    if (moved.bytes == 0) {
      // A broken link shows when it is read; what was queued for it is of no use any more.
      if (!moved.would_block()) out_.clear();
      return;
    }
    sent_ += moved.bytes;
    first.sent += moved.bytes;
    if (first.sent == first.head.size() + first.body->size()) out_.erase(out_.begin());
  }
}

FrameLink::Got FrameLink::receive(std::string& frame) {
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
    const Moved moved = recv_some(fd_.get(), std::as_writable_bytes(into));
    if (moved.bytes == 0) return moved.would_block() ? Got::nothing : Got::closed;
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

void FrameLink::hang_up() {
  ::shutdown(fd_.get(), SHUT_RDWR);
  close();
}

}  // namespace coll
