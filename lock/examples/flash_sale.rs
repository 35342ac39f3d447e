//! A flash sale: one order for each user and product, however many devices and workers there are.
//!
//! Every device of a user sends its order to one of the workers. The workers share only Redis and the
//! table of orders. The worker that holds the lock checks whether there is an order, and adds one if not.
//!
//! Run it: `cargo run -p redouble-lock --example flash_sale`

#![allow(
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example shows what it does"
)]

use redouble::Server;
use redouble_lock::{LockError, LockManager, Release};
use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Stand-in for the database: orders by user and product, without any constraint.
#[derive(Default)]
struct Orders(Mutex<BTreeMap<(u32, u32), Vec<String>>>);

impl Orders {
    fn has(&self, user: u32, product: u32) -> bool {
        self.0
            .lock()
            .is_ok_and(|orders| orders.contains_key(&(user, product)))
    }

    fn insert(&self, user: u32, product: u32, device: String) {
        if let Ok(mut orders) = self.0.lock() {
            orders.entry((user, product)).or_default().push(device);
        }
    }
}

/// Takes an order. Returns true if the order of this device is the one that counts.
async fn order(
    locks: &LockManager,
    orders: &Orders,
    (user, product): (u32, u32),
    device: String,
) -> Result<bool, LockError> {
    let key = format!("order:userid:{user}:productid:{product}");
    let lock = locks.mutex(key).lease(Duration::from_secs(10)).build()?;
    let guard = lock.lock_timeout(Duration::from_secs(5)).await?;
    let made = guard
        .run(async {
            if orders.has(user, product) {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(2)).await; // the time of the database
            orders.insert(user, product, device);
            true
        })
        .await?;
    match guard.release().await {
        Release::Released => {}
        outcome => eprintln!("ordered, but the lock was not held to the end: {outcome:?}"),
    }
    Ok(made)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let orders = Arc::new(Orders::default());
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..4 {
        // Each worker is a process of its own, with its own connection.
        let client = redis::Client::open(server.url())?;
        let locks = LockManager::from_client(client).await?;
        for user in 1..=3 {
            for device in 0..5 {
                let (locks, orders) = (locks.clone(), Arc::clone(&orders));
                let device = format!("device {device} at worker {worker}");
                tasks.spawn(async move { order(&locks, &orders, (user, 1), device).await });
            }
        }
    }
    let mut made = 0;
    while let Some(outcome) = tasks.join_next().await {
        made += usize::from(outcome??);
    }
    let orders = orders.0.lock().map_err(|_| "a worker panicked")?;
    for ((user, product), devices) in orders.iter() {
        println!("user {user}, product {product}: {}", devices.join(", "));
        assert_eq!(devices.len(), 1, "one order for each user and product");
    }
    assert_eq!((made, orders.len()), (3, 3));
    println!("60 attempts, {made} orders");
    Ok(())
}
