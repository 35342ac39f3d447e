// redlock of npm, over ioredis, behind an adapter for `redouble-check foreign` (see
// conformance/ADAPTER.md).
//
//     npm install
//     redouble-check foreign -- node redlock.mjs        on one server
//     redouble-check foreign -- node redlock.mjs 3      on three
//
// Both packages have their default settings, but for one: redlock counts attempts and knows no time
// limit, so each try here is a single attempt, and the suite repeats them.

import { createInterface } from 'node:readline';
import Redis from 'ioredis';
import Redlock from 'redlock';

const nodes = Number(process.argv[2] ?? 1);
const grants = new Map();
let redlock;
let key;
let lease;
// Errors of single servers are events of the whole object: a call under way cannot know whether it is concerned.
let errors = 0;

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// Its deadline is on the wall clock, in milliseconds rounded down; CLOCK_MONOTONIC is wanted.
function deadline(lock) {
  const left = lock.expiration - Date.now() - 1;
  return Number(process.hrtime.bigint()) + left * 1_000_000;
}

function open(request) {
  ({ key, lease_ms: lease } = request);
  const clients = request.nodes.map((node) => {
    const [host, port] = node.split(':');
    const client = new Redis(Number(port), host);
    client.on('error', () => {}); // the call that waits for a reply gets the error too
    return client;
  });
  redlock = new Redlock(clients, { retryCount: 0 });
  redlock.on('clientError', () => {
    errors += 1;
  });
  return { answer: 'ok' };
}

// What it rejects with is a refusal, unless a server could not be asked meanwhile. redlock does not tell whether a majority refused;
// an adapter for a lock that does answers `refused` then, whatever the other servers did.
async function ask(action) {
  const before = errors;
  try {
    return await action();
  } catch (error) {
    const known = error instanceof Redlock.LockError && errors === before;
    return { answer: known ? 'refused' : 'unknown', error: error.message };
  }
}

const ops = {
  open,
  try: ({ id }) => ask(async () => {
    const lock = await redlock.lock(key, lease);
    grants.set(id, lock);
    return { answer: 'ok', deadline_ns: deadline(lock) };
  }),
  // An extension that fails removes what is left of the grant, so the grant is lost.
  renew: async ({ grant }) => {
    try {
      const lock = await grants.get(grant).extend(lease);
      return { answer: 'ok', deadline_ns: deadline(lock) };
    } catch (error) {
      return { answer: 'refused', error: error.message };
    }
  },
  release: ({ grant }) => ask(async () => {
    const lock = grants.get(grant);
    await lock.unlock();
    return { answer: 'ok' };
  }),
  holds: ({ grant }) => ({
    answer: grants.get(grant).expiration > Date.now() ? 'ok' : 'refused',
  }),
  crash: () => process.exit(1),
};

say({
  name: `redlock 4.2.0 on ${nodes}`,
  nodes,
  deadline: true,
  drift_ppm: 10_000, // its default driftFactor
});

const input = createInterface({ input: process.stdin });
input.on('line', async (line) => {
  const request = JSON.parse(line);
  const op = ops[request.op] ?? (() => ({ answer: 'unsupported' }));
  say({ id: request.id, ...(await op(request)) });
});
input.on('close', () => process.exit(0));
