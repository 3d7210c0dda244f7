#!/usr/bin/env python3
"""Runs what scripts/long has built, and prints what was reached: long.py MINUTES [--seed N] PART...

What no run shall play again, and what all runs have reached since lib/ or include/ last changed, is in
build/long/state.json.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD, HERE = ROOT / "build", ROOT / "build" / "long"
FAILURES = HERE / "failures"
JOBS = os.cpu_count() or 2
YEAR = 365.25 * 86400
# Seeds below these are played by every run of scripts/test.
FIRST_SEED = 1_000_000

# How the time that is left is shared. Canaries and torture end by themselves.
SHARES = {"simulation": 3, "interleaving": 2, "stress": 2, "fuzz": 4, "conversations": 4, "chaos": 2}
FUZZ_TARGETS = {"operations": 4096, "http_response": 2048, "redis_reply": 1024, "redis_endpoint": 256, "rate": 128}

# part, what is counted, its name in the table, the figure to reach in a long run; none where every point is the figure
FIGURES = [
    ("canaries", "canaries", "seeded defects found", 50),
    ("torture", "torture_allocations", "allocations made to fail, one at a time", None),
    ("torture", "torture_plays", "plays cancelled, stopped or left at a point", None),
    ("simulation", "seeds", "simulation: seeds", 10_000_000),
    ("simulation", "asan_seeds", "simulation: seeds under ASan", 20_000),
    ("simulation", "acquires", "acquires and tasks, none lost, none told twice", 1_000_000_000),
    ("simulation", "years", "simulated years", 50),
    ("interleaving", "models_2", "models, all schedules of 2 preemptions", 30),
    ("interleaving", "models_3", "models, all schedules of 3 preemptions", 10),
    ("interleaving", "schedules", "schedules", 3_000_000_000),
    ("stress", "stress", "stress tests under TSan and ASan", None),
    ("fuzz", "executions", "fuzz executions", 500_000_000),
    ("conversations", "conversations", "conversations with canigo-gateway under ASan", 1_000_000),
    ("conversations", "answers", "answers of it that were judged", None),
    ("chaos", "grants", "grants of Redis, steady and under chaos, none too many", 1_000_000),
    ("chaos", "chaos_minutes", "minutes in which everything breaks", 60),
]
# What is as large as it gets in one run already.
BY_ITSELF = ("canaries", "torture_allocations", "torture_plays", "models_2", "models_3")


class Run:
    def __init__(self, options):
        self.options, self.lock = options, threading.Lock()
        self.counts, self.failures, self.notes = {}, [], []
        FAILURES.mkdir(parents=True, exist_ok=True)
        tree = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD:lib", "HEAD:include"],
                              capture_output=True, text=True)
        path = HERE / "state.json"
        self.state = json.loads(path.read_text()) if path.exists() else {"seed": FIRST_SEED, "totals": {}}
        if self.state.get("tree") != tree.stdout:
            self.state.update(tree=tree.stdout, totals={})
        self.seed = self.first_seed = self.state["seed"] if options.seed is None else options.seed

    def save(self):
        self.state["seed"] = max(self.state["seed"], self.seed)
        totals = self.state["totals"]
        for key, n in self.counts.items():
            totals[key] = max(totals.get(key, 0), n) if key in BY_ITSELF else totals.get(key, 0) + n
        (HERE / "state.json").write_text(json.dumps(self.state, indent=1) + "\n")

    def seeds(self, n):
        """The first of n seeds that nobody else gets."""
        with self.lock:
            self.seed += n
            return self.seed - n

    def add(self, **counts):
        with self.lock:
            for key, n in counts.items():
                self.counts[key] = max(self.counts.get(key, 0), n) if key in BY_ITSELF else self.counts.get(key, 0) + n

    def fail(self, name, output):
        path = FAILURES / f"{name}.txt"
        path.write_text(output)
        with self.lock:
            self.failures.append(f"{name}: {path.relative_to(ROOT)}")

    def command(self, name, command, env=None, expected=""):
        """The output of a command; None if it fails, does not end, or does not say what is expected, which is noted."""
        timeout = 1800 + 60 * self.options.minutes
        try:
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace",
                                  env={**os.environ, **(env or {})}, timeout=timeout, cwd=HERE)
        except (subprocess.TimeoutExpired, OSError) as error:
            self.fail(name, f"{' '.join(map(str, command))}\n{error}\n")
            return None
        output = done.stdout + done.stderr
        if done.returncode != 0 or not re.search(expected, output):
            again = " ".join([*(f"{k}={v}" for k, v in (env or {}).items()), *map(str, command)])
            self.fail(name, f"{again}\nexit status {done.returncode}\n{output}")
            return None
        return output

    def until(self, seconds, piece):
        """Calls piece(n) for n = 0, 1, … on every processor until the time is over, or one returns False."""
        end, count, stopped = time.monotonic() + seconds, iter(range(1 << 62)), threading.Event()

        def work():
            while not stopped.is_set() and (left := end - time.monotonic()) > 0:
                with self.lock:
                    n = next(count)
                if piece(n, left) is False:
                    stopped.set()

        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for done in [pool.submit(work) for _ in range(JOBS)]:
                done.result()


def env_of(variant, test):
    """What the build gives a test in its environment, as far as it makes it faster."""
    tests = json.loads((BUILD / variant / "meson-info/intro-tests.json").read_text())
    env = next(t["env"] for t in tests if t["name"] == test)
    return {name: value for name, value in env.items() if name in ("ASAN_OPTIONS", "GLIBC_TUNABLES")}


def number(pattern, text):
    found = re.findall(pattern, text, re.M)
    return sum(float(n) for n in found)


def canaries(run, _):
    for variant, target in (("gxx", "canaries"), ("fuzz", "fuzz_canaries")):
        output = run.command(target, ["ninja", "-C", BUILD / variant, target])
        if output is None:
            output = (FAILURES / f"{target}.txt").read_text()
        found = re.search(r"^(\d+) of (\d+) found", output, re.M)
        if found:
            run.notes.append(f"{target}: {found.group(0)}")
            with run.lock:
                run.counts["canaries"] = run.counts.get("canaries", 0) + int(found.group(1))


def torture(run, _):
    output = run.command("torture", [BUILD / "gxx/tests/torture/torture_test"], expected=r"\d+ plays")
    if output:
        run.add(torture_allocations=int(number(r"(\d+) allocations failed", output)),
                torture_plays=int(number(r"(\d+) plays", output)))


def simulation(run, seconds):
    env = env_of("asan", "simulation")

    def piece(n, _):
        # Ten pieces take a tenth of their seeds to the build that is ten times as slow.
        is_asan = n % 10 == 1
        many = 2_000 if is_asan else 10_000
        first = run.seeds(many)
        output = run.command(f"simulation-{first}", [BUILD / ("asan" if is_asan else "gxx") /
                             "tests/simulation/simulation_test", "--from", first, "--seeds", many],
                             env=env, expected=r"[1-9]\d* acquires")
        if output is None:
            return False
        run.add(seeds=many, asan_seeds=many if is_asan else 0, acquires=int(number(r"(\d+) acquires", output)),
                years=number(r"(\d+) s simulated", output) / YEAR)
        return True

    run.until(seconds, piece)


def interleaving(run, seconds):
    env = env_of("gxx", "interleaving_tests")

    def piece(n, _):
        seed, mode = run.seeds(1), "all" if n == 0 else ("random", "priorities")[n % 2]
        output = run.command(f"interleaving-{mode}-{seed}", [BUILD / "gxx/tests/interleaving/interleaving_tests"],
                             env={**env, "INTERLEAVING_MODE": mode, "INTERLEAVING_SEED": str(seed),
                                  "INTERLEAVING_RUNS": "20000" if n == 0 else "40000"},
                             expected=r"models, [1-9]\d* schedules")
        if output is None:
            return False
        run.add(schedules=int(number(r"models, (\d+) schedules", output)))
        if n == 0:
            run.add(**{f"models_{k}": int(number(rf"with {k} preemptions: (\d+) models", output)) for k in (2, 3)})
        return True

    run.until(seconds, piece)


def stress(run, seconds):
    def piece(n, _):
        variant = ("tsan", "asan")[n % 2]
        launcher = run.options.tsan_launcher.split() if variant == "tsan" else []
        seed = run.seeds(1)
        output = run.command(f"stress-{variant}-{seed}", [*launcher, BUILD / variant / "tests/canigo_tests", "[stress]",
                                                          "--rng-seed", seed % 2**32])
        if output is None:
            return False
        ran = int(number(r"in (\d+) test case", output))
        if ran == 0:
            run.fail(f"stress-{variant}-{seed}", f"no test ran:\n{output}")
        run.add(stress=ran)
        return ran > 0

    run.until(seconds, piece)


def dictionary_of(target):
    path = ROOT / "tests/fuzz/dictionaries" / f"{target}.dict"
    return [f"-dict={path}"] if path.exists() else []


def fuzz(run, seconds):
    targets = list(FUZZ_TARGETS)
    # Every target has its turn, and no turn is so long that the last one is missed.
    turn = max(5, min(300, int(seconds * JOBS / len(targets))))

    def piece(n, left):
        target = targets[n % len(targets)]
        corpus = HERE / "corpus" / target
        corpus.mkdir(parents=True, exist_ok=True)
        seed = run.seeds(1)
        output = run.command(f"fuzz-{target}-{seed}", [
            BUILD / "fuzz/tests/fuzz" / f"fuzz_{target}", f"-max_total_time={int(min(turn, max(left, 5)))}",
            f"-seed={seed % 2**31}", f"-max_len={FUZZ_TARGETS[target]}", "-len_control=0", "-timeout=30",
            "-print_final_stats=1", f"-artifact_prefix={FAILURES}/fuzz-{target}-", *dictionary_of(target), corpus,
            ROOT / "tests/fuzz/corpus" / target], expected=r"number_of_executed_units: [1-9]")
        if output is None:
            return False
        executions = int(number(r"number_of_executed_units: (\d+)", output))
        run.add(executions=executions, **{f"executions_{target}": executions})
        return True

    run.until(seconds, piece)


def conversations(run, seconds):
    def piece(n, left):
        seed = run.seeds(1)
        # Two in three are over TLS as well, on both sides.
        output = run.command(f"conversations-{seed}", [
            BUILD / "gxx/tests/gateway/conversations/conversations", "--gateway",
            BUILD / "asan/gateway/canigo-gateway", "--seed", seed, "--count", 1_000_000_000,
            "--seconds", int(min(300, max(left, 5))), *([] if n % 3 == 0 else ["--tls"])],
            expected=r": [1-9]\d* conversations in ")
        if output is None:
            return False
        run.add(conversations=int(number(r": (\d+) conversations in ", output)),
                answers=int(number(r"^  (?:answers|tunnels)\b.* (\d+)$", output)))
        return True

    run.until(seconds, piece)


def chaos(run, seconds):
    seed = run.seeds(1)
    output = run.command(f"chaos-{seed}", [sys.executable, ROOT / "tests/redis/chaos.py",
                                           BUILD / "gxx/tests/redis_worker", "--seconds", int(seconds), "--seed", seed],
                         expected=r"[1-9]\d* permits")
    if output:
        said = [line for line in output.splitlines() if line.startswith(("steady", "chaos"))]
        run.add(grants=int(number(r"(\d+) permits", "\n".join(said)) + number(r"(\d+) times tokens", "\n".join(said))),
                chaos_minutes=seconds / 2 / 60)  # the other half is steady
        run.notes += [line for line in output.splitlines() if line.startswith("control")]


def shown(n):
    return f"{n:,.0f}" if n >= 10 or n == int(n) else f"{n:.2g}"


def table(run, parts):
    rows = [("metric", "this run", "all runs", "figure", "met")]
    for part, key, name, figure in FIGURES:
        if part in parts:
            here, total = run.counts.get(key, 0), run.state["totals"].get(key, 0)
            met = total >= figure if figure else total > 0
            rows.append((name, shown(here), shown(total), shown(figure) if figure else "", "yes" if met else "no"))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        print(" | ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--tsan-launcher", default="")
    parser.add_argument("parts", nargs="+")
    options = parser.parse_args()
    HERE.mkdir(parents=True, exist_ok=True)
    run = Run(options)
    print(f"from seed {run.first_seed}", flush=True)
    end = time.monotonic() + options.minutes * 60
    for i, part in enumerate(options.parts):
        sharers = [p for p in options.parts[i:] if p in SHARES]
        seconds = max(10.0, end - time.monotonic()) * SHARES.get(part, 0) / max(1, sum(SHARES[p] for p in sharers))
        start = time.monotonic()
        print(f"{part}: {f'{seconds:.0f} s' if seconds else 'until it ends'}", flush=True)
        globals()[part](run, seconds)
        print(f"{part}: took {time.monotonic() - start:.0f} s", flush=True)
    run.save()
    print()
    table(run, options.parts)
    for key in sorted(k for k in run.counts if k.startswith("executions_")):
        print(f"{key.replace('executions_', 'fuzz executions of ')}: {run.counts[key]:,}")
    print(*run.notes, sep="\n")
    print(f"seeds {run.first_seed} to {run.seed - 1}")
    print("\n".join(["FAILED", *run.failures]) if run.failures else "nothing failed")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
