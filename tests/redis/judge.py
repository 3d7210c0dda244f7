"""Judges the log of redis_worker: was anybody inside beyond the cap, and did the quota ever give more than it may?"""


class Log:
    """What the workers wrote, and what the controller did to them."""

    def __init__(self, text, ends, stops, lease_ns):
        self.ends, self.stops, self.lease = ends, stops, lease_ns
        self.visits = []    # (pid, task, from, to, weight) of who was inside
        self.tokens = []    # (asked, got, tokens)
        self.whose = []     # the process, of each of those
        self.units = []     # the same of a second unit
        self.late = []      # (from, to) in which the loop of some process stood still
        self.through = set()
        inside = {}
        for line in text.splitlines():
            what, pid, task, at, *rest = line.split()
            key, at = (int(pid), int(task)), int(at)
            if what == "S":
                inside[key] = at, int(rest[0])
            elif what == "E":
                start, weight = inside.pop(key)
                self.visits.append((*key, start, self.left(key[0], start, at, rest[0]), weight))
            elif what == "G":
                self.tokens.append((at, int(rest[0]), int(rest[1])))
                self.whose.append(key[0])
            elif what == "U":
                self.units.append((at, int(rest[0]), int(rest[1])))
            elif what == "L":
                self.late.append((int(rest[0]), at))
            elif what == "D":
                self.through.add(key)
        for (pid, task), (start, weight) in inside.items():
            self.visits.append((pid, task, start, ends.get(pid, start), weight))

    def left(self, pid, start, at, how):
        """When it was out. One that was stopped, and lost its lease meanwhile, did nothing from then on."""
        if how != "lost":
            return at
        for stopped, went_on in self.stops.get(pid, []):
            if start <= stopped <= at:
                return stopped
            # Stopped between the check of the lease and its line, beyond the lease. On a busy machine it goes on late.
            if stopped <= start <= went_on + self.lease / 2 and went_on - stopped > self.lease / 2:
                return start
        return at

    def grants(self):
        return len(self.visits)

    def of(self, pids):
        """What these processes had."""
        part = Log("", self.ends, self.stops, self.lease)
        part.visits = [v for v in self.visits if v[0] in pids]
        part.tokens = [t for t, whose in zip(self.tokens, self.whose) if whose in pids]
        return part

    def between(self, start, end):
        """The tokens that were asked for and given in this time."""
        part = Log("", self.ends, self.stops, self.lease)
        part.tokens = [t for t in self.tokens if start <= t[0] and t[1] <= end]
        return part

    def over_the_cap(self, permits):
        """(moments at which somebody came in beyond the cap, the most that was out)."""
        events = []
        for _, _, start, end, weight in self.visits:
            events += [(start, weight), (end, -weight)]
        now = most = violations = 0
        for _, change in sorted(events):
            now += change
            most = max(most, now)
            violations += change > 0 and now > permits
        return violations, most

    def over_the_units(self, rate, burst):
        """The same as over_the_quota() for the second unit."""
        part = Log("", self.ends, self.stops, self.lease)
        part.tokens = self.units
        return part.over_the_quota(rate, burst)

    def over_the_quota(self, rate, burst):
        """(windows that hold more than burst + rate * length, the greatest excess in tokens).

        A grant was made between the moments at which it was asked for and got. So a window holds at least the grants
        whose both moments lie in it; where these are too many, there is no doubt. Redis' clock and the one of the log
        may differ by a thousandth in speed.
        """
        per_ns = rate / 1e9 * 1.001
        events = sorted(self.tokens, key=lambda e: e[1])
        starts = sorted({asked for asked, _, _ in events})
        rank = {asked: i for i, asked in enumerate(starts)}
        size = 1
        while size < max(len(starts), 1):
            size *= 2
        # For each start s: rate * s, and what was asked for at s or later and is got by now. The greatest of all. One
        # that nobody has been served from yet lies far below the others.
        lowest, below = float("-inf"), 1e9
        best = [lowest] * (2 * size)
        add = [0.0] * (2 * size)
        first = starts[0] if starts else 0
        for i, s in enumerate(starts):
            best[size + i] = per_ns * (s - first) - below
        for node in range(size - 1, 0, -1):
            best[node] = max(best[2 * node], best[2 * node + 1])
        violations, excess, begun = 0, 0.0, set()
        for asked, got, tokens in events:
            node = size + rank[asked]
            best[node] += tokens
            if rank[asked] not in begun:
                begun.add(rank[asked])
                best[node] += below
            while node > 1:
                if node % 2 == 1:
                    best[node - 1] += tokens
                    add[node - 1] += tokens
                node //= 2
                best[node] = max(best[2 * node], best[2 * node + 1]) + add[node]
            over = best[1] - per_ns * (got - first) - burst - 1
            violations += over > 0
            excess = max(excess, over)
        return violations, excess


def quiet(start, end, late, after):
    """What is left of a time without those in `late` and as long as `after` behind each."""
    left, at = [], start
    for since, until in sorted(late):
        if until + after > at and since < end:
            if since > at:
                left.append((at, since))
            at = until + after
    return left + [(at, end)] if at < end else left


def first_service(lines, pids, since):
    """When each of these had its first permit and its first token after `since`, of those that had one."""
    first = {}
    for line in lines:
        what, pid, _, at, *rest = line.split()
        at = int(rest[0] if what == "G" else at)
        if what in "SG" and int(pid) in pids and at > since:
            first[int(pid), what] = min(at, first.get((int(pid), what), at))
    return first


def selftest():
    """The judge is not blind, and does not cry wolf."""
    second = 1_000_000_000
    fair = "".join(f"G 1 1 {i * second // 10 - 1} {i * second // 10} 1\n" for i in range(1, 50))
    assert Log(fair, {}, {}, second).over_the_quota(10, 1)[0] == 0
    assert Log(fair, {}, {}, second).over_the_quota(5, 1)[0] > 0
    burst = "".join(f"G 1 1 {second} {second + i} 1\n" for i in range(10))
    assert Log(burst, {}, {}, second).over_the_quota(1, 9)[0] == 0  # the tenth may be rounding
    assert Log(burst, {}, {}, second).over_the_quota(1, 8)[0] > 0
    late = "".join(f"G 1 1 {i} {second * 5 + i} 1\n" for i in range(10))  # asked long before: told late, all at once
    assert Log(late, {}, {}, second).over_the_quota(2, 1)[0] == 0
    log = Log(burst, {}, {}, second)
    assert log.of({1}).over_the_quota(1, 8)[0] > 0 and log.of({2}).over_the_quota(1, 8)[0] == 0
    assert log.between(0, second * 2).over_the_quota(1, 8)[0] > 0
    assert log.between(second * 2, second * 3).over_the_quota(1, 8)[0] == 0
    assert quiet(0, 10, [], 2) == [(0, 10)] and quiet(0, 10, [(-5, -3), (11, 12)], 2) == [(0, 10)]
    assert quiet(0, 10, [(3, 4), (-2, 1)], 2) == [(6, 10)] and quiet(0, 10, [(4, 9)], 2) == [(0, 4)]
    assert quiet(0, 10, [(2, 9), (3, 4)], 0) == [(0, 2), (9, 10)] and quiet(0, 10, [(-1, 11)], 0) == []
    assert Log("L 1 0 9 4\n", {}, {}, second).late == [(4, 9)]
    both = "".join(f"G 1 1 {i} {i + 1} 1\nU 1 1 {i} {i + 1} 3\n" for i in range(3))
    assert Log(both, {}, {}, second).over_the_quota(1, 3)[0] == 0
    assert Log(both, {}, {}, second).over_the_units(1, 9)[0] == 0
    assert Log(both, {}, {}, second).over_the_units(1, 7)[0] > 0
    lines = ["S 1 1 10 1", "G 1 1 5 20 1", "S 1 1 30 1", "S 2 1 9 1"]
    assert first_service(lines, {1, 2}, 9) == {(1, "S"): 10, (1, "G"): 20}
    two = "S 1 1 10 2\nS 1 2 20 2\nE 1 1 30 ok\nE 1 2 40 ok\n"
    assert Log(two, {}, {}, second).over_the_cap(4) == (0, 4)
    assert Log(two, {}, {}, second).over_the_cap(3) == (1, 4)
    killed = "S 1 1 10 1\nS 2 1 20 1\nE 2 1 30 ok\n"
    assert Log(killed, {1: 15}, {}, second).over_the_cap(1) == (0, 1)
    assert Log(killed, {1: 25}, {}, second).over_the_cap(1) == (1, 2)
    stopped = "S 1 1 10 1\nS 2 1 20 1\nE 2 1 30 ok\nE 1 1 40 lost\n"
    assert Log(stopped, {}, {1: [(15, 35)]}, second).over_the_cap(1) == (0, 1)
    assert Log(stopped, {}, {1: [(25, 35)]}, second).over_the_cap(1) == (1, 2)
