//! Kinds of code in which the mistakes of the listed locks occur, by id without the letter of the variant.

/// Returns the kind of code in which the mistake of a listed lock occurs.
pub(super) fn met(id: &str) -> Option<&'static str> {
    let is_variant = |letter: &str| letter.bytes().all(|byte| byte.is_ascii_lowercase());
    let mut rows = MET.iter();
    let row = rows.find(|(of, _)| id.strip_prefix(of).is_some_and(is_variant));
    row.map(|&(_, code)| code)
}

/// Pairs of an id and a description of such code.
const MET: &[(&str, &str)] = &[
    (
        "seed-A1",
        "the pattern of the SET page in the Redis documentation, and most wrappers of it",
    ),
    ("seed-A2", "sales and lotteries: \"the first hundred win\""),
    (
        "seed-B1",
        "services that copied the watchdog idea of Redisson into a script of their own",
    ),
    (
        "seed-B2",
        "home-grown versions of Redisson's reentrant lock",
    ),
    ("seed-C1", "the Redlock page of the Redis documentation"),
    (
        "seed-C2",
        "locks behind Sentinel or a managed service with automatic failover",
    ),
    ("seed-C3", "Redisson on one cluster, described as Redlock"),
    (
        "seed-D0",
        "the first version of many flash sales, before the second server",
    ),
    ("seed-D1", "the second version: SETNX from a tutorial"),
    (
        "seed-D2",
        "the third version, after the first crash left a key behind",
    ),
    (
        "seed-D3",
        "the fourth version; still the most frequent one in blog posts",
    ),
    (
        "seed-D4",
        "the fifth version, after a foreign lock was deleted",
    ),
    (
        "seed-D5",
        "services on servers older than Redis 2.6.12, which lack SET NX PX",
    ),
    ("seed-D6", "services whose owner is the id of a Java thread"),
    (
        "seed-D7",
        "services with a static UUID and a thread id, before they became asynchronous",
    ),
    (
        "seed-E1",
        "the former recipe of the SETNX page in the Redis documentation",
    ),
    ("seed-E2", "release scripts that check EXISTS first"),
    (
        "B01",
        "tutorials older than SET NX PX; libraries whose timeout is optional",
    ),
    (
        "B02",
        "blog posts; libraries with a switch for \"unsafe\" updates",
    ),
    (
        "B03",
        "clients without scripts; code that was ported from a local mutex",
    ),
    (
        "B04",
        "the former recipe of the SETNX page in the Redis documentation",
    ),
    (
        "B05",
        "token = thread id, host name or request id; workers that fork after seeding",
    ),
    (
        "B06",
        "lock classes that draw their token in the constructor",
    ),
    ("B07", "try/finally blocks around tryLock"),
    (
        "B08",
        "locks for threads that are used from asynchronous code",
    ),
    (
        "B09",
        "reentrant locks on clients that resend after a timeout",
    ),
    (
        "B10",
        "release scripts that return 1 for a missing key; clients that resend",
    ),
    (
        "B11",
        "lock classes that clear their field before the round trip",
    ),
    (
        "B12",
        "asynchronous clients under timeout or select; guards dropped without a runtime",
    ),
    (
        "B13",
        "wrappers that catch every exception and return null or false",
    ),
    (
        "B14",
        "schedulers that cancel a periodic task when it throws",
    ),
    (
        "B15",
        "watchdogs started in a callback; reentrant locks with one watchdog per entry",
    ),
    ("B16", "maps from lock name to watchdog"),
    ("B17", "read-write locks on one hash with one expiry"),
    ("B18", "\"extend\" written as SET with an expiry"),
    (
        "B19",
        "watchdogs that log errors and go on; abort callbacks behind a retry loop",
    ),
    ("B20", "Redlock libraries that skip step 3 of the algorithm"),
    ("B21", "libraries that take the time after the await"),
    ("B22", "libraries in languages with unsigned durations"),
    (
        "B23",
        "libraries that use the wall clock instead of a monotonic one",
    ),
    (
        "B24",
        "quorums computed as N/2, or from the nodes that answered",
    ),
    ("B25", "Redlock libraries that throw on the first failure"),
    (
        "B26",
        "Redlock libraries that remember where they succeeded",
    ),
    (
        "B27",
        "Redlock libraries that return early or cancel requests",
    ),
    (
        "B28",
        "Redlock libraries that keep one token for all retries",
    ),
    (
        "B29",
        "Redlock libraries that unlock when an extension fails",
    ),
    ("B30", "Redlock libraries that treat a node error as fatal"),
    (
        "B31",
        "nodes without persistence, with FLUSHALL, or with an evicting memory policy",
    ),
    (
        "B32",
        "any lock whose resource does not check fencing tokens",
    ),
    (
        "B33",
        "Sentinel, cluster and managed failover; code that ignores the reply of WAIT",
    ),
    ("B34", "fencing tokens that are bolted on beside the lock"),
    (
        "B35",
        "waiting by pub/sub or keyspace events, written without a second check",
    ),
    (
        "B36",
        "waiting by BLPOP on a signal list; pub/sub without a timer",
    ),
    ("B37", "fair locks on lists and sorted sets"),
    ("B38", "read-write locks made of two keys"),
    (
        "B39",
        "semaphores made of INCR and DECR; multi-key locks made of a loop",
    ),
    (
        "B40",
        "libraries that mix seconds, milliseconds and floating point",
    ),
    ("B41", "reentrant locks whose calls take different leases"),
    ("B42", "code that was written for one server"),
    (
        "B43",
        "wrappers that map errors to null, where null means \"no lock before\"",
    ),
    (
        "B44",
        "watchdogs of all locks on a small shared thread pool",
    ),
    ("B45", "rate limits, coupons and quotas made of INCR"),
    (
        "B46",
        "resources that check fencing tokens only where they write",
    ),
    ("B47", "attempts to give Redlock fencing tokens"),
    (
        "B48",
        "services that initialise their sequence when they start",
    ),
    (
        "B49",
        "release scripts with one return value for two meanings",
    ),
    ("B50", "libraries that pass a duration to EX or EXPIRE"),
];
