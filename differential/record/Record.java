// What a program that uses the locks and maps of Redisson sends to Redis. Usage: java Record PORT.
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

public final class Record {
    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + arguments[0])
            .setConnectionMinimumIdleSize(2).setConnectionPoolSize(8);
        config.setCodec(new StringCodec());
        config.setLockWatchdogTimeout(600);
        RedissonClient client = Redisson.create(config);

        for (RLock lock : new RLock[] {
            client.getLock("lock"), client.getFairLock("fair"),
            client.getFencedLock("fenced"), client.getReadWriteLock("rw").readLock(),
            client.getReadWriteLock("rw").writeLock()
        }) {
            lock.lock();
            Thread waiter = new Thread(() -> {
                try {
                    if (lock.tryLock(2, 5, TimeUnit.SECONDS)) {
                        lock.unlock();
                    }
                    lock.tryLock(0, 5, TimeUnit.SECONDS);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            });
            waiter.start();
            Thread.sleep(250);
            lock.lock();
            lock.isHeldByCurrentThread();
            lock.remainTimeToLive();
            lock.unlock();
            lock.unlock();
            waiter.join();
            lock.forceUnlock();
        }
        client.getMultiLock(client.getLock("m1"), client.getLock("m2")).lock();

        RSemaphore semaphore = client.getSemaphore("semaphore");
        semaphore.trySetPermits(2);
        semaphore.acquire(2);
        semaphore.tryAcquire(1, Duration.ofMillis(20));
        semaphore.release(2);
        semaphore.drainPermits();
        RPermitExpirableSemaphore permits = client.getPermitExpirableSemaphore("permits");
        permits.trySetPermits(2);
        String permit = permits.acquire(5, TimeUnit.SECONDS);
        permits.updateLeaseTime(permit, 9, TimeUnit.SECONDS);
        permits.tryAcquire(10, 5, TimeUnit.SECONDS);
        permits.tryAcquire(10, 5, TimeUnit.SECONDS);
        permits.release(permit);
        permits.availablePermits();
        RCountDownLatch latch = client.getCountDownLatch("latch");
        latch.trySetCount(2);
        latch.countDown();
        latch.countDown();
        latch.await();

        RRateLimiter limiter = client.getRateLimiter("limiter");
        limiter.trySetRate(RateType.OVERALL, 3, Duration.ofSeconds(100));
        for (int at = 0; at < 4; at++) {
            limiter.tryAcquire();
        }
        limiter.availablePermits();

        RMapCache<String, String> map = client.getMapCache("map");
        map.put("a", "1");
        map.put("b", "2", 100, TimeUnit.SECONDS, 50, TimeUnit.SECONDS);
        map.putIfAbsent("b", "3", 100, TimeUnit.SECONDS);
        map.fastPut("c", "4", 200, TimeUnit.SECONDS);
        map.get("b");
        map.getAll(java.util.Set.of("a", "b", "z"));
        map.replace("a", "5");
        map.addAndGet("n", 2);
        map.remainTimeToLive("b");
        map.remove("a");
        map.size();
        map.readAllEntrySet();
        map.clear();

        RSetCache<String> set = client.getSetCache("set");
        set.add("a", 100, TimeUnit.SECONDS);
        set.contains("a");
        RBucket<String> bucket = client.getBucket("bucket");
        bucket.set("v", Duration.ofSeconds(100));
        bucket.compareAndSet("v", "w");
        bucket.getAndDelete();
        RScoredSortedSet<String> scores = client.getScoredSortedSet("scores");
        scores.add(1, "a");
        scores.addScore("a", 2);
        scores.pollFirst();
        RDelayedQueue<String> delayed = client.getDelayedQueue(client.<String>getBlockingQueue("queue"));
        delayed.offer("late", 50, TimeUnit.MILLISECONDS);
        client.getBlockingQueue("queue").poll(500, TimeUnit.MILLISECONDS);
        delayed.destroy();
        RAtomicLong counter = client.getAtomicLong("counter");
        counter.incrementAndGet();
        counter.compareAndSet(1, 5);
        client.getBloomFilter("bloom").tryInit(1000, 0.03);
        client.getTopic("topic").publish("message");
        client.shutdown();
    }
}
