# SPDX-License-Identifier: Apache-2.0
# The commands in scripts/ do what they say.
import json
import os
import subprocess
import sys
import tempfile
import unittest

import tap

ROOT = sys.argv[1]
PASSED = """<testsuites><testsuite><testcase name="A" classname="S" status="run" result="completed"/>
<testcase name="B" classname="S" status="run" result="skipped"><skipped message="no GPU here"/></testcase>
<testcase name="C" classname="S" status="notrun" result="suppressed"/></testsuite></testsuites>"""
FAILED = """<testsuites><testsuite><testcase name="A" classname="S" status="run" result="completed">
<failure message="1 is not 2" type=""/></testcase></testsuite></testsuites>"""


def script(name, *arguments, **environment):
    return subprocess.run([os.path.join(ROOT, "scripts", name), *arguments], text=True, cwd="/",
                          env=os.environ | environment, stdin=subprocess.DEVNULL, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


class CountResults(unittest.TestCase):
    def count(self, tests):
        """Runs lib/run-one for each program, then counts: (last line, exit status, all output)."""
        with tempfile.TemporaryDirectory() as place:
            log = os.path.join(place, "testlog.json")
            with open(log, "w", encoding="utf-8") as file:
                for name, xml, stdout, result in tests:
                    code = f"import os,sys; sys.argv[1] and open(os.environ['GTEST_OUTPUT'][4:],'w').write({xml!r})"
                    command = [sys.executable, "-c", code, "xml" if xml else "", name]
                    script("lib/run-one", *command, COLL_TEST_RESULTS=place)
                    json.dump({"name": name, "command": ["/x/lib/run-one", *command],
                               "stdout": stdout, "result": result, "duration": 1.0,
                               "returncode": 0 if result == "OK" else 1}, file)
                    file.write("\n")
            done = script("lib/count-results", log, place)
            return done.stdout.splitlines()[-1], done.returncode, done.stdout

    def test_counts_cases_not_programs(self):
        line, status, output = self.count([("one", PASSED, "", "OK"), ("two", None, "", "OK"),
                                      ("three", None, "1..2\nok 1 - a\nok 2 - b # SKIP no\n", "OK")])
        self.assertEqual((line, status), ("3 passed, 0 failed, 2 skipped", 0))
        self.assertIn("1 skipped: one: no GPU here", output)

    def test_a_failed_case_is_named_with_its_message(self):
        line, status, output = self.count([("one", FAILED, "", "FAIL"), ("two", PASSED, "", "OK")])
        self.assertEqual((line, status), ("1 passed, 1 failed, 1 skipped", 1))
        self.assertIn("FAILED: one S.A", output)
        self.assertIn("1 is not 2", output)

    def test_a_program_that_dies_counts_as_failed_where_it_died(self):
        said = "[ RUN      ] S.A\n[       OK ] S.A (0 ms)\n[ RUN      ] S.B\nlast words\n"
        line, status, output = self.count([("one", None, said, "TIMEOUT")])
        self.assertEqual((line, status), ("1 passed, 1 failed", 1))
        self.assertIn("timeout in S.B", output)
        self.assertIn("last words", output)

    def test_a_program_that_fails_after_its_cases_passed_has_failed(self):
        line, status, _ = self.count([("one", PASSED, "", "FAIL")])
        self.assertEqual((line, status), ("1 passed, 1 failed, 1 skipped", 1))

    def test_tap_failures_count(self):
        line, status, output = self.count([("one", None, "1..2\nok 1 - a\nnot ok 2 - b\n", "FAIL")])
        self.assertEqual((line, status), ("1 passed, 1 failed", 1))
        self.assertIn("FAILED: one b", output)

    def test_nothing_ran_is_a_failure(self):
        line, status, _ = self.count([])
        self.assertEqual((line, status), ("0 passed, 0 failed", 1))


class Commands(unittest.TestCase):
    def test_every_package_has_a_level_and_a_reason(self):
        with open(os.path.join(ROOT, "scripts/lib/packages"), encoding="utf-8") as file:
            rows = [line.split(None, 2) for line in file if not line.startswith("#")]
        self.assertGreater(len(rows), 10)
        for row in rows:
            self.assertEqual(len(row), 3, row)
            self.assertIn(row[0], ("demo", "test", "torch", "gpu", "ci"))
        names = [row[1] for row in rows]
        self.assertEqual(len(names), len(set(names)), "a package twice")

    def test_set_up_says_nothing_when_all_is_there(self):
        done = script("setup", "demo")
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_unknown_options_are_refused_with_the_usage(self):
        for name in ("setup", "test", "test-verbs", "demo", "torch", "torch-debian", "gpu-report"):
            done = script(name, "--no-such-option")
            self.assertEqual(done.returncode, 2, name)
            self.assertIn("usage: scripts/" + name, done.stdout)

    def test_without_root_and_sudo_the_missing_packages_are_named(self):
        """As on a machine that has nothing: dpkg-query finds no package, and nobody may install."""
        with tempfile.TemporaryDirectory() as place:
            for name, body in [("dpkg-query", "exit 1"), ("id", "echo 1000"), ("sudo", "exit 1")]:
                path = os.path.join(place, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\n" + body + "\n")
                os.chmod(path, 0o755)
            done = script("setup", "demo", PATH=place + ":" + os.environ["PATH"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get install", done.stdout)
        self.assertIn("meson", done.stdout)
        self.assertNotIn("qemu", done.stdout, "only what the demo needs")


tap.main()
