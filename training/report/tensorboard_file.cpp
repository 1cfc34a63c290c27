// SPDX-License-Identifier: Apache-2.0
// Writes events: protobuf messages of few fields, by hand.
#include "tensorboard_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "step_log.hpp"
#include "writing/crc32c.hpp"

namespace training {
namespace {

template <class T>
std::string little_endian(T number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

std::string masked_crc(std::string_view bytes) {
  constexpr std::uint32_t kMask = 0xa282ead8;
  return little_endian(std::rotr(crc32c(bytes), 15) + kMask);
}

/// A protobuf message, field by field. Each begins with its number and how its value is encoded.
class Message {
 public:
  void add(unsigned field, std::uint64_t value) {
    begin(field, 0);
    add_varint(value);
  }
  void add(unsigned field, double value) {
    begin(field, 1);
    bytes_ += little_endian(std::bit_cast<std::uint64_t>(value));
  }
  void add(unsigned field, float value) {
    begin(field, 5);
    bytes_ += little_endian(std::bit_cast<std::uint32_t>(value));
  }
  /// A string, or a message inside.
  void add(unsigned field, std::string_view value) {
    begin(field, 2);
    add_varint(value.size());
    bytes_ += value;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void begin(unsigned field, unsigned encoding) { add_varint(field << 3U | encoding); }
  /// Seven bits a byte, the lowest first; the highest bit says that more follow.
  void add_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// Numbers of fields.
struct EventField {
  static constexpr unsigned kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5,
                            kSessionLog = 7;
};
struct SessionLogField {
  static constexpr unsigned kStatus = 1;
};
struct SummaryField {
  static constexpr unsigned kValue = 1;
};
struct ValueField {
  static constexpr unsigned kTag = 1, kSimpleValue = 2;
};

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Message event_of(std::uint64_t step) {
  Message event;
  event.add(EventField::kWallTime, wall_time());
  event.add(EventField::kStep, step);
  return event;
}

void add_scalar(Message& summary, std::string_view tag, double number) {
  Message value;
  value.add(ValueField::kTag, tag);
  value.add(ValueField::kSimpleValue, static_cast<float>(number));
  summary.add(SummaryField::kValue, value.bytes());
}

/// A name that no file has. TensorBoard reads the files of a folder in the order of their names, so
/// a run that begins in the second of an earlier one counts as a later second's.
std::string new_path(const std::string& folder) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"unknown"};
  for (auto second = static_cast<std::uint64_t>(wall_time());; ++second) {
    std::string path = fmt::format("{}/events.out.tfevents.{}.{}", folder, second, host.data());
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return path;
  }
}

}  // namespace

TensorboardFile::TensorboardFile(const std::string& folder, RunFacts run, std::uint64_t first_step)
    : run_(std::move(run)) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  path_ = new_path(folder);
  errno = 0;
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (problem) errno = problem.value();  // why the file has no folder
  check("make");
  Message version;
  version.add(EventField::kWallTime, wall_time());
  version.add(EventField::kFileVersion, std::string_view("brain.Event:2"));
  append(version.bytes());
  Message start;
  constexpr std::uint64_t kStart = 1;
  start.add(SessionLogField::kStatus, kStart);
  Message event = event_of(first_step);
  event.add(EventField::kSessionLog, start.bytes());
  append(event.bytes());
}

void TensorboardFile::write(const StepRecord& record) {
  nlohmann::ordered_json step = to_json(record, run_);
  step.erase("step");
  step.erase("rank");
  Message summary;
  for (const auto& [name, value] : step.items()) {
    if (value.is_number()) add_scalar(summary, name, value.get<double>());
    if (!value.is_object()) continue;
    for (const auto& [part, number] : value.items())
      add_scalar(summary, name + "/" + part, number.get<double>());
  }
  Message event = event_of(record.step);
  event.add(EventField::kSummary, summary.bytes());
  append(event.bytes());
}

void TensorboardFile::append(const std::string& event) {
  errno = 0;
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  file_ << length << masked_crc(length) << event << masked_crc(event) << std::flush;
  check("write to");
}

void TensorboardFile::check(const char* what) const {
  if (file_) return;
  throw Failure(
      fmt::format("cannot {} TensorBoard's file {}: {}. Give a folder that can be made and "
                  "has room.",
                  what, path_, std::strerror(errno != 0 ? errno : EIO)));
}

}  // namespace training
