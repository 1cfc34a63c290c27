# SPDX-License-Identifier: Apache-2.0
# Verbs on real devices: the conformance suite, collectives, faults and measurements, part by part,
# each with a time limit.
"""usage: verbs_suite.py [--ports 2|4] [--quick] [--only REGEX] [--address PROGRAM]
                       [--patience FACTOR] [--not-here REASON] BUILD

BUILD is a build directory; --only runs the parts whose names match. --ports 4 runs what needs four ports in place of
what needs two; --address gives verbs_transport_test as the address sanitizer's build has it; --patience multiplies all
time limits; --not-here skips all parts. The last line is "N passed, N failed[, N skipped]".
"""
import argparse
import re
import signal
import sys
import time
import traceback
import typing

import verbs_faults as faults
import verbs_measures as measures
import verbs_programs
import verbs_ranks
from verbs_programs import Program, Unable, Wrong, expect, kill_all, what_runs
from verbs_ranks import ONCE, ranks, right
from verbs_wire import damaged, mend, need_ports

EVERY = ["-t", "all"]
# Not of the wire, or too long on a bad one.
LOCAL = "*NobodyThere*:*TooFew*:*NoDescriptorLeaks*:*BadRequests*:*BothEndsCanLend*:*AcceptanceIs*:*ARankOf*:*Strangers*"


class Outcome(typing.NamedTuple):
    passed: int
    failed: int
    skipped: int
    said: str


class Suite:
    def __init__(self, options):
        self.options = options
        self.passed = self.failed = self.skipped = 0

    # --- parts

    def conformance(self, program=None, seconds=120, only="*"):
        """A case of it counts as one."""
        need_ports(2)
        run = Program([program or verbs_ranks.built("tests/transports/verbs/verbs_transport_test"),
                       "--gtest_filter=" + only])
        late = ""
        try:
            status = run.finish(seconds)
        except Wrong:
            status, late = None, f"not done within {seconds * verbs_programs.PATIENCE[0]} s; "
        begun, good, bad, skipped = (set(re.findall(rf"^\[ +{word} +\] (Verbs/[^\s,]+)", run.text(), re.M))
                                     for word in ("RUN", "OK", "FAILED", "SKIPPED"))
        bad |= begun - good - skipped  # where it ended, or hangs
        if status == 0 and not bad and good:
            return Outcome(len(good), 0, len(skipped), f"{len(good)} cases")
        return Outcome(len(good), max(1, len(bad)), len(skipped),
                       f"{late}status {status}; not passed: {' '.join(sorted(bad))}{run.said()}")

    def conformance_loss(self):
        with damaged("loss", "1%", "delay", "1ms"):
            return self.conformance(only="-" + LOCAL + ":*MessagesArriveWhole*")

    def conformance_disorder(self):
        with damaged("delay", "1ms", "reorder", "3%", "duplicate", "2%"):
            return self.conformance(only="-" + LOCAL + ":*MessagesArriveWhole*")

    def conformance_address(self):
        if not self.options.address:
            raise Unable("no build with the address sanitizer (--address-build)")
        return self.conformance(self.options.address, 240, "-*MessagesArriveWhole*")

    def collectives(self):
        text = right(ranks(need_ports(2), *EVERY, "--sizes", "8,4K,100K,1M", *ONCE), 120)
        self.over_verbs(text)

    def collectives_loss(self):
        with damaged("loss", "1%", "delay", "1ms"):
            right(ranks(need_ports(2), *EVERY, "--sizes", "8,100K", *ONCE), 120)
            right(ranks(need_ports(2), "-t", "all_reduce,all_to_all", "--sizes", "1M", *ONCE), 60)

    def four_ranks(self):
        self.over_verbs(right(ranks(need_ports(4), *EVERY, "--sizes", "8,100K", *ONCE), 120))

    def over_verbs(self, text):
        expect(re.search(r"verbs: \S+ \(.*\) is used", text), "the log does not say that verbs is used:\n" + text[-2000:])

    def parts(self):
        """(name, limit in seconds, what): a limit is many times what the part needs."""
        slow = not self.options.quick
        if self.options.ports == 4:
            return [("four ranks", 150, self.four_ranks),
                    ("another port takes over", 240, faults.another_port_takes_over)]
        chosen = [
            ("conformance", 130, self.conformance),
            ("conformance with loss", 130, self.conformance_loss),
            slow and ("conformance with disorder and duplicates", 130, self.conformance_disorder),
            slow and ("conformance with the address sanitizer", 250, self.conformance_address),
            ("collectives", 130, self.collectives),
            slow and ("collectives with loss", 190, self.collectives_loss),
            ("a port down for a while", 180, faults.a_port_down_for_a_while),
            ("a pair gives up and is begun anew", 180, faults.a_pair_that_gives_up_and_is_begun_anew),
            ("a rank is killed", 120, faults.a_rank_is_killed),
            ("all ports down for good", 150, faults.all_ports_down_for_good),
            ("a rank without a port", 70, faults.a_rank_without_a_port),
            ("little memory to lock", 130, faults.little_memory_to_lock),
            slow and ("bytes on the wire", 70, measures.bytes_on_the_wire),
            slow and ("beside perftest", 120, measures.beside_perftest),
            slow and ("beside TCP", 120, measures.beside_tcp)]
        return [part for part in chosen if part]

    # --- running them

    def run(self):
        for name, limit, what in self.parts():
            if not re.search(self.options.only, name):
                continue
            if self.options.not_here:
                self.skipped += 1
                continue
            print(f"--- {name}", flush=True)
            began = time.monotonic()
            outcome = self.attempt(limit, what)
            self.passed += outcome.passed
            self.failed += outcome.failed
            self.skipped += outcome.skipped
            word = "FAILED" if outcome.failed else "passed" if outcome.passed else "skipped"
            print(f"{word} {name} ({time.monotonic() - began:.1f} s)" + (f": {outcome.said}" if outcome.said else ""),
                  flush=True)
        if self.options.not_here:
            print("skipped:", self.options.not_here)
        line = f"{self.passed} passed, {self.failed} failed"
        print(line + (f", {self.skipped} skipped" if self.skipped else ""))
        return 1 if self.failed else 0

    def attempt(self, limit, what):
        signal.alarm(limit * verbs_programs.PATIENCE[0])  # for what has no limit of its own
        try:
            done = what()
            outcome = done if isinstance(done, Outcome) else Outcome(1, 0, 0, done)
        except Unable as why:
            outcome = Outcome(0, 0, 1, str(why))
        except Exception as wrong:  # whatever it is, the other parts are run
            trace = "" if isinstance(wrong, Wrong) else traceback.format_exc()
            outcome = Outcome(0, 1, 0, f"{wrong}\n{trace}")
        finally:
            signal.alarm(0)
        kill_all()
        try:
            mend()
        except Exception as wrong:
            return Outcome(outcome.passed, outcome.failed + 1, outcome.skipped,
                           f"{outcome.said}\nthe wire was not mended: {wrong}")
        return outcome


def too_late(_signal, _frame):
    raise Wrong("not done within the part's limit; running:" + what_runs())


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--ports", type=int, choices=(2, 4), default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--address")
    parser.add_argument("--patience", type=int, default=1)
    parser.add_argument("--not-here")
    parser.add_argument("build")
    options = parser.parse_args()
    verbs_ranks.BUILD[0] = options.build
    verbs_programs.PATIENCE[0] = options.patience
    signal.signal(signal.SIGALRM, too_late)
    sys.exit(Suite(options).run())


main()
