use super::{Backend, Ending, Flow, Input, Output, Postponer, RuledConnection};
use crate::engine::UnixMicros;
use crate::fault::{Delay, Disconnect, DropRequest, MessageRule, Partition, Plan, Rule, Sender};
use crate::resp::{ErrorReply, Limits, ProtocolError, Request};
use std::task::Waker;
use std::time::Duration;

/// Records what reaches the backend.
struct Recorder {
    plan: Plan,
    now: UnixMicros,
    output: Output,
    is_behind: bool,
    /// The requests, and `end` for an end that the rules have made.
    seen: Vec<String>,
}

struct NoPostponer;

impl Postponer for NoPostponer {
    fn note(&self, _: u64, _: Option<UnixMicros>, _: bool) {}

    fn gate_waker(&self) -> &Waker {
        Waker::noop()
    }
}

impl Backend for Recorder {
    type Postponer = NoPostponer;

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn ruled(&self) -> RuledConnection<'_, NoPostponer> {
        RuledConnection {
            plan: &self.plan,
            sender: Sender {
                client_id: 1,
                addr: "a:1",
                name: b"",
            },
            now: self.now,
            postponer: &NoPostponer,
        }
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn flow(&self) -> Flow {
        if self.is_behind || self.output.is_blocked() {
            Flow::Blocked
        } else {
            Flow::Open
        }
    }

    fn has_output_ended(&self) -> bool {
        self.output.is_blocked()
    }

    fn is_behind(&self) -> bool {
        self.is_behind
    }

    fn execute(&mut self, request: Request<'_>, _: bool) -> Flow {
        self.seen.push(request.to_owned().to_string());
        self.flow()
    }

    fn execute_unanswered(&mut self, request: Request<'_>) {
        self.execute(request, true);
    }

    fn refuse(&mut self, _: Request<'_>, _: ErrorReply) -> Flow {
        self.flow()
    }

    fn reject(&mut self, _: &ProtocolError) -> Flow {
        Flow::Silenced
    }

    fn silence_output(&mut self) {
        self.output.silence();
    }

    fn end(&mut self, ending: Ending) {
        self.seen.push("end".to_owned());
        self.output.end(ending);
    }
}

/// A connection whose client has sent SET and GET in one batch.
struct Connection {
    input: Input,
    backend: Recorder,
}

impl Connection {
    fn with<F>(rule: Option<Rule<F>>) -> Self
    where
        Rule<F>: MessageRule + 'static,
    {
        let backend = Recorder {
            plan: Plan::new(0),
            now: UnixMicros(0),
            output: Output::default(),
            is_behind: false,
            seen: Vec::new(),
        };
        if let Some(rule) = rule {
            backend.plan.install(Box::new(rule));
        }
        let mut input = Input::default();
        input.feed(b"SET k v\r\nGET k\r\n");
        Self { input, backend }
    }

    fn without_rules() -> Self {
        Self::with(None::<Rule<Delay>>)
    }

    /// Serves the connection at this time. Returns what has reached the backend, and whether the input has ended.
    fn at(&mut self, micros: i64) -> (Vec<String>, bool) {
        let now = UnixMicros(micros);
        self.backend.now = now;
        self.input.serve(&mut self.backend, now);
        let has_ended = self.input.has_ended(&self.backend, now);
        (std::mem::take(&mut self.backend.seen), has_ended)
    }
}

fn seen(requests: &[&str], has_ended: bool) -> (Vec<String>, bool) {
    (
        requests.iter().map(ToString::to_string).collect(),
        has_ended,
    )
}

#[test]
fn later_requests_and_the_end_wait_behind_a_postponed_request() {
    let rule = Delay::request(Duration::from_millis(10)).command("SET");
    let mut connection = Connection::with(Some(rule));
    connection.input.close();
    assert_eq!(connection.at(0), seen(&[], false));
    let due = connection.input.due(&connection.backend);
    assert_eq!(due, Some(UnixMicros(10_000)));
    assert_eq!(connection.at(9_999), seen(&[], false));
    assert_eq!(connection.at(10_000), seen(&["SET k v", "GET k"], true));
}

#[test]
fn a_backend_that_is_behind_takes_no_request_and_learns_of_no_end() {
    let mut connection = Connection::without_rules();
    connection.input.close();
    connection.backend.is_behind = true;
    assert_eq!(connection.at(0), seen(&[], false));
    connection.backend.is_behind = false;
    assert_eq!(connection.at(0), seen(&["SET k v", "GET k"], true));
}

#[test]
fn a_dropped_request_silences_the_input_and_not_its_end() {
    let rule = DropRequest::new().command("SET");
    let mut connection = Connection::with(Some(rule));
    assert_eq!(connection.at(0), seen(&[], false));
    connection.input.feed(b"PING\r\n");
    assert_eq!(connection.at(1), seen(&[], false));
    connection.input.close();
    assert_eq!(connection.at(2), seen(&[], true));
}

#[test]
fn an_end_before_execution_loses_later_requests() {
    let rule = Disconnect::before_execution().command("SET");
    let mut connection = Connection::with(Some(rule));
    assert_eq!(connection.at(0), seen(&["end"], false));
    assert_eq!(connection.at(1), seen(&[], false));
}

#[test]
fn a_partition_holds_the_end_until_it_is_healed() {
    let mut connection = Connection::without_rules();
    assert_eq!(connection.at(0), seen(&["SET k v", "GET k"], false));
    let (id, _) = connection.backend.plan.install(Box::new(Partition::new()));
    connection.input.close();
    assert_eq!(connection.at(1), seen(&[], false));
    assert!(connection.input.is_at_gate());
    connection.backend.plan.remove(id);
    assert_eq!(connection.at(2), seen(&[], true));
}
