# SPDX-License-Identifier: Apache-2.0
# The page and the charts of `scripts/gpu-report`.
import subprocess

WORDS = {"ran": "ran", "left out": "left out", "failed": "**failed**", "missing": "**did not run**"}


def size_text(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


def number(value):
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def kinds_of_ranks(results):
    """(how many, what they are), processes first."""
    return sorted({(each["ranks"], each["ranks_are"]) for each in results}, key=lambda each: (each[1], each[0]))


def ranks_text(ranks, kind):
    return f"{ranks} threads" if kind == "threads" else f"{ranks} rank{'' if ranks == 1 else 's'}"


def charts(report, missing):
    """(what was drawn, SVG by name)."""
    if not report.results:
        raise missing("no call was measured, so there is nothing to draw")
    program = report.program("perf/coll-plot")
    lines = {}
    for kind, name in (("processes", "busbw"), ("threads", "busbw-threads")):
        mine = [each for each in report.results if each["ranks_are"] == kind]
        if mine:
            most = max(each["ranks"] for each in mine)
            lines[name] = (f"Bus bandwidth, {ranks_text(most, kind)} on one GPU", "busbw (GB/s)",
                           [(each["operation"], each["bytes"], each["busbw_GBps"]) for each in mine
                            if each["ranks"] == most])
    lines["limit"] = ("all_reduce beside copies within the device", "of the limit (%)",
                      [(ranks_text(each["ranks"], each["ranks_are"]), each["bytes"], each["gpu"]["limit_percent"])
                       for each in report.results if each["operation"] == "all_reduce"])
    drawn = {}
    for name, (title, unit, points) in lines.items():
        if not points:
            continue
        done = subprocess.run([program, "--title", title, "--y", unit], text=True, capture_output=True, check=True,
                              env=report.environment, timeout=60,
                              input="".join(f"{series},{x},{y}\n" for series, x, y in points))
        drawn[name] = done.stdout
    return f"{len(drawn)} charts", drawn


def tests_text(data):
    if not data:
        return []
    rows = [[row["test"], row["passed"], row["skipped"], "; ".join(row["failed"]) or 0] for row in data["tests"]]
    return ["Their cases are skipped where only the emulated driver shows what they are about.", "",
            table(["test", "passed", "skipped", "failed"], rows), "",
            "Not run on a GPU, as they need a driver of their own:", "",
            table(["test", "why"], data["emulation_only"].items())]


def start_text(runs):
    if not runs:
        return []
    rows = [[title, *(number(run[key]) for run in runs)] for title, key in (
        ("loading libcuda.so.1", "driver_load_ms"), ("cuInit", "driver_init_ms"),
        ("the device's primary context", "context_ms"), ("joining, one rank", "join_ms"),
        ("the first all_reduce of a float on the device", "first_call_ms"),
        ("a later one", "later_call_ms"))]
    return ["Milliseconds, each run a new process:", "",
            table(["step", *(f"run {i + 1}" for i in range(len(runs)))], rows)]


def kernels_text(loads):
    if not loads:
        return []
    return [table(["kernels", "image (bytes)", "loading (ms)", "looking all up (ms)"],
                  [[each["count"], each["image_bytes"], number(each["load_ms"]), number(each["look_up_ms"])]
                   for each in loads])]


def limit_text(gpu):
    if not gpu:
        return []
    return [f"{gpu['name']}, {gpu['bus']}, {gpu['uuid']}, CUDA {gpu['cuda']}. Bytes read and bytes written, by CUDA's "
            f"events, the best of several rounds; the limit is the best size: {number(gpu['limit_GBps'])} GB/s.", "",
            table(["copied", "GB/s"], [[size_text(each["bytes"]), number(each["moved_GBps"])] for each in gpu["copies"]])]


def limits_text(found):
    if not found:
        return []
    staging = found["staging"]
    needed = [["an empty kernel", found["launch_us"]], ["a word to the other stream and one back", found["exchange_us"]],
              ["both, one behind the other", found["launch_and_exchange_us"]]]
    ways = [[f"all_gather by {each['way']}", each["moved_by"], number(each["GBps"]), number(each["percent"])]
            for each in staging["calls"]]
    return ["Two ranks, threads of one process, whose streams share the GPU. Medians of the slower rank, by the host: from "
            "the first call of the driver until the stream is done. What any implementation needs:", "",
            table(["on each of two streams", "time (us)"],
                  [[what, "no kernels in this build" if took is None else number(took)] for what, took in needed]), "",
            "Calls on a stream of CUDA, beside the last of these, or the exchange alone in a build without kernels:", "",
            table(["all_reduce", "moved by", "time (us)", "of what it needs"],
                  [[size_text(each["bytes"]), each["moved_by"], number(each["time_us"]), number(each["of_needed"])]
                   for each in found["small_all_reduce"]]), "",
            f"Graphs with one all_reduce, {found['graphs'][0]['replays']} replays, whose results are right:", "",
            table(["all_reduce", "moved by", "each waited for (us)", "launched one after another (us)"],
                  [[size_text(each["bytes"]), each["moved_by"], number(each["replay_us"]), number(each["replay_in_a_row_us"])]
                   for each in found["graphs"]]), "",
            f"Through memory of the host, {size_text(staging['bytes'])} from the GPU and as much to it at once. GB/s: each way.",
            "", table(["", "moved by", "GB/s", "of the copies (%)"],
                      [["copies of the driver, pinned memory", "the driver", number(staging["copy_GBps"]), 100], *ways])]


def calls_text(results):
    text = ["Buffers lie in the GPU's memory, all ranks use the one GPU, and calls block. Ranks are processes, whose calls "
            "streams move, or threads of one process, whose calls fused kernels move. time: of the slowest rank, "
            "median over batches. limit: the time of copies that move the bytes that the operation must at least read "
            "and write, over this time (docs/performance.md)."]
    for operation in dict.fromkeys(each["operation"] for each in results):
        mine = [each for each in results if each["operation"] == operation]
        kinds = kinds_of_ranks(mine)
        head = ["size"] + [f"{ranks_text(*kind)}: {what}" for kind in kinds for what in ("time (us)", "busbw (GB/s)", "limit (%)")]
        rows = []
        for size in sorted({each["bytes"] for each in mine}):
            row = [size_text(size)]
            for n, kind in kinds:
                one = next((each for each in mine
                            if (each["ranks"], each["ranks_are"], each["bytes"]) == (n, kind, size)), None)
                # No bus carries anything for one rank.
                row += [number(one["time_us"]), number(one["busbw_GBps"]) if n > 1 else "-",
                        number(one["gpu"]["limit_percent"])] if one else ["-"] * 3
            rows.append(row)
        text += ["", f"### {operation}", "", table(head, rows)]
    return text


def page(report, drawn):
    data = {part["part"]: part["data"] for part in report.parts}
    facts = data.get("machine") or {}
    start = data.get("start of a process") or [{}]
    device = start[0].get("device", "no device")
    bad = [part for part in report.parts if part["state"] not in ("ran", "left out")]
    ran = "All parts ran" + (", but those left out." if any(part["state"] == "left out" for part in report.parts) else ".")
    text = [f"# libcollectives on {device}", "",
            table(["", ""], [["date", report.date], ["device", device],
                             ["driver", facts.get("driver", "unknown")],
                             ["CUDA that it knows", start[0].get("cuda", "unknown")],
                             *[[key, value] for key, value in facts.items() if key != "driver"],
                             ["command", f"`{report.command}`"]]), ""]
    if report.quick:
        text += ["`--quick`: shows that everything runs. The numbers mean nothing.", ""]
    text += [ran if not bad else f"**{len(bad)} of {len(report.parts)} parts did not run, or found an error.**",
             "", table(["part", "", "what", "s"], [[part["part"], WORDS[part["state"]], part["found"], part["seconds"]]
                                                    for part in report.parts])]
    for title, key, lines in (
            ("Tests that need a driver", "tests that need a driver", tests_text),
            ("Start of a process", "start of a process", start_text), ("Kernels", "kernels", kernels_text),
            ("Copies within the device: the limit", "copies within the device", limit_text),
            ("Small calls, graphs and staging", "small calls, graphs and staging", limits_text)):
        text += ["", f"## {title}", "", *(lines(data.get(key)) or ["There is no result: see the first table."])]
    text += ["", "## Calls", "", *(calls_text(report.results) if report.results else
                                   ["There is no result: see the first table."])]
    for name in drawn:
        text += ["", f"![{name}]({name}.svg)"]
    text += ["", "## Commands", "", f"In `{report.build}`:", "", "```", *report.commands, "```", ""]
    return "\n".join(text)
