"""redis-py finds the master through sentinels, and follows it when it changes."""

import sys

import redis
from redis.sentinel import Sentinel

control, *sentinels = map(int, sys.argv[1:])
control = redis.Redis(port=control)
sentinel = Sentinel([("127.0.0.1", port) for port in sentinels])
master = sentinel.master_for("mymaster")
replica = sentinel.slave_for("mymaster")


def write(value):
    """A connection to a master that is none any more ends with the first error."""
    for _ in range(5):
        try:
            return master.set("k", value)
        except (redis.ConnectionError, redis.TimeoutError):
            pass
    raise SystemExit(f"{value} could not be written")


write("first")
assert replica.get("k") == b"first"
first = sentinel.discover_master("mymaster")
assert len(sentinel.discover_slaves("mymaster")) == 2
print("ok a master is found")

control.execute_command("REDOUBLE.NODE", "FAILOVER", "replica-1")
second = sentinel.discover_master("mymaster")
assert second != first, second
write("second")
assert redis.Redis(*second).get("k") == b"second"
print("ok a failover by hand is followed")

control.execute_command("REDOUBLE.NODE", "CRASH", "replica-1")
control.execute_command("REDOUBLE.CLOCK", "ADVANCE", 30_000)
third = sentinel.discover_master("mymaster")
assert third not in (first, second) or third == first, third
write("third")
assert redis.Redis(*third).get("k") == b"third"
print("ok a crash is followed")
