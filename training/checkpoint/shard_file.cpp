// SPDX-License-Identifier: Apache-2.0
// Encodes, writes, reads and checks a rank's file.
#include "shard_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

namespace training {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr std::uint64_t kMagic = 0x54504b434c4c4f43;  // "COLLCKPT"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kFilePage = 4096;

/// The first bytes of a file.
struct Prefix {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion, rank = 0, ranks = 1, names = 0;
  std::uint64_t step = 0, pieces = 0, elements = 0, head_bytes = 0, unused = 0;
};
static_assert(sizeof(Prefix) == 64);

struct PieceEntry {
  std::uint64_t first, count;
  std::uint32_t name, state;
};
static_assert(sizeof(PieceEntry) == 24);

std::size_t blocks_of(std::size_t elements) {
  return elements / kBlockElements + (elements % kBlockElements != 0 ? 1 : 0);
}

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

/// Takes values from bytes; what is not there is damage.
class Taker {
 public:
  Taker(std::span<const std::byte> bytes, const std::filesystem::path& path)
      : bytes_(bytes), path_(path) {}
  std::span<const std::byte> bytes(std::size_t count) {
    if (count > bytes_.size()) fail("its lengths contradict each other");
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  template <class T>
  T value() {
    T value;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  /// A number of things of `size` bytes each, which must be there.
  std::size_t count(std::uint64_t number, std::size_t size) {
    if (number > bytes_.size() / size) fail("its lengths contradict each other");
    return number;
  }
  [[noreturn]] void fail(const char* why) const {
    throw Damaged(fmt::format("the head of {} is damaged: {}", path_.string(), why));
  }

 private:
  std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
};

Prefix read_prefix(const StoredFile& file) {
  Prefix prefix;
  file.read(0, std::as_writable_bytes(std::span(&prefix, 1)));
  if (prefix.magic != kMagic)
    throw Damaged(fmt::format("{} is no file of a checkpoint", file.path().string()));
  if (prefix.version != kVersion) {
    throw Damaged(fmt::format("{} has version {} of the format; this program reads version {}",
                              file.path().string(), prefix.version, kVersion));
  }
  return prefix;
}

ShardHead decode(const Prefix& prefix, Taker taker) {
  ShardHead head{.rank = prefix.rank, .ranks = prefix.ranks, .step = prefix.step};
  taker.bytes(sizeof prefix);
  std::vector<std::string> names(taker.count(prefix.names, sizeof(std::uint32_t)));
  for (std::string& name : names) {
    const auto text = taker.bytes(taker.value<std::uint32_t>());
    name.assign(reinterpret_cast<const char*>(text.data()), text.size());
  }
  std::size_t elements = 0;
  head.pieces.resize(taker.count(prefix.pieces, sizeof(PieceEntry)));
  for (Piece& piece : head.pieces) {
    const auto entry = taker.value<PieceEntry>();
    if (entry.name >= names.size()) taker.fail("a piece has no name");
    if (entry.state >= kStates) taker.fail("a piece has no state");
    if (entry.count > prefix.elements - elements || entry.first + entry.count < entry.first)
      taker.fail("a piece is larger than the file");
    elements += entry.count;
    piece = {static_cast<State>(entry.state), names[entry.name], entry.first, entry.count};
  }
  if (elements != prefix.elements) taker.fail("the pieces are not all of the data");
  head.blocks.resize(taker.count(blocks_of(elements), sizeof(Digest)));
  for (Digest& digest : head.blocks) digest = taker.value<Digest>();
  return head;
}

}  // namespace

std::vector<std::byte> encode(const ShardHead& head) {
  std::vector<std::string_view> names;
  std::unordered_map<std::string_view, std::uint32_t> numbers;
  for (const Piece& piece : head.pieces) {
    if (numbers.try_emplace(piece.parameter, static_cast<std::uint32_t>(names.size())).second)
      names.push_back(piece.parameter);
  }
  Prefix prefix{.rank = static_cast<std::uint32_t>(head.rank),
                .ranks = static_cast<std::uint32_t>(head.ranks),
                .names = static_cast<std::uint32_t>(names.size()),
                .step = head.step,
                .pieces = head.pieces.size(),
                .elements = head.elements()};
  std::vector<std::byte> bytes(sizeof prefix);
  for (const std::string_view name : names) {
    append(bytes, static_cast<std::uint32_t>(name.size()));
    const auto text = std::as_bytes(std::span(name));
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  for (const Piece& piece : head.pieces) {
    append(bytes, PieceEntry{piece.first, piece.count, numbers.at(piece.parameter),
                             static_cast<std::uint32_t>(piece.state)});
  }
  for (const Digest& digest : head.blocks) append(bytes, digest);
  bytes.resize((bytes.size() + kFilePage - 1) / kFilePage * kFilePage);
  prefix.head_bytes = bytes.size();
  std::memcpy(bytes.data(), &prefix, sizeof prefix);
  return bytes;
}

void write_shard(const std::filesystem::path& path, ShardHead head, std::span<const float> values) {
  head.blocks.resize(blocks_of(values.size()));
  const std::uint64_t data_begin = encode(head).size();
  StoredFile file = StoredFile::create(path);
  const auto bytes = std::as_bytes(values);
  for (std::size_t i = 0; i < head.blocks.size(); ++i) {
    const std::size_t at = i * kBlockBytes;
    const auto block = bytes.subspan(at, std::min(kBlockBytes, bytes.size() - at));
    head.blocks[i] = sha256(block);
    file.write(data_begin + at, block);
  }
  file.write(0, encode(head));
  file.sync();
}

ShardFile::ShardFile(const std::filesystem::path& path) : path_(path) {
  const StoredFile file = StoredFile::open(path);
  const Prefix prefix = read_prefix(file);
  bytes_ = file.size();
  if (prefix.head_bytes > bytes_ || (bytes_ - prefix.head_bytes) % sizeof(float) != 0 ||
      (bytes_ - prefix.head_bytes) / sizeof(float) != prefix.elements) {
    throw Damaged(fmt::format("{} has {} bytes, and its head says {} + {} * 4", path.string(),
                              bytes_, prefix.head_bytes, prefix.elements));
  }
  std::vector<std::byte> bytes(prefix.head_bytes);
  file.read(0, bytes);
  digest_ = sha256(bytes);
  head_ = decode(prefix, Taker(bytes, path_));
  data_begin_ = prefix.head_bytes;
  elements_ = prefix.elements;
}

std::span<const float> ShardFile::block(std::size_t number) {
  if (number == number_) return block_;
  const std::size_t first = number * kBlockElements;
  number_ = static_cast<std::size_t>(-1);  // Until it is checked.
  block_.resize(std::min(kBlockElements, elements_ - first));
  const auto bytes = std::as_writable_bytes(std::span(block_));
  StoredFile::open(path_).read(data_begin_ + number * kBlockBytes, bytes);
  if (sha256(bytes) != head_.blocks[number]) {
    throw Damaged(fmt::format("block {} of {} in {} is damaged: its SHA-256 is not the head's",
                              number, head_.blocks.size(), path_.string()));
  }
  number_ = number;
  return block_;
}

}  // namespace training
