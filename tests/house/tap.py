# SPDX-License-Identifier: Apache-2.0
# Runs Python's unit tests as a TAP program, so that each counts as a case.
import sys
import unittest


class TapResult(unittest.TestResult):
    def _say(self, ok, test, note="", detail=""):
        name = test.id().removeprefix("__main__.")
        print(f"{'ok' if ok else 'not ok'} {self.testsRun} - {name}{note}")
        for line in detail.splitlines():
            print("#", line)
        sys.stdout.flush()

    def addSuccess(self, test):
        self._say(True, test)

    def addSkip(self, test, reason):
        self._say(True, test, f" # SKIP {reason}")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._say(False, test, "", self.failures[-1][1])

    def addError(self, test, error):
        super().addError(test, error)
        self._say(False, test, "", self.errors[-1][1])

    def addSubTest(self, test, subtest, error):
        # Cases use no sub-tests: one line each.
        raise NotImplementedError


def main():
    """Runs every test case of the calling script; arguments stay in sys.argv for it."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    print(f"1..{suite.countTestCases()}", flush=True)
    result = TapResult()
    suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)
