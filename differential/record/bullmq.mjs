// A day of a job queue, in a second: what a program that uses BullMQ sends to Redis.
// Usage: node bullmq.mjs PORT, with `bullmq` in a node_modules folder above this file.
import { FlowProducer, Queue, QueueEvents, UnrecoverableError, Worker } from 'bullmq';

const connection = { host: '127.0.0.1', port: Number(process.argv[2]), maxRetriesPerRequest: null };
const queue = new Queue('jobs', { connection });
const events = new QueueEvents('jobs', { connection });
await events.waitUntilReady();

const worker = new Worker('jobs', async job => {
  await job.updateProgress(50);
  await job.log('half');
  if (job.name === 'retried' && job.attemptsMade < 1) throw new Error('once');
  if (job.name === 'failing') throw new UnrecoverableError('always');
  return { name: job.name };
}, { connection, concurrency: 3, lockDuration: 1000 });
worker.on('error', () => {});

const finished = async job => job.waitUntilFinished(events, 5000).catch(() => {});
const jobs = await queue.addBulk([
  { name: 'plain', data: { n: 1 } },
  { name: 'plain', data: { n: 2 }, opts: { lifo: true } },
  { name: 'urgent', data: {}, opts: { priority: 1 } },
  { name: 'later', data: {}, opts: { priority: 9 } },
  { name: 'delayed', data: {}, opts: { delay: 50 } },
  { name: 'retried', data: {}, opts: { attempts: 2, backoff: { type: 'fixed', delay: 20 } } },
  { name: 'failing', data: {}, opts: { attempts: 2, removeOnFail: 10 } },
  { name: 'named', data: {}, opts: { jobId: 'one', removeOnComplete: true } },
  { name: 'once', data: {}, opts: { deduplication: { id: 'd', ttl: 100000 } } },
  { name: 'once', data: {}, opts: { deduplication: { id: 'd', ttl: 100000 } } },
]);
await Promise.all(jobs.map(finished));

const flow = new FlowProducer({ connection });
const tree = await flow.add({
  name: 'parent', queueName: 'jobs',
  children: [{ name: 'child', queueName: 'jobs' }, { name: 'child', queueName: 'jobs', opts: { failParentOnFailure: true } }],
});
await finished(tree.job);
await tree.job.getChildrenValues();

await queue.upsertJobScheduler('every', { every: 100000 }, { name: 'scheduled' });
await queue.getJobSchedulers();
await queue.removeJobScheduler('every');
await queue.pause();
const waiting = await queue.add('paused', {}, { priority: 3 });
await waiting.changePriority({ priority: 1 });
await waiting.updateData({ a: 1 });
await queue.add('postponed', {}, { delay: 100000 }).then(job => job.changeDelay(200000));
await queue.add('promoted', {}, { delay: 100000 }).then(job => job.promote());
await queue.getJobCounts();
await queue.getJobs(['wait', 'paused', 'prioritized', 'delayed', 'completed', 'failed']);
await queue.getMetrics('completed');
await queue.setGlobalConcurrency(2);
await queue.retryJobs({ count: 10 });
await waiting.remove();
await queue.resume();
await new Promise(done => setTimeout(done, 100));
await queue.clean(0, 100, 'completed');
await queue.clean(0, 100, 'failed');
await queue.trimEvents(5);
await queue.drain(true);
await worker.close();
await events.close();
await queue.obliterate({ force: true });
await flow.close();
await queue.close();
