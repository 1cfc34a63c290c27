// SPDX-License-Identifier: Apache-2.0
// The one table of knobs and its parsing.
#include "base/knobs.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/made_once.hpp"

namespace coll {
namespace {

using Range = Knob::Range;
constexpr Range kRank{-1, 0x7ffffffe};
constexpr Range kSize{0, 0x7fffffff};
constexpr Range kSeconds{0, 1e9};  // thirty years: what clocks can count is not far beyond
constexpr Range kSomeSeconds{0.001, 1e9};
constexpr Range kMicroseconds{0, 1e15};
constexpr Range kLanes{0, 1024};
constexpr Range kBytes{0, 0xffffffc0};
constexpr Range kCredits{0, 1 << 16};
constexpr Range kNone{};

constexpr Knob kTable[] = {
    {"COLL_RANK", "-1", "", "This process's rank; overrides the launcher; needs COLL_SIZE.",
     &Knobs::rank, kRank},
    {"COLL_SIZE", "0", "ranks", "The number of ranks; overrides the launcher; needs COLL_RANK.",
     &Knobs::size, kSize},
    {"COLL_RENDEZVOUS", "", "",
     "Where the ranks meet: tcp://HOST:PORT or file:///PATH; overrides the launcher.",
     &Knobs::rendezvous},
    {"COLL_INTERFACE", "", "",
     "The network interfaces and RDMA devices to use: a list of names or prefixes "
     "(eth0,ib,mlx5_0,mlx5_1:1); with ^ before it, all but these.",
     &Knobs::interface},
    {"COLL_SECRET", "", "", "A word that all ranks share; connections without it are dropped.",
     &Knobs::secret, kNone, nullptr, true},
    {"COLL_DEADLINE_S", "600", "s",
     "A call that makes no progress for this long fails and says which rank is where; 0: never.",
     &Knobs::deadline_s, kSeconds},
    {"COLL_CONNECT_S", "60", "s", "How long creating a communicator waits for the other ranks.",
     &Knobs::connect_s, kSomeSeconds},
    {"COLL_SPIN_US", "1000", "us",
     "How long a waiting rank spins before it sleeps; ranks that share a core yield at once.",
     &Knobs::spin_us, kMicroseconds},
    {"COLL_PROGRESS_CPUS", "", "",
     "The processors that the progress thread may run on, as 0-3,8; empty: those of the thread "
     "that starts it.",
     &Knobs::progress_cpus},
    {"COLL_TRANSPORTS", "cuda_ipc,shm,verbs,tcp", "",
     "The transports that may be used, best first; without cuda_ipc, messages between GPUs go "
     "through memory of the host.",
     &Knobs::transports},
    {"COLL_VERBS", "", "",
     "Settings of RDMA queue pairs, as timeout=18,tc=106: gid (index), sl, tc, pkey (index), "
     "timeout, retries, pairs (over each port), patience (seconds).",
     &Knobs::verbs},
    {"COLL_ALGORITHM", "", "",
     "Forces algorithms: a comma list of NAME, for every operation that has it, or "
     "OPERATION=NAME. NAME/2x64K adds 2 lanes and slices of 64 KiB, and overrides the knobs for "
     "all calls. @64K-1M, @-64K or @1M- at the end limits it to calls of these sizes.",
     &Knobs::algorithm},
    {"COLL_ORDER", "any", "",
     "The order in which floating-point sums, products and averages combine the ranks: any: the "
     "fastest; tree: always the same, whatever the size, the algorithm, the transport or the "
     "machine.",
     &Knobs::order, kNone, "any, tree"},
    {"COLL_TUNING", "auto", "",
     "The table of coll-tune that chooses algorithms: a path; auto: this machine's table from the "
     "cache directory; none: no table.",
     &Knobs::tuning},
    {"COLL_PLANS", "auto", "",
     "The file in which processes leave their plans to later ones of the same build, so that first "
     "calls need no planning: a path; auto: the file plans in the cache directory; none: no file.",
     &Knobs::plans},
    {"COLL_TOPOLOGY", "", "",
     "A description of this host, a file or a line (docs/topology.md), in place of what the "
     "library "
     "finds, for virtual machines that hide it; that of a host's first rank counts.",
     &Knobs::topology},
    {"COLL_LANES", "0", "lanes", "Lanes per call; 0 lets the planner choose.", &Knobs::lanes,
     kLanes},
    {"COLL_SLICE_BYTES", "0", "bytes",
     "Bytes of a slice, the unit that moves through a connection, rounded up to a multiple of 64; "
     "0 lets the planner choose.",
     &Knobs::slice_bytes, kBytes},
    {"COLL_CREDITS", "0", "slots",
     "Slots of a connection, at least 2 (in shared memory: slots for messages of over 4 KiB); 0 "
     "lets the transport choose.",
     &Knobs::credits, kCredits},
    {"COLL_ISA", "", "",
     "Instruction set of the reduction kernels: baseline, avx2, avx512, avx512fp16, neon or "
     "neonfp16; empty: the best that the machine has.",
     &Knobs::isa, kNone, "baseline, avx2, avx512, avx512fp16, neon, neonfp16"},
    {"COLL_LOG", "warn", "", "How much to log on standard error: error, warn, info or debug.",
     &Knobs::log, kNone, "error, warn, info, debug"},
};
static_assert(std::size(kTable) <= 32, "at most 32 knobs: remove one before adding one");

Status refused(const Knob& knob, const char* text, const char* takes) {
  return failed(Code::invalid_argument,
                std::string(knob.name) + "=" + (knob.secret ? "***" : text) + " is not " + takes,
                "unset it for the default, \"" + std::string(knob.fallback) + "\"");
}

/// Reads a decimal number, whatever the locale, and takes it off the text.
bool take_number(std::string_view& text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

Status check_range(const Knob& knob, const char* text, double value) {
  if (value >= knob.range.least && value <= knob.range.most) return {};
  char range[64];
  std::snprintf(range, sizeof range, "from %.10g to %.10g", knob.range.least, knob.range.most);
  return refused(knob, text, range);
}

bool is_listed(std::string_view word, std::string_view list) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(", "), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 2, list.size()));
  }
  return false;
}

Status read_knob(const Knob& knob, const char* text, Knobs& values) {
  if (const auto* integer = std::get_if<std::int64_t Knobs::*>(&knob.member)) {
    const std::optional<std::int64_t> value = parse_whole(text);
    if (!value) return refused(knob, text, "a whole number");
    COLL_TRY(check_range(knob, text, static_cast<double>(*value)));
    values.*(*integer) = *value;
  } else if (const auto* real = std::get_if<double Knobs::*>(&knob.member)) {
    double value = 0;
    std::string_view left = text;
    if (!take_number(left, value) || !left.empty()) return refused(knob, text, "a number");
    COLL_TRY(check_range(knob, text, value));
    values.*(*real) = value;
  } else {
    if (knob.choices != nullptr && *text != '\0' && !is_listed(text, knob.choices))
      return refused(knob, text, (std::string("one of ") + knob.choices).c_str());
    values.*std::get<std::string Knobs::*>(knob.member) = text;
  }
  return {};
}

/// Set but empty counts as not set, as for all variables that say who a process is.
bool is_set(const char* text) {
  return text != nullptr && *text != '\0';
}

struct ProcessKnobs {
  Knobs values{};
  Status status;
  ProcessKnobs() {
    for (const Knob& knob : kTable) {
      COLL_CHECK(read_knob(knob, knob.fallback, values).ok(), "a knob's default must parse");
      const char* text = std::getenv(knob.name);  // NOLINT(concurrency-mt-unsafe): read once
      if (!is_set(text)) continue;
      if (Status read = read_knob(knob, text, values); !read.ok() && status.ok()) status = read;
    }
  }
};

const ProcessKnobs& process_knobs() {
  return made_once([] { return ProcessKnobs(); });
}

}  // namespace

std::optional<std::int64_t> parse_whole(std::string_view text) {
  constexpr std::string_view kSuffixes = "kKmMgG";  // powers of 1024, each small and large
  double number = 0;
  if (!take_number(text, number)) return std::nullopt;
  if (text.size() == 1 && kSuffixes.find(text[0]) != std::string_view::npos) {
    number = std::ldexp(number, 10 * static_cast<int>(kSuffixes.find(text[0]) / 2 + 1));
    text = {};
  }
  if (!text.empty() || number != std::floor(number) || std::fabs(number) > 9e15)
    return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::span<const Knob> knob_table() {
  return kTable;
}

Result<Knobs> parse_knobs(const std::function<const char*(const char*)>& get) {
  Knobs values{};
  for (const Knob& knob : kTable) {
    const char* text = get(knob.name);
    COLL_TRY(read_knob(knob, is_set(text) ? text : knob.fallback, values));
  }
  return values;
}

const Knobs& knobs() {
  return process_knobs().values;
}
const Status& knobs_status() {
  return process_knobs().status;
}

std::string knob_value(const Knob& knob, const Knobs& values) {
  if (const auto* integer = std::get_if<std::int64_t Knobs::*>(&knob.member)) {
    return std::to_string(values.*(*integer));
  }
  if (const auto* real = std::get_if<double Knobs::*>(&knob.member)) {
    char text[512];
    const auto [end, error] =
        std::to_chars(std::begin(text), std::end(text), values.*(*real), std::chars_format::fixed);
    return {text, error == std::errc() ? end : text};
  }
  const std::string& text = values.*std::get<std::string Knobs::*>(knob.member);
  return knob.secret && !text.empty() ? "***" : text;
}

}  // namespace coll
