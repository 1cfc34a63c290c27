// SPDX-License-Identifier: Apache-2.0
// Reads coll-perf's command line.
#include "coll_perf/coll_perf_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "command_line.hpp"

namespace perf {
namespace {

/// Each word of a comma list through `parse`; "all" is `all`.
template <class T>
void read_list(const std::string& text, const char* what, const std::vector<T>& all,
               std::optional<T> (*parse)(std::string_view), std::vector<T>& out) {
  out.clear();
  for (const std::string& word : words(text)) {
    if (word == "all") {
      out = all;
      return;
    }
    const std::optional<T> value = parse(word);
    if (!value)
      throw CLI::ValidationError(
          fmt::format("'{}' is not {}; coll-perf --help lists them", word, what));
    out.push_back(*value);
  }
  if (out.empty()) throw CLI::ValidationError(fmt::format("the list of {} is empty", what));
}

template <class T>
std::vector<T> up_to(int count) {
  std::vector<T> all;
  for (int i = 0; i < count; ++i) all.push_back(static_cast<T>(i));
  return all;
}

std::size_t read_size(const std::string& text) {
  if (const auto size = parse_size(text)) return *size;
  throw CLI::ValidationError(fmt::format("'{}' is not a size; say 8, 64K, 1.5M or 2G", text));
}

CLI::Validator number_of_ranks() {
  const auto check = [](const std::string& text) {
    int ranks = 0;
    const bool good = CLI::detail::lexical_cast(text, ranks) && ranks >= 1 && ranks <= 1024;
    return good ? std::string()
                : fmt::format("{} is not a number of ranks of a process, from 1 to 1024", text);
  };
  return {check, "from 1 to 1024"};
}

/// A flag of nccl-tests that stands without its value would take the next option for it.
void refuse_options_as_values(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    const CLI::Option* const option = app.get_option_no_throw(arguments[i]);
    if (option == nullptr || option->get_items_expected_min() == 0) continue;
    if (arguments[i + 1].starts_with('-') && app.get_option_no_throw(arguments[i + 1]) != nullptr)
      throw CLI::ValidationError(fmt::format("{} takes a value, and {} is none; --help says which",
                                             arguments[i], arguments[i + 1]));
    ++i;
  }
}

/// The texts as given, before they are understood.
struct Texts {
  std::string operations = "all_reduce", dtypes = "float", redops = "sum", root = "0";
  std::string first = "8", last = "32M", step, factor, in_place = "both", overlap;
  std::string sizes, colls, max_bytes;
  std::string device = "host";
};

void understand(const Texts& texts, Options& options) {
  read_list(texts.colls.empty() ? texts.operations : texts.colls, "an operation", all_operations(),
            parse_operation, options.operations);
  read_list(texts.dtypes, "an element type", up_to<coll_dtype_t>(COLL_DTYPE_COUNT), parse_dtype,
            options.dtypes);
  read_list(texts.redops, "a reduction", up_to<coll_op_t>(COLL_OP_COUNT), parse_redop,
            options.redops);
  bool any = std::none_of(options.operations.begin(), options.operations.end(),
                          [](Operation operation) { return traits(operation).reduces; });
  for (const coll_op_t op : options.redops)
    for (const coll_dtype_t type : options.dtypes) any = any || has_meaning(op, type);
  if (!any)
    throw CLI::ValidationError(
        fmt::format("no reduction of -o {} has a meaning for an element type of -d {}",
                    texts.redops, texts.dtypes));
  if (texts.root == "all") {
    options.root = -1;
  } else {
    char* end = nullptr;
    const long root = std::strtol(texts.root.c_str(), &end, 10);
    if (*end != 0 || end == texts.root.c_str() || root < 0 || root > 1'000'000)
      throw CLI::ValidationError(fmt::format("'{}' is not a root; say a rank or all", texts.root));
    options.root = static_cast<int>(root);
  }
  if (texts.in_place != "both" && texts.in_place != "only" && texts.in_place != "never")
    throw CLI::ValidationError("--in-place is both, only or never");
  const std::optional<Device> device = parse_device(texts.device);
  if (!device)
    throw CLI::ValidationError(
        fmt::format("--device {}: say host, cuda or cuda:NUMBER", texts.device));
  options.device = *device;
  if (options.device.cuda && options.memory == Memory::allocated)
    throw CLI::ValidationError("-R 1 is of the host's memory: say -R 2, or leave it out");
  if (!texts.overlap.empty()) {
    if (texts.overlap != "work" && texts.overlap != "sleep")
      throw CLI::ValidationError("--overlap is work or sleep");
    options.overlap = texts.overlap == "work" ? Compute::work : Compute::sleep;
    options.stream = true;
  }
  if (options.group > 1 || options.inflight > 1) {
    const char* other = options.group > 1 && options.inflight > 1 ? "--inflight with --group"
                        : options.percentiles                     ? "--percentiles"
                                                                  : nullptr;
    if (other != nullptr)
      throw CLI::ValidationError(
          fmt::format("{} is of single calls: leave out --group and --inflight, or it", other));
    const bool pairs =
        std::ranges::count(options.operations, Operation::sendrecv, equal_blocks) != 0;
    if (options.group > 1 && pairs)
      throw CLI::ValidationError(
          "sendrecv sends back what it has received, which no group does; take sendrecv_ring");
  }
  if (options.coalesce) {
    if (options.group == 1) throw CLI::ValidationError("--coalesce is of the calls of --group");
    const bool whole = std::ranges::all_of(options.operations, [](Operation operation) {
      return equal_blocks(operation) == operation && operation <= Operation::scatter;
    });
    if (!whole)
      throw CLI::ValidationError(
          "--coalesce is of collectives of equal blocks: the others have no parts");
  }
  options.out_of_place = texts.in_place != "only";
  options.in_place = texts.in_place != "never";

  if (!texts.step.empty() && !texts.factor.empty())
    throw CLI::ValidationError("give -i (a fixed step) or -f (a factor), not both");
  if (!texts.sizes.empty()) {
    for (const std::string& word : words(texts.sizes)) options.sizes.push_back(read_size(word));
  } else if (options.peers_csv) {
    for (std::size_t size = 8; size <= 268435456; size *= size == 8 ? 8 : 4)
      options.sizes.push_back(size);
  } else {
    double factor = texts.step.empty() ? 4 : 0;
    if (!texts.factor.empty()) {
      char* end = nullptr;
      factor = std::strtod(texts.factor.c_str(), &end);
      if (*end != 0 || !std::isfinite(factor) || factor <= 1)
        throw CLI::ValidationError(
            fmt::format("-f {}: the factor between sizes is above 1", texts.factor));
    }
    const std::size_t step = texts.step.empty() ? 0 : read_size(texts.step);
    const std::size_t first = read_size(texts.first);
    const std::size_t last = read_size(texts.last);
    if (first > last)
      throw CLI::ValidationError(
          fmt::format("-b {} is above -e {}: no sizes between them", texts.first, texts.last));
    if (factor == 0 && step == 0) throw CLI::ValidationError("-i 0 would never end");
    options.sizes = sweep(first, last, factor, step);
  }
  if (!texts.max_bytes.empty()) {
    const std::size_t most = read_size(texts.max_bytes);
    std::erase_if(options.sizes, [&](std::size_t size) { return size > most; });
  }
  if (options.sizes.empty()) throw CLI::ValidationError("no sizes are left to measure");
}

}  // namespace

std::optional<Device> parse_device(const std::string& text) {
  if (text == "host") return Device{};
  if (text == "cuda") return Device{true, -1};
  constexpr std::string_view kNumbered = "cuda:";
  if (!text.starts_with(kNumbered)) return std::nullopt;
  const std::string number = text.substr(kNumbered.size());
  const bool digits = std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  if (number.empty() || number.size() > 4 || !digits) return std::nullopt;
  return Device{true, std::atoi(number.c_str())};
}

std::optional<std::size_t> parse_size(const std::string& text) {
  const char* start = text.c_str();
  char* end = nullptr;
  const double number = std::strtod(start, &end);
  if (end == start || !std::isfinite(number) || number < 0 || text.find('x') != text.npos)
    return std::nullopt;
  std::string unit(end);
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr const char* kUnits[] = {"b", "k", "m", "g", "t"};
  for (int power = 0; power < 5; ++power) {
    const std::string letter = kUnits[power];
    const bool plain = power == 0 && unit.empty();
    const bool named =
        unit == letter || (power > 0 && (unit == letter + "b" || unit == letter + "ib"));
    if (!plain && !named) continue;
    const double bytes = number * std::pow(1024.0, power);
    if (bytes > 1e15 || bytes != std::floor(bytes)) return std::nullopt;
    return static_cast<std::size_t>(bytes);
  }
  return std::nullopt;
}

std::vector<std::size_t> sweep(std::size_t first, std::size_t last, double factor,
                               std::size_t step) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = first; size <= last;) {
    sizes.push_back(size);
    const double next = factor > 1 ? static_cast<double>(size) * factor
                                   : static_cast<double>(size) + static_cast<double>(step);
    if (next >= static_cast<double>(last) + 1) break;  // perhaps beyond all whole numbers
    size = std::max(size + 1, static_cast<std::size_t>(next));
  }
  return sizes;
}

std::optional<Ending> parse_options(int argc, const char* const* argv, Options& options) {
  CLI::App app{
      "Measures the collectives and checks their results; flags and columns are nccl-tests'.\n"
      "Start it with any launcher, one process per rank: coll-run -n 4 -- coll-perf -b 8 -e 64M -f "
      "2",
      "coll-perf"};
  Texts texts;
  int average = static_cast<int>(options.average);
  std::optional<int> blocking;
  int memory = static_cast<int>(options.memory);
  app.add_option("-t,--operation,--operations", texts.operations,
                 "all_reduce reduce broadcast all_gather reduce_scatter all_to_all gather scatter "
                 "sendrecv sendrecv_tagged sendrecv_ring all_gatherv reduce_scatterv all_to_allv "
                 "gatherv scatterv barrier, a comma list or all")
      ->capture_default_str();
  app.add_option("-b,--minbytes", texts.first, "Smallest size")->capture_default_str();
  app.add_option("-e,--maxbytes", texts.last, "Largest size")->capture_default_str();
  app.add_option("-f,--stepfactor", texts.factor, "Factor between sizes (default 4)");
  app.add_option("-i,--stepbytes", texts.step, "Fixed step between sizes");
  app.add_option(
         "-d,--datatype", texts.dtypes,
         "int8 uint8 int16 uint16 int32 uint32 int64 uint64 half bfloat16 float double fp8_e4m3 "
         "fp8_e5m2 bool complex64 complex128, a comma list or all")
      ->capture_default_str();
  app.add_option("-o,--op", texts.redops,
                 "sum prod min max avg band bor bxor land lor lxor, a comma list or all")
      ->capture_default_str();
  app.add_option("-r,--root", texts.root, "Root of broadcast, reduce, gather, scatter; or all")
      ->capture_default_str();
  app.add_option("-n,--iters", options.iterations,
                 "Timed calls per batch; 0: as many as fit --target")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000'000));
  app.add_option("-w,--warmup_iters,--warmup-iters", options.warmup, "Calls before, with -n")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000'000));
  app.add_option("--batches", options.batches, "Batches with -n; the median of them is shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  app.add_option("--target", options.target_s, "Seconds to measure each point for, without -n")
      ->capture_default_str()
      ->check(seconds_from(1e-4, 3600))
      ->type_name("S");
  app.add_option("-c,--check", options.checks, "Check results so many times per point; 0: never")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("-a,--average", average,
                 "Times of the ranks: 0 rank 0's, 1 mean, 2 fastest, 3 slowest")
      ->capture_default_str()
      ->check(CLI::Range(0, 3));
  app.add_option("--in-place", texts.in_place, "both, only or never")->capture_default_str();
  app.add_flag("--percentiles", options.percentiles,
               "Also time each call by itself: min, median, p99 of the slowest rank");
  app.add_flag(
      "--cpu", options.cpu,
      "Also show a rank's processor time per call, and how many cores all ranks keep busy");
  app.add_flag("--stream", options.stream,
               "Give the calls to a stream, asynchronously: of the host, with --device of CUDA");
  app.add_option("-m,--agg_iters,--agg-iters,--group", options.group,
                 "Issue so many calls together as a group, each with buffers of its own")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_flag("--coalesce", options.coalesce,
               "With --group: one call of as many parts in place of a group");
  app.add_option("--inflight", options.inflight,
                 "Keep so many calls in flight, each on a stream and with buffers of its own")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--overlap", texts.overlap,
                 "Also measure how much of a call on a stream hides behind a caller that computes "
                 "in the meantime (work), or waits for something else (sleep); with --inflight it "
                 "does a part of that after it has issued each call");
  app.add_flag("--pin", options.pin, "Keep rank r on core r");
  app.add_option("--device", texts.device,
                 "Whose memory buffers lie in: host; cuda:N, that CUDA device on every rank; cuda, "
                 "the device of the local rank, round and round")
      ->capture_default_str();
  app.add_option(
         "-R,--local_register,--local-register", memory,
         "Buffers that the ranks of a host read in place: 1 from coll_mem_alloc, 2 a memfd, "
         "or with --device memory of the GPU, given to coll_mem_register; 0: neither")
      ->capture_default_str()
      ->check(CLI::Range(0, 2));
  app.add_option("--algorithm", options.algorithm,
                 "Force an algorithm: NAME or OPERATION=NAME, a comma list");
  app.add_option("--transports", options.transports,
                 "Only these, best first: cuda_ipc,shm,verbs,tcp");
  app.add_flag("--explain", options.explain,
               "Say what each call would do, and why, instead of measuring");
  app.add_option("--json", options.json,
                 "Write the results as JSON to a file; - is standard output");
  app.add_option("--csv", options.csv, "Write the results as CSV to a file; - is standard output");
  app.add_option("--plot", options.plot, "Draw bus bandwidth over size as SVG to a file");
  app.add_option("--sizes", texts.sizes, "A comma list of sizes, instead of -b -e -f -i");

  auto* same = app.add_option_group("As nccl-tests has them");
  same->add_option("-g,--ngpus", options.ngpus,
                   "Ranks of this process, each a thread; --device cuda gives each a GPU")
      ->capture_default_str()
      ->check(number_of_ranks());
  same->add_option("-z,--blocking", blocking, "1: calls block; 0: as --stream")
      ->check(CLI::Range(0, 1));
  same->add_option("-C,--report_cputime,--report-cputime", options.cpu, "1: as --cpu");

  auto* peers = app.add_option_group("Comparing with other libraries");
  peers->add_flag("--peers-csv", options.peers_csv,
                  "Measure as the peers' benchmark does (float sum, root 0, pinned, 0.2 s a point) "
                  "and print its CSV");
  peers->add_option("--colls", texts.colls, "As --operation");
  peers->add_option("--cap", texts.max_bytes, "Leave out sizes above it");
  peers->add_option("--peer", options.peer, "The CSV's first column")->capture_default_str();
  peers->add_option("--transport", options.transport_label, "The CSV's second column");

  try {
    // The peers' programs take --maxbytes as a cap on their list of sizes, and so do we there.
    std::vector<std::string> arguments(argv + 1, argv + argc);
    const bool comparing =
        std::find(arguments.begin(), arguments.end(), "--peers-csv") != arguments.end();
    if (comparing) {
      options.target_s = 0.2;
      texts.colls = "all_reduce,all_gather,reduce_scatter,broadcast,reduce,alltoall,sendrecv";
      for (std::string& argument : arguments)
        if (argument.rfind("--maxbytes", 0) == 0) argument.replace(0, 10, "--cap");
    }
    refuse_options_as_values(app, arguments);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants a vector
    app.parse(arguments);
    options.average = static_cast<Average>(average);
    options.memory = static_cast<Memory>(memory);
    if (blocking == 0) options.stream = true;
    understand(texts, options);
    if (blocking == 1 && (options.stream || options.inflight > 1))
      throw CLI::ValidationError(
          "-z 1 measures calls that block: leave it out, or --stream, --inflight and --overlap");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return Ending{0, app.help()};
    return Ending{2, fmt::format("coll-perf: {}\n", complaint(app, error))};
  }
  return std::nullopt;
}

}  // namespace perf
