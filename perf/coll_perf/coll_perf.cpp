// SPDX-License-Identifier: Apache-2.0
// Coll-perf, the program: a sweep over operations, types, reductions, roots and sizes.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>

#include "coll_perf/coll_perf_ranks.hpp"
#include "coll_perf/coll_perf_report.hpp"

namespace perf {
namespace {

constexpr std::size_t kHostBytes = 64;

std::vector<std::string> host_of_each_rank(const Session& session) {
  const auto ranks = static_cast<std::size_t>(session.size());
  std::string mine(kHostBytes, '\0'), all(kHostBytes * ranks, '\0');
  gethostname(mine.data(), kHostBytes - 12);
  mine = fmt::format("{} pid {}", mine.c_str(), getpid());
  mine.resize(kHostBytes, '\0');
  session.require(
      coll_all_gather(mine.data(), all.data(), kHostBytes, COLL_UINT8, session.comm(), nullptr),
      "gathering host names");
  std::vector<std::string> hosts;
  for (std::size_t r = 0; r < ranks; ++r) hosts.emplace_back(all.c_str() + r * kHostBytes);
  return hosts;
}

/// The points of one operation, in the order of the table.
std::vector<Point> points_of(Operation operation, const Options& options, int ranks) {
  std::vector<int> roots{options.root};
  if (!traits(operation).rooted) roots = {0};
  if (traits(operation).rooted && options.root < 0) {
    roots.clear();
    for (int r = 0; r < ranks; ++r) roots.push_back(r);
  }
  const std::vector<coll_op_t> one{COLL_SUM};
  std::vector<Point> points;
  for (coll_dtype_t type : options.dtypes)
    for (coll_op_t redop : traits(operation).reduces ? options.redops : one) {
      if (traits(operation).reduces && !has_meaning(redop, type)) continue;
      for (int root : roots) {
        for (std::size_t bytes : options.sizes) {
          const Shape shape = shape_of(operation, bytes, ranks, dtype_bytes(type));
          if (options.peers_csv && shape.bytes != bytes) continue;  // as the peers' programs do
          if (!points.empty() && points.back().type == type && points.back().redop == redop &&
              points.back().root == root && points.back().shape.bytes == shape.bytes)
            continue;  // two sizes that round down to the same one
          points.push_back({operation, type, redop, root, shape});
        }
        if (operation == Operation::barrier) return points;
      }
    }
  return points;
}

class Progress {
 public:
  explicit Progress(bool on) : on_(on && isatty(STDERR_FILENO) == 1) {}
  void say(const Point& point, const char* form) {
    if (on_)
      fmt::print(stderr, "\r\033[K# {} {} {} {}… ", traits(point.operation).name,
                 bytes_text(static_cast<double>(point.shape.bytes)), dtype_name(point.type), form);
  }
  void clear() {
    if (on_) fmt::print(stderr, "\r\033[K");
  }

 private:
  bool on_;
};

/// What rank 0 prints for a person; to standard error when a file of results takes the output.
class Console {
 public:
  Console(bool on, bool to_stderr) : out_(on ? (to_stderr ? stderr : stdout) : nullptr) {}
  void print(const std::string& text) {
    if (out_ == nullptr) return;
    std::fputs(text.c_str(), out_);
    std::fflush(out_);
  }

 private:
  std::FILE* out_;
};

/// False, with a message: it could not be written. An empty text only tries whether it can.
bool write_file(const std::string& path, const std::string& text) {
  if (path.empty() || (path == "-" && text.empty())) return true;
  if (path == "-") {
    std::cout << text << std::flush;
    return static_cast<bool>(std::cout);
  }
  errno = 0;
  std::ofstream file(path, text.empty() ? std::ios::app : std::ios::trunc);
  file << text;
  file.close();
  if (file) return true;
  fmt::print(stderr, "coll-perf: {} cannot be written: {}\n", path, std::strerror(errno));
  return false;
}

std::string explained(const Session& session, const Point& point) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = traits(point.operation).api;
  call.count = point.shape.count;
  call.type = point.type;
  call.op = point.redop;
  call.root = point.root;
  const bool pair = call.operation == COLL_SEND || call.operation == COLL_RECV;
  if (pair) call.root = (session.rank() + 1) % session.size();
  const std::vector<std::size_t> counts(static_cast<std::size_t>(session.size()), call.count);
  if (!pair && equal_blocks(point.operation) != point.operation) {
    call.unequal = 1;
    call.send_counts = call.recv_counts = counts.data();
  }
  return session.explain(call);
}

void explain(const Session& session, const Options& options, Console& console) {
  for (Operation operation : options.operations)
    for (const Point& point : points_of(operation, options, session.size()))
      console.print(fmt::format("{} of {} x {} ({}):\n{}\n", traits(operation).name,
                                point.shape.count, dtype_name(point.type),
                                bytes_text(static_cast<double>(point.shape.bytes)),
                                explained(session, point)));
}

/// The peers' protocol: one form per operation. MPI_Bcast has one buffer, so broadcast is in place.
bool measure_for_peers(const Session& session, const Options& options,
                       std::vector<std::unique_ptr<Buffers>>& buffers) {
  const std::string label = !options.transport_label.empty() ? options.transport_label
                            : !options.transports.empty()    ? options.transports
                                                             : "auto";
  bool right = true;
  for (Operation operation : options.operations) {
    if (equal_blocks(operation) == Operation::sendrecv && session.size() != 2) continue;
    for (const Point& point : points_of(operation, options, session.size())) {
      const bool in_place = operation == Operation::broadcast;
      const Sample sample = measure(session, point, in_place, buffers, options);
      right = right && sample.wrong.value_or(0) == 0;
      if (session.rank() != 0) continue;
      fmt::print("{}", peers_line(options.peer, label, session.size(), point, sample,
                                  options.algorithm.empty() ? "default" : options.algorithm));
      std::fflush(stdout);
    }
  }
  return right;
}

std::vector<Row> measure_all(const Session& session, const Options& options,
                             const std::optional<GpuMap>& gpus,
                             std::vector<std::unique_ptr<Buffers>>& buffers, Console& console) {
  std::vector<Row> rows;
  Progress progress(session.rank() == 0);
  const Extras extras{options.percentiles, options.cpu, options.overlap != Compute::none,
                      gpus.has_value()};
  const auto measured = [&](const Point& point, bool in_place) {
    progress.say(point, in_place ? "in place" : "out of place");
    Sample sample = measure(session, point, in_place, buffers, options);
    if (gpus) {
      const std::size_t block = point.shape.count * dtype_bytes(point.type);
      sample.gpu = gpu_use({point.operation, point.root, block, in_place}, gpus->gpu_of_rank,
                           gpus->moved_per_s(), sample.time_s);
    }
    return sample;
  };
  for (Operation operation : options.operations) {
    if (equal_blocks(operation) == Operation::sendrecv && session.size() < 2) {
      console.print(fmt::format("#\n# {}: left out, it takes 2 ranks\n", traits(operation).name));
      continue;
    }
    console.print(table_head(operation, extras));
    for (const Point& point : points_of(operation, options, session.size())) {
      Row row{point, {}, {}};
      // An operation that has no in-place form is measured out of place whatever is asked for.
      if (options.out_of_place || !traits(operation).in_place)
        row.out_of_place = measured(point, false);
      if (options.in_place && traits(operation).in_place) row.in_place = measured(point, true);
      progress.clear();
      console.print(table_line(row, extras));
      rows.push_back(row);
    }
  }
  return rows;
}

/// Where each rank is, and what limits its GPU.
std::string places(const Origin& origin) {
  std::string text;
  for (std::size_t r = 0; r < origin.hosts.size(); ++r) {
    text += fmt::format("#   rank {:>3} on {}", r, origin.hosts[r]);
    if (origin.gpus) {
      const auto place = static_cast<std::size_t>(origin.gpus->gpu_of_rank[r]);
      const SharedGpu& gpu = origin.gpus->gpus[place];
      text += fmt::format(" cuda:{} [{}] {}", origin.gpus->number_of_rank[r], gpu.bus, gpu.name);
    }
    text += '\n';
  }
  if (!origin.gpus) return text;
  for (const SharedGpu& gpu : origin.gpus->gpus)
    text += fmt::format(
        "# {} of {} rank{} copies {:.1f} GB/s, read and written: 100 % of the column limit\n",
        gpu.uuid, gpu.ranks.size(), gpu.ranks.size() == 1 ? "" : "s",
        gpu.limit.moved_per_s() / 1e9);
  return text;
}

/// What one rank does. Its exit code.
int run(const Options& options, const Seat& seat) {
  // First: the library finds a driver that is loaded, and a rank without a GPU keeps nobody
  // waiting.
  std::optional<Gpu> gpu;
  if (options.device.cuda && !options.explain)
    gpu.emplace(options.program, options.device.number,
                local_rank_or(std::max(0, launched_rank())) * seat.here + seat.index);
  std::vector<std::unique_ptr<Buffers>> buffers;  // they go after the communicator
  Session session(options, gpu ? &*gpu : nullptr, seat);
  if (options.root >= session.size()) {
    if (session.rank() == 0)
      fmt::print(stderr, "coll-perf: -r {}: ranks here go from 0 to {}\n", options.root,
                 session.size() - 1);
    return 2;
  }
  const bool leader = session.rank() == 0;
  Console console(leader, options.json == "-" || options.csv == "-");
  if (options.explain) {
    explain(session, options, console);
    return 0;
  }
  bool writable = true;  // known before anybody waits for the results
  if (leader)
    for (const std::string& path : {options.json, options.csv, options.plot})
      writable &= write_file(path, "");
  if (session.sum(writable ? 0 : 1) != 0) return 2;
  std::optional<GpuMap> gpus;
  if (gpu) gpus = meet_on_gpus(session, *gpu);
  const std::size_t most = *std::max_element(options.sizes.begin(), options.sizes.end());
  for (int i = 0; i < std::max(options.group, options.inflight); ++i)
    buffers.push_back(std::make_unique<Buffers>(most, options.memory, gpu ? &*gpu : nullptr));
  if (options.peers_csv) return measure_for_peers(session, options, buffers) ? 0 : 1;

  Origin origin{session.size(),     coll_version(),    host_of_each_rank(session),
                options.transports, options.algorithm, options.group,
                options.inflight,   options.coalesce,  session.ranks_here(),
                std::move(gpus)};
  console.print(fmt::format(
      "# coll-perf {}.{}.{}, {} rank{}{}{}\n", origin.version / 10000, origin.version / 100 % 100,
      origin.version % 100, session.size(), session.size() == 1 ? "" : "s",
      seat.here == 1 ? "" : fmt::format(": {} threads in each process", seat.here),
      session.alone() ? " (no launcher's variables are set, so this process "
                        "is alone; coll-run -n 2 -- coll-perf starts two)"
                      : ""));
  console.print(places(origin));
  if (options.group > 1)
    console.print(
        options.coalesce
            ? fmt::format("# calls of {} parts; times are of one part\n", options.group)
            : fmt::format("# groups of {} calls; times are of one call\n", options.group));
  if (options.inflight > 1)
    console.print(fmt::format("# {} calls in flight; times are of one call\n", options.inflight));

  const std::vector<Row> rows = measure_all(session, options, origin.gpus, buffers, console);
  const Summary summary = summarize(rows);
  console.print(table_foot(summary, options.checks > 0));
  bool written = true;
  if (leader) {
    written = write_file(options.json, options.json.empty() ? "" : to_json(origin, rows));
    written &= write_file(options.csv, options.csv.empty() ? "" : to_csv(origin, rows));
    written &=
        write_file(options.plot, options.plot.empty() ? "" : draw_svg(to_chart(origin, rows)));
  }
  if (!written) return 2;
  return summary.wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  perf::Options options;
  if (const auto ending = perf::parse_options(argc, argv, options)) {
    if (perf::launched_rank() <= 0)  // all ranks have the same arguments: one of them speaks
      fmt::print(ending->exit_code == 0 ? stdout : stderr, "{}", ending->text);
    return ending->exit_code;
  }
  if (options.peers_csv) {
    options.pin = true;
    options.percentiles = false;
  }
  return perf::run_ranks(options, [&](const perf::Seat& seat) { return perf::run(options, seat); });
}
