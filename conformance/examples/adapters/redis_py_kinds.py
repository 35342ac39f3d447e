"""A read-write lock, a semaphore, a mutex in a stream, a counter and a latch on redis-py, behind one adapter for
`redouble-check foreign` (see conformance/ADAPTER.md).

    pip install redis==6.4.0
    redouble-check foreign -- python3 redis_py_kinds.py read_write     or semaphore, stream, admission, latch

Each operation is one script, so that no other client comes between its steps. The scripts read the server's clock, so that
the clients' clocks do not matter. A call that got no reply is `unknown`, and leaves its token until its lease ends.
"""

import json
import os
import queue
import sys
import threading
import time
import uuid

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PERMITS = 3
COUNTS = 2

# Every script begins with this; the deadline of a holder is its score.
NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

READ_WRITE = {
    "acquire": NOW + """
        redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. now)
        if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
        if ARGV[3] == 'shared' then
            redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
            redis.call('PEXPIRE', KEYS[2], ARGV[2])
            return 1
        end
        if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
        redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
        return 1
    """,
    "release": NOW + """
        if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
        local deadline = redis.call('ZSCORE', KEYS[2], ARGV[1])
        return redis.call('ZREM', KEYS[2], ARGV[1]) == 1 and tonumber(deadline) >= now and 1 or 0
    """,
}

SEMAPHORE = {
    "acquire": NOW + f"""
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now)
        if redis.call('ZCARD', KEYS[1]) >= {PERMITS} then return 0 end
        redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return 1
    """,
    "release": NOW + """
        local deadline = redis.call('ZSCORE', KEYS[1], ARGV[1])
        return redis.call('ZREM', KEYS[1], ARGV[1]) == 1 and tonumber(deadline) >= now and 1 or 0
    """,
}

# The holder is the consumer to which the stream's only entry was delivered.
STREAM = {
    "acquire": """
        if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
        redis.call('XADD', KEYS[1], '*', 'lock', 'held')
        redis.call('XGROUP', 'CREATE', KEYS[1], 'holders', 0)
        redis.call('XREADGROUP', 'GROUP', 'holders', ARGV[1], 'COUNT', 1, 'STREAMS', KEYS[1], '>')
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return 1
    """,
    "release": """
        if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
        local pending = redis.call('XPENDING', KEYS[1], 'holders', '-', '+', 1)
        if #pending == 0 or pending[1][2] ~= ARGV[1] then return 0 end
        return redis.call('DEL', KEYS[1])
    """,
}

# A name that was admitted before is admitted again; its number is the order of the names.
ADMISSION = """
    local number = redis.call('HGET', KEYS[1], ARGV[1])
    if number then return tonumber(number) end
    number = redis.call('HLEN', KEYS[1]) + 1
    if number > tonumber(ARGV[2]) then return 0 end
    redis.call('HSET', KEYS[1], ARGV[1], number)
    return number
"""

# Returns the number of the count, 0 if the latch is at 0, -1 if it is not set up.
COUNT_DOWN = """
    local left = tonumber(redis.call('GET', KEYS[1]) or -1)
    if left <= 0 then return left end
    return ARGV[1] - redis.call('DECR', KEYS[1])
"""

HELLO = {
    "read_write": {
        "kind": "read_write",
        "holders": [
            {"type": "string", "mode": "exclusive"},
            {"key": "{key}:readers", "type": "zset", "mode": "shared"},
        ],
    },
    "semaphore": {"kind": {"semaphore": PERMITS}, "holders": [{"type": "zset"}]},
    "stream": {"kind": "mutex", "holders": [{"type": "stream", "group": "holders"}]},
    "admission": {"kind": {"admission": PERMITS}, "named": True, "keeps": ["{key}"]},
    "latch": {"kind": {"latch": COUNTS}, "set_up": True, "keeps": ["{key}"]},
}


class Process:
    def __init__(self, kind):
        self.kind = kind
        self.scripts = {"read_write": READ_WRITE, "semaphore": SEMAPHORE, "stream": STREAM}.get(kind, {})
        self.grants = {}
        self.tasks = {}
        self.output = threading.Lock()

    def say(self, line):
        with self.output:
            print(json.dumps(line), flush=True)

    def listen(self):
        self.say({"name": f"a {self.kind} in Python", "deadline": bool(self.scripts),
                  "untidy": True, **HELLO[self.kind]})
        for line in sys.stdin:
            request = json.loads(line)
            if request["op"] == "crash":
                break
            task = request["task"]
            if task not in self.tasks:
                self.tasks[task] = queue.Queue()
                threading.Thread(target=self.work, args=(self.tasks[task],), daemon=True).start()
            self.tasks[task].put(request)
        os._exit(0)  # at once: nothing is given back

    def work(self, requests):
        while True:
            request = requests.get()
            try:
                answer = self.perform(request)
            except redis.RedisError as error:  # executed or not: unknown
                answer = {"answer": "unknown", "error": f"{type(error).__name__}: {error}"}
            if isinstance(answer, bool):
                answer = {"answer": "ok" if answer else "refused"}
            self.say({"id": request["id"], **answer})

    def perform(self, request):
        op = request["op"]
        if op == "open":
            return self.open(request)
        if op == "set_up" and self.kind == "latch":
            return self.client.set(self.key, COUNTS, nx=True) is True
        if op == "admit" and self.kind == "admission":
            number = self.client.eval(ADMISSION, 1, self.key, request["name"], PERMITS)
            return {"answer": "ok", "number": number} if number > 0 else False
        if op == "count_down" and self.kind == "latch":
            number = self.client.eval(COUNT_DOWN, 1, self.key, COUNTS)
            if number < 0:
                return {"answer": "not_set"}
            return {"answer": "ok", "number": number} if number > 0 else False
        if op == "await" and self.kind == "latch":
            return self.await_zero(request["wait_ms"] / 1000)
        if op == "try" and self.scripts:
            return self.acquire(request["id"], request.get("mode", "exclusive"))
        if op == "release" and self.scripts:
            return self.run("release", self.grants.pop(request["grant"]))
        return {"answer": "unsupported"}

    def open(self, request):
        host, port = request["nodes"][0].rsplit(":", 1)
        self.key, self.lease_ms = request["key"], request["lease_ms"]
        timeout = request["request_timeout_ms"] / 1000
        # The client must not resend a count by itself.
        self.client = redis.Redis(
            host=host, port=int(port), socket_timeout=timeout, retry=Retry(NoBackoff(), 0)
        )
        return True

    def run(self, script, token, *more):
        keys = [self.key, self.key + ":readers"]
        return self.client.eval(self.scripts[script], 2, *keys, token, self.lease_ms, *more) == 1

    def acquire(self, number, mode):
        if isinstance(mode, dict) and mode["permits"] != 1:
            return {"answer": "unsupported"}  # one permit at a time
        began, token = time.monotonic_ns(), uuid.uuid4().hex
        if not self.run("acquire", token, "shared" if mode == "shared" else "exclusive"):
            return False
        self.grants[number] = token
        return {"answer": "ok", "token": token, "deadline_ns": began + self.lease_ms * 1_000_000}

    def await_zero(self, wait):
        end = time.monotonic() + wait
        while self.client.get(self.key) != b"0":
            if time.monotonic() >= end:
                return False
            time.sleep(min(0.02, max(0, end - time.monotonic())))
        return True


if __name__ == "__main__":
    Process(sys.argv[1]).listen()
