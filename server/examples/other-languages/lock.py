"""A small lock, tested in Python without anything but the standard library.

    redouble run --control --clock manual -- python3 lock.py

`redouble run` starts a server and tells where it is. `REDOUBLE.*` are its own commands, which any
client can send; each has HELP.
"""

import os
import secrets
import socket
import sys


class RedisError(Exception):
    """An error reply."""


class Redis:
    """A client of Redis in thirty lines."""

    def __init__(self):
        address = os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"])
        self.socket = socket.create_connection(address, timeout=10)
        self.stream = self.socket.makefile("rb")

    def __call__(self, *words):
        words = [str(word).encode() for word in words]
        request = b"*%d\r\n" % len(words)
        request += b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(request)
        reply = self.read()
        if isinstance(reply, RedisError):
            raise reply
        return reply

    def read(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection has ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        raise ValueError(f"not RESP2: {line!r}")


class Lock:
    """The code under test: a token per lock, SET NX GET, compare and delete."""

    RELEASE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"

    def __init__(self, redis, key, lease_ms):
        self.redis, self.key, self.lease_ms = redis, key, lease_ms
        self.token = secrets.token_hex(16)

    def acquire(self):
        for _ in range(3):
            try:
                # GET tells an attempt whose reply was lost that it had succeeded.
                owner = self.redis("SET", self.key, self.token, "NX", "GET", "PX", self.lease_ms)
                return owner in (None, self.token)
            except ConnectionError:
                self.redis = Redis()
        return False

    def release(self):
        return self.redis("EVAL", self.RELEASE, 1, self.key, self.token) == 1


def test_a_lock_excludes_until_its_lease_has_passed(control):
    first, second = Lock(Redis(), "lock", 30_000), Lock(Redis(), "lock", 30_000)
    assert first.acquire() and not second.acquire()
    control("REDOUBLE.CLOCK", "ADVANCE", 30_000)
    assert not second.acquire()  # expired only when now > deadline
    control("REDOUBLE.CLOCK", "ADVANCE", 1)
    assert second.acquire()
    assert not first.release() and second.release()


def test_a_clock_jump_of_the_server_takes_the_lock_away(control):
    first, second = Lock(Redis(), "lock", 30_000), Lock(Redis(), "lock", 30_000)
    assert first.acquire()
    control("REDOUBLE.CLOCK", "JUMP", 31_000)  # as an operator or a time server may
    assert second.acquire(), "no time has passed, and both hold it: this is what fences are for"
    assert not first.release()


def test_a_lost_reply_does_not_lock_its_owner_out(control):
    words = "disconnect DIRECTION reply COMMAND SET KEY lock NTH 1".split()
    fault = control("REDOUBLE.FAULT", "ADD", *words)
    lock = Lock(Redis(), "lock", 30_000)
    assert lock.acquire(), "executed, never answered, asked again"
    assert control("REDOUBLE.FAULT", "FIRED", fault) == 1
    claims = [entry for entry in control("REDOUBLE.HISTORY") if entry[2][0] == "SET"]
    assert [reply for _, _, _, reply in claims] == ["$-1\r\n", f"$32\r\n{lock.token}\r\n"]
    assert lock.release()


def main():
    control = Redis()
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            control("REDOUBLE.RESET")
            test(control)
            print("ok", name)


if __name__ == "__main__":
    sys.exit(main())
