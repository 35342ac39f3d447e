//! Serving one connection: requests from its input, one after the other, until something stops it.

use super::delivery::{bound, sender};
use super::{SharedNode, lock};
use crate::client_connection::{ClientConnection, Ending, Gone, Held, Input, Output};
use crate::control_queue::ControlRoute;
use crate::engine::{ConnId, NodeApi, Outcome, UnixMicros};
use crate::fault::{Decision, Direction, Fate};
use crate::history::Entry;
use crate::resp::{ErrorReply, OwnedRequest, Protocol, Reply, Request, encode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Replies of one batch from which on the output is bounded.
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// The same at the end of a batch.
const LARGE_BYTES: usize = 64 * 1024;

/// How far a connection was served.
pub(super) enum Served {
    /// There is nothing to do until more comes.
    All,
    /// A request has effects on others, which come before the next request.
    UpToEffects,
}

impl SharedNode {
    /// Executes what a connection has sent, up to the first request with effects on others.
    pub(super) fn serve_batch(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        link: &Arc<ClientConnection>,
        input: &mut Input,
        now: UnixMicros,
    ) -> Served {
        link.take_what_came(input);
        if self.is_down() {
            self.forget(api, link);
            link.output().abandon();
            return Served::All;
        }
        if self.crashed.load(Ordering::Acquire) {
            link.output().end(Ending::Reset);
            return Served::All;
        }
        let node_time = self.node_time(now);
        let Some(conn) = self.session(api, link, node_time) else {
            return Served::All;
        };
        let site = Site {
            shared: self,
            link,
            conn,
            now,
            node_time,
        };
        let Input {
            decoder,
            held,
            parked,
            silenced,
            replies,
            ..
        } = input;
        let is_ruled = !self.plan.is_empty();
        let mut flow = Flow::after(&link.output());
        let served = loop {
            if flow != Flow::Open || parked.is_some() || *silenced {
                break Served::All;
            }
            if let Some(arrived) = held.take() {
                if !arrived.wait.is_over(now) {
                    *held = Some(arrived);
                    break Served::All;
                }
                if let Some(request) = arrived.request.as_request() {
                    flow = site.meet(api, request, arrived.instead, arrived.fate, parked);
                }
            } else {
                let request = match decoder.next(&api.limits(conn)) {
                    Ok(Some(request)) => request,
                    Ok(None) => break Served::All,
                    Err(error) => {
                        let mut output = link.output();
                        output.append(replies);
                        if !error.is_silent() {
                            let error =
                                ErrorReply::from_bytes([b"ERR ", &*error.to_bytes()].concat());
                            output.write(&error.into(), api.protocol(conn));
                        }
                        output.end(Ending::Close);
                        api.disconnect(conn);
                        break Served::All;
                    }
                };
                if self.orders.are_taken() {
                    match self.orders.sort(request, api.limits(conn).authenticated) {
                        ControlRoute::ForTheNode => {}
                        ControlRoute::Order => {
                            *parked = Some(request.to_owned());
                            self.orders.push(link);
                            break Served::All;
                        }
                        ControlRoute::Refused(why) => {
                            let mut output = link.output();
                            output.append(replies);
                            output.write(&Reply::error(why), api.protocol(conn));
                            flow = Flow::after(&output);
                            continue;
                        }
                    }
                }
                if is_ruled {
                    let decision = self.plan.on_request(sender(link, api, conn), request);
                    let wait = self.waiting(&decision, conn.client_id(), now);
                    let Decision { instead, fate, .. } = decision;
                    match wait {
                        None => flow = site.meet(api, request, instead, fate, parked),
                        Some(wait) => {
                            let request = request.to_owned();
                            *held = Some(Held {
                                wait,
                                request,
                                instead,
                                fate,
                            });
                            break Served::All;
                        }
                    }
                } else {
                    // The ordinary case: replies are gathered and written at once.
                    match &site.run(api, request) {
                        Outcome::Reply(reply) => {
                            encode(reply, api.protocol(conn), replies);
                            if replies.len() > BATCH_BYTES_MAX {
                                let mut output = link.output();
                                output.append(replies);
                                bound(&mut output, api, conn);
                                flow = Flow::after(&output);
                            }
                        }
                        Outcome::Parked => *parked = Some(request.to_owned()),
                        Outcome::Silent => {}
                    }
                }
            }
            if api.has_effects() || self.has_deferred.load(Ordering::Relaxed) {
                break Served::UpToEffects;
            }
        };
        if flow == Flow::Silenced {
            input.silence();
        }
        if !input.replies.is_empty() {
            let is_large = input.replies.len() > LARGE_BYTES;
            let mut output = link.output();
            let was_unread = output.append(&mut input.replies);
            if is_large || was_unread {
                bound(&mut output, api, conn);
            }
        }
        if link.was_served(input) {
            self.note(link);
        }
        if matches!(served, Served::All) && site.has_gone(api, input) {
            self.forget(api, link);
            link.output().end(Ending::Close);
        }
        served
    }

    /// Takes an order of a node that serves nobody: only so can it be told to go on.
    #[cold]
    pub(super) fn hear_order(
        &self,
        api: &mut impl NodeApi,
        link: &Arc<ClientConnection>,
        now: UnixMicros,
    ) {
        let mut input = link.input();
        let is_free = input.held.is_none() && input.parked.is_none() && !input.silenced;
        let Some(conn) = self.session(api, link, self.node_time(now)) else {
            return;
        };
        let limits = api.limits(conn);
        if !is_free || link.output().is_blocked() {
            return;
        }
        let Ok(Some(request)) = input.decoder.next(&limits) else {
            return;
        };
        if self.orders.sort(request, limits.authenticated) == ControlRoute::Order {
            input.parked = Some(request.to_owned());
            self.orders.push(link);
        } else {
            input.decoder.put_back();
        }
    }

    /// Lets the client of an order outlive a crash of the node, until it has its answer.
    pub(crate) fn spare(&self, link: &ClientConnection) {
        if let Some(conn) = link.conn.get() {
            lock(&self.links).remove(&conn.client_id());
        }
    }

    /// Answers an order.
    pub(crate) fn answer_order(
        &self,
        link: &Arc<ClientConnection>,
        reply: &Reply,
        protocol: Protocol,
        now: UnixMicros,
    ) {
        if link.input().parked.take().is_none() {
            return;
        }
        let is_here = |conn: &ConnId| self.link(conn.client_id()).is_some();
        let mut output = link.output();
        output.write(reply, protocol);
        if link.conn.get().is_some_and(is_here) {
            drop(output);
            let mut node = self.node();
            node.serve(self, link, now);
            node.end_turn(self, now);
        } else {
            output.end(Ending::Close);
            drop(output);
            self.note(link);
            self.tell_transports();
        }
    }

    /// Ends the session of a connection.
    pub(super) fn forget(&self, api: &mut (impl NodeApi + ?Sized), link: &ClientConnection) {
        if let Some(conn) = link.conn.get() {
            lock(&self.gated).numbers.remove(&conn.client_id());
            if lock(&self.links).remove(&conn.client_id()).is_some() {
                api.disconnect(*conn);
            }
        }
    }

    /// The session of a connection, opened at its first turn; `None` when there is no room.
    pub(super) fn session(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        link: &Arc<ClientConnection>,
        node_time: UnixMicros,
    ) -> Option<ConnId> {
        if let Some(conn) = link.conn.get() {
            return Some(*conn);
        }
        if link.output().is_ending() {
            // It was refused before.
            return None;
        }
        match api.connect(&link.addr, node_time) {
            Ok(conn) => {
                api.reached_at(conn, &link.laddr);
                lock(&self.links).insert(conn.client_id(), link.clone());
                Some(*link.conn.get_or_init(|| conn))
            }
            Err(refusal) => {
                let mut output = link.output();
                output.write(&refusal.into(), Protocol::Resp2);
                output.end(Ending::Close);
                None
            }
        }
    }
}

/// Whether a connection takes another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Open,
    /// Not for now.
    Blocked,
    /// Never again: what the client says is lost.
    Silenced,
}

impl Flow {
    fn after(output: &Output) -> Self {
        if output.is_blocked() {
            Self::Blocked
        } else {
            Self::Open
        }
    }
}

/// Where and when a request is executed.
pub(super) struct Site<'a> {
    pub(super) shared: &'a SharedNode,
    pub(super) link: &'a Arc<ClientConnection>,
    pub(super) conn: ConnId,
    pub(super) now: UnixMicros,
    pub(super) node_time: UnixMicros,
}

impl Site<'_> {
    /// Whether the client has gone, and nothing of it is on its way any more.
    fn has_gone(&self, api: &(impl NodeApi + ?Sized), input: &mut Input) -> bool {
        // To a connection that has ended, or that nobody reads, nothing more will come.
        let is_coming = input.held.is_some() && !self.link.output().is_blocked();
        if matches!(input.gone, Gone::Yes) && !self.shared.plan.is_empty() && !is_coming {
            let sender = sender(self.link, api, self.conn);
            let decision = self.shared.plan.on_end(sender, Direction::Request);
            let client_id = self.conn.client_id();
            if let Some(wait) = self.shared.waiting(&decision, client_id, self.now) {
                input.gone = Gone::Later(wait);
            }
        }
        match &input.gone {
            Gone::No => false,
            Gone::Yes => !is_coming,
            Gone::Later(wait) => wait.is_over(self.now),
        }
    }

    /// Does with a request what the rules have left of it.
    fn meet(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        request: Request<'_>,
        instead: Option<ErrorReply>,
        fate: Fate,
        parked: &mut Option<OwnedRequest>,
    ) -> Flow {
        if let Some(error) = instead {
            return match api.turn_away(self.conn, request, &error) {
                Outcome::Reply(reply) => self.answer(api, request, &reply),
                Outcome::Parked | Outcome::Silent => Flow::Open,
            };
        }
        let ending = match fate {
            Fate::Arrives => return self.execute(api, request, parked),
            Fate::Drop => return Flow::Silenced,
            Fate::Silence => {
                self.link.output().silence();
                return Flow::Silenced;
            }
            Fate::CutAfter(bytes) => {
                if bytes >= request.wire_bytes() {
                    let _lost = self.run(api, request);
                }
                Ending::Close
            }
            Fate::Close => Ending::Close,
            Fate::Reset => Ending::Reset,
        };
        self.link.output().end(ending);
        Flow::Silenced
    }

    /// Executes a request.
    #[inline]
    fn execute(
        &self,
        api: &mut (impl NodeApi + ?Sized),
        request: Request<'_>,
        parked: &mut Option<OwnedRequest>,
    ) -> Flow {
        match &self.run(api, request) {
            Outcome::Reply(reply) => self.answer(api, request, reply),
            Outcome::Parked => {
                *parked = Some(request.to_owned());
                Flow::Blocked
            }
            Outcome::Silent => Flow::Open,
        }
    }

    #[inline]
    fn run(&self, api: &mut (impl NodeApi + ?Sized), request: Request<'_>) -> Outcome {
        let outcome = api.handle(self.conn, request, self.node_time);
        if self.shared.has_history {
            self.record(request, &outcome);
        }
        outcome
    }

    fn record(&self, request: Request<'_>, outcome: &Outcome) {
        let reply = match outcome {
            Outcome::Reply(reply) => Some(reply.clone()),
            Outcome::Parked | Outcome::Silent => None,
        };
        let entry = Entry {
            at: self.node_time,
            client_id: self.conn.client_id(),
            request: request.to_owned(),
            reply,
        };
        lock(&self.shared.history).push(entry);
    }

    /// Writes a reply, or what the rules have left of it.
    #[inline]
    pub(super) fn answer(
        &self,
        api: &(impl NodeApi + ?Sized),
        request: Request<'_>,
        reply: &Reply,
    ) -> Flow {
        let plan = &self.shared.plan;
        let protocol = api.protocol(self.conn);
        // Where nothing is said nothing can happen to it.
        let is_nothing = matches!(reply, Reply::Several(frames) if frames.is_empty());
        if plan.is_empty() || is_nothing {
            let mut output = self.link.output();
            output.write(reply, protocol);
            bound(&mut output, api, self.conn);
        } else {
            let decision = plan.on_reply(sender(self.link, api, self.conn), request, reply);
            let (shared, link) = (self.shared, self.link);
            if shared.deliver(link, decision, reply, protocol, self.conn, self.now) {
                return Flow::Silenced;
            }
        }
        Flow::after(&self.link.output())
    }
}
