// SPDX-License-Identifier: Apache-2.0
// The ways between the GPUs of a host, as bytes: some hundred of them for a host of eight.
#include "communicator/membership/published_ways.hpp"

#include <bit>
#include <utility>

namespace coll {
namespace {

constexpr std::uint32_t kMostRanks = 1 << 20;
constexpr std::size_t kLongestName = 256;

void write_all(const std::vector<DeviceWay>& ways, MessageWriter& out) {
  for (const DeviceWay& way : ways) {
    out.u8(static_cast<std::uint8_t>(way.size()));
    for (const std::uint16_t link : way)
      out.u8(static_cast<std::uint8_t>(link & 0xff)).u8(static_cast<std::uint8_t>(link >> 8));
  }
}

std::vector<DeviceWay> read_all(std::size_t count, MessageReader& in) {
  std::vector<DeviceWay> ways;
  for (std::size_t i = 0; i < count && in.good(); ++i) {
    DeviceWay& way = ways.emplace_back(in.u8());
    for (std::uint16_t& link : way) {
      const std::uint16_t low = in.u8();
      link = static_cast<std::uint16_t>(low | in.u8() << 8);
    }
  }
  return ways;
}

/// A GPU's number in a byte; the last value is none.
constexpr std::uint8_t kNoGpu = 255;
static_assert(kMostDevices < kNoGpu);

}  // namespace

void write_ways(const DeviceWays& ways, MessageWriter& out) {
  std::string gpus;
  for (const std::int32_t gpu : ways.gpu)
    gpus += static_cast<char>(gpu < 0 ? kNoGpu : static_cast<std::uint8_t>(gpu));
  out.text(gpus).u32(static_cast<std::uint32_t>(ways.gpus.size()));
  for (const std::string& name : ways.gpus) out.text(name);
  out.u32(static_cast<std::uint32_t>(ways.links.size()));
  for (const DeviceLink& link : ways.links)
    out.text(link.name).u32(std::bit_cast<std::uint32_t>(link.gbytes_per_s));
  for (const auto* all : {&ways.between, &ways.up, &ways.down}) write_all(*all, out);
}

std::optional<DeviceWays> read_ways(MessageReader& in) {
  DeviceWays ways;
  const auto name = [&] {
    std::string text = in.text();
    if (text.size() > kLongestName) in.refuse();
    return text;
  };
  const std::string numbers = in.text();
  if (numbers.size() > kMostRanks) return std::nullopt;
  for (const char each : numbers) {
    const auto gpu = static_cast<std::uint8_t>(each);
    ways.gpu.push_back(gpu == kNoGpu ? -1 : gpu);
  }
  const std::uint32_t gpus = in.u32();
  if (gpus > kMostDevices) return std::nullopt;
  for (std::uint32_t i = 0; i < gpus && in.good(); ++i) ways.gpus.push_back(name());
  const std::uint32_t links = in.u32();
  if (links > kMostDeviceLinks) return std::nullopt;
  for (std::uint32_t i = 0; i < links && in.good(); ++i) {
    std::string text = name();
    ways.links.push_back({std::move(text), std::bit_cast<float>(in.u32())});
  }
  const std::size_t pairs = std::size_t{gpus} * gpus;
  ways.between = read_all(pairs, in);
  ways.up = read_all(gpus, in);
  ways.down = read_all(gpus, in);
  return in.good() && ways.sensible() ? std::optional(std::move(ways)) : std::nullopt;
}

}  // namespace coll
