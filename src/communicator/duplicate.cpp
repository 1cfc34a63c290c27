// SPDX-License-Identifier: Apache-2.0
// A communicator of the same ranks as another one.
#include "communicator/duplicate.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "communicator/gathered.hpp"

namespace coll {
namespace {

using Reached = SentText<484>;  ///< DuplicateStart's, of a rank that has made one

/// Makes what an equal duplicate needs. Nothing if this rank cannot: then it fails as a rank of a
/// part does, and says why.
std::optional<DuplicateStart> start(const Communicator& parent, std::uint64_t topic,
                                    const Joining& joining) noexcept try {
  const PlaneSeats& seats = parent.seats();
  // The same ranks know the old one's secret, and the topic tells its duplicates apart. The plane's
  // name of the topic would take 3 us of a duplicate's 20.
  std::array<std::uint64_t, 2> job = seats.plane->job_of(seats.topic);
  job[1] ^= topic;
  Result<DuplicateStart> made =
      start_duplicate(parent.membership(), parent.rank(), job, seats.plane->one_network(),
                      joining.transports, joining.interface);
  if (!made.ok()) return std::nullopt;
  return *std::move(made);
} catch (const std::exception&) {
  return std::nullopt;
}

/// This rank's part, where all ranks have made what it needs.
Result<Part> finish(const Communicator& parent, std::uint64_t topic,
                    const std::vector<Reached>& sent, DuplicateStart made) {
  const PlaneSeats& seats = parent.seats();
  std::vector<std::string_view> reached;
  for (const Reached& one : sent) reached.push_back(one.view());
  COLL_TRY(finish_duplicate(reached, parent.rank(), *made.membership));
  Part part;
  part.rank = parent.rank();
  part.size = parent.size();
  part.topic = seats.plane->open(topic, seats.members);
  part.known.agreed = std::move(made.membership);
  if (part.topic) return part;
  return failed(Code::internal, "the number of the new communicator is in use",
                "use the same version of the library on all ranks");
}

}  // namespace

Result<std::optional<Part>> duplicate(Communicator& parent, const Result<SplitWish>& wish,
                                      const PartJoining& how, bool equal) {
  if (!parent.seats().plane) return split(parent, wish, how);  // it has one rank, or refuses all
  const PlaneSeats& seats = parent.seats();
  const std::uint64_t topic = ControlPlane::derived_topic(seats.topic, parent.count_duplicate());
  // Others may have heard all and wait for this rank in the new communicator, whatever fails here.
  const auto refuse = [&] { seats.plane->refuse(topic, seats.members); };
  try {
    std::vector<Reached> sent(static_cast<std::size_t>(parent.size()));
    Reached mine;
    std::optional<DuplicateStart> made;
    if (wish.ok() && equal) made = start(parent, topic, how.joining);
    if (made) mine.set(made->reached);
    Status status = gather(parent, mine, sent);
    if (status.ok() && std::ranges::none_of(sent, &std::string_view::empty, &Reached::view)) {
      Result<Part> part = finish(parent, topic, sent, *std::move(made));
      if (part.ok()) return std::optional<Part>(*std::move(part));
      status = part.status();
    }
    if (!status.ok()) {
      refuse();
      return status;
    }
  } catch (const std::exception&) {
    refuse();
    throw;
  }
  return split(parent, wish, how);
}

}  // namespace coll
