// SPDX-License-Identifier: Apache-2.0
// Which memory of this process stays where it is, and how the others of this host map it.
#include "sys/memory/shared_segments.hpp"

#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>

namespace coll {
namespace {

using Address = std::uintptr_t;

/// One segment, as its owner knows it.
struct Segment {
  Address end = 0;
  SharedPlace place;     ///< of its first byte
  Fd descriptor = Fd();  ///< none: it is private
};
using Segments = std::map<Address, Segment>;

/// All segments in the order of their addresses, for readers that do not lock. A table is written
/// while another one is current, so a reader meets a write only if it was at it while two were
/// published; then it starts anew (a seqlock, whose version is odd while the table is written).
class Table {
 public:
  explicit Table(std::size_t room) : room_(room), ranges_(new Range[room]) {}

  [[nodiscard]] std::size_t room() const { return room_; }

  void write(const Segments& segments) {
    const std::uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    Range* range = ranges_.get();
    for (const auto& [begin, segment] : segments) {
      range->begin.store(begin, std::memory_order_release);
      range->end.store(segment.end, std::memory_order_release);
      range->segment.store(segment.place.segment, std::memory_order_release);
      range->descriptor.store(segment.place.descriptor, std::memory_order_release);
      range->inode.store(segment.place.inode, std::memory_order_release);
      range->offset.store(segment.place.offset, std::memory_order_release);
      ++range;
    }
    count_.store(segments.size(), std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }

  /// False: the table was written meanwhile.
  bool find(Address address, std::size_t bytes, std::optional<SharedPlace>& found) const {
    const std::uint64_t version = version_.load(std::memory_order_acquire);
    found = search(address, bytes);
    return version % 2 == 0 && version_.load(std::memory_order_relaxed) == version;
  }

 private:
  struct Range {
    std::atomic<Address> begin, end;
    std::atomic<std::uint64_t> segment, inode, offset;
    std::atomic<std::int64_t> descriptor;
  };

  [[nodiscard]] std::optional<SharedPlace> search(Address address, std::size_t bytes) const {
    const Range* const first = ranges_.get();
    const Range* const last = first + count_.load(std::memory_order_acquire);
    const Range* range = std::upper_bound(first, last, address, [](Address at, const Range& one) {
      return at < one.begin.load(std::memory_order_acquire);
    });
    if (range == first) return std::nullopt;
    --range;
    const Address begin = range->begin.load(std::memory_order_acquire);
    const Address end = range->end.load(std::memory_order_acquire);
    if (address < begin || address >= end || bytes > end - address) return std::nullopt;
    const SharedPlace place{
        .segment = range->segment.load(std::memory_order_acquire),
        .descriptor = range->descriptor.load(std::memory_order_acquire),
        .inode = range->inode.load(std::memory_order_acquire),
        .offset = range->offset.load(std::memory_order_acquire) + (address - begin)};
    if (!place.in_one_window(bytes)) return std::nullopt;
    return place;
  }

  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::size_t> count_{0};
  const std::size_t room_;
  const std::unique_ptr<Range[]> ranges_;
};

constexpr std::int64_t kNobodys = -1;  // the descriptor of private memory
constinit std::atomic<const Table*> g_current{nullptr};
constinit std::atomic<std::uint64_t> g_removals{0};

std::optional<SharedPlace> look_up(const std::byte* data, std::size_t bytes) {
  std::optional<SharedPlace> found;
  const Table* table = nullptr;
  do {
    table = g_current.load(std::memory_order_acquire);
  } while (table != nullptr && !table->find(reinterpret_cast<Address>(data), bytes, found));
  return found;
}

/// What threads that change it share; its mutexes are also held over a fork.
class Book {
 public:
  static Book& of_process() {
    static auto* const one = new Book;  // made at load; readers may come to the very end
    return *one;
  }

  std::mutex arena_mutex;  // taken before the other one
  std::mutex mutex;        // guards what follows
  Segments segments;
  std::uint64_t last_number = SharedPlace::kArena;

  void publish() {
    if (spare_ == nullptr || spare_->room() < segments.size()) {
      // The one that was too short stays, for a reader may be in it; each is twice the last.
      spare_ = &tables_.emplace_back(std::max<std::size_t>(2 * segments.size(), 8));
    }
    spare_->write(segments);
    g_current.store(spare_, std::memory_order_release);
    std::swap(spare_, current_);
  }

 private:
  Book() {
    const auto before = [] {
      of_process().arena_mutex.lock();
      of_process().mutex.lock();
    };
    const auto in_parent = [] {
      of_process().mutex.unlock();
      of_process().arena_mutex.unlock();
    };
    const auto in_child = [] {
      of_process().segments.clear();  // which closes what is the parent's
      of_process().publish();
      of_process().mutex.unlock();
      of_process().arena_mutex.unlock();
    };
    if (pthread_atfork(before, in_parent, in_child) != 0) {
      throw std::bad_alloc();  // the only reason it has to fail
    }
  }

  std::deque<Table> tables_;
  Table* spare_ = nullptr;
  Table* current_ = nullptr;
};

/// Made while the library is loaded: no fork comes in between.
[[maybe_unused]] const Book& kAtLoad = Book::of_process();

Status refuse_overlap(const Segment& other, Address begin) {
  if (other.place.segment == SharedPlace::kArena) {
    return failed(Code::invalid_argument, "this memory is from coll_mem_alloc",
                  "the other ranks read it in place already");
  }
  return failed(
      Code::invalid_argument,
      "of this memory " + std::to_string(other.end - begin) + " bytes are registered already",
      "deregister them first");
}

Result<SharedPlace> add_segment(const std::byte* data, std::size_t bytes, Fd descriptor,
                                std::uint64_t offset, bool arena) {
  const auto begin = reinterpret_cast<Address>(data);
  const Address end = begin + bytes;
  struct stat file {};
  if (descriptor && ::fstat(descriptor.get(), &file) != 0)
    return system_failure("fstat of shared memory", errno);
  Book& book = Book::of_process();
  const std::lock_guard lock(book.mutex);
  const auto after = book.segments.lower_bound(begin);
  if (after != book.segments.end() && after->first < end)
    return refuse_overlap(after->second, after->first);
  if (after != book.segments.begin()) {
    const auto before = std::prev(after);
    if (before->second.end > begin) return refuse_overlap(before->second, before->first);
  }
  const SharedPlace place{.segment = arena ? SharedPlace::kArena : ++book.last_number,
                          .descriptor = descriptor.get(),
                          .inode = file.st_ino,
                          .offset = offset};
  book.segments.emplace_hint(after, begin, Segment{end, place, std::move(descriptor)});
  book.publish();
  return place;
}

}  // namespace

std::optional<SharedPlace> SharedSegments::find(const std::byte* data, std::size_t bytes) {
  const std::optional<SharedPlace> found = look_up(data, bytes);
  return found && found->descriptor == kNobodys ? std::nullopt : found;
}

bool SharedSegments::has(const std::byte* data) {
  return look_up(data, 1).has_value();
}

Result<SharedPlace> SharedSegments::add(const std::byte* data, std::size_t bytes, Fd descriptor,
                                        std::uint64_t offset) {
  if (!descriptor) return system_failure("shared memory without a descriptor", EBADF);
  return add_segment(data, bytes, std::move(descriptor), offset, false);
}

Status SharedSegments::add_private(const std::byte* data, std::size_t bytes) {
  return add_segment(data, bytes, Fd(), 0, false).status();
}

Result<SharedPlace> SharedSegments::add_arena(const std::byte* data, std::size_t bytes,
                                              Fd descriptor) {
  return add_segment(data, bytes, std::move(descriptor), 0, true);
}

std::mutex& SharedSegments::arena_mutex() {
  return Book::of_process().arena_mutex;
}

Status SharedSegments::remove(const std::byte* data) {
  Book& book = Book::of_process();
  const std::lock_guard lock(book.mutex);
  const auto known = book.segments.find(reinterpret_cast<Address>(data));
  if (known == book.segments.end() || known->second.place.segment == SharedPlace::kArena) {
    return failed(Code::invalid_argument, "no registered memory begins at this address",
                  "give the address that was registered, once, in the process that did it");
  }
  Fd unused = std::move(known->second.descriptor);
  book.segments.erase(known);
  book.publish();
  unused.reset();  // nobody finds it any more; then its peers are told
  g_removals.fetch_add(1, std::memory_order_relaxed);
  return {};
}

std::optional<HeldRange> SharedSegments::range_of(const std::byte* data) {
  const auto address = reinterpret_cast<Address>(data);
  Book& book = Book::of_process();
  const std::lock_guard lock(book.mutex);
  const auto after = book.segments.upper_bound(address);
  if (after == book.segments.begin()) return {};
  const auto& [begin, segment] = *std::prev(after);
  if (address >= segment.end) return {};
  return HeldRange{reinterpret_cast<const std::byte*>(begin), segment.end - begin,
                   segment.place.segment};
}

std::uint64_t SharedSegments::removals() {
  return g_removals.load(std::memory_order_relaxed);
}

}  // namespace coll
