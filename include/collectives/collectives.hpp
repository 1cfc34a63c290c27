// SPDX-License-Identifier: Apache-2.0
// The C++20 interface: header-only RAII over the C ABI.
#pragma once
#include <collectives/collectives.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace collectives {

/// Why a call failed: coll_error_info_t, with the whole line for a person.
struct Error {
  coll_status_t code = COLL_SUCCESS;
  std::string text;
  int rank = -1;                              ///< at fault; -1: none, or it is not known
  int system_error = 0;                       ///< errno; 0: no system call failed
  std::uint64_t sequence = 0;                 ///< of the operation that failed; 0: none
  coll_operation_t operation = COLL_BARRIER;  ///< says nothing if `sequence` is 0
};

/// A value, or the error that prevented it. Nothing in this header throws.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const { return error_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Error error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool ok() const { return error_.code == COLL_SUCCESS; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

/// 16-bit and 8-bit floating-point elements, as bits: this header does no arithmetic.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Float8E4M3 {
  std::uint8_t bits;
};
struct Float8E5M2 {
  std::uint8_t bits;
};

/// Is T a complex number with two parts of type `Part`: std::complex, or another library's?
template <class T, class Part>
concept ComplexOf = sizeof(T) == 2 * sizeof(Part) && requires(const T& number) {
  { number.real() } -> std::convertible_to<Part>;
  { number.imag() } -> std::convertible_to<Part>;
  requires std::is_same_v<typename T::value_type, Part>;
};

/// The dtype of a C++ element type. Other types do not compile.
template <class T>
constexpr coll_dtype_t dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>)
    return COLL_BOOL;
  else if constexpr (ComplexOf<U, float>)
    return COLL_COMPLEX64;
  else if constexpr (ComplexOf<U, double>)
    return COLL_COMPLEX128;
  else if constexpr (std::is_same_v<U, Float16>)
    return COLL_FLOAT16;
  else if constexpr (std::is_same_v<U, BFloat16>)
    return COLL_BFLOAT16;
  else if constexpr (std::is_same_v<U, Float8E4M3>)
    return COLL_FLOAT8_E4M3;
  else if constexpr (std::is_same_v<U, Float8E5M2>)
    return COLL_FLOAT8_E5M2;
  else if constexpr (std::is_same_v<U, float>)
    return COLL_FLOAT32;
  else if constexpr (std::is_same_v<U, double>)
    return COLL_FLOAT64;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 1)
    return std::is_signed_v<U> ? COLL_INT8 : COLL_UINT8;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 2)
    return std::is_signed_v<U> ? COLL_INT16 : COLL_UINT16;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 4)
    return std::is_signed_v<U> ? COLL_INT32 : COLL_UINT32;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 8)
    return std::is_signed_v<U> ? COLL_INT64 : COLL_UINT64;
  else
    static_assert(!sizeof(U), "no dtype for this element type");
}

namespace detail {
/// The type that carries records of `bytes` bytes, which only a program's function reads.
template <std::size_t bytes>
constexpr coll_dtype_t type_of_bytes() {
  static_assert(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16,
                "records have 1, 2, 4, 8 or 16 bytes");
  return bytes == 1   ? COLL_UINT8
         : bytes == 2 ? COLL_UINT16
         : bytes == 4 ? COLL_UINT32
         : bytes == 8 ? COLL_UINT64
                      : COLL_COMPLEX128;
}

/// The thread's last failed call, which returned `status`.
inline Error last_error(coll_status_t status) {
  Error error;
  error.code = status;
  error.text = coll_last_error();
  coll_error_info_t info = COLL_ERROR_INFO_INIT;
  if (coll_last_error_info(&info) == COLL_SUCCESS) {
    error.rank = info.rank;
    error.system_error = info.system_error;
    error.sequence = info.sequence;
    error.operation = info.operation;
  }
  return error;
}
inline Result<void> result(coll_status_t status) {
  if (status == COLL_SUCCESS) return {};
  return last_error(status);
}
inline Error invalid(const char* text) {
  Error error;
  error.code = COLL_INVALID_ARGUMENT;
  error.text = text;
  return error;
}
}  // namespace detail

class Stream;

/// An event: stands for what a stream held when the event was recorded (collectives.h, "events").
class Event {
 public:
  static Result<Event> create() {
    coll_event_t event = nullptr;
    if (auto made = detail::result(coll_event_create(&event)); !made) return made.error();
    return Event(event);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event() {
    if (event_ != nullptr) coll_event_destroy(event_);
  }

  /// Records what the stream holds now, in place of what was recorded before.
  inline Result<void> record(const Stream& stream);
  /// Waits until the recorded operations have ended, whether they failed or not.
  Result<void> synchronize() { return detail::result(coll_event_synchronize(event_)); }
  /// The same without waiting: have they ended?
  Result<bool> finished() {
    const coll_status_t status = coll_event_query(event_);
    if (status == COLL_IN_PROGRESS) return false;
    if (status == COLL_SUCCESS) return true;
    return detail::result(status).error();
  }
  [[nodiscard]] coll_event_t get() const { return event_; }

 private:
  explicit Event(coll_event_t event) : event_(event) {}
  coll_event_t event_;
};

/// A stream: the queued operations run asynchronously and in order.
class Stream {
 public:
  static Result<Stream> create() {
    coll_stream_t stream = nullptr;
    if (auto made = detail::result(coll_stream_create(&stream)); !made) return made.error();
    return Stream(stream);
  }
  /// A stream of CUDA (CUstream, cudaStream_t), which must live longer, as coll_stream_from_cuda
  /// has it: `finished` and `synchronize` then speak of operations that were not captured.
  static Result<Stream> from_cuda(void* cuda_stream) {
    coll_stream_t stream = nullptr;
    if (auto made = detail::result(coll_stream_from_cuda(&stream, cuda_stream)); !made)
      return made.error();
    return Stream(stream);
  }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_ != nullptr) coll_stream_destroy(stream_);
  }

  /// Waits for all queued operations. Returns the first failure since the last wait.
  Result<void> synchronize() { return detail::result(coll_stream_synchronize(stream_)); }
  /// Whether all queued operations have finished, without waiting; an error if one failed.
  Result<bool> finished() {
    const coll_status_t status = coll_stream_query(stream_);
    if (status == COLL_IN_PROGRESS) return false;
    if (status == COLL_SUCCESS) return true;
    return detail::result(status).error();
  }
  /// What is queued from now on waits until the event, as it is recorded now, has happened.
  Result<void> wait(const Event& event) {
    return detail::result(coll_stream_wait_event(stream_, event.get()));
  }
  [[nodiscard]] coll_stream_t get() const { return stream_; }

 private:
  explicit Stream(coll_stream_t stream) : stream_(stream) {}
  coll_stream_t stream_;
};

inline Result<void> Event::record(const Stream& stream) {
  return detail::result(coll_event_record(event_, stream.get()));
}

/// A handle of an operation that runs asynchronously. Its destruction does not wait: the buffers
/// stay the operation's own until it has ended.
class Work {
 public:
  explicit Work(coll_work_t work) : work_(work) {}
  Work(Work&& other) noexcept : work_(std::exchange(other.work_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    std::swap(work_, other.work_);
    return *this;
  }
  ~Work() { coll_work_free(work_); }

  /// Whether the operation has ended, without waiting; an error if it failed.
  Result<bool> finished() { return ended(coll_work_test(work_)); }
  /// Waits for its end; false if `timeout_s` seconds pass first (negative: no timeout).
  Result<bool> wait(double timeout_s = -1) { return ended(coll_work_wait(work_, timeout_s)); }
  /// Has a tagged recv that has not met its message end with COLL_ABORTED (coll_work_cancel); false
  /// if it is too late, or another operation.
  Result<bool> cancel() { return ended(coll_work_cancel(work_)); }
  /// Aborts the communicator, unless the operation has ended.
  Result<void> abort() { return detail::result(coll_work_abort(work_)); }
  [[nodiscard]] coll_work_t get() const { return work_; }

 private:
  static Result<bool> ended(coll_status_t status) {
    if (status == COLL_IN_PROGRESS) return false;
    if (status == COLL_SUCCESS) return true;
    return detail::result(status).error();
  }
  coll_work_t work_;
};

/// A group of operations (coll_group_start): from its start to its end the operations that this
/// thread calls are only collected; `end` issues them together.
class Group {
 public:
  static Result<Group> start() {
    if (auto started = detail::result(coll_group_start()); !started) return started.error();
    return Group();
  }
  Group(Group&& other) noexcept : open_(std::exchange(other.open_, false)) {}
  Group& operator=(Group&& other) noexcept {
    std::swap(open_, other.open_);
    return *this;
  }
  /// Without `end`, cancels the group and the groups around it: nothing is issued.
  ~Group() {
    if (open_) coll_group_cancel();
  }

  /// Issues the operations, and waits for those that have neither stream nor handle.
  Result<void> end() {
    open_ = false;
    return detail::result(coll_group_end());
  }

 private:
  Group() = default;
  bool open_ = true;
};

/// Zeroed memory that the other ranks of this host read where it lies (coll_mem_alloc).
class Memory {
 public:
  static Result<Memory> allocate(std::size_t bytes) {
    void* data = nullptr;
    if (auto made = detail::result(coll_mem_alloc(&data, bytes)); !made) return made.error();
    return Memory(data, bytes);
  }
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory() { coll_mem_free(data_); }

  /// The memory as elements of T, without an incomplete element at the end.
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    return {static_cast<T*>(data_), bytes_ / sizeof(T)};
  }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  Memory(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  void* data_;
  std::size_t bytes_;
};

/// Registers memory of the program (coll_mem_register): while this object lives, RDMA devices use
/// the memory where it lies, and the other ranks of this host read it there if it is shared.
/// Destroy it before you unmap or free the memory. For memory of a GPU use coll_mem_deregister,
/// which may be refused.
class Registration {
 public:
  static Result<Registration> of(const void* data, std::size_t bytes) {
    if (auto made = detail::result(coll_mem_register(data, bytes)); !made) return made.error();
    return Registration(data);
  }
  Registration(Registration&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Registration() { coll_mem_deregister(data_); }

 private:
  explicit Registration(const void* data) : data_(data) {}
  const void* data_;
};

/// A communicator. Operations take spans of elements. If their sizes do not fit each other, the
/// operation returns COLL_INVALID_ARGUMENT. Without a stream an operation blocks. collectives.h
/// describes each operation.
class Communicator {
 public:
  static Result<Communicator> from_environment(const coll_config_t* config = nullptr) {
    return adopt([&](coll_comm_t* comm) { return coll_comm_init_env(comm, config); });
  }
  static Result<Communicator> join(const coll_unique_id_t& id, int size, int rank,
                                   const coll_config_t* config = nullptr) {
    return adopt(
        [&](coll_comm_t* comm) { return coll_comm_init_rank(comm, size, &id, rank, config); });
  }
  /// `rendezvous` counts, not the config's.
  static Result<Communicator> join_at(const std::string& rendezvous, int size, int rank,
                                      const coll_config_t* config = nullptr) {
    coll_config_t chosen = COLL_CONFIG_INIT;
    if (config != nullptr) chosen = *config;
    chosen.rendezvous = rendezvous.c_str();
    return adopt([&](coll_comm_t* comm) { return coll_comm_init(comm, size, rank, &chosen); });
  }
  /// Meets the other ranks by a key-value store of the program (coll_comm_init_store).
  static Result<Communicator> join_by(const coll_store_t& store, const std::string& key, int size,
                                      int rank, const coll_config_t* config = nullptr) {
    return adopt([&](coll_comm_t* comm) {
      return coll_comm_init_store(comm, size, rank, &store, key.c_str(), config);
    });
  }

  /// Meets the other ranks over sockets of the program (coll_comm_init_fds).
  static Result<Communicator> join_over(std::span<const int> fds, int size, int rank,
                                        const coll_config_t* config = nullptr) {
    return adopt([&](coll_comm_t* comm) {
      return coll_comm_init_fds(comm, size, rank, fds.data(), config);
    });
  }

  /// The ranks that give the same color, as a communicator; none for one that gives
  /// COLL_SPLIT_NONE (coll_comm_split). With a null config, the settings are this communicator's.
  Result<std::optional<Communicator>> split(int color, int key = 0,
                                            const coll_config_t* config = nullptr) {
    coll_comm_t part = nullptr;
    if (auto made = detail::result(coll_comm_split(comm_, color, key, config, &part)); !made) {
      return made.error();
    }
    if (part == nullptr) return std::optional<Communicator>();
    return std::optional<Communicator>(Communicator(part));
  }
  /// The same ranks once more.
  Result<Communicator> duplicate(const coll_config_t* config = nullptr) {
    return adopt([&](coll_comm_t* comm) { return coll_comm_duplicate(comm_, config, comm); });
  }
  /// The ranks named, which alone call, all with the same list.
  Result<Communicator> subset(std::span<const int> ranks, const coll_config_t* config = nullptr) {
    return adopt([&](coll_comm_t* comm) {
      return coll_comm_subset(comm_, ranks.data(), static_cast<int>(ranks.size()), config, comm);
    });
  }

  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~Communicator() {
    if (comm_ != nullptr) coll_comm_destroy(comm_);
  }

  [[nodiscard]] int rank() const {
    int rank = -1;
    coll_comm_rank(comm_, &rank);
    return rank;
  }
  [[nodiscard]] int size() const {
    int size = 0;
    coll_comm_size(comm_, &size);
    return size;
  }
  [[nodiscard]] std::string name() const {
    const char* name = "";
    coll_comm_name(comm_, &name);
    return name;
  }
  [[nodiscard]] coll_comm_t get() const { return comm_; }

  /// Issues an operation and returns at once (coll_start): on the stream, or beside all others.
  Result<Work> start(const coll_call_t& call, const Stream* stream = nullptr) {
    coll_work_t work = nullptr;
    if (auto made = detail::result(coll_start(&call, comm_, handle(stream), &work)); !made) {
      return made.error();
    }
    return Work(work);
  }

  /// Runs an operation to its end (coll_run).
  Result<void> run(const coll_call_t& call) { return detail::result(coll_run(&call, comm_)); }

  template <class T>
  Result<void> all_reduce(std::span<const T> send, std::span<T> recv, coll_op_t op = COLL_SUM,
                          const Stream* stream = nullptr) {
    if (send.size() != recv.size())
      return detail::invalid("all_reduce: send and recv differ in size");
    return detail::result(coll_all_reduce(send.data(), recv.data(), recv.size(), dtype_of<T>(), op,
                                          comm_, handle(stream)));
  }
  /// In place.
  template <class T>
  Result<void> all_reduce(std::span<T> data, coll_op_t op = COLL_SUM,
                          const Stream* stream = nullptr) {
    return all_reduce<T>(std::span<const T>(data), data, op, stream);
  }
  /// In place, by a function object `combine(left, right)` of two elements, which is associative,
  /// to rounding, and must not throw (coll_reduction_t). `name` is the same on all ranks. Elements
  /// may be records of 1, 2, 4, 8 or 16 bytes. Blocks; in a group `combine` must stay until the
  /// group's end.
  template <class T, class Combine>
  Result<void> all_reduce_by(std::span<T> data, Combine& combine, bool commutative,
                             const char* name = "") {
    static_assert(std::is_trivially_copyable_v<T> && std::is_nothrow_move_constructible_v<T>);
    coll_reduction_t reduction = COLL_REDUCTION_INIT;
    reduction.commutative = commutative ? 1 : 0;
    reduction.context = const_cast<void*>(static_cast<const void*>(&combine));
    reduction.name = name;
    reduction.combine = [](void* context, const void* left, const void* right, void* result,
                           std::size_t count) {
      Combine& of_two = *static_cast<Combine*>(context);
      for (std::size_t i = 0; i < count; ++i) {
        static_cast<T*>(result)[i] =
            of_two(static_cast<const T*>(left)[i], static_cast<const T*>(right)[i]);
      }
    };
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_ALL_REDUCE;
    call.send = call.recv = data.data();
    call.count = data.size();
    call.type = detail::type_of_bytes<sizeof(T)>();
    call.reduction = &reduction;
    return run(call);
  }
  /// In place, many buffers as one operation (coll_part_t). Blocks.
  template <class T>
  Result<void> all_reduce_parts(std::span<const std::span<T>> parts, coll_op_t op = COLL_SUM) {
    std::vector<coll_part_t> list;
    for (const std::span<T>& part : parts) list.push_back({part.data(), part.data(), part.size()});
    const coll_part_t none{};
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_ALL_REDUCE;
    call.type = dtype_of<T>();
    call.op = op;
    call.parts = list.empty() ? &none : list.data();
    call.part_count = list.size();
    return run(call);
  }
  template <class T>
  Result<void> reduce(std::span<const T> send, std::span<T> recv, int root, coll_op_t op = COLL_SUM,
                      const Stream* stream = nullptr) {
    if (rank() == root && send.size() != recv.size())
      return detail::invalid("reduce: send and recv differ in size at the root");
    return detail::result(coll_reduce(send.data(), recv.data(), send.size(), dtype_of<T>(), op,
                                      root, comm_, handle(stream)));
  }
  /// In place: copies the root's data into every rank's.
  template <class T>
  Result<void> broadcast(std::span<T> data, int root, const Stream* stream = nullptr) {
    return detail::result(coll_broadcast(data.data(), data.data(), data.size(), dtype_of<T>(), root,
                                         comm_, handle(stream)));
  }
  template <class T>
  Result<void> all_gather(std::span<const T> send, std::span<T> recv,
                          const Stream* stream = nullptr) {
    if (recv.size() != send.size() * ranks())
      return detail::invalid("all_gather: recv must have size() times send's elements");
    return detail::result(coll_all_gather(send.data(), recv.data(), send.size(), dtype_of<T>(),
                                          comm_, handle(stream)));
  }
  template <class T>
  Result<void> reduce_scatter(std::span<const T> send, std::span<T> recv, coll_op_t op = COLL_SUM,
                              const Stream* stream = nullptr) {
    if (send.size() != recv.size() * ranks())
      return detail::invalid("reduce_scatter: send must have size() times recv's elements");
    return detail::result(coll_reduce_scatter(send.data(), recv.data(), recv.size(), dtype_of<T>(),
                                              op, comm_, handle(stream)));
  }
  template <class T>
  Result<void> all_to_all(std::span<const T> send, std::span<T> recv,
                          const Stream* stream = nullptr) {
    if (send.size() != recv.size() || send.size() % ranks() != 0)
      return detail::invalid("all_to_all: send and recv must be equal multiples of size()");
    return detail::result(coll_all_to_all(send.data(), recv.data(), send.size() / ranks(),
                                          dtype_of<T>(), comm_, handle(stream)));
  }
  /// Only the root uses `recv`.
  template <class T>
  Result<void> gather(std::span<const T> send, std::span<T> recv, int root,
                      const Stream* stream = nullptr) {
    if (rank() == root && recv.size() != send.size() * ranks())
      return detail::invalid("gather: recv must have size() times send's elements at the root");
    return detail::result(coll_gather(send.data(), recv.data(), send.size(), dtype_of<T>(), root,
                                      comm_, handle(stream)));
  }
  /// Only the root uses `send`.
  template <class T>
  Result<void> scatter(std::span<const T> send, std::span<T> recv, int root,
                       const Stream* stream = nullptr) {
    if (rank() == root && send.size() != recv.size() * ranks())
      return detail::invalid("scatter: send must have size() times recv's elements at the root");
    return detail::result(coll_scatter(send.data(), recv.data(), recv.size(), dtype_of<T>(), root,
                                       comm_, handle(stream)));
  }

  // The operations on unequal blocks: `counts` has an entry for each rank, and so has `displs`,
  // unless it is empty: then the blocks follow one another.

  template <class T>
  Result<void> all_gatherv(std::span<const T> send, std::span<T> recv,
                           std::span<const std::size_t> counts,
                           std::span<const std::size_t> displs = {},
                           const Stream* stream = nullptr) {
    if (!fits(counts, displs, recv.size()) || send.size() != counts[own()])
      return detail::invalid("all_gatherv: the buffers do not have the elements of counts");
    return detail::result(coll_all_gatherv(send.data(), recv.data(), counts.data(), or_null(displs),
                                           dtype_of<T>(), comm_, handle(stream)));
  }
  template <class T>
  Result<void> reduce_scatterv(std::span<const T> send, std::span<T> recv,
                               std::span<const std::size_t> counts, coll_op_t op = COLL_SUM,
                               std::span<const std::size_t> displs = {},
                               const Stream* stream = nullptr) {
    if (!fits(counts, displs, send.size()) || recv.size() != counts[own()])
      return detail::invalid("reduce_scatterv: the buffers do not have the elements of counts");
    return detail::result(coll_reduce_scatterv(send.data(), recv.data(), counts.data(),
                                               or_null(displs), dtype_of<T>(), op, comm_,
                                               handle(stream)));
  }
  template <class T>
  Result<void> all_to_allv(std::span<const T> send, std::span<const std::size_t> send_counts,
                           std::span<T> recv, std::span<const std::size_t> recv_counts,
                           std::span<const std::size_t> send_displs = {},
                           std::span<const std::size_t> recv_displs = {},
                           const Stream* stream = nullptr) {
    if (!fits(send_counts, send_displs, send.size()) ||
        !fits(recv_counts, recv_displs, recv.size()))
      return detail::invalid("all_to_allv: the buffers do not have the elements of their counts");
    return detail::result(coll_all_to_allv(send.data(), send_counts.data(), or_null(send_displs),
                                           recv.data(), recv_counts.data(), or_null(recv_displs),
                                           dtype_of<T>(), comm_, handle(stream)));
  }
  /// Only the root uses `recv`, `counts` and `displs`.
  template <class T>
  Result<void> gatherv(std::span<const T> send, std::span<T> recv,
                       std::span<const std::size_t> counts, int root,
                       std::span<const std::size_t> displs = {}, const Stream* stream = nullptr) {
    if (rank() == root && !fits(counts, displs, recv.size()))
      return detail::invalid("gatherv: the root's recv does not have the elements of counts");
    return detail::result(coll_gatherv(send.data(), send.size(), recv.data(), counts.data(),
                                       or_null(displs), dtype_of<T>(), root, comm_,
                                       handle(stream)));
  }
  /// Only the root uses `send`, `counts` and `displs`.
  template <class T>
  Result<void> scatterv(std::span<const T> send, std::span<const std::size_t> counts,
                        std::span<T> recv, int root, std::span<const std::size_t> displs = {},
                        const Stream* stream = nullptr) {
    if (rank() == root && !fits(counts, displs, send.size()))
      return detail::invalid("scatterv: the root's send does not have the elements of counts");
    return detail::result(coll_scatterv(send.data(), counts.data(), or_null(displs), recv.data(),
                                        recv.size(), dtype_of<T>(), root, comm_, handle(stream)));
  }

  template <class T>
  Result<void> send(std::span<const T> data, int peer, const Stream* stream = nullptr) {
    return detail::result(
        coll_send(data.data(), data.size(), dtype_of<T>(), peer, comm_, handle(stream)));
  }
  template <class T>
  Result<void> recv(std::span<T> data, int peer, const Stream* stream = nullptr) {
    return detail::result(
        coll_recv(data.data(), data.size(), dtype_of<T>(), peer, comm_, handle(stream)));
  }
  /// Tagged messages find their recv by source and tag (coll_send_tagged).
  template <class T>
  Result<void> send_tagged(std::span<const T> data, int peer, int tag,
                           const Stream* stream = nullptr) {
    return detail::result(coll_send_tagged(data.data(), data.size(), dtype_of<T>(), peer, tag,
                                           comm_, handle(stream)));
  }
  /// The message may be shorter than `data`. Returns what it took.
  template <class T>
  Result<coll_message_t> recv_tagged(std::span<T> data, int peer = COLL_ANY_SOURCE,
                                     int tag = COLL_ANY_TAG) {
    coll_message_t message = COLL_MESSAGE_INIT;
    if (auto received = detail::result(coll_recv_tagged(data.data(), data.size(), dtype_of<T>(),
                                                        peer, tag, &message, comm_, nullptr));
        !received) {
      return received.error();
    }
    return message;
  }
  /// The message that a tagged recv would take; none if `timeout_s` seconds pass first (0: looks
  /// once; negative: waits as long as a recv would).
  Result<std::optional<coll_message_t>> probe(int peer = COLL_ANY_SOURCE, int tag = COLL_ANY_TAG,
                                              double timeout_s = -1) {
    coll_message_t message = COLL_MESSAGE_INIT;
    const coll_status_t status = coll_probe(peer, tag, timeout_s, &message, comm_);
    if (status == COLL_IN_PROGRESS) return std::optional<coll_message_t>();
    if (status != COLL_SUCCESS) return detail::result(status).error();
    return std::optional<coll_message_t>(message);
  }
  Result<void> barrier(const Stream* stream = nullptr) {
    return detail::result(coll_barrier(comm_, handle(stream)));
  }
  /// Whether the communicator works; else its sticky failure. Any thread may call it.
  Result<void> status() const { return detail::result(coll_comm_status(comm_, nullptr)); }
  /// Ends all current and future calls on all ranks. Any thread may call it.
  Result<void> abort() { return detail::result(coll_comm_abort(comm_)); }

  /// How a call would run, without running it (coll_comm_predict).
  Result<coll_prediction_t> predict(const coll_call_t& call) const {
    coll_prediction_t prediction = COLL_PREDICTION_INIT;
    if (auto asked = detail::result(coll_comm_predict(comm_, &call, &prediction)); !asked) {
      return asked.error();
    }
    return prediction;
  }
  /// What the communicator has done on this rank (coll_comm_stats).
  Result<coll_stats_t> stats() const {
    coll_stats_t stats = COLL_STATS_INIT;
    if (auto asked = detail::result(coll_comm_stats(comm_, &stats)); !asked) return asked.error();
    return stats;
  }
  /// What the communicator keeps in memory on this rank (coll_comm_mem_stats).
  Result<coll_mem_stats_t> mem_stats() const {
    coll_mem_stats_t stats = COLL_MEM_STATS_INIT;
    if (auto asked = detail::result(coll_comm_mem_stats(comm_, &stats)); !asked)
      return asked.error();
    return stats;
  }
  /// Explains which algorithm, lanes, slices and transports a call would use.
  Result<std::string> explain(const coll_call_t& call) const {
    std::size_t length = 0;
    if (auto asked = detail::result(coll_comm_explain(comm_, &call, nullptr, 0, &length)); !asked)
      return asked.error();
    std::string text(length + 1, '\0');
    if (auto told =
            detail::result(coll_comm_explain(comm_, &call, text.data(), text.size(), nullptr));
        !told)
      return told.error();
    text.resize(length);
    return text;
  }

 private:
  explicit Communicator(coll_comm_t comm) : comm_(comm) {}
  template <class Init>
  static Result<Communicator> adopt(Init init) {
    coll_comm_t comm = nullptr;
    if (auto made = detail::result(init(&comm)); !made) return made.error();
    return Communicator(comm);
  }
  static coll_stream_t handle(const Stream* stream) {
    return stream != nullptr ? stream->get() : nullptr;
  }
  /// Never 0, so that a moved-from object passes the checks here and the C call reports the error.
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(std::max(size(), 1)); }
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(std::max(rank(), 0)); }
  /// Has a buffer of `elements` room for these blocks?
  [[nodiscard]] bool fits(std::span<const std::size_t> counts, std::span<const std::size_t> displs,
                          std::size_t elements) const {
    if (counts.size() != ranks() || (!displs.empty() && displs.size() != ranks())) return false;
    std::size_t next = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::size_t begin = displs.empty() ? next : displs[i];
      if (counts[i] != 0 && (begin > elements || counts[i] > elements - begin)) return false;
      next = begin + counts[i];
    }
    return true;
  }
  static const std::size_t* or_null(std::span<const std::size_t> displs) {
    return displs.empty() ? nullptr : displs.data();
  }
  friend class Joining;
  coll_comm_t comm_;
};

/// A join that goes on while its caller does something else (coll_config_t.joining).
class Joining {
 public:
  /// Begins a join or a split. `join` is called at once with a config, and passes it on:
  ///
  ///     auto joining = Joining::start([&](const coll_config_t& config) {
  ///       return Communicator::join(id, size, rank, &config);
  ///     });
  ///
  /// Not for Communicator::join_by: the functions of its store are called during that call only.
  template <class Join>
  static Result<Joining> start(Join join, coll_config_t config = COLL_CONFIG_INIT) {
    coll_joining_t joining = nullptr;
    config.joining = &joining;
    if (const auto begun = join(std::as_const(config)); !begun) {
      coll_joining_free(joining);
      return begun.error();
    }
    if (joining == nullptr) {
      return detail::invalid("Joining::start: the function did not join with its config");
    }
    return Joining(joining);
  }
  Joining(Joining&& other) noexcept
      : joining_(std::exchange(other.joining_, nullptr)),
        over_(other.over_),
        comm_(std::exchange(other.comm_, std::nullopt)) {}
  Joining& operator=(Joining&& other) noexcept {
    std::swap(joining_, other.joining_);
    std::swap(over_, other.over_);
    std::swap(comm_, other.comm_);
    return *this;
  }
  /// Waits until the join ends, at the latest at the connect deadline. A communicator that was not
  /// taken is destroyed.
  ~Joining() { coll_joining_free(joining_); }

  /// Waits until the ranks have met; false if `timeout_s` seconds pass first (negative: no
  /// timeout); an error if the join has failed.
  Result<bool> wait(double timeout_s = -1) {
    if (over_) return true;
    coll_comm_t comm = nullptr;
    const coll_status_t status = coll_joining_wait(joining_, timeout_s, &comm);
    if (status == COLL_IN_PROGRESS) return false;
    if (status != COLL_SUCCESS) return detail::result(status).error();
    over_ = true;
    if (comm != nullptr) comm_ = Communicator(comm);
    return true;
  }
  /// The same without waiting.
  Result<bool> finished() { return wait(0); }
  /// The communicator, once; none before `wait` or `finished` was true, and none for a rank to
  /// which a split gave no part.
  std::optional<Communicator> take() { return std::exchange(comm_, std::nullopt); }
  [[nodiscard]] coll_joining_t get() const { return joining_; }

 private:
  explicit Joining(coll_joining_t joining) : joining_(joining) {}
  coll_joining_t joining_;
  bool over_ = false;  ///< the communicator was handed out to this object
  std::optional<Communicator> comm_;
};

}  // namespace collectives
