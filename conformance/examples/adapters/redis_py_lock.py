"""redis-py's Lock, behind an adapter for `redouble-check foreign` (see conformance/ADAPTER.md).

    pip install redis==6.4.0
    redouble-check foreign -- python3 redis_py_lock.py

One Lock object a process, used by a thread for each task, as its default `thread_local=True` wants it;
the client has its default settings.
"""

import json
import os
import queue
import sys
import threading
import time

import redis
from redis.exceptions import LockError
from redis.lock import Lock


class TimedLock(Lock):
    """Remembers when the request was sent that took the lock: the lease counts from there at the earliest.

    redis-py tells no deadline; this is what its user can know.
    """

    def do_acquire(self, token):
        self.local.began = time.monotonic_ns()
        return super().do_acquire(token)


class Process:
    def __init__(self):
        self.lock = None
        self.lease_ms = 0
        self.tasks = {}
        self.output = threading.Lock()

    def say(self, line):
        with self.output:
            print(json.dumps(line), flush=True)

    def listen(self):
        self.say({"name": f"redis-py {redis.__version__} Lock", "waits": True})
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
            except LockError as error:  # it says that it did not happen
                answer = {"answer": "refused", "error": str(error)}
            except redis.RedisError as error:  # executed or not: unknown
                answer = {"answer": "unknown", "error": f"{type(error).__name__}: {error}"}
            self.say({"id": request["id"], **answer})

    def perform(self, request):
        op = request["op"]
        if op == "open":
            host, port = request["nodes"][0].rsplit(":", 1)
            self.lease_ms = request["lease_ms"]
            client = redis.Redis(host=host, port=int(port))
            self.lock = TimedLock(client, request["key"], timeout=self.lease_ms / 1000)
            return {"answer": "ok"}
        if op == "try":
            return self.granted(self.lock.acquire(blocking=False))
        if op == "acquire":
            return self.granted(self.lock.acquire(blocking_timeout=request["wait_ms"] / 1000))
        if op == "renew":
            began = time.monotonic_ns()
            self.lock.reacquire()
            return {"answer": "ok", "deadline_ns": self.deadline(began)}
        if op == "release":
            self.lock.release()
            return {"answer": "ok"}
        if op == "holds":
            return {"answer": "ok" if self.lock.owned() else "refused"}
        return {"answer": "unsupported"}

    def granted(self, taken):
        if not taken:
            return {"answer": "refused"}
        return {"answer": "ok", "deadline_ns": self.deadline(self.lock.local.began)}

    def deadline(self, began):
        return began + self.lease_ms * 1_000_000


if __name__ == "__main__":
    Process().listen()
