import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Puts a lock of Redisson under the load of `redouble-check bench`: each thread acquires the lock, holds it, releases it and begins
 * again. Redisson has its default settings. See ../README.md for the arguments and the protocol.
 */
public final class Load {
    /** Longest wait for the lock, and its lease. */
    private static final long WAIT_MS = 10_000;
    /** Time under load before the measurement, in which the virtual machine compiles the code. */
    private static final long WARM_UP_MS = 2_000;

    private static final AtomicInteger holders = new AtomicInteger();
    private static final AtomicLong overlaps = new AtomicLong();
    private static final AtomicLong failed = new AtomicLong();
    private static final CountDownLatch start = new CountDownLatch(1);
    /** True during the measurement. */
    private static volatile boolean counting;
    private static volatile boolean over;

    /** One thread's way to the lock. */
    interface Lock {
        boolean acquire() throws Exception;

        void release();
    }

    /** A thread with its results. Only the thread writes them; they are read without a lock when the load is over. */
    static final class Caller extends Thread {
        final Lock lock;
        final int capacity;
        final long holdNanos;
        volatile long cycles;
        volatile long[] acquired = new long[1024];
        volatile int granted;

        Caller(Lock lock, int capacity, long holdNanos) {
            this.lock = lock;
            this.capacity = capacity;
            this.holdNanos = holdNanos;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                start.await();
                while (!over) {
                    cycle();
                }
            } catch (Exception error) {
                failed.incrementAndGet();
                System.err.println(error);
            }
        }

        private void cycle() throws Exception {
            long asked = System.nanoTime();
            if (!lock.acquire()) {
                if (counting) {
                    failed.incrementAndGet();
                }
                return;
            }
            long now = System.nanoTime();
            if (holders.incrementAndGet() > capacity) {
                overlaps.incrementAndGet();
            }
            if (counting) {
                if (granted == acquired.length) {
                    acquired = Arrays.copyOf(acquired, 2 * granted);
                }
                acquired[granted] = now - asked;
                granted++;
            }
            while (System.nanoTime() - now < holdNanos) {
                Thread.yield();
            }
            holders.decrementAndGet();
            lock.release();
            if (counting) {
                cycles++;
            }
        }
    }

    private static Lock lock(String kind, RedissonClient client, String key) {
        if (kind.equals("semaphore")) {
            RSemaphore semaphore = client.getSemaphore(key);
            return new Lock() {
                public boolean acquire() throws Exception {
                    return semaphore.tryAcquire(1, Duration.ofMillis(WAIT_MS));
                }

                public void release() {
                    semaphore.release();
                }
            };
        }
        RLock lock = kind.equals("fair") ? client.getFairLock(key) : client.getLock(key);
        return new Lock() {
            public boolean acquire() throws Exception {
                return lock.tryLock(WAIT_MS, WAIT_MS, TimeUnit.MILLISECONDS);
            }

            public void release() {
                lock.unlock();
            }
        };
    }

    public static void main(String[] args) throws Exception {
        String address = args[0];
        String kind = args[1];
        int clients = Integer.parseInt(args[2]);
        int tasks = Integer.parseInt(args[3]);
        long seconds = Long.parseLong(args[4]);
        long holdMicros = Long.parseLong(args[5]);
        int capacity = kind.equals("semaphore") ? Integer.parseInt(args[6]) : 1;
        String key = "redisson-load";
        List<Caller> callers = new ArrayList<>();
        for (int client = 0; client < clients; client++) {
            Config config = new Config();
            config.useSingleServer().setAddress("redis://" + address);
            RedissonClient redisson = Redisson.create(config);
            if (kind.equals("semaphore")) {
                redisson.getSemaphore(key).trySetPermits(capacity);
            }
            for (int task = 0; task < tasks; task++) {
                callers.add(new Caller(lock(kind, redisson, key), capacity, holdMicros * 1_000));
            }
        }
        // Each caller once, so that it is connected.
        for (Caller caller : callers) {
            if (!caller.lock.acquire()) {
                throw new IllegalStateException("the lock is not free");
            }
            caller.lock.release();
        }
        callers.forEach(Thread::start);
        start.countDown();
        Thread.sleep(WARM_UP_MS);
        System.out.println("ready");
        if (System.in.read() < 0) {
            return;
        }
        long began = System.nanoTime();
        counting = true;
        Thread.sleep(seconds * 1_000);
        counting = false;
        over = true;
        report(callers, (System.nanoTime() - began) / 1e9);
        // Threads that still wait end with the process.
        Runtime.getRuntime().halt(0);
    }

    private static void report(List<Caller> callers, double seconds) {
        List<String> cycles = new ArrayList<>();
        long count = 0;
        for (Caller caller : callers) {
            cycles.add(Long.toString(caller.cycles));
            count += caller.granted;
        }
        long[] acquired = new long[(int) count];
        int at = 0;
        for (Caller caller : callers) {
            int granted = Math.min(caller.granted, acquired.length - at);
            System.arraycopy(caller.acquired, 0, acquired, at, granted);
            at += granted;
        }
        Arrays.sort(acquired);
        System.out.println(String.format(
                Locale.ROOT,
                "{\"seconds\": %.3f, \"cycles\": [%s], \"acquire_p50_us\": %.0f, \"acquire_p99_us\": %.0f, \"failed\": %d, \"overlaps\": %d}",
                seconds,
                String.join(", ", cycles),
                share(acquired, 0.5),
                share(acquired, 0.99),
                failed.get(),
                overlaps.get()));
        System.out.flush();
    }

    private static double share(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, share * sorted.length)] / 1e3;
    }
}
