"""What bench/run measured, and what is made of it: ratios, and which targets are met."""

import json
import pathlib
import re
import statistics

# The targets: id, the measured quantity, our contestant, and the contestant with which we are compared, with the max
# allowed ratio of our figure to its figure. "value" instead of a contestant means an absolute bound, in the unit of the
# figure.
TARGETS = [
    ("B1", "ns", "scheduler.try_acquire", "Rust: governor check", 0.9),
    ("B2", "ns", "scheduler.acquire", "Rust: governor until_ready", 1.2),
    ("B2", "ns", "scheduler.acquire", "Go: x/time/rate Wait", 0.45),
    ("B2", "ns", "scheduler.acquire", "Go: ticker, dispatcher, a lock per caller", 1 / 30),
    ("B3", "ns", "scheduler.try_acquire", "Rust: governor check", 1.2),
    ("B4-10000", "missed", "scheduler.acquire", "value", 0.001),
    ("B4-100000", "missed", "scheduler.acquire", "value", 0.001),
    ("B4-1000000", "missed", "scheduler.acquire", "value", 0.001),
    ("B4-10000", "cpu", "scheduler.acquire", "Rust: governor until_ready", 0.3),
    ("B4-100000", "cpu", "scheduler.acquire", "Rust: governor until_ready", 0.3),
    ("B4-1000000", "cpu", "scheduler.acquire", "Rust: governor until_ready", 1.0),
    ("B5", "ns", "semaphore.acquire", "Rust: tokio Semaphore", 1.2),
    ("B6", "ns", "semaphore.acquire", "Rust: tokio Semaphore", 0.45),
    ("B6b", "ns", "semaphore.acquire", "Rust: tokio Semaphore", 1.0),
    ("B7", "ns", "strand_pool(8).try_post", "Go: channel of functions, 8 workers", 0.8),
    ("B7", "ns", "strand_pool(8).try_post", "Go: worker pool with states and a result channel", 0.1),
    ("B8", "ns", "strand_pool.run", "Rust: tokio spawn and join", 0.7),
    ("B9", "ns", "strand_pool(2).try_post", "Go: channel of functions, 8 workers", 1.0),
    ("B10", "ns", "try_post, does not suspend, timeout", "Rust: tokio Semaphore, spawn, timeout", 0.4),
    ("B10", "ns", "try_post, does not suspend, timeout", "Go: worker pool with states, timeout", 0.15),
    ("B11", "ns", "time_source.arm", "Go: time.AfterFunc, arm", 0.5),
    ("B11", "bytes", "time_source.arm", "value", 64),
    ("B12", "ns", "scheduler.async_acquire", "Rust: tokio Semaphore, a task each", 0.7),
    ("B12", "bytes", "scheduler.async_acquire", "value", 128),
    ("B13", "ns", "scheduler, strand_pool(8)", "value", 20_000),
    ("B14-1", "ns", "redis::semaphore", "bare: two EVALSHA", 1.3),
    ("B14-64", "ns", "redis::semaphore", "bare: two EVALSHA", 1.3),
    ("B14-shared", "ns", "64 in flight", "1 in flight", 0.2),
    ("B15", "ns", "http::client, acquire before each", "Go: net/http and rate.Wait", 1.05),
    ("B16", "ns", "10 flows", "1 flow", 1.5),
    ("B16m", "ns", "10000 flows", "1 flow", 3.0),
    ("B17", "ns", "keyed_scheduler.try_acquire", "Rust: governor keyed", 1.0),
    ("B17", "ns", "keyed_scheduler.try_acquire", "Go: map of x/time/rate", 1.0),
    ("B17t", "ns", "keyed_scheduler.try_acquire", "Rust: governor keyed", 1.0),
    ("B17t", "ns", "keyed_scheduler.try_acquire", "Go: map of x/time/rate", 1.0),
    ("B17n", "bytes", "keyed_scheduler.try_acquire", "value", 100),
    ("B18", "ns", "circuit_breaker.try_enter", "Go: failsafe-go, permit and success", 1.0),
    ("B18", "ns", "circuit_breaker.try_enter", "Go: gobreaker, two steps", 1.0),
    ("B18-2", "ns", "circuit_breaker.try_enter", "Go: failsafe-go, permit and success", 1.0),
    ("B18-2", "ns", "circuit_breaker.try_enter", "Go: gobreaker, two steps", 1.0),
    ("B18-call", "ns", "with_breaker", "Go: failsafe-go", 1.0),
    ("B18-call", "ns", "with_breaker", "Go: gobreaker", 1.0),
    ("B19", "lost", "adaptive_limit, knee", "Java: concurrency-limits, gradient2", 1.0),
    ("B19", "lost", "adaptive_limit, knee", "Java: concurrency-limits, vegas", 1.0),
    ("B19", "lost", "adaptive_limit, knee", "Go: failsafe-go", 1.0),
    ("B19", "lost", "adaptive_limit, knee", "C++: Envoy's algorithm", 1.0),
    ("B20-10000", "missed", "scheduler.acquire, a slack of 1 ms", "value", 0.001),
    ("B20-100000", "missed", "scheduler.acquire, a slack of 1 ms", "value", 0.001),
    ("B20-10000", "cpu", "scheduler.acquire, a slack of 1 ms", "Go: x/time/rate Wait", 1.0),
    ("B20-100000", "cpu", "scheduler.acquire, a slack of 1 ms", "Go: x/time/rate Wait", 1.0),
    ("B21", "ns", "policy.run", "Go: failsafe-go", 1.0),
    ("B22-put", "ns", "sqlite_store", "Go: goqite", 1 / 1.2),
    ("B22-put", "ns", "sqlite_store", "floor: append 4 KiB and fdatasync", 1.5),
    ("B22-put", "ns", "postgres_store", "Go: River", 1 / 3),
    ("B22-put100", "ns", "sqlite_store", "Go: goqite", 1 / 20),
    ("B22-put100", "ns", "postgres_store", "Go: River", 1 / 10),
    ("B22-run1", "ns", "sqlite_store", "Go: goqite", 1 / 2),
    ("B22-run8", "ns", "sqlite_store", "Go: goqite", 1 / 2),
    ("B22-run8", "ns", "postgres_store", "Go: River", 1 / 1.5),
    ("B22-idle", "ns", "sqlite_store", "Go: goqite", 1.0),
    ("B22-idle", "ns", "postgres_store", "Go: River", 1.0),
    ("B27", "ns", "channel", "Asio: concurrent_channel", 1.2),
    ("B27c", "ns", "channel", "Asio: concurrent_channel", 0.5),
    ("B27p", "ns", "channel", "Asio: concurrent_channel", 0.5),
    ("B27t", "ns", "channel", "Asio: concurrent_channel", 0.5),
    ("B27t", "ns", "channel", "Rust: tokio mpsc", 1.2),
    ("B27t", "ns", "channel", "Go: buffered channel", 1.2),
    ("B28", "ns", "metered_stream", "C++: Beast, simple_rate_policy", 1.1),
    ("B28r", "ns", "metered_stream", "C++: Beast, simple_rate_policy", 1.1),
    ("B28k", "ns", "metered_stream", "C++: Beast, simple_rate_policy", 1.1),
    ("B29-1", "missed", "metered_stream", "value", 0.01),
    ("B29-8", "missed", "metered_stream", "value", 0.01),
    ("B29-2of8", "missed", "metered_stream", "value", 0.01),
    ("B29-1", "peak", "metered_stream", "value", 1.25),
    ("B29-8", "peak", "metered_stream", "value", 1.25),
    ("B29-2of8", "peak", "metered_stream", "value", 1.25),
    ("X1", "ns", "work_stealing", "bare Asio: io_context", 0.25),
    ("X1", "ns", "work_stealing", "Rust: tokio yield_now", 1.0),
    ("X2", "ns", "work_stealing", "Rust: tokio Semaphore", 0.8),
    ("X3", "ns", "work_stealing", "Go: channel of functions, 8 workers", 1.0),
    ("X4", "ns", "work_stealing", "Rust: tokio spawn and join", 1.0),
    ("X5", "ns", "work_stealing", "Rust: tokio Semaphore and governor", 1.0),
    ("X6", "ns", "work_stealing", "bare Asio: io_context", 0.95),
    ("X6s", "ns", "work_stealing", "bare Asio: io_context", 1.0),
    ("B23", "ns", "semaphore.acquire", "Rust: tokio Semaphore", 1.2),
    ("B23l", "ns", "limiter.acquire", "Rust: tokio Semaphore and governor", 1.2),
    ("B23p", "ns", "semaphore.acquire", "Rust: tokio Semaphore", 1.2),
    ("B23lp", "ns", "limiter.acquire", "Rust: tokio Semaphore and governor", 1.2),
    ("B23r", "ns", "scheduler.acquire", "Rust: governor until_ready", 1.2),
    ("K2", "bytes", "keyed_scheduler.try_acquire", "value", 100),
]
# The object whose memory a benchmark measures.
OBJECTS = {"B11": "deadline", "B12": "waiting callback", "B17n": "key", "K2": "key"}
# In these benchmarks bare Asio works in another way, so it is no bound of what is possible.
NO_FLOOR = ["B10", "B11"]
# The contestants that may allocate nothing in steady state.
NO_ALLOCATIONS = {"B1": "scheduler.try_acquire", "B2": "scheduler.acquire", "B6": "semaphore.acquire",
                  "B7": "strand_pool(8).try_post", "B10": "try_post, does not suspend, timeout",
                  "B16": "10 flows", "B17": "keyed_scheduler.try_acquire", "B18": "circuit_breaker.try_enter",
                  "B18-call": "with_breaker"}


def rank(work):
    """Returns a sort key by which B2 comes before B10."""
    return [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", work)]


def is_peer(name):
    return re.match(r"(Go|Rust|Node|Java|C\+\+): ", name)


def is_floor(name):
    return name.startswith(("floor", "bare"))


def results(samples):
    """Returns the rounds in the form that bench/run writes: {(id, name): [a dictionary for each round]}."""
    return [{"id": work, "name": name, "median": statistics.median(r["ns"] for r in rounds), "repetitions": rounds}
            for (work, name), rounds in samples.items()]


class Run:
    """The measurements of one run. A ratio of figures of two runs is refused."""

    def __init__(self, data):
        self.data = data
        self.samples = {(s["id"], s["name"]): s["repetitions"] for s in data["results"]}

    @staticmethod
    def read(path):
        return Run(json.loads(pathlib.Path(path).read_text()))

    @staticmethod
    def of(samples):
        """Makes a Run from the samples of a run that has not ended."""
        return Run({"run": "", "results": results(samples)})

    def has(self, work, name):
        return (work, name) in self.samples

    def values(self, work, name, what):
        """Returns one value for each round."""
        made = {"missed": lambda r: 1 - r["reached"], "lost": lambda r: 1 - statistics.mean(r["goodput"].values())}
        return [made[what](r) if what in made else r.get(what, 0) for r in self.samples[work, name]]

    def figure(self, work, name, what="ns"):
        return statistics.median(self.values(work, name, what))

    def spread(self, work, name):
        values = [r["ns"] for r in self.samples[work, name]]
        return min(values), max(values)

    def ratio(self, work, ours, other, what="ns", of=None):
        of = of or self
        if of.data["run"] != self.data["run"]:
            raise SystemExit("a ratio of figures from different runs means nothing; measure both in one run")
        # The ratio is computed in each round, and the median of the ratios counts, because a slow second slows both
        # contestants.
        rounds = zip(self.values(work, ours, what), of.values(work, other, what))
        return statistics.median(above / below if below else float("inf") for above, below in rounds)

    def is_unsteady(self, work):
        """Whether a ratio that counts is unsteady: the quartiles of its rounds differ by more than the half."""
        ours = self.ours(work)
        others = {other for of, what, name, other, _ in TARGETS if of == work and what == "ns" and name == ours}
        others |= {self.best_peer(work)}
        return any(self.differ(work, ours, other) for other in others if ours and other and self.has(work, other))

    def differ(self, work, ours, other):
        rounds = list(zip(self.values(work, ours, "ns"), self.values(work, other, "ns")))
        ratios = sorted(above / below for above, below in rounds if below)
        if len(ratios) >= 5:  # a single disturbed round then has no effect
            low, _, high = statistics.quantiles(ratios, n=4)
        else:
            low, high = (ratios[0], ratios[-1]) if ratios else (1, 1)
        return high > 1.5 * low

    def beside_peers(self):
        """Returns the best peer of each work, and our share of its time, for the comparison with other hosts."""
        return {work: {"peer": best, "ratio": round(self.ratio(work, ours, best), 3)}
                for work in self.works() if self.has_times(work)
                for ours, best in [(self.ours(work), self.best_peer(work))] if ours and best}

    def has_times(self, work):
        """Whether the work is measured in time. Adaptive limits are judged by goodput instead."""
        return not any("goodput" in r for name in self.names(work) for r in self.samples[work, name])

    def goodput(self, work, name):
        """Returns for each trace the goodput, as a share of the best possible goodput."""
        rounds = [r["goodput"] for r in self.samples[work, name]]
        return {trace: statistics.median(r[trace] for r in rounds) for trace in rounds[0]}

    def works(self):
        return sorted(dict.fromkeys(work for work, _ in self.samples), key=rank)

    def names(self, work):
        return [name for other, name in self.samples if other == work]

    def ours(self, work):
        """Returns our contestant that is compared with the others: the first one of canigo."""
        return next((n for n in self.names(work) if not is_peer(n) and not is_floor(n)), None)

    def best_peer(self, work):
        return min(filter(is_peer, self.names(work)), key=lambda n: self.figure(work, n), default=None)

    def floor(self, work):
        """Returns the first contestant that does only the minimum of the work: bare Asio or the machine."""
        return next(filter(is_floor, self.names(work)), None)

    def targets(self):
        """Returns the targets of the measured work. `floor`: the ratio that the minimum of the work would have."""
        found = []
        for work, what, ours, other, most in TARGETS:
            if not self.has(work, ours) or (other != "value" and not self.has(work, other)):
                continue
            floor = self.floor(work)
            if other == "value" or is_floor(other) or floor is None or work in NO_FLOOR:
                least = None
            else:
                least = round(self.ratio(work, floor, other, what), 5)
            ratio = self.figure(work, ours, what) if other == "value" else self.ratio(work, ours, other, what)
            label = {"ns": "time in ns" if other == "value" else "time", "cpu": "CPU time",
                     "bytes": f"memory for each {OBJECTS.get(work)}, in bytes", "missed": "unused share of the rate",
                     "peak": "peak rate within 100 ms, as a multiple of the limit's rate",
                     "lost": "loss of goodput against the best fixed limit"}[what]
            found.append({"id": work, "what": label, "ours": ours, "than": "" if other == "value" else other,
                          "ratio": round(ratio, 5), "target": round(most, 4), "met": ratio <= most, "floor": least})
        for work, ours in NO_ALLOCATIONS.items():
            if self.has(work, ours):
                allocations = self.figure(work, ours, "allocs")
                found.append({"id": work, "what": "allocations", "than": "", "ratio": round(allocations, 3),
                              "target": 0, "met": allocations < 0.005,  # some allocations are made at the start
                              "floor": None})
        return sorted(found, key=lambda t: rank(t["id"]))
