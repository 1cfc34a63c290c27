# SPDX-License-Identifier: Apache-2.0
# Programs that a test of RDMA devices starts and watches: each has a time limit, and what it said is
# in the report of whatever goes wrong.
import os
import re
import signal
import subprocess
import tempfile
import time

LAUNCHERS = ("COLL_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
TAIL = 40  # lines of output in a report
PATIENCE = [1]  # factor on all time limits
running = []


class Wrong(Exception):
    """What is wrong, and what the program said."""


class Unable(Exception):
    """Why a part cannot run here."""


def expect(condition, text, program=None):
    if not condition:
        raise Wrong(text + (program.said() if program else ""))


def wait_until(condition, seconds, what, promised=False):
    """The condition's value, once it has one that is true. What the library promises within a time must come then."""
    seconds *= 1 if promised else PATIENCE[0]
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Wrong(f"{what}: not within {seconds} s")
        time.sleep(0.02)


class Program:
    """One program and all that it starts, in a process group of its own."""

    def __init__(self, command, **environment):
        self.command = command
        self.output = tempfile.TemporaryFile(mode="w+", errors="replace")
        clean = {k: v for k, v in os.environ.items() if k not in LAUNCHERS and not k.startswith("COLL_")}
        self.began = time.monotonic()
        clean["TEST_PATIENCE"] = str(PATIENCE[0])
        self.process = subprocess.Popen(command, env=clean | environment, stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        running.append(self)

    def text(self):
        size = os.fstat(self.output.fileno()).st_size
        return os.pread(self.output.fileno(), size, 0).decode(errors="replace")

    def said(self):
        lines = self.text().splitlines()
        told = "\n".join("    " + line for line in lines[-TAIL:])
        return f"\n  of {' '.join(self.command)}\n  its last lines ({len(lines)} in all):\n{told}"

    def ended(self):
        return self.process.poll() is not None

    def wait_for(self, pattern, seconds, count=1, promised=False):
        """The matches of a pattern in its output, once there are so many."""
        def found():
            over = self.ended()  # before its output is read
            matches = list(re.finditer(pattern, self.text(), re.M))
            if len(matches) < count and over:
                raise Wrong(f"it ended, status {self.process.returncode}, before it said {pattern!r}" + self.said())
            return matches if len(matches) >= count else None
        try:
            return wait_until(found, seconds, repr(pattern), promised)
        except Wrong as wrong:
            raise wrong if "\n" in str(wrong) else Wrong(str(wrong) + self.said()) from None

    def finish(self, seconds):
        """Its exit status."""
        try:
            return self.process.wait(seconds * PATIENCE[0])
        except subprocess.TimeoutExpired:
            raise Wrong(f"not done within {seconds * PATIENCE[0]} s" + self.said()) from None

    def kill(self):
        """With its whole group, which may outlive it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.output.close()
        running.remove(self)


def what_runs():
    return "".join(program.said() for program in running) or " nothing"


def kill_all():
    for program in list(running):
        program.kill()


def done(command, seconds, **environment):
    """A program that has to succeed: its output."""
    program = Program(command, **environment)
    status = program.finish(seconds)
    expect(status == 0, f"it ended with status {status}", program)
    text = program.text()
    program.kill()
    return text
