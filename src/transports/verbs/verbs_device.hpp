// SPDX-License-Identifier: Apache-2.0
// An RDMA device that one transport has open, and what fails on it.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sys/verbs/verbs_table.hpp"

namespace coll {

/// A verb that has failed: it is named, with the device, errno and what usually causes it.
Status verb_failure(std::string_view verb, const std::string& device, int error);

/// Frees a resource of a device by the function that the table has for it.
template <class Resource>
using VerbsOwned = std::unique_ptr<Resource, int (*)(Resource*)>;

/// One of each device for a transport. One thread at a time. Whoever registers memory or takes room
/// for completions gives it back before the device is destroyed.
class VerbsDevice {
 public:
  static Result<std::unique_ptr<VerbsDevice>> open(const VerbsTable& verbs,
                                                   const std::string& name);
  VerbsDevice(const VerbsDevice&) = delete;
  VerbsDevice& operator=(const VerbsDevice&) = delete;
  ~VerbsDevice();

  [[nodiscard]] const VerbsTable& verbs() const { return verbs_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Is the way to the rank's GPU worth taking?
  [[nodiscard]] bool beside_gpu() const { return beside_gpu_; }
  void set_beside_gpu() { beside_gpu_ = true; }
  [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }
  [[nodiscard]] Status failed_to(std::string_view verb, int error) const {
    return verb_failure(verb, name_, error);
  }

  /// [data, data + bytes), with the access flags of ibv_reg_mr(3).
  Result<VerbsOwned<ibv_mr>> register_memory(std::byte* data, std::size_t bytes, int access) const;

  /// The same for memory of a GPU at this address, whose dma-buf that is.
  Result<VerbsOwned<ibv_mr>> register_dma_buf(int descriptor, std::uint64_t address,
                                              std::size_t bytes, int access) const;

  /// A completion queue with room for so many more entries, which are taken. Makes another queue
  /// where none has room: some drivers cannot resize a queue.
  Result<ibv_cq*> take_room(int entries);
  void give_room(const ibv_cq* queue, int entries);

  /// Up to `most` completions; how many there were. A failure is of the device, for good.
  Result<int> poll(ibv_wc* completions, int most);
  /// Makes `wait_fd` readable at the next completion. To be followed by another look.
  Status arm();
  /// Takes back what made `wait_fd` readable.
  void disarm();
  [[nodiscard]] int wait_fd() const { return channel_->fd; }
  /// Readable when a port has changed.
  [[nodiscard]] int event_fd() const { return context_->async_fd; }
  /// Takes all events; true if there were any.
  bool take_events();
  [[nodiscard]] Result<ibv_port_attr> port(std::uint8_t number) const;

 private:
  struct Queue {
    VerbsOwned<ibv_cq> queue;
    int entries = 0, taken = 0;
    unsigned events = 0;  ///< taken and not acknowledged
  };

  VerbsDevice(const VerbsTable& verbs, std::string name);
  Status make(ibv_device* device);
  Status add_queue(int entries);

  const VerbsTable& verbs_;
  const std::string name_;
  bool beside_gpu_ = false;
  int most_entries_ = 0;  ///< of a completion queue
  VerbsOwned<ibv_context> context_;
  VerbsOwned<ibv_pd> domain_;
  VerbsOwned<ibv_comp_channel> channel_;
  std::vector<Queue> queues_;
  std::size_t next_ = 0;  ///< the queue to poll first
};

}  // namespace coll
