// SPDX-License-Identifier: Apache-2.0
// One end of a connection over RDMA.
#pragma once
#include <memory>
#include <vector>

#include "transports/dial/dial.hpp"
#include "transports/verbs/verbs_progress.hpp"
#include "transports/verbs/verbs_regions.hpp"
#include "transports/verbs/verbs_ways.hpp"

namespace coll {

/// Messages are written into the peer's slots, each slot again when the peer has said that it has
/// consumed what lay there.
class VerbsConnection final : public Connection,
                              private Lending,
                              private Landing,
                              private VerbsReceiver {
 public:
  /// Connections that are not yet ready; each takes itself out when it ends.
  using Waiting = std::vector<VerbsConnection*>;

  VerbsConnection(const ConnectionSpec& spec, const VerbsOptions& options, Waiting& waiting,
                  VerbsProgress& progress, VerbsRegions& regions);
  ~VerbsConnection() override;
  /// Makes its memory, and queue pairs over these rails, `pairs` in all.
  Result<VerbsMeeting> prepare(std::span<const VerbsRail> rails, std::size_t pairs);
  void set_dialled(std::unique_ptr<DialledEnd> end) { dialled_ = std::move(end); }

  std::byte* acquire(std::size_t bytes) override;
  void commit(std::size_t bytes, std::uint64_t digest) override;
  bool send(const std::byte* data, std::size_t bytes, std::uint64_t digest) override;
  [[nodiscard]] Mark mark() const override { return sent_; }
  bool flushed(Mark mark) override;

  const std::byte* peek(std::size_t bytes, std::uint64_t digest) override;
  void release() override;
  bool receive(std::byte* into, std::size_t bytes, std::uint64_t digest) override;

  Lending* lending() override { return this; }
  Landing* landing() override { return this; }
  [[nodiscard]] bool ready() const override { return ready_; }
  [[nodiscard]] ProgressSource* progress_source() override { return &progress_; }

  // --- for the transport and its progress
  /// Moves connecting forward.
  void poll_dialled();
  [[nodiscard]] VerbsWays& ways() { return ways_; }
  void has_failed(const Status& why) override;

 private:
  // A lent message is written out of the program's memory, and has been read when it has arrived.
  [[nodiscard]] bool lends(const std::byte* data, std::size_t bytes, Fetch fetch) override;
  bool lend(const std::byte* data, std::size_t bytes, std::uint64_t digest) override;
  bool lend_kept(const std::byte* data, std::size_t bytes, std::uint64_t digest) override {
    return lend(data, bytes, digest);
  }
  [[nodiscard]] bool may_lend_of_gpu() const override;
  void forget_ended() override { regions_.forget_ended(); }
  void withdraw() override;
  bool caught_up() override { return ways_.arrived(lent_end_); }
  bool all_read() override { return ways_.peer_gone() || caught_up(); }
  bool intact() override { return true; }  // what came lies in this end's memory
  void stop_reading() override {}
  [[nodiscard]] std::optional<ibv_sge> lent(std::uint64_t message,
                                            const VerbsDevice& device) const override;

  [[nodiscard]] std::uint64_t next() const override { return consumed_; }
  [[nodiscard]] std::uint64_t ahead() const override { return slots_.hints(); }
  void expect(std::uint64_t number, std::byte* into, std::size_t bytes, bool) override;
  void cancel() override;
  [[nodiscard]] std::uint32_t landing_key(const std::byte* into,
                                          const VerbsDevice& device) const override;

  void has_arrived(std::uint32_t message) override;
  void has_consumed(std::uint32_t messages) override;
  [[nodiscard]] std::uint64_t consumed() const override { return consumed_; }
  void send_from(const std::byte* lent, std::size_t bytes, std::uint64_t digest);
  bool has_come(std::size_t bytes);
  const std::byte* landed(std::size_t bytes);
  void tell_landings();
  void end_access(const std::string& why);
  void not_there();
  void lost();
  void drain();

  const ConnectionSpec spec_;
  Waiting& waiting_;
  VerbsProgress& progress_;
  VerbsRegions& regions_;
  std::unique_ptr<DialledEnd> dialled_;
  VerbsSlots slots_;
  std::vector<const VerbsDevice*> devices_;  ///< that messages go through
  VerbsWays ways_;
  bool met_ = false;
  bool ready_ = false;
  // sending: messages ever sent, and of these consumed by the peer
  std::uint64_t sent_ = 0, credited_ = 0;
  std::vector<const std::byte*> lent_;  ///< for each slot: where the payload lies, null: in it
  std::uint64_t lent_end_ = 0;          ///< behind the last message that was lent
  // receiving: messages ever consumed, and of these made known to the peer
  std::uint64_t consumed_ = 0, told_ = 0;
  std::uint32_t stamped_ = 0;  ///< messages found by their stamps since completions were taken
  std::vector<bool> arrived_;  ///< for each slot: the next message there has come
  VerbsLandings landings_;
  bool access_ended_ = false;
};

}  // namespace coll
