// SPDX-License-Identifier: Apache-2.0
// A connection by which a device writes into the memory of the peer's device.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/kept_queue.hpp"
#include "transports/announced_messages.hpp"
#include "transports/cuda_ipc/cuda_ipc_end.hpp"
#include "transports/wrapped_connection.hpp"

namespace coll {

/// A direction has its slots in the receiver's device, and the sender's device writes them; their
/// words lie in memory of the host that both ends map. No processor takes part. Over the inner
/// connection passes only what shows that both ends are in the same call.
///
/// Whether both devices reach each other, the ends find out by the inner connection: call `poll`
/// until the connection is ready or has failed. Then both give the same answer in `reaches`. Where
/// it is no, take back the inner connection, which is as it was, and use another way. If the GPUs
/// are known not to reach each other, this takes no memory of theirs.
class CudaIpcConnection final : public WrappedConnection, public DevicePort {
 public:
  /// Each direction gets `credits` slots. The driver has all that work on streams needs.
  /// `for_kernels`: they may lend what the peer's device reaches. Both ends say the same.
  CudaIpcConnection(std::unique_ptr<Connection> inner, CudaContext context, std::uint32_t credits,
                    bool for_kernels)
      : WrappedConnection(std::move(inner)),
        context_(context),
        credits_(credits),
        for_kernels_(for_kernels) {}

  /// The next step of finding out, if one can be done now. Not while a stream of this thread is
  /// captured: it allocates memory.
  void poll();
  /// Once `poll` has found out; what the inner connection alone can do is not enough.
  [[nodiscard]] bool ready() const override { return stage_ == Stage::known; }
  /// Once it is ready: do both devices reach each other?
  [[nodiscard]] bool reaches() const { return ready() && refusal_.empty(); }
  /// Why not, for a person.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  /// Once it is ready, and after that this one may only be destroyed. That may wait for all work of
  /// the device, as it may free memory.
  std::unique_ptr<Connection> give_back() { return take_inner(); }

  DevicePort* device_port() override { return reaches() ? this : nullptr; }

  void will_send(std::uint32_t slot, std::size_t bytes, std::uint64_t digest) override;
  void will_receive(std::uint32_t slot, std::size_t bytes, std::uint64_t digest) override;
  bool progress() override;
  [[nodiscard]] Mark announced() const override { return messages_.mark(); }
  [[nodiscard]] bool settled(Mark mark, Directions of) const override {
    return messages_.is_over(mark, of);
  }
  using DevicePort::settled;
  void release_all() override;
  void keep_for_device() override;

 private:
  enum class Stage : std::uint8_t {
    begin,
    send_hello,
    receive_hello,
    send_memory,
    receive_memory,
    send_verdict,
    receive_verdict,
    // For each piece of registered memory that an end offers:
    send_offer,
    receive_offer,
    send_found,
    receive_found,
    flush,
    known
  };
  /// The calls of one direction.
  struct Calls {
    std::optional<std::uint64_t> last;  ///< the digest that was announced last
    KeptQueue<std::uint64_t> news;      ///< digests to be sent or received

    /// True if it is news.
    bool note(std::uint64_t digest) {
      if (last == digest) return false;
      last = digest;
      news.push(digest);
      return true;
    }
  };

  bool step();
  void introduce();
  void prepare(const CudaIpcHello& peer);
  void judge(const CudaIpcHello& peer);
  void conclude(const CudaIpcText& verdict);
  void tell_kernels();

  const CudaContext context_;
  const std::uint32_t credits_;
  const bool for_kernels_;
  Stage stage_ = Stage::begin;
  std::string refusal_;
  CudaIpcHello own_;
  CudaIpcText verdict_;
  // Offers in turn, one of each end:
  CudaIpcOffer offer_made_;
  CudaAddress found_ = 0;
  std::uint32_t offers_ = 0, offer_ = 0;  ///< of who makes more; which is next
  std::shared_ptr<CudaIpcEnd> end_;
  std::optional<OfferedObject> offered_end_;
  CudaIpcReach reach_;
  Calls out_, in_;
  AnnouncedMessages messages_;  ///< the news
};

}  // namespace coll
