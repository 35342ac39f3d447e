//! A lock per resource in a web service with axum: one request at a time settles an order, and the others get a status and a body
//! that say what to do.
//!
//! Run it: `cargo run -p redouble-lock --example axum`. It calls the service without a socket, on the test double. A real service
//! passes `router(shop)` to `axum::serve`.

#![allow(
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    clippy::print_stdout,
    reason = "an example shows what it does"
)]

use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use redouble_lock::{LockError, LockManager, Release};
use std::{error::Error, time::Duration};

/// Longest time for which a request waits for the lock. A client of the service tries again later; requests do not pile up.
const WAIT: Duration = Duration::from_millis(300);

/// The state of the service. One manager serves the whole process.
#[derive(Clone)]
struct Shop {
    locks: LockManager,
    /// Time that it takes to settle an order.
    work: Duration,
}

/// Reason why an order was not settled.
enum NotSettled {
    /// Another request held the lock of the order for the whole wait.
    Conflict,
    /// Redis failed, so it is unknown whether another request settles the order.
    NoLock(LockError),
    /// The lock was lost during the work.
    LockLost,
}

impl From<LockError> for NotSettled {
    fn from(error: LockError) -> Self {
        match error {
            error if error.is_contended() => Self::Conflict,
            error => Self::NoLock(error),
        }
    }
}

impl IntoResponse for NotSettled {
    fn into_response(self) -> Response {
        let (status, body) = match self {
            Self::Conflict => (
                StatusCode::CONFLICT,
                "another request is settling this order: try again later\n".to_owned(),
            ),
            Self::NoLock(error) => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("nothing was done, because the order could not be locked: {error}\n"),
            ),
            Self::LockLost => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the lock was lost, and the work was stopped: look at the order before you try again\n".to_owned(),
            ),
        };
        (status, [(header::RETRY_AFTER, "1")], body).into_response()
    }
}

/// Settles an order. If the client disconnects, axum drops this future, and the lock is released in the background.
async fn settle(State(shop): State<Shop>, Path(order): Path<u64>) -> Result<String, NotSettled> {
    let lock = shop.locks.mutex(format!("order:{order}")).build()?;
    let guard = lock.lock_timeout(WAIT).await?;
    // Stops at its next await if the lease is lost.
    let work = guard.run(tokio::time::sleep(shop.work)).await;
    work.map_err(|_| NotSettled::LockLost)?;
    match guard.release().await {
        Release::Released => Ok(format!("order {order} is settled\n")),
        _ => Err(NotSettled::LockLost),
    }
}

fn router(shop: Shop) -> Router {
    Router::new()
        .route("/orders/{order}/settle", post(settle))
        .with_state(shop)
}

/// Sends a request to the service. Returns the status and the body of the answer.
async fn ask(
    service: Router,
    order: u64,
) -> Result<(StatusCode, String), Box<dyn Error + Send + Sync>> {
    use axum::{body, http::Request};
    use tower::ServiceExt as _;
    let request = Request::post(format!("/orders/{order}/settle")).body(body::Body::empty())?;
    let answer = service.oneshot(request).await?;
    let status = answer.status();
    let body = body::to_bytes(answer.into_body(), 1_024).await?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let server = redouble::Server::start().await?;
    let locks = LockManager::from_client(redis::Client::open(server.url())?).await?;
    let service = router(Shop {
        locks,
        work: 2 * WAIT,
    });
    let first = tokio::spawn(ask(service.clone(), 17));
    tokio::time::sleep(WAIT / 10).await;
    println!("order 17, again: {:?}", ask(service.clone(), 17).await?);
    println!("order 18:        {:?}", ask(service, 18).await?);
    println!("order 17, first: {:?}", first.await??);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use redouble::{Clock, Server};

    type Test = Result<(), Box<dyn Error + Send + Sync>>;

    /// A service whose orders take `work`, and its server.
    async fn service(work: Duration) -> Result<(Router, Server), Box<dyn Error + Send + Sync>> {
        let server = Server::builder().clock(Clock::Tokio).start().await?;
        let locks = LockManager::builder(server.connection().await?)
            .default_lease(Duration::from_secs(10))
            .watchdog(true)
            .build();
        Ok((router(Shop { locks, work }), server))
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_at_a_time_settles_an_order() -> Test {
        let (service, _server) = service(Duration::from_secs(60)).await?;
        let first = tokio::spawn(ask(service.clone(), 17));
        tokio::task::yield_now().await;
        let (status, body) = ask(service.clone(), 17).await?;
        assert_eq!(status, StatusCode::CONFLICT, "{body}");
        assert!(body.contains("try again"), "{body}");
        let (status, _) = ask(service.clone(), 18).await?;
        assert_eq!(status, StatusCode::OK);
        let (status, body) = first.await??;
        assert_eq!((status, &*body), (StatusCode::OK, "order 17 is settled\n"));
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_disconnects_releases_the_order() -> Test {
        let (service, _server) = service(Duration::from_secs(60)).await?;
        let gone = tokio::time::timeout(Duration::from_secs(1), ask(service.clone(), 17)).await;
        assert!(gone.is_err());
        let (status, body) = ask(service, 17).await?;
        assert_eq!(status, StatusCode::OK, "{body}");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn without_redis_nothing_is_done() -> Test {
        let (service, server) = service(Duration::ZERO).await?;
        let _pause = server.pause();
        let (status, body) = ask(service, 17).await?;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(body.starts_with("nothing was done"), "{body}");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_lock_stops_the_work_and_is_reported() -> Test {
        let (service, server) = service(Duration::from_secs(3_600)).await?;
        let request = tokio::spawn(ask(service, 17));
        tokio::task::yield_now().await;
        let _pause = server.pause();
        let (status, body) = request.await??;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(body.starts_with("the lock was lost"), "{body}");
        Ok(())
    }
}
