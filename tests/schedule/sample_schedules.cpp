// SPDX-License-Identifier: Apache-2.0
// The samples, step by step.
#include "sample_schedules.hpp"

#include "schedule/builder.hpp"

namespace coll::samples {
namespace {

template <class Build>
Set for_all(const std::string& name, const CollectiveSpec& spec, std::uint32_t parts,
            std::uint32_t lanes, std::uint32_t scratch, Build build) {
  Set set;
  for (Rank rank = 0; rank < spec.ranks; ++rank) {
    set.push_back(start_schedule(name, spec, rank, parts, lanes, scratch));
    build(set.back(), rank);
  }
  return set;
}

/// One ring of an all-reduce in a lane: chunks first, first + 1 … (one per rank).
void ring(Lane& lane, Rank ranks, Rank rank, int direction, std::uint32_t first) {
  LaneBuilder add(lane);
  const auto wrap = [ranks](int r) { return ((r % ranks) + ranks) % ranks; };
  const auto chunk = [&](int back) {
    return first + static_cast<std::uint32_t>(wrap(rank - direction * back));
  };
  const Rank next = wrap(rank + direction);
  const Rank previous = wrap(rank - direction);
  add.send(input(chunk(0)), next);
  for (int i = 1; i < ranks - 1; ++i) add.receive_reduce_send(previous, input(chunk(i)), next);
  const std::uint32_t own = chunk(ranks - 1);
  add.receive_reduce_copy_send(previous, input(own), output(own), next).finish = true;
  for (int i = 0; i < ranks - 2; ++i) add.receive_send(previous, output(chunk(i)), next);
  add.receive(previous, output(chunk(ranks - 2)));
}

}  // namespace

Set ring_all_reduce(Rank ranks) {
  return for_all("ring", {Collective::all_reduce, ranks, 0}, static_cast<std::uint32_t>(ranks), 1,
                 0, [&](Schedule& s, Rank rank) { ring(s.lanes[0], ranks, rank, 1, 0); });
}

Set two_ring_all_reduce(Rank ranks) {
  const auto n = static_cast<std::uint32_t>(ranks);
  return for_all("two rings", {Collective::all_reduce, ranks, 0}, 2 * n, 2, 0,
                 [&](Schedule& s, Rank rank) {
                   ring(s.lanes[0], ranks, rank, 1, 0);
                   ring(s.lanes[1], ranks, rank, -1, n);
                 });
}

Set recursive_doubling_all_reduce(Rank ranks) {
  return for_all("recursive doubling", {Collective::all_reduce, ranks, 0}, 2, 1, 0,
                 [&](Schedule& s, Rank rank) {
                   LaneBuilder add(s.lanes[0]);
                   add.copy(input(0), output(0), 2);
                   for (Rank distance = 1; distance < ranks; distance *= 2) {
                     const Rank peer = rank ^ distance;
                     add.send(output(0), peer, 2);
                     add.receive_reduce(peer, output(0), output(0), 2).finish =
                         distance * 2 == ranks;
                   }
                 });
}

Set ring_reduce_scatter(Rank ranks) {
  return for_all("ring", {Collective::reduce_scatter, ranks, 0}, 2, 1, 0,
                 [&](Schedule& s, Rank rank) {
                   LaneBuilder add(s.lanes[0]);
                   const Rank next = (rank + 1) % ranks;
                   const Rank previous = (rank + ranks - 1) % ranks;
                   const auto block = [&](Rank back) {
                     return input(static_cast<std::uint32_t>((rank + ranks - back) % ranks) * 2);
                   };
                   add.send(block(1), next, 2);
                   for (Rank i = 2; i < ranks; ++i) {
                     add.receive_reduce_send(previous, block(i), next, 2);
                   }
                   add.receive_reduce(previous, block(0), output(0), 2).finish = true;
                 });
}

Set ring_all_gather(Rank ranks) {
  return for_all("ring", {Collective::all_gather, ranks, 0}, 1, 1, 0, [&](Schedule& s, Rank rank) {
    LaneBuilder add(s.lanes[0]);
    const Rank next = (rank + 1) % ranks;
    const Rank previous = (rank + ranks - 1) % ranks;
    const auto block = [&](Rank back) {
      return output(static_cast<std::uint32_t>((rank + ranks - back) % ranks));
    };
    add.copy_send(input(0), block(0), next);
    for (Rank i = 1; i < ranks - 1; ++i) add.receive_send(previous, block(i), next);
    add.receive(previous, block(ranks - 1));
  });
}

Set tree_broadcast(Rank ranks, Rank root, std::uint32_t parts) {
  return for_all("binomial tree", {Collective::broadcast, ranks, root}, parts, 1, 0,
                 [&](Schedule& s, Rank rank) {
                   LaneBuilder add(s.lanes[0]);
                   const Rank self = (rank + ranks - root) % ranks;
                   Rank low = 1;
                   while (low < ranks && (self & low) == 0) low *= 2;
                   if (self == 0) {
                     add.copy(input(0), output(0), parts);
                   } else {
                     add.receive((self - low + root) % ranks, output(0), parts);
                   }
                   for (Rank distance = low / 2; distance > 0; distance /= 2) {
                     if (self + distance < ranks) {
                       add.send(output(0), (self + distance + root) % ranks, parts);
                     }
                   }
                 });
}

Set two_lane_chain_broadcast(Rank ranks, Rank root, std::uint32_t parts) {
  // Hops take lanes 0 and 1 in turn, so every rank on the way receives on one and sends on the
  // other.
  return for_all("two-lane chain", {Collective::broadcast, ranks, root}, parts, 2, 0,
                 [&](Schedule& s, Rank rank) {
                   const Rank place = (rank + ranks - root) % ranks;
                   const auto out = static_cast<std::int16_t>(place % 2);
                   const auto in = static_cast<std::int16_t>(1 - out);
                   LaneBuilder receiving(s.lanes[static_cast<std::size_t>(in)]);
                   LaneBuilder sending(s.lanes[static_cast<std::size_t>(out)]);
                   for (std::uint32_t part = 0; part < parts; ++part) {
                     if (place == 0) {
                       receiving.copy(input(part), output(part));
                     } else {
                       receiving.receive((rank + ranks - 1) % ranks, output(part));
                     }
                     if (place + 1 == ranks) continue;
                     Step& step = sending.send(output(part), (rank + 1) % ranks);
                     step.wait_lane = in;
                     step.wait_step = static_cast<std::int32_t>(part);
                   }
                 });
}

Set two_lane_star_reduce(Rank ranks, Rank root) {
  return for_all("two-lane star", {Collective::reduce, ranks, root}, 1, 2, 1,
                 [&](Schedule& s, Rank rank) {
                   const auto lane_of = [&](Rank r) {
                     return static_cast<std::size_t>((r + ranks - root) % ranks % 2);
                   };
                   if (rank != root) {
                     LaneBuilder(s.lanes[lane_of(rank)]).send(input(0), root);
                     return;
                   }
                   LaneBuilder odd(s.lanes[1]);
                   LaneBuilder even(s.lanes[0]);
                   Operand sum = input(0);
                   for (Rank i = 2; i < ranks; i += 2) {
                     even.receive_reduce((root + i) % ranks, sum, output(0));
                     sum = output(0);
                   }
                   odd.receive((root + 1) % ranks, scratch(0));
                   for (Rank i = 3; i < ranks; i += 2) {
                     odd.receive_reduce((root + i) % ranks, scratch(0), scratch(0));
                   }
                   Step& last = odd.reduce(scratch(0), sum, output(0));
                   last.finish = true;
                   if (!s.lanes[0].empty()) {
                     last.wait_lane = 0;
                     last.wait_step = static_cast<std::int32_t>(s.lanes[0].size()) - 1;
                   }
                 });
}

Set linear_all_to_all(Rank ranks, std::uint32_t parts) {
  return for_all(
      "linear", {Collective::all_to_all, ranks, 0}, parts, 1, 0, [&](Schedule& s, Rank rank) {
        LaneBuilder add(s.lanes[0]);
        const auto first = [&](Rank block) { return static_cast<std::uint32_t>(block) * parts; };
        add.copy(input(first(rank)), output(first(rank)), parts);
        for (Rank i = 1; i < ranks; ++i) {
          const Rank to = (rank + i) % ranks;
          add.send(input(first(to)), to, parts);
        }
        for (Rank i = 1; i < ranks; ++i) {
          const Rank from = (rank + ranks - i) % ranks;
          add.receive(from, output(first(from)), parts);
        }
      });
}

Set linear_gather(Rank ranks, Rank root) {
  return for_all("linear", {Collective::gather, ranks, root}, 1, 1, 0, [&](Schedule& s, Rank rank) {
    LaneBuilder add(s.lanes[0]);
    if (rank != root) {
      add.send(input(0), root);
      return;
    }
    add.copy(input(0), output(static_cast<std::uint32_t>(root)));
    for (Rank from = 0; from < ranks; ++from) {
      if (from != root) add.receive(from, output(static_cast<std::uint32_t>(from)));
    }
  });
}

Set linear_scatter(Rank ranks, Rank root) {
  return for_all("linear", {Collective::scatter, ranks, root}, 1, 1, 0,
                 [&](Schedule& s, Rank rank) {
                   LaneBuilder add(s.lanes[0]);
                   if (rank != root) {
                     add.receive(root, output(0));
                     return;
                   }
                   for (Rank to = 0; to < ranks; ++to) {
                     if (to != root) add.send(input(static_cast<std::uint32_t>(to)), to);
                   }
                   add.copy(input(static_cast<std::uint32_t>(root)), output(0));
                 });
}

Set pair(Rank ranks, Rank sender, Rank receiver) {
  Set set;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const bool sends = rank == sender;
    const CollectiveSpec spec{sends ? Collective::send : Collective::recv, ranks,
                              sends ? receiver : sender};
    set.push_back(start_schedule("direct", spec, rank, 2));
    LaneBuilder add(set.back().lanes[0]);
    if (sends) add.send(input(0), receiver, 2);
    if (rank == receiver) add.receive(sender, output(0), 2);
  }
  return set;
}

Set dissemination_barrier(Rank ranks) {
  return for_all("dissemination", {Collective::barrier, ranks, 0}, 1, 1, 0,
                 [&](Schedule& s, Rank rank) {
                   LaneBuilder add(s.lanes[0]);
                   for (Rank distance = 1; distance < ranks; distance *= 2) {
                     add.signal((rank + distance) % ranks);
                     add.await((rank + ranks - distance) % ranks);
                   }
                 });
}

std::vector<Named> all() {
  std::vector<Named> list;
  const auto add = [&list](const std::string& shape, Set set) {
    const std::string name = shape + ", " + std::to_string(set.size()) + " ranks";
    list.push_back({name, std::move(set)});
  };
  for (const Rank ranks : {2, 3, 5}) {
    add("ring all_reduce", ring_all_reduce(ranks));
    add("two-ring all_reduce", two_ring_all_reduce(ranks));
    add("ring reduce_scatter", ring_reduce_scatter(ranks));
    add("ring all_gather", ring_all_gather(ranks));
    add("tree broadcast", tree_broadcast(ranks, ranks - 1, 2));
    add("two-lane chain broadcast", two_lane_chain_broadcast(ranks, 1, 3));
    add("two-lane star reduce", two_lane_star_reduce(ranks, ranks - 1));
    add("linear all_to_all", linear_all_to_all(ranks, 2));
    add("linear gather", linear_gather(ranks, 1));
    add("linear scatter", linear_scatter(ranks, 0));
    add("pair", pair(ranks, ranks - 1, 0));
    add("dissemination barrier", dissemination_barrier(ranks));
  }
  for (const Rank ranks : {2, 4, 8}) {
    add("recursive doubling all_reduce", recursive_doubling_all_reduce(ranks));
  }
  return list;
}

}  // namespace coll::samples
