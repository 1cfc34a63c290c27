// SPDX-License-Identifier: Apache-2.0
// PMIx, the store of Open MPI's launcher and of Slurm's, loaded at run time.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/made_once.hpp"
#include "rendezvous/stores/job_board.hpp"
#include "sys/own_thread.hpp"

namespace coll {
namespace {

// The few declarations that are needed, as every libpmix.so.2 (PMIx 2 to 5) has them: PMIx
// standard, chapters 3 and 5. Compared with the headers of PMIx 4.2.2.
struct Proc {
  std::array<char, 256> job;
  std::uint32_t rank;
};
struct Value {
  std::uint16_t type;
  union {
    bool flag;
    char* text;
    std::array<std::uint64_t, 3> room;
  };
};
struct Info {
  std::array<char, 512> key;
  std::uint32_t directives;
  Value value;
};
static_assert(sizeof(Proc) == 260 && sizeof(Value) == 32 && sizeof(Info) == 552,
              "PMIx's binary interface");
constexpr std::uint16_t kBool = 1;
constexpr std::uint16_t kString = 3;
constexpr std::string_view kCollectData = "pmix.collect";
constexpr std::uint8_t kGlobal = 3;

struct Library {
  int (*init)(Proc*, void*, std::size_t) = nullptr;
  int (*finalize)(const void*, std::size_t) = nullptr;
  int (*put)(std::uint8_t, const char*, Value*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const Proc*, std::size_t, const void*, std::size_t) = nullptr;
  int (*get)(const Proc*, const char*, const void*, std::size_t, Value**) = nullptr;
  const char* (*error_text)(int) = nullptr;
};

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

struct Session {
  const pid_t owner = ::getpid();
  std::mutex mutex;
  Library pmix;
  Proc me{};
  bool open = false;
  /// Passed so far: all processes of the job count alike. Odd between the two that each use takes.
  unsigned fences = 0;
};
Session& session() {
  return *made_once([] { return std::make_unique<Session>(); });
}

Status refused(const Library& pmix, const char* doing, int rc) {
  return failed(
      Code::system,
      std::string("PMIx: ") + doing + ": " + pmix.error_text(rc) + " (" + std::to_string(rc) + ")",
      "set COLL_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT");
}

void* open_library() {
  return dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
}

Status open_session(Session& one) {
  if (one.open) return {};
  void* const handle = open_library();
  if (handle == nullptr) {
    return failed(Code::unsupported,
                  "ranks meet by libpmix.so.2, which does not load: " +
                      std::string(dlerror()),  // NOLINT(concurrency-mt-unsafe)
                  "set COLL_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT");
  }
  Library& pmix = one.pmix;
  if (!find(handle, "PMIx_Init", pmix.init) || !find(handle, "PMIx_Finalize", pmix.finalize) ||
      !find(handle, "PMIx_Put", pmix.put) || !find(handle, "PMIx_Commit", pmix.commit) ||
      !find(handle, "PMIx_Fence", pmix.fence) || !find(handle, "PMIx_Get", pmix.get) ||
      !find(handle, "PMIx_Error_string", pmix.error_text)) {
    return failed(Code::unsupported, "libpmix.so.2 lacks functions of PMIx 2",
                  "set COLL_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT");
  }
  if (const int rc = pmix.init(&one.me, nullptr, 0); rc != 0) {
    return refused(pmix, "PMIx_Init", rc);
  }
  one.open = true;
  // A launcher takes a process that ends without saying goodbye for a crash.
  std::atexit([] {
    if (session().owner == ::getpid()) session().pmix.finalize(nullptr, 0);
  });
  return {};
}

/// Carries to all hosts what was put before. Else PMIx_Get asks the giver's host; and a host that
/// has asked before may not find what was put since (seen under Slurm 22.05 with PMIx 4.2.2).
Status pass_fence(Session& one) {
  Info collect{};
  kCollectData.copy(collect.key.data(), collect.key.size() - 1);
  collect.value.type = kBool;
  collect.value.flag = true;
  if (const int rc = one.pmix.fence(nullptr, 0, &collect, 1); rc != 0) {
    return refused(one.pmix, "PMIx_Fence", rc);
  }
  ++one.fences;
  return {};
}

/// Waits for all processes. Nothing is put before: the others would find it however late they come.
Status gather() {
  Session& one = session();
  const std::lock_guard lock(one.mutex);
  COLL_TRY(open_session(one));
  return pass_fence(one);
}

bool have_gathered() {
  Session& one = session();
  const std::lock_guard lock(one.mutex);
  return one.fences % 2 == 1;
}

Result<std::string> share(const std::string& name, const std::string& text, bool gives) {
  Session& one = session();
  const std::lock_guard lock(one.mutex);
  const Library& pmix = one.pmix;
  const std::string key = name + "-" + std::to_string(one.fences);
  if (gives) {
    Value value{};
    value.type = kString;
    std::string copy = text;
    value.text = copy.data();
    if (const int rc = pmix.put(kGlobal, key.c_str(), &value); rc != 0) {
      return refused(pmix, "PMIx_Put", rc);
    }
    if (const int rc = pmix.commit(); rc != 0) return refused(pmix, "PMIx_Commit", rc);
  }
  COLL_TRY(pass_fence(one));
  if (gives) return text;
  Proc giver = one.me;
  giver.rank = 0;
  Value* value = nullptr;
  if (const int rc = pmix.get(&giver, key.c_str(), nullptr, 0, &value); rc != 0) {
    return refused(pmix, "PMIx_Get", rc);
  }
  std::string got = value->type == kString && value->text != nullptr ? value->text : "";
  if (value->type == kString) std::free(value->text);
  std::free(value);
  return got;
}

/// What the working thread and the waiting one share; the last of them frees it.
struct Work {
  std::mutex mutex;
  std::condition_variable finished;
  std::optional<Result<std::string>> result;
  bool shares = false;  ///< or gathers

  /// False when the deadline passes first.
  bool wait(Deadline deadline) {
    std::unique_lock lock(mutex);
    const auto done = [this] { return result.has_value(); };
    if (deadline != Deadline::max()) return finished.wait_until(lock, deadline, done);
    finished.wait(lock, done);
    return true;
  }
};

Status nobody_comes() {
  return failed(Code::deadline, "PMIx: not all processes of the job came to the fence in time",
                "all processes of the job must create the communicator");
}

/// The work of a try whose time was up: it is in a fence, which it passes with all the others.
struct LeftBehind {
  std::mutex mutex;
  std::shared_ptr<Work> work;

  /// Its result; or it stays.
  Result<std::string> finish(Deadline deadline) {
    if (!work->wait(deadline)) return nobody_comes();
    const auto finished = std::move(work);
    const std::lock_guard lock(finished->mutex);
    return *finished->result;
  }
  static LeftBehind& of_process() {
    return *made_once([] { return std::make_unique<LeftBehind>(); });
  }
};

template <class Do>
Result<std::shared_ptr<Work>> begin(bool shares, const Do& act) {
  auto work = std::make_shared<Work>();
  work->shares = shares;
  COLL_ASSIGN(std::thread thread, start_thread("coll-pmix", "to speak PMIx", [=] {
                Result<std::string> result = Status::out_of_memory();
                try {
                  result = act();
                } catch (const std::exception&) {
                  result = status_of_exception();
                }
                const std::lock_guard lock(work->mutex);
                work->result = std::move(result);
                work->finished.notify_all();
              }));
  thread.detach();
  return work;
}

}  // namespace

bool pmix_loads() {
  return open_library() != nullptr;
}

// PMIx waits as long as it likes, so it does on a thread that is left behind at the deadline.
Result<std::string> share_by_pmix(const std::string& name, const std::string& text, bool gives,
                                  Deadline deadline) {
  if (session().owner != ::getpid()) return line_of_the_parent("PMIx");
  LeftBehind& left = LeftBehind::of_process();
  const std::lock_guard lock(left.mutex);
  if (left.work != nullptr && left.work->shares && gives) {
    if (!left.work->wait(deadline)) return nobody_comes();
    left.work.reset();  // what it has given leads to a door that is closed
  }
  if (left.work == nullptr && !have_gathered()) {
    COLL_ASSIGN(left.work, begin(false, [] {
                  const Status gathered = gather();
                  return gathered.ok() ? Result<std::string>(std::string()) : gathered;
                }));
  }
  if (left.work != nullptr && !left.work->shares) {
    COLL_TRY(left.finish(deadline).status());
  }
  if (left.work == nullptr) {
    if (gives && Clock::now() >= deadline) return nobody_comes();
    COLL_ASSIGN(left.work, begin(true, [=] { return share(name, text, gives); }));
  }
  return left.finish(deadline);
}

}  // namespace coll
