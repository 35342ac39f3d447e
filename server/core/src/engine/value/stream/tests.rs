//! Streams beside a list of entries as the model.

use super::*;

const LIMITS: NodeLimits = NodeLimits {
    bytes: 4096,
    entries: 10,
};

type Model = Vec<(u64, Vec<(String, String)>)>;

struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn entries<'a>(range: impl Iterator<Item = Entry<'a>>) -> Model {
    let text = |blob: Blob| String::from_utf8(blob.to_vec()).expect("ASCII");
    range
        .map(|entry| {
            let pairs = entry
                .fields
                .map(|(field, value)| (text(field), text(value)));
            (entry.id.ms, pairs.collect())
        })
        .collect()
}

fn append(stream: &mut Stream, ms: u64, pairs: &[(String, String)], limits: NodeLimits) {
    let fields: Vec<_> = pairs
        .iter()
        .map(|(field, value)| (field.as_bytes(), value.as_bytes()))
        .collect();
    stream.append(StreamId::new(ms, ms % 3), &fields, limits);
}

fn numbered(count: u64) -> Stream {
    let mut stream = Stream::default();
    for ms in 1..=count {
        append(&mut stream, ms, &[("f".into(), ms.to_string())], LIMITS);
    }
    stream
}

#[test]
fn a_stream_holds_what_was_added_and_not_removed() {
    for seed in 0..20 {
        let mut draws = Draws(seed);
        let (mut stream, mut model) = (Stream::default(), Model::new());
        let mut snapshots = Vec::new();
        let limits = NodeLimits {
            bytes: [0, 64, 4096][draws.below(3) as usize],
            entries: [0, 3, 200][draws.below(3) as usize],
        };
        for ms in 1..600 {
            let id = |ms: u64| StreamId::new(ms, ms % 3);
            match draws.below(6) {
                0..=2 => {
                    let pairs: Vec<_> = (0..=draws.below(3))
                        .map(|at| {
                            let field = format!("f{}", at + draws.below(2));
                            (field, "7".repeat(draws.below(30) as usize))
                        })
                        .collect();
                    append(&mut stream, ms, &pairs, limits);
                    model.push((ms, pairs));
                }
                3 => {
                    let gone = draws.below(ms + 1);
                    let before = model.len();
                    model.retain(|(other, _)| *other != gone);
                    assert_eq!(stream.delete(&[id(gone)]), (before - model.len()) as u64);
                }
                4 if draws.below(10) == 0 => {
                    let before = model.len();
                    let threshold = if draws.below(2) == 0 {
                        let len = draws.below(30);
                        model.drain(..before.saturating_sub(len as usize));
                        Threshold::MaxLen(len)
                    } else {
                        let min = draws.below(ms);
                        model.retain(|(other, _)| *other >= min);
                        Threshold::MinId(StreamId::new(min, 0))
                    };
                    let trim = Trim {
                        threshold,
                        is_approximate: false,
                        limit: 0,
                    };
                    assert_eq!(stream.trim(trim), (before - model.len()) as u64);
                }
                _ => snapshots.push((stream.clone(), model.clone())),
            }
            assert_eq!(stream.len(), model.len() as u64);
            let first = model.first().map_or(StreamId::MIN, |(ms, _)| id(*ms));
            assert_eq!(stream.counters().first_id, first);
            let (low, high) = (draws.below(ms + 1), draws.below(ms + 1));
            let within = |(ms, _): &&(u64, _)| (low..=high).contains(ms);
            let expected: Model = model.iter().filter(within).cloned().collect();
            let (start, end) = (StreamId::new(low, 0), StreamId::new(high, 9));
            assert_eq!(entries(stream.range(start, end)), expected);
            let mut back = entries(stream.range_back(start, end));
            back.reverse();
            assert_eq!(back, expected);
        }
        for (stream, model) in snapshots {
            assert_eq!(entries(stream.range(StreamId::MIN, StreamId::MAX)), model);
        }
    }
}

#[test]
fn approximate_trimming_removes_whole_nodes() {
    let trim = |threshold, limit| {
        let mut stream = numbered(95);
        let deleted = stream.trim(Trim {
            threshold,
            is_approximate: true,
            limit,
        });
        (deleted, stream.counters().first_id.ms)
    };
    assert_eq!(trim(Threshold::MaxLen(41), 0), (50, 51));
    assert_eq!(trim(Threshold::MaxLen(45), 0), (50, 51));
    assert_eq!(trim(Threshold::MaxLen(46), 0), (40, 41));
    assert_eq!(trim(Threshold::MaxLen(0), 25), (20, 21));
    assert_eq!(trim(Threshold::MinId(StreamId::new(30, 9)), 0), (30, 31));
    assert_eq!(trim(Threshold::MinId(StreamId::new(30, 0)), 0), (20, 21));
    assert_eq!(trim(Threshold::MaxLen(0), 0), (95, 0));
}

#[test]
fn a_group_knows_its_lag_while_nothing_ahead_was_deleted() {
    let mut stream = numbered(10);
    stream.add_group(b"g", ConsumerGroup::new(StreamId::MIN, Some(0)));
    let lag = |stream: &Stream| stream.lag(stream.group(b"g").expect("a group"));
    assert_eq!(lag(&stream), Some(10));
    for ms in 1..=3 {
        stream.deliver(b"g", &[StreamId::new(ms, ms % 3)], None);
    }
    assert_eq!(lag(&stream), Some(7));
    stream.delete(&[StreamId::new(6, 0)]);
    assert_eq!(lag(&stream), None);
    for ms in [4, 5, 7] {
        stream.deliver(b"g", &[StreamId::new(ms, ms % 3)], None);
    }
    assert_eq!(lag(&stream), None);
    for ms in 8..=10 {
        stream.deliver(b"g", &[StreamId::new(ms, ms % 3)], None);
    }
    assert_eq!(lag(&stream), Some(0));
}

#[test]
fn nodes_come_back_from_their_bytes_and_nothing_else_does() {
    let mut stream = Stream::default();
    for ms in 1..8 {
        let field = if ms % 3 == 0 { "g" } else { "f" };
        append(
            &mut stream,
            ms,
            &[(field.into(), "v".repeat(ms as usize * 9))],
            LIMITS,
        );
    }
    stream.delete(&[StreamId::new(4, 1)]);
    let (id, node) = stream.0.nodes.first().expect("a node");
    let bytes = node.as_bytes();
    let back = Node::from_bytes(bytes, id).expect("a node of ours");
    let ids = |node: &Node| -> Vec<_> {
        let entries = node.entries(id);
        entries
            .map(|entry| (entry.id, entry.is_deleted()))
            .collect()
    };
    assert_eq!(ids(&back), ids(node));
    for at in 0..bytes.len() {
        assert!(Node::from_bytes(&bytes[..at], id).is_none());
        for change in [1, 2, 0x40, 0x80] {
            let mut changed = bytes.to_vec();
            changed[at] ^= change;
            if let Some(node) = Node::from_bytes(&changed, id) {
                assert_eq!(ids(&node).len(), 7);
                assert!(node.entries(id).all(|entry| entry.fields.count() == 1));
            }
        }
    }
}
