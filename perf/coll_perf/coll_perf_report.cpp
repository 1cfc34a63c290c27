// SPDX-License-Identifier: Apache-2.0
// The results as JSON, CSV and a plot.
#include "coll_perf/coll_perf_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

namespace perf {
namespace {

void each_sample(const std::vector<Row>& rows,
                 const std::function<void(const Point&, bool in_place, const Sample&)>& f) {
  for (const Row& row : rows) {
    if (row.out_of_place) f(row.point, false, *row.out_of_place);
    if (row.in_place) f(row.point, true, *row.in_place);
  }
}

nlohmann::ordered_json gpus_of(const Origin& origin) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  if (!origin.gpus) return list;
  for (const SharedGpu& gpu : origin.gpus->gpus) {
    nlohmann::ordered_json copies = nlohmann::ordered_json::array();
    for (const GpuCopy& copy : gpu.limit.copies)
      copies.push_back({{"bytes", copy.bytes}, {"moved_GBps", copy.moved_per_s / 1e9}});
    list.push_back(
        {{"name", gpu.name},
         {"bus", gpu.bus},
         {"uuid", gpu.uuid},
         {"cuda", fmt::format("{}.{}", gpu.cuda_version / 1000, gpu.cuda_version % 1000 / 10)},
         {"ranks", gpu.ranks},
         {"limit_GBps", gpu.limit.moved_per_s() / 1e9},
         {"copies", std::move(copies)}});
  }
  return list;
}

}  // namespace

std::string to_json(const Origin& origin, const std::vector<Row>& rows) {
  using nlohmann::ordered_json;
  ordered_json document;
  document["tool"] = "coll-perf";
  document["schema"] = 1;
  document["library_version"] = fmt::format("{}.{}.{}", origin.version / 10000,
                                            origin.version / 100 % 100, origin.version % 100);
  document["ranks"] = origin.ranks;
  document["ranks_per_process"] = origin.ranks_per_process;
  document["hosts"] = origin.hosts;
  document["transports"] = origin.transports;
  document["algorithm"] = origin.algorithm;
  document["group"] = origin.group;
  document["inflight"] = origin.inflight;
  document["coalesced"] = origin.coalesced;
  document["memory"] = origin.gpus ? "cuda" : "host";
  document["gpus"] = gpus_of(origin);
  document["results"] = ordered_json::array();
  each_sample(rows, [&](const Point& point, bool in_place, const Sample& sample) {
    ordered_json result;
    result["operation"] = traits(point.operation).name;
    result["bytes"] = point.shape.bytes;
    result["count"] = point.shape.count;
    result["type"] = dtype_name(point.type);
    result["redop"] = redop_text(point);
    result["root"] = root_number(point);
    result["in_place"] = in_place;
    result["time_us"] = sample.time_s * 1e6;
    result["min_us"] = sample.min_s * 1e6;
    result["mean_us"] = sample.mean_s * 1e6;
    result["algbw_GBps"] = sample.algbw;
    result["busbw_GBps"] = sample.busbw;
    result["cpu_us"] = sample.cpu_s * 1e6;
    result["cores"] = sample.cores;
    result["calls"] = sample.calls;
    result["wrong"] = sample.wrong ? ordered_json(*sample.wrong) : ordered_json(nullptr);
    if (sample.percentiles)
      result["per_call_us"] = {{"min", sample.percentiles->min * 1e6},
                               {"median", sample.percentiles->median * 1e6},
                               {"p99", sample.percentiles->p99 * 1e6}};
    if (sample.overlap)
      result["overlap"] = {{"percent", sample.overlap->percent()},
                           {"comm_us", sample.overlap->comm_s * 1e6},
                           {"compute_us", sample.overlap->compute_s * 1e6},
                           {"total_us", sample.overlap->total_s * 1e6},
                           {"comm_cpu_us", sample.overlap->comm_cpu_s * 1e6},
                           {"total_cpu_us", sample.overlap->total_cpu_s * 1e6}};
    if (sample.gpu)
      result["gpu"] = {{"bytes", sample.gpu->bytes}, {"limit_percent", sample.gpu->fraction * 100}};
    document["results"].push_back(std::move(result));
  });
  const Summary summary = summarize(rows);
  document["avg_busbw_GBps"] = summary.busbw;
  document["wrong"] = summary.wrong;
  return document.dump(2) + "\n";
}

std::string to_csv(const Origin& origin, const std::vector<Row>& rows) {
  std::string text =
      "operation,ranks,bytes,count,type,redop,root,in_place,time_us,min_us,mean_us,algbw_GBps,"
      "busbw_GBps,calls,wrong,call_min_us,call_median_us,call_p99_us,cpu_us,cores,overlap_percent,"
      "comm_us,compute_us,total_us,comm_cpu_us,total_cpu_us,gpu_bytes,limit_percent\n";
  each_sample(rows, [&](const Point& point, bool in_place, const Sample& sample) {
    text += fmt::format("{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.4f},{:.4f},{},{}",
                        traits(point.operation).name, origin.ranks, point.shape.bytes,
                        point.shape.count, dtype_name(point.type), redop_text(point),
                        root_number(point), in_place ? 1 : 0, sample.time_s * 1e6,
                        sample.min_s * 1e6, sample.mean_s * 1e6, sample.algbw, sample.busbw,
                        sample.calls, sample.wrong ? fmt::format("{}", *sample.wrong) : "");
    if (sample.percentiles)
      text += fmt::format(",{:.3f},{:.3f},{:.3f}", sample.percentiles->min * 1e6,
                          sample.percentiles->median * 1e6, sample.percentiles->p99 * 1e6);
    else
      text += ",,,";
    text += fmt::format(",{:.3f},{:.3f}", sample.cpu_s * 1e6, sample.cores);
    if (sample.overlap)
      text += fmt::format(",{:.2f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f}", sample.overlap->percent(),
                          sample.overlap->comm_s * 1e6, sample.overlap->compute_s * 1e6,
                          sample.overlap->total_s * 1e6, sample.overlap->comm_cpu_s * 1e6,
                          sample.overlap->total_cpu_s * 1e6);
    else
      text += ",,,,,,";
    if (sample.gpu)
      text += fmt::format(",{},{:.3f}\n", sample.gpu->bytes, sample.gpu->fraction * 100);
    else
      text += ",,\n";
  });
  return text;
}

std::string peers_head() {
  return "peer,transport,nranks,collective,bytes,time_us,busbw_GBps,algbw_GBps,min_us,avg_us,iters,"
         "correct,algo\n";
}

std::string peers_line(const std::string& peer, const std::string& transport, int ranks,
                       const Point& point, const Sample& sample, const std::string& algorithm) {
  return fmt::format("{},{},{},{},{},{:.3f},{:.4f},{:.4f},{:.3f},{:.3f},{},{},{}\n", peer,
                     transport, ranks, traits(point.operation).peers_name, point.shape.bytes,
                     sample.time_s * 1e6, sample.busbw, sample.algbw, sample.min_s * 1e6,
                     sample.mean_s * 1e6, sample.calls,
                     sample.wrong.value_or(0) != 0 ? "WRONG" : "ok", algorithm);
}

Chart to_chart(const Origin& origin, const std::vector<Row>& rows) {
  Chart chart;
  chart.title = fmt::format("Bus bandwidth, {} rank{}", origin.ranks, origin.ranks == 1 ? "" : "s");
  chart.x_label = "size";
  chart.y_label = "busbw (GB/s)";
  std::set<coll_dtype_t> types;
  std::set<std::string> redops;
  for (const Row& row : rows) {
    types.insert(row.point.type);
    if (traits(row.point.operation).reduces) redops.insert(redop_text(row.point));
  }
  each_sample(rows, [&](const Point& point, bool in_place, const Sample& sample) {
    if (point.operation == Operation::barrier) return;  // no bytes
    std::string name = traits(point.operation).name;
    if (types.size() > 1) name += fmt::format(" {}", dtype_name(point.type));
    if (redops.size() > 1 && traits(point.operation).reduces)
      name += fmt::format(" {}", redop_text(point));
    if (in_place) name += ", in place";
    auto series = std::find_if(chart.series.begin(), chart.series.end(),
                               [&](const Series& s) { return s.name == name; });
    if (series == chart.series.end()) {
      chart.series.push_back({name, {}, in_place});
      series = chart.series.end() - 1;
    }
    series->points.emplace_back(static_cast<double>(point.shape.bytes), sample.busbw);
  });
  return chart;
}

}  // namespace perf
