# SPDX-License-Identifier: Apache-2.0
# A test under compute-sanitizer, which comes with CUDA's toolkit and so is not on each machine with a GPU.
import os
import shutil

from gpu_report_ends import Failed, LeftOut, Missing

TEST = "tests/c_api/gpu_calls_test"
# The tools, with options: the library asks CUDA about memory of the host too, which is no error.
TOOLS = {"memcheck": ["--report-api-errors", "no"], "racecheck": []}


def sanitizers(report, started):
    program = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if program is None:
        raise LeftOut("compute-sanitizer is neither in PATH nor in /usr/local/cuda/bin")
    if not started or "Emulated" in started[0]["device"]:
        raise LeftOut("compute-sanitizer needs a GPU")
    if report.quick:
        raise LeftOut("--quick")
    test = report.program(TEST)
    wrong, absent = [], []
    for tool, options in TOOLS.items():
        try:
            report.run(program, "--tool", tool, "--error-exitcode", "9", *options, test)
        except Failed as problem:
            wrong += problem.args
        except Missing as problem:
            absent.append(f"{tool}: {problem}")
    if wrong:
        raise Failed("; ".join(wrong + absent))
    if absent:
        raise Missing("; ".join(absent))
    return f"{' and '.join(TOOLS)} found nothing in {os.path.basename(TEST)}", None
