// A small lock, tested in Node without anything but what it brings.
//
//     redouble run --control --clock manual -- node lock.mjs
//
// `redouble run` starts a server and tells where it is. `REDOUBLE.*` are its own commands, which any
// client can send; each has HELP.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createConnection } from "node:net";

/** One value of RESP2 from the beginning of `bytes`, and where it ends; nothing if it is not whole. */
function parse(bytes, at = 0) {
  const end = bytes.indexOf("\r\n", at);
  if (end < 0) return undefined;
  const [kind, rest, next] = [bytes[at], bytes.slice(at + 1, end), end + 2];
  if (kind === "+") return [rest, next];
  if (kind === "-") return [new Error(rest), next];
  if (kind === ":") return [Number(rest), next];
  if (rest === "-1") return [null, next];
  if (kind === "$") {
    const last = next + Number(rest);
    return bytes.length < last + 2 ? undefined : [bytes.slice(next, last), last + 2];
  }
  assert.equal(kind, "*", "RESP2");
  const items = [];
  let from = next;
  for (let n = Number(rest); n > 0; n -= 1) {
    const item = parse(bytes, from);
    if (!item) return undefined;
    items.push(item[0]);
    from = item[1];
  }
  return [items, from];
}

/** A client of Redis: a function that sends words and gives a promise of the reply. */
async function connect() {
  const socket = createConnection(Number(process.env.REDIS_PORT), process.env.REDIS_HOST);
  socket.setEncoding("latin1");
  await once(socket, "connect");
  const waiting = [];
  let bytes = "";
  let gone;
  socket.on("data", (more) => {
    bytes += more;
    for (let found = parse(bytes); found; found = parse(bytes)) {
      bytes = bytes.slice(found[1]);
      const { resolve, reject } = waiting.shift();
      if (found[0] instanceof Error) reject(found[0]);
      else resolve(found[0]);
    }
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    gone = Object.assign(new Error("the connection has ended"), { isLost: true });
    waiting.splice(0).forEach(({ reject }) => reject(gone));
  });
  const redis = (...words) => new Promise((resolve, reject) => {
    if (gone) return reject(gone);
    waiting.push({ resolve, reject });
    const args = words.map((word) => `$${String(word).length}\r\n${word}\r\n`);
    return socket.write(`*${words.length}\r\n${args.join("")}`, "latin1");
  });
  open.push(socket);
  return redis;
}

const open = [];

/** The code under test: a token per lock, SET NX GET, compare and delete. */
class Lock {
  static RELEASE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";

  constructor(key, leaseMs) {
    Object.assign(this, { key, leaseMs, token: randomBytes(16).toString("hex") });
  }

  async acquire() {
    for (let attempt = 0; attempt < 3; attempt += 1) {
      try {
        this.redis ??= await connect();
        // GET tells an attempt whose reply was lost that it had succeeded.
        const owner = await this.redis("SET", this.key, this.token, "NX", "GET", "PX", this.leaseMs);
        return owner === null || owner === this.token;
      } catch (error) {
        if (!error.isLost) throw error;
        this.redis = undefined;
      }
    }
    return false;
  }

  async release() {
    return (await this.redis("EVAL", Lock.RELEASE, 1, this.key, this.token)) === 1;
  }
}

const tests = {
  async "a lock excludes until its lease has passed"(control) {
    const [first, second] = [new Lock("lock", 30_000), new Lock("lock", 30_000)];
    assert(await first.acquire());
    assert(!(await second.acquire()));
    await control("REDOUBLE.CLOCK", "ADVANCE", 30_000);
    assert(!(await second.acquire())); // expired only when now > deadline
    await control("REDOUBLE.CLOCK", "ADVANCE", 1);
    assert(await second.acquire());
    assert(!(await first.release()));
    assert(await second.release());
  },

  async "a clock jump of the server takes the lock away"(control) {
    const [first, second] = [new Lock("lock", 30_000), new Lock("lock", 30_000)];
    assert(await first.acquire());
    await control("REDOUBLE.CLOCK", "JUMP", 31_000); // as an operator or a time server may
    assert(await second.acquire(), "no time has passed, and both hold it: this is what fences are for");
    assert(!(await first.release()));
  },

  async "a lost reply does not lock its owner out"(control) {
    const words = "disconnect DIRECTION reply COMMAND SET KEY lock NTH 1".split(" ");
    const fault = await control("REDOUBLE.FAULT", "ADD", ...words);
    const lock = new Lock("lock", 30_000);
    assert(await lock.acquire(), "executed, never answered, asked again");
    assert.equal(await control("REDOUBLE.FAULT", "FIRED", fault), 1);
    const claims = (await control("REDOUBLE.HISTORY")).filter(([, , command]) => command[0] === "SET");
    assert.deepEqual(claims.map(([, , , reply]) => reply), ["$-1\r\n", `$32\r\n${lock.token}\r\n`]);
    assert(await lock.release());
  },
};

const control = await connect();
for (const [name, test] of Object.entries(tests)) {
  await control("REDOUBLE.RESET");
  await test(control);
  console.log("ok", name);
}
open.forEach((socket) => socket.destroy());
