// SPDX-License-Identifier: Apache-2.0
// A transport that passes everything on to another one, for tests that change a part of it.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "communicator/membership/membership.hpp"

namespace coll::testing {

class WrappedTransport : public Transport {
 public:
  explicit WrappedTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] Limits limits() const override { return inner_->limits(); }
  [[nodiscard]] const std::string& descriptor() const override { return inner_->descriptor(); }
  [[nodiscard]] Status accepts(std::string_view peer) const override {
    return inner_->accepts(peer);
  }
  [[nodiscard]] PathCapabilities path(std::string_view peer) const override {
    return inner_->path(peer);
  }
  Result<std::unique_ptr<Connection>> open(const ConnectionSpec& spec,
                                           std::string_view peer) override {
    return inner_->open(spec, peer);
  }
  void poll() override { inner_->poll(); }

 protected:
  std::unique_ptr<Transport> inner_;
};

}  // namespace coll::testing
