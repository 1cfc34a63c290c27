# SPDX-License-Identifier: Apache-2.0
# The examples run under torchrun, over the library, and learn.
import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "torch"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_learns(backend, need, example):
    if backend != "coll":
        pytest.skip("the examples name coll")
    text = example.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    need(*re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
    run = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(example)],
        env=dict(os.environ, OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu", COLL_LOG="info"),
        capture_output=True, text=True, timeout=90, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "[coll] rendezvous" in run.stderr, run.stderr
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", run.stdout)]
    assert len(losses) >= 2 and losses[-1] < 0.7 * losses[0], run.stdout
