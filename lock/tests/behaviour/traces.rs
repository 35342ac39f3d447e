//! The spans and events are those that the documentation of the crate lists.

use super::rig::{KEY, LEASE, Test, ask, locks, pass, server};
use redouble::fault::AnswerError;
use redouble_lock::{BoxFuture, Environment, LockManager, LossReason, NoRuntime, Tokio};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tracing::{Event, Id, Metadata, Subscriber, field::Visit, span};

/// Notes the spans and events of the crate, as rows of the documentation.
#[derive(Clone, Default)]
struct Notes {
    rows: Arc<Mutex<BTreeSet<String>>>,
    spans: Arc<AtomicU64>,
}

impl Notes {
    fn note(&self, what: &str, metadata: &Metadata<'_>) {
        let level = metadata.level().to_string().to_lowercase();
        let fields = metadata.fields().iter().map(|field| field.name());
        let fields = fields.filter(|name| *name != "message");
        let fields: Vec<_> = fields.map(|name| format!("`{name}`")).collect();
        let cells = [
            what,
            &format!("`{}`", metadata.name()),
            &level,
            &fields.join(", "),
        ]
        .join("|");
        self.rows.lock().unwrap().insert(cells);
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redouble_lock")
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> Id {
        self.note("span", span.metadata());
        Id::from_u64(1 + self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn event(&self, event: &Event<'_>) {
        assert_eq!(event.metadata().target(), "redouble_lock");
        self.note("event", event.metadata());
        let mut fields = Fields::default();
        event.record(&mut fields);
        assert!(fields.0.iter().all(|value| !value.is_empty()), "{event:?}");
    }

    fn record(&self, _: &Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.0.push(format!("{value:?}"));
    }
}

/// Tokio without a runtime for background tasks.
struct NoTasks;

impl Environment for NoTasks {
    fn now(&self) -> Duration {
        Tokio.now()
    }

    fn sleep_until(&self, deadline: Duration) -> BoxFuture<'static, ()> {
        Tokio.sleep_until(deadline)
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) -> Result<(), NoRuntime> {
        Err(NoRuntime)
    }

    fn random(&self) -> [u8; 16] {
        Tokio.random()
    }
}

/// The rows of the table, without what they mean.
fn documented() -> BTreeSet<String> {
    let rows = include_str!("../../src/lib.rs").lines();
    let rows = rows.filter_map(|row| row.strip_prefix("//! | "));
    let rows = rows.filter(|row| row.starts_with("span | `") || row.starts_with("event | `"));
    let cells = rows.map(|row| row.split('|').map(str::trim).take(4).collect::<Vec<_>>());
    cells.map(|cells| cells.join("|")).collect()
}

#[tokio::test(start_paused = true)]
async fn the_emitted_spans_and_events_are_those_documented() -> Test {
    // As long as there is only one subscriber, tracing asks only that of the thread that reaches a span or an event first. A thread
    // of another test has none, and would turn the span off for all threads.
    let _second = tracing::Dispatch::new(Notes::default());
    let notes = Notes::default();
    let _subscribed = tracing::subscriber::set_default(notes.clone());
    let server = server().await;

    let locks = locks(&server);
    let lock = locks.mutex(KEY).lease(LEASE).watchdog(true).build()?;
    let guard = lock.try_lock().await?;
    let refuse = server.inject(AnswerError::new("BUSY a script runs").command("EVALSHA"));
    assert_eq!(guard.lost().await, LossReason::Expired);
    drop(refuse);
    drop(guard);
    pass(LEASE).await;

    // Released in the background, without success.
    let guard = lock.try_lock().await?;
    let refuse = server.inject(AnswerError::new("BUSY a script runs").command("EVALSHA"));
    drop(guard);
    pass(LEASE * 2).await;
    drop(refuse);

    let alone = LockManager::builder(server.connection().await?);
    let alone = alone.environment(NoTasks).build();
    drop(alone.mutex("alone").build()?.try_lock().await?);

    // A user that may not subscribe.
    let user = ["ACL", "SETUSER", "default", "-subscribe"];
    ask::<String>(&server, &user).await;
    let guard = locks.mutex("other").build()?.try_lock().await?;
    let waits = locks.mutex("other").build()?.lock_timeout(LEASE).await;
    assert!(waits.unwrap_err().is_timed_out());
    drop(guard);

    let emitted = notes.rows.lock().unwrap().clone();
    assert_eq!(emitted, documented());
    Ok(())
}
