// SPDX-License-Identifier: Apache-2.0
// The wording and the making of failures.
#include "base/status.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

namespace coll {
namespace {

const Failure* make_memory_ran_out() {
  auto* failure = new Failure;
  failure->code = Code::out_of_resources;
  failure->what = "memory ran out";
  failure->hint = "free memory, or raise the limit of the process or its container (ulimit -v)";
  return failure;
}

/// Made when the library is loaded, and never destroyed: it is wanted when nothing can be made.
const Failure* const kMemoryRanOut = make_memory_ran_out();

}  // namespace

std::string_view name_of(Code code) {
  switch (code) {
    case Code::ok:
      return "success";
    case Code::in_progress:
      return "in progress";
    case Code::invalid_argument:
      return "invalid argument";
    case Code::invalid_usage:
      return "invalid usage";
    case Code::mismatch:
      return "mismatch";
    case Code::peer_lost:
      return "peer lost";
    case Code::deadline:
      return "deadline passed";
    case Code::aborted:
      return "aborted";
    case Code::system:
      return "system error";
    case Code::out_of_resources:
      return "out of resources";
    case Code::unreachable:
      return "unreachable";
    case Code::unsupported:
      return "unsupported";
    case Code::internal:
      return "internal error";
  }
  return "unknown status";
}

std::string Failure::text() const {
  std::string line(name_of(code));
  line.append(": ").append(what);
  if (error != 0) {
    line.append(": ").append(
        std::strerror(error));  // NOLINT(concurrency-mt-unsafe): glibc's is safe
    line.append(" (errno ").append(std::to_string(error)).append(")");
  }
  if (!call.text.empty()) line.append(" [in ").append(call.text).append("]");
  if (!communicator.empty()) line.append(" [communicator ").append(communicator).append("]");
  if (!hint.empty()) line.append("; ").append(hint);
  if (!where.empty()) line.append(" (").append(where).append(")");
  return line;
}

Status Status::in_call(CallLabel call) const {
  if (ok() || !failure_->call.text.empty()) return *this;
  Failure copy = *failure_;
  copy.call = std::move(call);
  return Status(std::move(copy));
}

Status Status::at_rank(Rank rank) const {
  if (ok() || failure_->rank != kNoRank) return *this;
  Failure copy = *failure_;
  copy.rank = rank;
  return Status(std::move(copy));
}

Status Status::of_communicator(std::string_view name) const {
  if (ok() || name.empty() || !failure_->communicator.empty()) return *this;
  Failure copy = *failure_;
  copy.communicator = name;
  return Status(std::move(copy));
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  Failure copy = *failure_;
  copy.what.insert(0, ": ").insert(0, context);
  return Status(std::move(copy));
}

Status Status::out_of_memory() noexcept {
  Status status;
  status.failure_ = {std::shared_ptr<const Failure>(), kMemoryRanOut};  // owns nothing
  return status;
}

Status status_of_exception() noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    } catch (const std::exception& error) {
      return failed(Code::internal, error.what());
    }
  } catch (const std::bad_alloc&) {  // the second failure of two
    return Status::out_of_memory();
  }
}

Status failed(Code code, std::string what, std::string hint, int error, const char* file,
              int line) {
  const char* slash = std::strrchr(file, '/');
  Failure failure;
  failure.code = code;
  failure.what = std::move(what);
  failure.hint = std::move(hint);
  failure.error = error;
  failure.where = std::string(slash != nullptr ? slash + 1 : file) + ":" + std::to_string(line);
  return Status(std::move(failure));
}

Status system_failure(std::string what, int error, std::string hint, const char* file, int line) {
  const bool spent = error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOSPC ||
                     error == ENOBUFS || error == EDQUOT || error == EAGAIN;
  if (hint.empty()) {
    if (error == EMFILE) hint = "raise the limit of open files (ulimit -n)";
    if (error == ENFILE) hint = "raise the system's limit of open files (sysctl fs.file-max)";
    if (error == ENOSPC) hint = "free space on that file system";
    if (error == ENOMEM) hint = "free memory or raise the memory limit of the container";
  }
  return failed(spent ? Code::out_of_resources : Code::system, std::move(what), std::move(hint),
                error, file, line);
}

void check_failed(const char* condition, const char* message, const char* file, int line) {
  std::fprintf(stderr, "libcollectives: broken invariant at %s:%d: %s (%s)\n", file, line, message,
               condition);
  std::abort();
}

}  // namespace coll
