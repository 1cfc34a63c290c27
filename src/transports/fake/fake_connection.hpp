// SPDX-License-Identifier: Apache-2.0
// One end of a connection over the scripted network.
#pragma once
#include <memory>
#include <vector>

#include "transports/fake/fake_network.hpp"
#include "transports/transport.hpp"

namespace coll {

class FakeTransport;

class FakeConnection final : public Connection,
                             public Lending,
                             public Landing,
                             public ProgressSource {
 public:
  /// `side` is 0 for the lower rank.
  FakeConnection(const ConnectionSpec& spec, FakeTransport* transport,
                 std::shared_ptr<FakeNetwork> network, std::shared_ptr<FakeLink> link, int side);
  ~FakeConnection() override;

  std::byte* acquire(std::size_t bytes) override;
  void commit(std::size_t bytes, std::uint64_t digest) override;
  bool send(const std::byte* data, std::size_t bytes, std::uint64_t digest) override;
  [[nodiscard]] bool lends(const std::byte* data, std::size_t bytes, Fetch fetch) override;
  bool lend(const std::byte* data, std::size_t bytes, std::uint64_t digest) override;
  bool lend_kept(const std::byte* data, std::size_t bytes, std::uint64_t digest) override;
  [[nodiscard]] bool may_lend_of_gpu() const override { return network_->script().serves_gpus; }
  void withdraw() override;
  bool caught_up() override;
  bool all_read() override;
  [[nodiscard]] Mark mark() const override;
  bool flushed(Mark mark) override;

  const std::byte* peek(std::size_t bytes, std::uint64_t digest) override;
  const std::byte* peek_part(std::size_t begin, std::size_t part, std::size_t bytes,
                             std::uint64_t digest, std::byte* room) override;
  bool intact() override;
  void release() override;
  bool receive(std::byte* into, std::size_t bytes, std::uint64_t digest) override;
  void stop_reading() override;

  [[nodiscard]] std::uint64_t next() const override;
  [[nodiscard]] std::uint64_t ahead() const override { return kAhead; }
  [[nodiscard]] bool only_computed() const override {
    return network_->script().lands_only_computed;
  }
  void expect(std::uint64_t number, std::byte* into, std::size_t bytes, bool part_first) override;
  void cancel() override;

  Lending* lending() override;
  Landing* landing() override;
  [[nodiscard]] bool ready() const override { return ready_; }
  void progress() override;
  [[nodiscard]] ProgressSource* progress_source() override {
    return network_->script().max_delay > 0 ? this : nullptr;
  }

  [[nodiscard]] std::uint32_t lane() const { return lane_; }
  /// Moves connecting forward; true once it is over.
  bool connect();

 private:
  static constexpr std::uint64_t kAhead = 5;

  FakeFifo& out() { return link_->fifos[side_]; }
  FakeFifo& in() { return link_->fifos[1 - side_]; }
  FakeFifo::Message* outgoing(std::size_t bytes);
  bool put(std::size_t bytes, std::uint64_t digest, const std::byte* lent = nullptr,
           bool kept = false);
  bool lend(const std::byte* data, std::size_t bytes, std::uint64_t digest, bool kept);
  FakeFifo::Message* incoming(std::size_t bytes, std::uint64_t digest);
  [[nodiscard]] bool is_lost() const { return link_->cut || link_->closed[1 - side_]; }
  void fail_lost();

  FakeTransport* transport_;  ///< null once the transport has no part in this any more
  std::shared_ptr<FakeNetwork> network_;
  std::shared_ptr<FakeLink> link_;
  const int side_;
  const std::uint32_t lane_;
  bool ready_ = false;
  bool half_sent_ = false;       ///< the first half of the refused message is in its slot
  std::vector<std::byte> part_;  ///< of the message that is taken in parts
};

}  // namespace coll
