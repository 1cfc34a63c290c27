// SPDX-License-Identifier: Apache-2.0
// InfiniBand and RoCE between hosts.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transports/dial/dial.hpp"
#include "transports/verbs/verbs_connection.hpp"
#include "transports/verbs/verbs_descriptor.hpp"

namespace coll {

class VerbsTransport final : public Transport {
 public:
  /// By these verbs, which outlive it, over these rails.
  static Result<std::unique_ptr<Transport>> make(const TransportSpec& spec, const VerbsTable& verbs,
                                                 const VerbsOptions& options,
                                                 const std::vector<RdmaRail>& rails);

  [[nodiscard]] Limits limits() const override;
  [[nodiscard]] const std::string& descriptor() const override { return text_; }
  [[nodiscard]] Status accepts(std::string_view peer_descriptor) const override;
  [[nodiscard]] PathCapabilities path(std::string_view peer_descriptor) const override;
  Result<std::unique_ptr<Connection>> open(const ConnectionSpec& spec,
                                           std::string_view peer_descriptor) override;
  void poll() override;

 private:
  VerbsTransport(const TransportSpec& spec, const VerbsOptions& options)
      : spec_(spec), options_(options) {}
  Status add_rail(const VerbsTable& verbs, const RdmaRail& rail);
  [[nodiscard]] Status check_length(std::size_t slot_bytes) const;
  Status try_memory() const;

  const TransportSpec spec_;
  const VerbsOptions options_;
  std::vector<std::unique_ptr<VerbsDevice>> devices_;
  VerbsRegions regions_{devices_};
  std::vector<VerbsRail> rails_;
  /// What connections use of these, by the numbers of them (VerbsShape).
  std::map<std::vector<std::size_t>, std::vector<VerbsRail>> chosen_;
  std::unique_ptr<VerbsProgress> progress_;
  std::unique_ptr<Dial> dial_;
  VerbsDescriptor descriptor_;
  std::string text_;
  VerbsConnection::Waiting waiting_;
};

}  // namespace coll
