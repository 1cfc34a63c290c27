// SPDX-License-Identifier: Apache-2.0
// What connections for devices are built on: a connection of the host, which they own.
#pragma once
#include <cstddef>
#include <memory>
#include <utility>

#include "transports/transport.hpp"

namespace coll {

/// Does what the inner connection does. Their failures are one.
class WrappedConnection : public Connection {
 public:
  std::byte* acquire(std::size_t bytes) override {
    return usable() ? inner_->acquire(bytes) : nullptr;
  }
  void commit(std::size_t bytes, std::uint64_t digest) override { inner_->commit(bytes, digest); }
  bool send(const std::byte* data, std::size_t bytes, std::uint64_t digest) override {
    return usable() && inner_->send(data, bytes, digest);
  }
  [[nodiscard]] Mark mark() const override { return inner_->mark(); }
  bool flushed(Mark mark) override { return usable() && inner_->flushed(mark); }
  const std::byte* peek(std::size_t bytes, std::uint64_t digest) override {
    return usable() ? inner_->peek(bytes, digest) : nullptr;
  }
  void release() override { inner_->release(); }
  bool receive(std::byte* into, std::size_t bytes, std::uint64_t digest) override {
    return usable() && inner_->receive(into, bytes, digest);
  }
  Lending* lending() override { return inner_->lending(); }
  Landing* landing() override { return inner_->landing(); }
  [[nodiscard]] bool ready() const override { return inner_->ready(); }
  [[nodiscard]] ProgressSource* progress_source() override { return inner_->progress_source(); }
  [[nodiscard]] std::size_t buffer_bytes() const override {
    return inner_->buffer_bytes() + Connection::buffer_bytes();
  }

 protected:
  explicit WrappedConnection(std::unique_ptr<Connection> inner)
      : Connection(inner.get()), inner_(std::move(inner)) {}
  [[nodiscard]] Connection& inner() { return *inner_; }
  [[nodiscard]] const Connection& inner() const { return *inner_; }
  /// After that this one may only be destroyed.
  std::unique_ptr<Connection> take_inner() { return std::move(inner_); }
  /// The inner connection does not look for failures that this one found.
  [[nodiscard]] bool usable() const { return status().ok(); }

 private:
  std::unique_ptr<Connection> inner_;
};

}  // namespace coll
