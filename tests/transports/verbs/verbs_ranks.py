# SPDX-License-Identifier: Apache-2.0
# Ranks on RDMA ports of their own: coll-perf under coll-run.
import os
import re

from verbs_programs import Program, expect

BUILD = ["."]  # set once by the suite
ONCE = ["-n", "1", "-w", "0", "--batches", "1"]
ROW = r"^(?:\[0\] )? +\d+ +\d+ +float +.*$"  # of coll-perf's table
RIGHT = r"Out of bounds values : 0 OK"


def built(*path):
    return os.path.join(BUILD[0], *path)


def perf(*arguments):
    return [built("perf/coll-perf"), *arguments]


def on_ports(interfaces, command, before=""):
    """coll-run's command line for a rank on each of these (lists of) ports."""
    cases = " ".join(f"{rank}) COLL_INTERFACE={name};;" for rank, name in enumerate(interfaces))
    script = f'case $RANK in {cases} esac; export COLL_INTERFACE; {before} exec "$@"'
    return [built("perf/coll-run"), "--label", "-n", str(len(interfaces)), "--", "sh", "-c", script, "sh", *command]


def ranks(interfaces, *arguments, before="", **environment):
    settings = {"COLL_TRANSPORTS": "verbs", "COLL_LOG": "info"} | environment
    return Program(on_ports(interfaces, perf(*arguments), before), **settings)


def right(program, seconds):
    """Its output; it ends well, and coll-perf has found no wrong element."""
    status = program.finish(seconds)
    expect(status == 0, f"it ended with status {status}", program)
    text = program.text()
    expect(re.search(RIGHT, text), "coll-perf does not say that the results are right", program)
    return text


def pid_of(program, rank):
    return int(program.wait_for(rf"rank +{rank} on \S+ pid (\d+)", 60)[0][1])
