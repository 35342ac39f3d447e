//! Red packets: the first hundred guests get one. This needs no lock: the order of arrival at Redis decides.
//!
//! Run it: `cargo run -p redouble-lock --example red_packets`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use redouble::Server;
use redouble_lock::LockManager;
use std::error::Error;

const PACKETS: u32 = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let locks = LockManager::from_client(redis::Client::open(server.url())?).await?;
    let packets = locks.admission("packets:new-year", PACKETS);

    let mut tasks = tokio::task::JoinSet::new();
    for guest in 0..250 {
        let packets = packets.clone();
        tasks.spawn(async move {
            // By name, so that a guest that asks again after a lost reply gets the same place.
            packets.enter_as(format!("guest-{guest}")).await
        });
    }
    let mut places = Vec::new();
    while let Some(place) = tasks.join_next().await {
        places.extend(place??);
    }
    places.sort_unstable();
    assert!(places.iter().copied().eq(1..=PACKETS), "each place once");
    println!("250 guests, {} packets", places.len());
    Ok(())
}
