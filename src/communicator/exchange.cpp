// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: every rank's text to every rank, over the
// star.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "communicator/control_message.hpp"
#include "communicator/frame_link.hpp"
#include "communicator/handshake.hpp"
#include "communicator/ranks_text.hpp"
#include "communicator/rendezvous.hpp"
#include "sys/socket_frame.hpp"

namespace coll {
namespace {

using std::chrono::seconds;

constexpr std::size_t kTextLimit = std::size_t{1} << 20;
constexpr std::size_t kAllLimit = std::size_t{1} << 28;
constexpr auto kVerdictTime = seconds(1);

constexpr char kText = 'T';
constexpr char kAll = 'A';

/// All texts, each as what differs from the one before: what ranks say of themselves is much alike,
/// and all of it goes to every rank.
std::string pack_texts(const std::vector<std::string>& texts) {
  MessageWriter message;
  std::string_view last;
  for (const std::string_view text : texts) {
    const std::size_t most = std::min(last.size(), text.size());
    const auto front = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(most), last.begin())
            .first -
        text.begin());
    std::size_t back = 0;
    while (back < most - front && text[text.size() - 1 - back] == last[last.size() - 1 - back]) {
      ++back;
    }
    message.u32(static_cast<std::uint32_t>(front))
        .u32(static_cast<std::uint32_t>(back))
        .text(text.substr(front, text.size() - front - back));
    last = text;
  }
  return message.bytes();
}

/// Nothing where they are not so many, or make no sense.
std::optional<std::vector<std::string>> read_texts(std::string_view bytes, Rank size) {
  MessageReader message(bytes);
  std::vector<std::string> texts;
  std::string last;
  std::size_t together = 0;
  for (Rank rank = 0; rank < size && message.good(); ++rank) {
    const std::uint64_t front = message.u32(), back = message.u32();
    if (front + back > last.size()) return std::nullopt;
    std::string text = last.substr(0, front) + message.text() + last.substr(last.size() - back);
    together += text.size();
    if (together > kAllLimit) return std::nullopt;
    last = text;
    texts.push_back(std::move(text));
  }
  return message.whole() ? std::optional(std::move(texts)) : std::nullopt;
}

/// Gathers all texts; the failure, if one comes, is for every rank.
Status gather(Meeting& meeting, std::vector<FrameLink>& links, std::vector<std::string>& texts,
              Deadline deadline) {
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < meeting.size; ++rank) {
    if (rank != meeting.rank) missing.push_back(rank);
  }
  while (!missing.empty()) {
    std::vector<pollfd> fds;
    for (const Rank rank : missing) {
      fds.push_back({links[static_cast<std::size_t>(rank)].fd(), POLLIN, 0});
    }
    if (::poll(fds.data(), fds.size(), poll_timeout(deadline)) < 0 && errno != EINTR) {
      return system_failure("exchange: waiting for ranks", errno);
    }
    std::vector<Rank> still;
    for (std::size_t i = 0; i < fds.size(); ++i) {
      const Rank rank = missing[i];
      const auto at = static_cast<std::size_t>(rank);
      std::string frame;
      const FrameLink::Got got =
          fds[i].revents == 0 ? FrameLink::Got::nothing : links[at].receive(frame);
      if (got == FrameLink::Got::closed) {
        return failed(Code::peer_lost,
                      "rank " + std::to_string(rank) + " went away while ranks were connecting",
                      "see its output for the reason")
            .at_rank(rank);
      }
      if (got == FrameLink::Got::garbage ||
          (got == FrameLink::Got::frame && !frame.starts_with(kText))) {
        return failed(Code::mismatch,
                      "rank " + std::to_string(rank) + " sent something that makes no sense",
                      "use the same version of the library on all ranks")
            .at_rank(rank);
      }
      if (got == FrameLink::Got::nothing) {
        still.push_back(rank);
      } else {
        texts[at] = frame.substr(1);
      }
    }
    missing = std::move(still);
    if (!missing.empty() && Clock::now() >= deadline) {
      return failed(Code::deadline,
                    ranks_text(missing) + (missing.size() == 1 ? " has" : " have") +
                        " met but not finished connecting in time",
                    "see whether they run")
          .at_rank(missing.size() == 1 ? missing.front() : kNoRank);
    }
  }
  return {};
}

Result<std::vector<std::string>> exchange_as_hub(Meeting& meeting, std::string mine,
                                                 Deadline deadline) {
  std::vector<FrameLink> links;
  for (Fd& fd : meeting.links) links.emplace_back(std::move(fd), kTextLimit + 1);
  std::vector<std::string> texts(links.size());
  texts[static_cast<std::size_t>(meeting.rank)] = std::move(mine);
  Status failure = gather(meeting, links, texts, deadline);
  for (std::size_t i = 0; i < links.size(); ++i) meeting.links[i] = links[i].take();

  std::string answer(1, kAll);
  if (failure.ok()) {
    answer += pack_texts(texts);
    std::size_t together = 0;
    for (const std::string& text : texts) together += text.size();
    if (std::max(together, answer.size()) > kAllLimit) {
      failure = failed(Code::out_of_resources,
                       "the ranks' texts are " + std::to_string(together) + " bytes together");
    }
  }
  if (!failure.ok()) answer = pack_failure(failure);
  const Deadline until =
      failure.ok() ? std::max(deadline, Clock::now() + kVerdictTime) : Clock::now() + kVerdictTime;
  Status sending;
  for (Rank rank = 0; rank < meeting.size; ++rank) {
    if (rank == meeting.rank) continue;
    const Status sent =
        send_frame(meeting.links[static_cast<std::size_t>(rank)].get(), answer, until);
    if (!sent.ok() && sending.ok()) {
      sending = sent.at_rank(rank).with_context("rank " + std::to_string(rank));
    }
  }
  if (!failure.ok()) return failure;
  if (!sending.ok()) return sending;
  return texts;
}

Result<std::vector<std::string>> exchange_with_hub(Meeting& meeting, const std::string& mine,
                                                   Deadline deadline) {
  const int hub = meeting.links[static_cast<std::size_t>(meeting.hub)].get();
  // The hub decides, and may do so at the last moment.
  const Deadline until =
      deadline == Deadline::max() ? deadline : deadline + kVerdictTime + kVerdictTime;
  const std::string context = "exchange with the hub, rank " + std::to_string(meeting.hub);
  const Status sent = send_frame(hub, kText + mine, until);
  // The hub may have sent its failure already: that says more than a closed socket.
  Result<std::string> frame = recv_frame(hub, kAllLimit, until);
  if (!frame.ok()) {
    return (sent.ok() ? frame.status() : sent).at_rank(meeting.hub).with_context(context);
  }
  if (auto failure = read_failure(*frame)) return *std::move(failure);
  auto texts = read_texts(std::string_view(*frame).substr(std::min<std::size_t>(1, frame->size())),
                          meeting.size);
  if (!frame->starts_with(kAll) || !texts) {
    return failed(Code::mismatch, context + ": it sent something that makes no sense",
                  "use the same version of the library on all ranks")
        .at_rank(meeting.hub);
  }
  return *std::move(texts);
}

}  // namespace

Result<std::vector<std::string>> exchange(Meeting& meeting, std::string mine, Deadline deadline) {
  if (mine.size() > kTextLimit) {
    return failed(Code::invalid_argument, "exchange: a text of " + std::to_string(mine.size()) +
                                              " bytes, at most " + std::to_string(kTextLimit));
  }
  if (meeting.size == 1) return std::vector<std::string>{std::move(mine)};
  return meeting.is_hub() ? exchange_as_hub(meeting, std::move(mine), deadline)
                          : exchange_with_hub(meeting, mine, deadline);
}

}  // namespace coll
