# SPDX-License-Identifier: Apache-2.0
# The report on a GPU, on the emulated driver: every part runs, and what fails or is missing is said.
"""usage: gpu_report_test.py SOURCE-DIRECTORY BUILD-DIRECTORY KERNEL-TWINS kernels|none"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

ROOT, BUILD, TWINS, KERNELS = sys.argv[1:]
COMMAND = os.path.join(ROOT, "scripts/gpu-report")
# A build without nvcc has no kernels, nor tests of calls that GPUs move; the report says so, and the exit status too.
WITHOUT = set() if KERNELS == "kernels" else {"kernels", "tests that need a driver"}
PARTS = ["machine", "tests that need a driver", "start of a process", "kernels", "copies within the device",
         "small calls, graphs and staging", "calls, 1 rank", "calls, 2 ranks", "calls, 2 threads", "compute-sanitizer",
         "charts"]


class Reported:
    """What the command left."""

    def __init__(self, place, *arguments, **changed):
        out, file = os.path.join(place, "out"), os.path.join(place, "json")
        environment = os.environ | {"EMUCUDA_KERNELS": os.path.join(BUILD, TWINS)} | changed
        done = subprocess.run([COMMAND, "--quick", "--out", out, "--json", file, *arguments], env=environment,
                              text=True, check=False, timeout=200, stdin=subprocess.DEVNULL, capture_output=True)
        self.status, self.errors = done.returncode, done.stderr
        if not os.path.exists(file):
            raise AssertionError(done.stdout + done.stderr)
        with open(file, encoding="utf-8") as text:
            self.json = json.load(text)
        with open(os.path.join(out, "report.md"), encoding="utf-8") as text:
            self.page = text.read()
        self.parts = {part["part"]: part for part in self.json["parts"]}
        self.charts = {}
        for name in os.listdir(out):
            if name.endswith(".svg"):
                self.charts[name] = ET.parse(os.path.join(out, name)).getroot()

    def bad(self):
        return {name for name, part in self.parts.items() if part["state"] not in ("ran", "left out")}


def links_to(place, without=()):
    """A build directory that has only what the report runs, and not all of that."""
    for name in ["perf/coll-run", "perf/coll-perf", "perf/coll-plot", "perf/gpu-start-benchmark",
                 "perf/gpu-limits-benchmark", "src", "tests/emulation/cuda"]:
        if name in without:
            continue
        os.makedirs(os.path.dirname(os.path.join(place, name)), exist_ok=True)
        os.symlink(os.path.join(BUILD, name), os.path.join(place, name))
    return place


class GpuReport(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.place = self.holder.name
        self.addCleanup(self.holder.cleanup)

    def test_everything_runs_and_is_shown(self):
        report = Reported(self.place, "--build", BUILD)
        self.assertEqual(report.bad(), WITHOUT, report.errors)
        self.assertEqual((report.status, report.json["ok"]), (1, False) if WITHOUT else (0, True))
        self.assertEqual([*report.parts], PARTS)
        self.assertEqual(report.parts["compute-sanitizer"]["state"], "left out")
        self.check_limits(report.parts["small calls, graphs and staging"]["data"])
        for words in (["# libcollectives on Emulated GPU", "| date | 20", "| command | `scripts/gpu-report --quick"],
                      ["emulated_ipc_test | 4 | 0 | 0 |", "device_calls_test |"], ["cuInit |", "the first all_reduce"],
                      ["copied | GB/s |", "64 MiB |"],
                      ["| an empty kernel |", "| all_gather by sockets between GPUs |"], ["### all_reduce", "2 ranks: limit (%)", "2 threads: limit (%)",
                                                                            "| 256 KiB |"],
                      ["](busbw.svg)", "](busbw-threads.svg)", "](limit.svg)"],
                      ["perf/coll-run -n 2 -- perf/coll-perf --device cuda:0 -t all_reduce,",
                       "\nperf/coll-perf --device cuda:0 -t all_reduce,", " -g 2\n"]):
            for word in words:
                self.assertIn(word, report.page)
        self.assertNotIn("There is no result", report.page.replace("## Kernels\n\nThere is no result", "")
                         if WITHOUT else report.page)
        self.assertEqual(set(report.charts), {"busbw.svg", "busbw-threads.svg", "limit.svg"})
        for chart in report.charts.values():
            self.assertGreater(len([*chart.iter("{http://www.w3.org/2000/svg}circle")]), 2)
        if not WITHOUT:
            kernels, = report.parts["kernels"]["data"]
            self.assertGreater(kernels["count"], 150)
        operations = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"}
        for ranks, kind, names in ((1, "processes", operations), (2, "processes", operations | {"sendrecv"}),
                                   (2, "threads", operations | {"sendrecv"})):
            mine = [each for each in report.json["results"] if (each["ranks"], each["ranks_are"]) == (ranks, kind)]
            self.assertEqual({each["operation"] for each in mine}, names)
            self.assertEqual({each["bytes"] for each in mine}, {8, 4096, 262144})
            self.assertEqual({each["wrong"] for each in mine}, {0})
        # The page has the numbers of the JSON.
        line = next(line for line in report.page.split("### all_reduce")[1].splitlines() if line.startswith("| 256 KiB"))
        for kind, column in (("processes", 5), ("threads", 8)):
            one = next(each for each in report.json["results"] if (each["ranks"], each["ranks_are"], each["operation"],
                                                                   each["bytes"]) == (2, kind, "all_reduce", 262144))
            self.assertAlmostEqual(float(line.split("|")[column]) / one["time_us"], 1, places=2)
            self.assertAlmostEqual(float(line.split("|")[column + 2]) / one["gpu"]["limit_percent"], 1, places=2)

    def check_limits(self, found):
        self.assertEqual([each["bytes"] for each in found["small_all_reduce"]], [8, 64, 512, 1024, 4096])
        needed = found["exchange_us" if WITHOUT else "launch_and_exchange_us"]
        for each in found["small_all_reduce"]:
            self.assertAlmostEqual(each["time_us"] / needed, each["of_needed"], places=6)
        self.assertEqual([each["bytes"] for each in found["graphs"]], [8, 1024])
        for each in found["staging"]["calls"]:
            self.assertAlmostEqual(each["GBps"] / found["staging"]["copy_GBps"], each["percent"] / 100, places=6)
        if not WITHOUT:
            self.assertIn("streams", found["staging"]["calls"][0]["moved_by"])

    def test_without_a_device_it_says_so_in_every_part(self):
        report = Reported(self.place, "--build", BUILD, EMUCUDA_DEVICES="0")
        self.assertEqual(report.status, 1)
        self.assertEqual(report.bad(), set(PARTS) - {"machine", "compute-sanitizer"})
        for name in ("start of a process", "copies within the device", "small calls, graphs and staging", "calls, 2 ranks",
                     "calls, 2 threads"):
            self.assertIn("CUDA_ERROR_NO_DEVICE", report.parts[name]["found"])
            self.assertIn(report.parts[name]["found"].replace("|", "\\|"), report.page)
        self.assertIn("**9 of 11 parts did not run, or found an error.**", report.page)
        found = report.parts["tests that need a driver"]["found"]
        self.assertIn("emulated_devices_test: EmulatedDevices.SayWhatTheyAre", found)
        for name in ("memory", "ipc"):  # whether it fails or dies
            self.assertIn(f"emulated_{name}_test: ", found)

    def test_programs_that_are_missing_are_named(self):
        build = links_to(os.path.join(self.place, "build"), without=["perf/gpu-start-benchmark", "tests/emulation/cuda"])
        report = Reported(self.place, "--build", build)
        self.assertEqual(report.status, 1)
        self.assertEqual(report.bad(), {"tests that need a driver", "start of a process", "kernels"})
        self.assertEqual({report.parts[name]["state"] for name in report.bad()}, {"missing"})
        self.assertIn("perf/gpu-start-benchmark is not in ", report.page)
        self.assertIn("emulated_words_test is not in ", report.page)

    def test_a_program_that_fails_is_quoted_and_loses_only_its_part(self):
        build = links_to(os.path.join(self.place, "build"), without=["perf/coll-perf", "perf/gpu-start-benchmark",
                                                                           "tests/emulation/cuda"])

        def on_two_ranks(script):
            """coll-perf is that script on two ranks, and itself on one."""
            with open(os.path.join(build, "perf/coll-perf"), "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\n[ "$WORLD_SIZE" = 1 ] && exec "{BUILD}/perf/coll-perf" "$@"\n' + script)

        on_two_ranks('echo "coll-perf: the sky falls" >&2\nexit 2\n')
        with open(os.path.join(build, "perf/gpu-start-benchmark"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec sleep 100\n")
        for name in ("coll-perf", "gpu-start-benchmark"):
            os.chmod(os.path.join(build, "perf", name), 0o755)
        report = Reported(self.place, "--build", build, "--seconds", "4")
        self.assertEqual(report.status, 1)
        self.assertEqual(report.parts["start of a process"]["state"], "failed")
        self.assertRegex(report.parts["start of a process"]["found"], r"stopped after \d+ s: perf/gpu-start-benchmark")
        # It took all the time there was.
        for name, said in (("copies within the device", "not begun: the time for the report was over"),
                           ("calls, 1 rank", "not begun, as the time for the report was over: all_reduce, all_gather")):
            self.assertEqual(report.parts[name]["state"], "missing")
            self.assertIn(said, report.parts[name]["found"])
        os.remove(os.path.join(build, "perf/gpu-start-benchmark"))
        report = Reported(self.place, "--build", build)
        self.assertEqual(report.parts["calls, 1 rank"]["state"], "ran")
        self.assertRegex(report.parts["calls, 2 ranks"]["found"], "ended with 2: coll-perf: the sky falls")
        self.assertEqual({each["ranks"] for each in report.json["results"]}, {1})
        # What coll-perf ends with when elements are wrong.
        on_two_ranks('echo "# Out of bounds values : 7 FAILED"\nexit 1\n')
        report = Reported(self.place, "--build", build)
        self.assertEqual(report.parts["calls, 2 ranks"]["state"], "failed")
        self.assertRegex(report.parts["calls, 2 ranks"]["found"], "ended with 1: Out of bounds values : 7 FAILED")

    def test_a_pack_runs_by_itself(self):
        if shutil.which("ldd") is None:
            self.skipTest("no ldd to find libraries with")
        pack = os.path.join(self.place, "pack")
        done = subprocess.run([COMMAND, "--build", BUILD, "--pack", pack], capture_output=True, text=True, check=False,
                              timeout=120)
        if WITHOUT:  # it has no tests of kernels to take along
            self.assertEqual(done.returncode, 2)
            self.assertIn("lacks tests/c_api/gpu_calls_test", done.stderr)
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        libraries = os.listdir(os.path.join(pack, "lib"))
        self.assertTrue(any(name.startswith("libcollectives.so") for name in libraries), libraries)
        self.assertFalse([name for name in libraries if re.match(r"libc\.so|ld-linux|libcuda", name)])
        report = Reported(self.place, "--build", pack)
        self.assertEqual(report.bad(), WITHOUT, report.errors)
        again = subprocess.run([COMMAND, "--build", BUILD, "--pack", pack], capture_output=True, text=True, check=False,
                               timeout=120)
        self.assertEqual(again.returncode, 2)
        self.assertIn("is not empty", again.stderr)

    def test_every_test_of_a_driver_is_run_or_excused(self):
        with open(COMMAND, encoding="utf-8") as file:
            text = file.read()
        for folder, pattern in (("tests/emulation/cuda", r"(emulated_\w+_test)\.cpp"), ("tests/c_api/device", r"(\w+_test)\.cpp"),
                                ("tests/transports", r"((?:cuda|device)_\w+_test)\.cpp"), ("tests/sys", r"(cuda_\w+_test)\.cpp")):
            names = [match[1] for match in map(re.compile(pattern).fullmatch, os.listdir(os.path.join(ROOT, folder))) if match]
            self.assertGreater(len(names), 0)
            for name in names:
                self.assertTrue(f'"{name}"' in text or f'/{name}"' in text, f"{name}: TESTS or EMULATION_ONLY")

    def test_refusals(self):
        for arguments, message in ((["--wat"], "option --wat not recognized"), (["--seconds", "0"], "--seconds 0"),
                                   (["more"], "not understood: more"), (["--build", "/nowhere"], "there is no directory")):
            done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=30)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(message, done.stderr)
        done = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, check=False, timeout=30)
        self.assertEqual(done.returncode, 0)
        self.assertIn("usage: scripts/gpu-report", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
