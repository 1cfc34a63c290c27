# SPDX-License-Identifier: Apache-2.0
# Trains the Fashion-MNIST example on 1, 2 and 4 ranks and compares the curves; also what it says
# about missing and damaged files.
"""usage: fashion_mnist_test.py COLL_RUN FASHION_MNIST EPOCHS LEAST_ACCURACY"""
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

DATA = "/usr/share/datasets/fashion-mnist"
TOLERANCE = 1e-5  # of the loss of each step; examples/fashion_mnist.cpp says why
COLL_RUN, PROGRAM, EPOCHS, LEAST_ACCURACY = sys.argv[1:5]


def idx(*sizes, body=b""):
    return struct.pack(f">BBBB{len(sizes)}I", 0, 0, 8, len(sizes), *sizes) + body


class Training(unittest.TestCase):
    @unittest.skipUnless(os.path.isdir(DATA), "needs Debian's package dataset-fashion-mnist")
    def test_curves_of_1_2_and_4_ranks_agree(self):
        curves, results = {}, {}
        with tempfile.TemporaryDirectory() as folder:
            for ranks in (1, 2, 4):
                curve, result = (os.path.join(folder, name) for name in ("curve", "json"))
                done = subprocess.run(
                    [COLL_RUN, "-n", str(ranks), "--timeout", "240", "--", PROGRAM, "--epochs",
                     EPOCHS, "--loss-out", curve, "--json", result],
                    capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                with open(curve, encoding="utf-8") as file:
                    curves[ranks] = [float(line.split()[1]) for line in file]
                with open(result, encoding="utf-8") as file:
                    results[ranks] = json.load(file)
        for ranks, result in results.items():
            self.assertEqual(result["ranks"], ranks)
            self.assertTrue(result["weights_equal_on_all_ranks"])
            self.assertGreaterEqual(result["test_accuracy"][-1], float(LEAST_ACCURACY))
        self.assertEqual(len(curves[1]), 468 * int(EPOCHS))
        for ranks in (2, 4):
            worst = max(abs(a - b) / a for a, b in zip(curves[1], curves[ranks]))
            print(f"{ranks} ranks: the loss differs by at most {worst:.2g} of its value, "
                  f"{results[ranks]['seconds']:.1f} s")
            self.assertLess(worst, TOLERANCE)


class Files(unittest.TestCase):
    def refusal(self, folder):
        done = subprocess.run([PROGRAM, "--data", folder], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_missing_files_name_the_package(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("apt-get install dataset-fashion-mnist", self.refusal(folder))

    def test_damaged_files(self):
        images, labels = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
        good = idx(2, 28, 28, body=bytes(2 * 784))
        for what, files in (
                ("is not an IDX file", {images: b"something else, long enough"}),
                ("is not an IDX file", {images: idx(2, body=b"12")}),
                ("ends before its", {images: idx(3, 28, 28, body=bytes(784))}),
                ("more than", {images: idx(1 << 31, 1 << 31, 1 << 31)}),
                ("as many 28 x 28 images", {images: good, labels: idx(3, body=b"\1\2\3")}),
                ("a label above 9", {images: good, labels: idx(2, body=b"\1\12")})):
            with tempfile.TemporaryDirectory() as folder:
                for name, content in files.items():
                    with gzip.open(os.path.join(folder, name), "wb") as file:
                        file.write(content)
                self.assertIn(what, self.refusal(folder))


if __name__ == "__main__":
    if not os.path.isdir(DATA):
        print("the dataset is not here: install dataset-fashion-mnist to compare training runs")
    unittest.main(argv=sys.argv[:1], verbosity=2)
