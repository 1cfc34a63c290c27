// SPDX-License-Identifier: Apache-2.0
// Objects that threads of the driver share, and how they end without ordering those threads.
#pragma once
#include <atomic>
#include <utility>

namespace emucuda {

/// An object with several owners. The last owner does not delete it: to do so it would have to see
/// all that the others did, and the thread sanitizer would then take its next steps for ordered
/// behind theirs, though the program under test ordered nothing. A thread of its own, which never
/// tells another anything, deletes it.
class Shared {
 public:
  Shared() = default;
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  virtual ~Shared() = default;

  void keep() { owners_.fetch_add(1, std::memory_order_relaxed); }
  void drop() {
    if (owners_.fetch_sub(1, std::memory_order_release) == 1) discard();
  }
  /// Begins that thread, once.
  static void start_deleting();

 private:
  static void delete_discarded();
  void discard();

  std::atomic<int> owners_{1};
  Shared* next_discarded_ = nullptr;
};

/// One owner of a Shared.
template <class T>
class Kept {
 public:
  Kept() = default;
  /// Takes over an ownership that the caller has.
  explicit Kept(T* owned) : object_(owned) {}
  static Kept another(T* object) {
    if (object != nullptr) object->keep();
    return Kept(object);
  }
  Kept(const Kept& other) : Kept(another(other.object_)) {}
  Kept(Kept&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Kept& operator=(Kept other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Kept() {
    if (object_ != nullptr) object_->drop();
  }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  [[nodiscard]] T* get() const { return object_; }
  [[nodiscard]] T* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace emucuda
