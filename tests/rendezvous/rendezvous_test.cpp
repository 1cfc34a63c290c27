// SPDX-License-Identifier: Apache-2.0
// Ranks that meet, at every kind of place, and those that cannot.
#include "rendezvous/rendezvous.hpp"

#include <collectives/collectives.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "meeting_ranks.hpp"
#include "rendezvous/handshake.hpp"
#include "rendezvous/meeting_file.hpp"
#include "sys/net/socket_frame.hpp"
#include "temporary_folder.hpp"

namespace coll::testing {
namespace {

using test::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Meet, AllRanksByUniqueId) {
  for (const Rank size : {2, 3, 17}) {
    Meetings meetings = meet_all(everybody(size, unique_place()));
    expect_whole(meetings);
  }
}

TEST(Meet, AllRanksByTcp) {
  Meetings meetings = meet_all(everybody(4, tcp_place(free_port())));
  expect_whole(meetings);
  EXPECT_EQ((*meetings[1])->hub, 0);
}

TEST(Meet, AllRanksByFileWhichIsGoneAfterwards) {
  const TemporaryFolder directory;
  const std::string path = directory.path() + "/meet";
  for (int round = 0; round < 2; ++round) {
    Meetings meetings = meet_all(everybody(4, file_place(path)));
    expect_whole(meetings);
    EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  }
}

TEST(Meet, OneRankNeedsNothing) {
  const Result<Meeting> meeting = meet(MeetingPlace{}, 0, 1, in(seconds(1)));
  ASSERT_TRUE(meeting.ok()) << meeting.status().text();
  EXPECT_TRUE(meeting->is_hub());
  EXPECT_FALSE(meeting->links[0]);
}

TEST(Meet, RanksOutsideTheSizeAreRefused) {
  EXPECT_EQ(meet(MeetingPlace{}, 2, 2, in(seconds(1))).status().code(), Code::invalid_argument);
  EXPECT_EQ(meet(MeetingPlace{}, -1, 2, in(seconds(1))).status().code(), Code::invalid_argument);
  EXPECT_EQ(meet(MeetingPlace{}, 0, 0, in(seconds(1))).status().code(), Code::invalid_argument);
}

TEST(Meet, MissingRanksAreNamedOnAllThatCame) {
  std::vector<Comer> comers = everybody(6, tcp_place(free_port()), milliseconds(600));
  comers.erase(comers.begin() + 3, comers.begin() + 5);  // 3 and 4
  comers[1].patience = seconds(10);                      // they hear it from the hub
  comers[3].patience = seconds(10);
  const Meetings meetings = meet_all(comers);
  for (const auto& one : meetings) {
    ASSERT_FALSE(one->ok());
    EXPECT_EQ(one->status().code(), Code::deadline) << one->status().text();
    EXPECT_THAT(one->status().text(), HasSubstr("ranks 3, 4 of 6 have not come"));
  }
}

TEST(Meet, WhoGivesUpFirstSaysWhoIsMissing) {
  std::vector<Comer> comers = everybody(3, tcp_place(free_port()));
  comers.pop_back();
  comers[1].patience = milliseconds(600);
  const auto begin = Clock::now();
  const Meetings meetings = meet_all(comers);
  EXPECT_LT(Clock::now() - begin, seconds(10)) << "the hub does not wait on for nothing";
  for (const auto& one : meetings) {
    ASSERT_FALSE(one->ok());
    EXPECT_THAT(one->status().text(), HasSubstr("rank 2 of 3 has not come"));
    EXPECT_THAT(one->status().text(), HasSubstr("gave up"));
  }
}

TEST(Meet, NoHubListsWhatWasTried) {
  MeetingPlace place = tcp_place(free_port());
  place.addresses.push_back("localhost:1");
  const Result<Meeting> meeting = meet(place, 1, 2, in(milliseconds(300)));
  EXPECT_EQ(meeting.status().code(), Code::unreachable);
  EXPECT_THAT(meeting.status().text(), HasSubstr(place.addresses[0] + ": Connection refused"));
  EXPECT_THAT(meeting.status().text(), HasSubstr("127.0.0.1:1: Connection refused"));
}

TEST(Meet, AnotherSecretIsAStrangerAndIsTold) {
  const std::uint16_t port = free_port();
  std::vector<Comer> comers = everybody(3, tcp_place(port));
  comers.push_back({2, 3, tcp_place(port, "another job"), milliseconds(500)});
  Meetings meetings = meet_all(comers);
  ASSERT_FALSE(meetings[3]->ok());
  EXPECT_EQ(meetings[3]->status().code(), Code::unreachable);
  meetings.pop_back();
  expect_whole(meetings);
}

TEST(Meet, WrongSecretIsNamedOnBothSides) {
  const std::uint16_t port = free_port();
  const Meetings meetings = meet_all({{0, 2, tcp_place(port), milliseconds(2000)},
                                      {1, 2, tcp_place(port, "other"), milliseconds(1500)}});
  EXPECT_THAT(meetings[1]->status().text(), HasSubstr("another COLL_SECRET"));
  EXPECT_THAT(meetings[1]->status().text(), HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(meetings[0]->status().text(), HasSubstr("another COLL_SECRET"));
  EXPECT_THAT(meetings[0]->status().text(), HasSubstr("rank 1 of 2 has not come"));
}

TEST(Meet, StrangersHarmNothing) {
  const std::uint16_t port = free_port();
  const NetAddress address = *NetAddress::parse("127.0.0.1:" + std::to_string(port));
  std::vector<Fd> strangers;
  std::thread crowd([&] {
    // Half-open, talkative, boastful of a huge frame, and gone at once: 800 of them.
    while (strangers.size() < 800) {
      Result<Fd> fd = dial(address, in(seconds(10)));
      if (!fd.ok()) {
        std::this_thread::yield();  // the hub does not listen yet
        continue;
      }
      switch (strangers.size() % 4) {
        case 0:
          (void)send_some(fd->get(), std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n")));
          break;
        case 1:
          (void)send_frame(fd->get(), std::string(2000, 'x'), in(seconds(1)));
          break;
        case 2:
          fd->reset();
          break;
        default:
          break;
      }
      strangers.push_back(*std::move(fd));
    }
  });
  std::vector<Comer> comers = everybody(4, tcp_place(port));
  Meetings meetings;
  std::thread ranks([&] {
    std::thread hub;
    Meetings first(1);
    hub = std::thread([&] { first[0].emplace(meet(comers[0].place, 0, 4, in(seconds(20)))); });
    crowd.join();
    // Of those that keep silent the oldest go first, without waiting for their time to pass.
    std::array<std::byte, 256> bytes{};
    Moved moved;
    const auto begin = Clock::now();
    while (!moved.closed && Clock::now() - begin < seconds(4)) {
      ASSERT_TRUE(wait_for(strangers[3].get(), POLLIN, in(seconds(4))).ok());
      moved = recv_some(strangers[3].get(), bytes);
    }
    EXPECT_TRUE(moved.closed);
    Meetings rest = meet_all({comers.begin() + 1, comers.end()});
    hub.join();
    meetings.push_back(std::move(first[0]));
    for (auto& one : rest) meetings.push_back(std::move(one));
  });
  ranks.join();
  expect_whole(meetings);
}

// A hub of another job may be there for long; thousands of ranks shall not storm it.
TEST(Meet, ARefusedRankComesAgainLessAndLessOften) {
  const Result<Fd> listener = listen_everywhere();
  ASSERT_TRUE(listener.ok());
  std::atomic<bool> over{false};
  int refused = 0;
  std::thread hub([&] {
    while (!over) {
      Result<Fd> client = accept_next(listener->get());
      if (!client.ok() || !*client) {
        std::this_thread::yield();
        continue;
      }
      (void)send_frame(client->get(), pack_greeting(std::string(kNonceBytes, 'n')), in(seconds(1)));
      if (!recv_frame(client->get(), kHandshakeLimit, in(seconds(1))).ok()) continue;
      (void)send_frame(client->get(), pack_refusal(Refused::key), in(seconds(1)));
      ++refused;
    }
  });
  const Result<Meeting> meeting =
      meet(tcp_place(local_address(listener->get()).port()), 1, 2, in(seconds(2)));
  over = true;
  hub.join();
  EXPECT_THAT(meeting.status().text(), HasSubstr("another COLL_SECRET"));
  // Pauses of at least 5, 10, 20, 40, 80, 160, 320, 500, 500 ms: the tenth claim is the last.
  EXPECT_GE(refused, 2);
  EXPECT_LE(refused, 10);
}

TEST(Meet, AServerOfSomethingElseIsToldNothing) {
  // Speaks first, or says nothing; a hub further down the list is found all the same.
  const Result<Fd> silent = listen_everywhere();
  const Result<Fd> talks = listen_everywhere();
  ASSERT_TRUE(silent.ok() && talks.ok());
  MeetingPlace place = tcp_place(local_address(silent->get()).port());
  place.addresses.push_back("127.0.0.1:" + std::to_string(local_address(talks->get()).port()));
  place.addresses.push_back("127.0.0.1:" + std::to_string(free_port()));
  std::string heard;
  std::atomic<bool> over{false};
  std::thread servers([&] {
    std::vector<Fd> clients;
    while (!over) {
      for (const Result<Fd>* server : {&silent, &talks}) {
        Result<Fd> client = accept_next((*server)->get());
        ASSERT_TRUE(client.ok());
        if (!*client) continue;
        if (server == &talks) {
          (void)send_some(client->get(), std::as_bytes(std::span("SSH-2.0-OpenSSH_9.2\r\n")));
        }
        clients.push_back(*std::move(client));
      }
      for (const Fd& client : clients) {
        std::array<std::byte, 64> bytes{};
        heard.append(recv_some(client.get(), bytes).bytes, 'x');
      }
      std::this_thread::yield();
    }
  });
  Meetings meetings = meet_all(everybody(3, place));
  over = true;
  servers.join();
  expect_whole(meetings);
  EXPECT_EQ(heard, "");
}

TEST(Meet, AHubOfAnotherVersionIsNamed) {
  const Result<Fd> listener = listen_everywhere();
  ASSERT_TRUE(listener.ok());
  const std::uint16_t port = local_address(listener->get()).port();
  std::atomic<bool> over{false};
  std::thread hub([&] {
    std::vector<Fd> clients;
    while (!over) {
      Result<Fd> client = accept_next(listener->get());
      if (client.ok() && *client) {
        std::string greeting = pack_greeting(std::string(kNonceBytes, 'n'));
        greeting[8] = 77;  // behind the word and the magic
        (void)send_frame(client->get(), greeting, in(seconds(1)));
        clients.push_back(*std::move(client));
      }
      std::this_thread::yield();
    }
  });
  const Result<Meeting> meeting = meet(tcp_place(port), 1, 2, in(milliseconds(300)));
  over = true;
  hub.join();
  EXPECT_THAT(meeting.status().text(),
              HasSubstr("speaks wire version 77, this one " + std::to_string(kWireVersion)));
}

TEST(Meet, AnImpostorHubWithoutTheKeyIsNotBelieved) {
  const Result<Fd> listener = listen_everywhere();
  ASSERT_TRUE(listener.ok());
  const std::uint16_t port = local_address(listener->get()).port();
  std::atomic<bool> over{false};
  std::string claims;
  std::thread hub([&] {
    while (!over) {
      Result<Fd> client = accept_next(listener->get());
      if (!client.ok() || !*client) {
        std::this_thread::yield();
        continue;
      }
      (void)send_frame(client->get(), pack_greeting(std::string(kNonceBytes, 'n')), in(seconds(1)));
      const auto claim = recv_frame(client->get(), kHandshakeLimit, in(milliseconds(500)));
      if (claim.ok()) claims += *claim;
      (void)send_frame(client->get(), pack_welcome(std::string(kProofBytes, 'p')), in(seconds(1)));
      (void)send_frame(client->get(), pack_start({0, false, std::string(kNonceBytes, 'r')}),
                       in(seconds(1)));
    }
  });
  const Result<Meeting> meeting =
      meet(tcp_place(port, "the-key-itself"), 1, 2, in(milliseconds(500)));
  over = true;
  hub.join();
  EXPECT_THAT(meeting.status().text(), HasSubstr("does not know the key"));
  EXPECT_THAT(claims, HasSubstr("collrdv"));
  EXPECT_THAT(claims, Not(HasSubstr("the-key-itself")));
}

/// A rank's side of the meeting by hand, until the hub has let it in.
Fd claim_by_hand(const MeetingPlace& place, Rank rank, Rank size) {
  const NetAddress address = *NetAddress::parse(place.addresses[0]);
  Result<Fd> fd = dial(address, in(seconds(10)));
  while (!fd.ok()) fd = dial(address, in(seconds(10)));
  const auto greeting = recv_frame(fd->get(), kHandshakeLimit, in(seconds(10)));
  COLL_CHECK(greeting.ok(), "the hub greets");
  const Claimant me = *this_claimant(rank, size);
  const std::string nonce(kNonceBytes, 'n');
  const std::string proof = claim_proof(place.key, read_greeting(*greeting)->nonce, nonce, me);
  COLL_CHECK(send_frame(fd->get(), pack_claim(me, nonce, proof), in(seconds(10))).ok(), "claiming");
  const auto welcome = recv_frame(fd->get(), kHandshakeLimit, in(seconds(10)));
  COLL_CHECK(welcome.ok() && read_welcome(*welcome).has_value(), "the hub lets the rank in");
  return *std::move(fd);
}

TEST(Meet, ADeathBeforeAllAreThereEndsTheMeetingAtOnceOnAll) {
  const MeetingPlace place = tcp_place(free_port());
  std::vector<Comer> comers = everybody(4, place, seconds(60));
  comers.resize(2);  // rank 2 dies, rank 3 never comes
  std::thread dies([&] {
    const Fd link = claim_by_hand(place, 2, 4);
    ASSERT_TRUE(send_frame(link.get(), pack_confirm(), in(seconds(10))).ok());
  });
  const auto begin = Clock::now();
  const Meetings meetings = meet_all(comers);
  dies.join();
  EXPECT_LT(Clock::now() - begin, seconds(30));
  for (const auto& one : meetings) {
    ASSERT_FALSE(one->ok());
    EXPECT_EQ(one->status().code(), Code::peer_lost) << one->status().text();
    EXPECT_EQ(one->status().rank(), 2);
    EXPECT_THAT(one->status().text(), HasSubstr("rank 2 (pid " + std::to_string(getpid())));
    EXPECT_EQ(one->status().text(), meetings[0]->status().text());
  }
}

TEST(Meet, ADeathOfTheHubEndsTheMeetingAtOnce) {
  const Result<Fd> listener = listen_everywhere();
  ASSERT_TRUE(listener.ok());
  const MeetingPlace place = tcp_place(local_address(listener->get()).port());
  std::thread hub([&] {
    ASSERT_TRUE(*wait_for(listener->get(), POLLIN, in(seconds(10))));
    const Result<Fd> link = accept_next(listener->get());
    const std::string nonce(kNonceBytes, 'n');
    ASSERT_TRUE(send_frame(link->get(), pack_greeting(nonce), in(seconds(10))).ok());
    const auto claim = recv_frame(link->get(), kHandshakeLimit, in(seconds(10)));
    ASSERT_TRUE(claim.ok() && read_claim(*claim).has_value());
    const std::string proof = welcome_proof(place.key, nonce, read_claim(*claim)->nonce);
    ASSERT_TRUE(send_frame(link->get(), pack_welcome(proof), in(seconds(10))).ok());
    const auto confirm = recv_frame(link->get(), kHandshakeLimit, in(seconds(10)));
    ASSERT_TRUE(confirm.ok() && word_of(*confirm) == Word::confirm);
  });
  const auto begin = Clock::now();
  const Result<Meeting> meeting = meet(place, 1, 3, in(seconds(60)));
  hub.join();
  EXPECT_LT(Clock::now() - begin, seconds(30));
  EXPECT_EQ(meeting.status().code(), Code::peer_lost) << meeting.status().text();
  EXPECT_EQ(meeting.status().rank(), 0);
  EXPECT_THAT(meeting.status().text(), HasSubstr("the hub, rank 0, at " + place.addresses[0]));
}

/// Who has been told goes on to the next meeting, though the hub still tells those that come late.
TEST(Meet, WhoTriesAgainMeetsTheOthersAtTheirNextTry) {
  const MeetingPlace place = tcp_place(free_port());
  std::vector<Comer> comers = everybody(3, place);
  comers.pop_back();
  comers[1].patience = milliseconds(500);
  std::vector<std::optional<Result<Meeting>>> second(3);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      if (rank < 2) {
        const Comer& one = comers[rank];
        const auto first = meet(place, one.rank, one.size, in(one.patience));
        EXPECT_THAT(first.status().text(), HasSubstr("rank 2 of 3 has not come"));
        ++failures;
      } else {
        while (failures < 2) std::this_thread::yield();
      }
      second[rank].emplace(meet(place, static_cast<Rank>(rank), 3, in(seconds(20))));
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_whole(second);
}

TEST(Meet, ATakenPortIsWaitedForThenNamed) {
  Result<Fd> other = listen_everywhere();
  ASSERT_TRUE(other.ok());
  const MeetingPlace place = tcp_place(local_address(other->get()).port());
  const Result<Meeting> meeting = meet(place, 0, 2, in(milliseconds(200)));
  EXPECT_THAT(meeting.status().text(), HasSubstr("another process has this port"));
  std::thread frees([&] {
    std::this_thread::sleep_for(milliseconds(100));
    other->reset();
  });
  Meetings meetings = meet_all(everybody(2, place));
  frees.join();
  expect_whole(meetings);
}

TEST(Meet, ATakenPortOfSeveralIsPassedOver) {
  const Result<Fd> other = listen_everywhere();
  ASSERT_TRUE(other.ok());
  MeetingPlace place = tcp_place(local_address(other->get()).port());
  place.addresses.push_back("127.0.0.1:" + std::to_string(free_port()));
  Meetings meetings = meet_all(everybody(3, place));
  expect_whole(meetings);
}

TEST(Meet, AStaleFileIsPassedOver) {
  const TemporaryFolder directory;
  const std::string path = directory.path() + "/meet";
  {
    Result<Door> dead = open_door("");  // its listeners close here
    ASSERT_TRUE(dead.ok());
    ASSERT_TRUE(publish_id(path, dead->id).ok());
  }
  std::vector<Comer> late = everybody(3, file_place(path));
  std::optional<Result<Meeting>> hub;
  std::thread hub_thread([&] {
    std::this_thread::sleep_for(milliseconds(200));  // the others find the leftover first
    hub.emplace(meet(late[0].place, 0, 3, in(seconds(20))));
  });
  Meetings rest = meet_all({late.begin() + 1, late.end()});
  hub_thread.join();
  Meetings meetings;
  meetings.push_back(std::move(hub));
  for (auto& one : rest) meetings.push_back(std::move(one));
  expect_whole(meetings);
}

TEST(Meet, AFileOfAnotherUserIsNotBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TemporaryFolder directory;
  const std::string path = directory.path() + "/meet";
  const Result<Door> door = open_door("");
  ASSERT_TRUE(door.ok());
  ASSERT_TRUE(publish_id(path, door->id).ok());
  ASSERT_TRUE(read_id(path).ok());
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  const auto read = read_id(path);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.status().text(), HasSubstr("belongs to user 12345"));
}

TEST(Meet, AFileThatCannotBeWrittenIsNamed) {
  const Result<Meeting> meeting =
      meet(file_place("/nonexistent/directory/meet"), 0, 2, in(seconds(5)));
  EXPECT_EQ(meeting.status().code(), Code::system);
  EXPECT_THAT(meeting.status().text(), HasSubstr("/nonexistent/directory/meet"));
  if (std::filesystem::exists("/dev/full")) {
    // A full disk: no id gets onto it.
    const TemporaryFolder directory;
    const rlimit none{0, RLIM_INFINITY};
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGXFSZ, SIG_IGN);
      setrlimit(RLIMIT_FSIZE, &none);
      const Result<Meeting> full =
          meet(file_place(directory.path() + "/meet"), 0, 2, in(seconds(5)));
      _exit(!full.ok() && full.status().text().find("writing") != std::string::npos &&
                    std::filesystem::is_empty(directory.path())
                ? 0
                : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "a file that cannot be written must be named, and removed";
  }
}

TEST(Meet, NoDescriptorsLeftIsSaidOnAll) {
  const MeetingPlace place = tcp_place(free_port());
  const auto is_said = [](const Result<Meeting>& meeting) {
    return meeting.status().code() == Code::out_of_resources &&
           meeting.status().text().find("ulimit") != std::string::npos;
  };
  const pid_t child = fork();
  if (child == 0) {
    const rlimit few{12, 12};
    setrlimit(RLIMIT_NOFILE, &few);
    _exit(is_said(meet(place, 0, 64, in(seconds(5)))) ? 0 : 1);
  }
  const Result<Meeting> other = meet(place, 1, 64, in(seconds(5)));
  EXPECT_TRUE(is_said(other)) << other.status().text();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Meet, TheMakerOfAUniqueIdMustBeARank) {
  const MeetingPlace place = unique_place();
  const pid_t child = fork();  // which does not own its parent's listener
  if (child == 0) {
    const Result<Meeting> one = meet(place, 1, 2, in(milliseconds(400)));
    _exit(!one.ok() && one.status().code() == Code::unreachable &&
                  one.status().text().find("has not come to meet") != std::string::npos
              ? 0
              : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(UniqueIdTest, UnusedOnesAreSoMany) {
  const auto descriptors = [] {
    using std::filesystem::directory_iterator;
    return std::distance(directory_iterator("/proc/self/fd"), directory_iterator());
  };
  const MeetingPlace oldest = unique_place();
  for (std::size_t i = 1; i < kUnusedIds; ++i) ASSERT_TRUE(make_unique_id("").ok());
  const auto before = descriptors();
  ::testing::internal::CaptureStderr();
  const MeetingPlace newest = unique_place();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("closed the oldest"));
  EXPECT_EQ(descriptors(), before);
  EXPECT_FALSE(take_door(oldest));
  Meetings meetings = meet_all(everybody(2, newest));
  expect_whole(meetings);
}

TEST(UniqueIdTest, DamageIsSeen) {
  Result<UniqueId> id = make_unique_id("");
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(place_of(*id, "").ok());
  EXPECT_EQ(id_from_text(id_text(*id))->bytes, id->bytes);
  EXPECT_FALSE(place_of(UniqueId{}, "").ok());
  for (const std::size_t at : {std::size_t{0}, std::size_t{4}, std::size_t{20}, std::size_t{127}}) {
    UniqueId damaged = *id;
    damaged.bytes[at] = static_cast<char>(damaged.bytes[at] ^ 1);
    EXPECT_FALSE(place_of(damaged, "").ok()) << at;
  }
}

}  // namespace
}  // namespace coll::testing
