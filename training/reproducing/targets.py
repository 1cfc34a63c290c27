# SPDX-License-Identifier: Apache-2.0
# The trainings, and what each must reach. Each adds rows to the results.
import json
import math
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
PARAMETERS = 817664  # of the GPT that coll-train trains by default
SAME_RATE = ("--rate", "0.003", "--last-rate", "0.003")  # runs of any length begin alike


def there_is_a_bible(results, what):
    if shutil.which("bible") is None:
        results.target(what, "", "Debian's bible-kjv and bible-kjv-text are not installed", None)
        return False
    return True


def kjv(runs, results):
    """the GPT learns the King James Bible in a minute."""
    what = "King James Bible, 2 ranks x 1 thread, validation loss"
    if not there_is_a_bible(results, what):
        return
    run = runs.train("kjv", 2, "--data", "bible", "--seconds", 58, "--validate-every", 50)
    for loss, most in ((2.255, 15), (1.80, 60)):
        reached = run.first_below(loss)
        text = f"after {reached[0]:.1f} s, step {reached[1]}" if reached else \
            f"not reached: {run.summary['lowest_validation_loss']:.3f} at the lowest"
        results.target(f"{what} below {loss}", f"within {most} s", text, reached is not None and reached[0] <= most)
    summary = run.summary
    results.target("the same run, last validation loss", "<= 1.80",
                   f"{summary['validation_loss']:.3f} after {summary['steps']} steps, {summary['tokens']} characters",
                   summary["validation_loss"] <= 1.80)
    results.target("the same run, tokens/s of a core", ">= 12000",
                   f"{summary['tokens_per_second'] / 2:.0f}, {100 * summary['exposed_seconds'] / summary['seconds']:.1f} % "
                   "of the time in exposed communication", summary["tokens_per_second"] / 2 >= 12000)


def fashion(runs, results):
    """the MLP learns Fashion-MNIST."""
    what = "Fashion-MNIST, 2 ranks x 1 thread, accuracy"
    if not os.path.isdir("/usr/share/datasets/fashion-mnist"):
        results.target(what, ">= 85 % in 10 s", "Debian's dataset-fashion-mnist is not installed", None)
        return
    run = runs.train("fashion-mnist", 2, "--data", "fashion-mnist", "--steps", 1500, "--validation-batches", 100000)
    seconds, accuracy = run.seen[-1][0], run.summary["validation_accuracy"]
    results.target(what, ">= 85 % in 10 s", f"{100 * accuracy:.1f} % in {seconds:.1f} s",
                   accuracy >= 0.85 and seconds <= 10)


def markov(runs, results):
    """the GPT learns a source of known entropy."""
    run = runs.train("markov", 2, "--data", "markov", "--steps", 800, "--validation-batches", 100000)
    entropy = float(run.report["facts"]["data"].split("entropy of ")[1].split()[0])
    loss = run.summary["validation_loss"]
    results.target("Markov source, validation loss", "<= 1.02 H",
                   f"{loss / entropy:.4f} H: {loss:.4f} of H = {entropy} nats", loss <= 1.02 * entropy)


def bf16(runs, results):
    """weights of 16 bits learn as those of 32."""
    what = "bf16 weights with f32 master copies, validation loss"
    if not there_is_a_bible(results, what):
        return
    steps = runs.steps(300)
    losses = [runs.train(f"weights-{weights}", 2, "--data", "bible", "--weights", weights, "--steps", steps)
              .summary["validation_loss"] for weights in ("f32", "bf16")]
    change = losses[1] / losses[0] - 1
    results.target(f"{what} after {steps} steps", "within 2 % of f32",
                   f"{100 * change:+.2f} %: {losses[1]:.4f} and {losses[0]:.4f}", abs(change) <= 0.02)


def bits(runs, results):
    """the same weights on 1, 2, 4 and 8 ranks, in all stages of ZeRO."""
    steps = runs.steps(40)
    common = ("--data", "markov", "--steps", steps, *SAME_RATE)
    sums = {f"{ranks} ranks, ZeRO {zero}": runs.train(f"bits-n{ranks}-zero{zero}", ranks, *common, "--zero", zero).sha256()
            for ranks in (1, 2, 4, 8) for zero in (0, 1, 2, 3)}
    variants = {"checkpointed activations": ("--checkpoint-activations", 1), "states in host memory": ("--offload", "cpu"),
                "a pipeline of 2": ("--pp", 2)}
    for name, more in variants.items():
        sums[f"2 ranks, {name}"] = runs.train(f"bits-{name.replace(' ', '-')}", 2, *common, *more).sha256()
    checkpoints = os.path.join(runs.options.out, "bits-checkpoints")
    shutil.rmtree(checkpoints, ignore_errors=True)
    runs.train("bits-before-restart", 2, *common[:2], "--steps", steps // 2, *SAME_RATE, "--zero", 2, "--save", checkpoints)
    sums["2 ranks, ZeRO 2, then 4 ranks, ZeRO 3, after a restart"] = runs.train(
        "bits-after-restart", 4, *common, "--zero", 3, "--save", checkpoints).sha256()
    for name, found in sums.items():
        print(f"  {found}  {name}")
    different = sorted(set(sums.values()))
    results.target(f"the same bits after {steps} steps on N = 1, 2, 4, 8 ranks, ZeRO 0 to 3, and more",
                   f"one sha256 of {len(sums)} runs", f"{len(different)} sha256: {', '.join(s[:16] for s in different)}",
                   len(different) == 1)


def large_batch(runs, results):
    """2 ranks and 8 micro-batches against 1 rank and 1 large batch."""
    steps = runs.steps(200)
    common = ("--data", "markov", "--steps", steps)
    many = runs.train("large-batch-8x4", 2, *common, "--micro-batches", 8, "--sequences", 4).weights()
    one = runs.train("large-batch-1x32", 1, *common, "--micro-batches", 1, "--sequences", 32).weights()
    difference = math.sqrt(sum((a - b)**2 for a, b in zip(many, one)) / sum(b * b for b in one))
    results.target(f"8 micro-batches of 4 sequences on 2 ranks against one of 32, after {steps} steps",
                   "relative L2 of weights < 1e-5", f"{difference:.1e}", difference < 1e-5)


def volumes(runs, results):
    """bytes that a rank sends in a step, against the formulas of ZeRO and of accumulation."""
    ranks = 4
    share = PARAMETERS * (ranks - 1) / ranks * 4
    for zero in (0, 1, 2, 3):
        for turns in (1, 4):
            # With the difference of two runs, what is sent at the begin and by validation counts for nothing.
            sent = [runs.train(f"volume-zero{zero}-m{turns}-{steps}-steps", ranks, "--data", "markov:63", "--zero", zero,
                               "--micro-batches", ranks * turns, "--sequences", 1, "--tokens", 64, "--steps", steps,
                               "--validation-batches", 1).summary["bytes_sent"] for steps in (3, 7)]
            factor = (2, 2, turns + 1, 3 * turns)[zero]
            measured = (sent[1] - sent[0]) / 4 / share
            results.target(f"ZeRO {zero}, {turns} micro-batches on each of {ranks} ranks, sent in a step",
                           f"{factor} Psi (N-1)/N", f"{measured:.4f} Psi (N-1)/N", abs(measured / factor - 1) < 0.001)


def pytorch(runs, results):
    """the same GPT in PyTorch, by training/beside-pytorch."""
    options = runs.options
    done = subprocess.run(
        [os.path.join(HERE, "..", "beside-pytorch"), "--json", "--python", options.python, "--coll-train",
         options.coll_train, "--coll-run", options.coll_run, "--sequences", "2", "--steps", str(runs.steps(100))],
        capture_output=True, text=True, check=False)
    what = "loss from the same init file, coll-train against PyTorch"
    if not done.stdout:
        results.target(what, "within 1e-4", done.stderr.strip().splitlines()[-1], None if done.returncode == 77 else False)
        return
    found = json.loads(done.stdout)
    losses = found["losses"]
    results.target(f"{what} {losses['pytorch']}, after {losses['steps']} steps", "within 1e-4",
                   f"{losses['difference_of_last']:.1e}", losses["difference_of_last"] < 1e-4)
    best = found["speeds"]["best"]
    theirs = max(one["tokens_per_second"] for name, one in best.items() if name != "coll-train")
    results.target("tokens/s on 2 ranks, coll-train against PyTorch's DDP with Gloo", "no slower",
                   "; ".join(f"{name}: {one['tokens_per_second']:.0f} tokens/s, {1e3 * one['exposed_seconds']:.2f} ms of "
                             f"{1e3 * one['step_seconds']:.1f} exposed" for name, one in best.items()),
                   best["coll-train"]["tokens_per_second"] >= theirs)


ALL = {"kjv": kjv, "fashion": fashion, "markov": markov, "bf16": bf16, "bits": bits, "large-batch": large_batch,
       "volumes": volumes, "pytorch": pytorch}
