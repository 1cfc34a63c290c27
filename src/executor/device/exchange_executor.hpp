// SPDX-License-Identifier: Apache-2.0
// Moves sends and receives by copies of a GPU that the processor starts when they can run.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "executor/device/lane_streams.hpp"
#include "executor/device/stream_queue.hpp"
#include "executor/executor.hpp"
#include "sys/cuda/pinned_words.hpp"
#include "transports/device_port.hpp"

namespace coll {

struct ExchangeProgram;

/// Of one communicator, on one GPU. A send and the receive that its peer needs may be issued in any
/// order, so nothing on the device waits for another rank: the processor looks at the ports' words,
/// and starts a copy when its slot may be used. The device tells the peer when the copy is done. So
/// a message costs the processor three operations of a stream or more, and a run that stands holds
/// up those of the same peer and direction only, which move in the order of their begins. A run's
/// buffers may lie in any memory that the GPU's context can copy.
///
/// A driver that refuses work is the run's `failure`. Runs are not held (Progress::hold).
///
/// It must outlive its programs, and they the runs. Where a run was abandoned whose copies the
/// device did not end, the memory that they may still use is never freed.
class ExchangeExecutor final : public Executor {
 public:
  explicit ExchangeExecutor(StreamDevice& device)
      : device_(device), streams_(device), words_(device.driver(), device.context()) {}
  ~ExchangeExecutor() override;

  /// For schedules of sends and receives, one step a lane.
  Result<std::unique_ptr<Program>> bind(const Schedule& schedule, const ProgramShape& shape,
                                        const ConnectionSource& connection,
                                        ScratchPool& pool) override;
  void begin(Run& run) override;
  void queue(Run& /*run*/) override {}
  bool advance(Run& run) override;
  /// Waits until the device has ended the run's copies, for two seconds at most: then the caller
  /// may change its buffers, unless the run is `lost`.
  void abandon(Run& run) override;

 private:
  friend struct ExchangeProgram;
  struct Flight;

  /// One direction of a connection.
  struct Way {
    DevicePort* port = nullptr;
    bool sends = false;
    CudaStream stream = nullptr;  ///< one for all sends, one for all receives
    PinnedWord done;          ///< the device writes how many messages are behind it, modulo 2^32
    std::uint32_t given = 0;  ///< messages that the device has got
    /// Of lane 0: the oldest run that the device does not have as a whole. The others follow it.
    Flight* first = nullptr;

    [[nodiscard]] const DeviceRing& ring() const {
      return sends ? port->sending() : port->receiving();
    }
    /// They say which slots this end may use.
    [[nodiscard]] const DeviceWords& words() const {
      return sends ? port->may_send() : port->may_receive();
    }
  };
  /// What a run has from its begin to its end.
  struct Flight {
    explicit Flight(ExchangeProgram& of);

    Run* run = nullptr;  ///< null: it is of no run
    ExchangeProgram* const program;
    struct Lane {
      std::uint64_t told = 0;    ///< the next pass that the port is told of
      std::uint64_t given = 0;   ///< the next pass that the device gets
      std::uint32_t behind = 0;  ///< Way::given behind the run's last message so far
    };
    std::vector<Lane> lanes;
    Flight* next = nullptr;  ///< see Way::first
    std::uint32_t vain = 0;  ///< looks in a row at which nothing had happened
    bool whole = false;      ///< the device has all of it
  };

  Result<Way*> way_of(DevicePort& port, bool sends);
  [[nodiscard]] static Flight* flight_of(const Run& run);
  static Flight& take_flight(Run& run);
  bool give(Flight& flight);
  static bool tell(Flight& flight, std::size_t lane);
  static bool can_run(const Flight& flight, std::size_t lane);
  static void move_next(Flight& flight, std::size_t lane, StreamQueue& queue);
  static void go_on(Flight& flight);
  [[nodiscard]] static bool is_over(const Flight& flight);
  void look_for_errors(Flight& flight);
  [[nodiscard]] bool streams_ended(const ExchangeProgram& program) const;

  StreamDevice& device_;
  LaneStreams streams_;
  PinnedWords words_;
  std::vector<std::unique_ptr<Way>> ways_;
  bool lost_ = false;  ///< the device may write words at any time
};

}  // namespace coll
