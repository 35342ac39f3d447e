//! Sorted sets beside a vector that is sorted after each change.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Put(u16, f64),
    Remove(u16),
    RemoveRange(usize, usize),
    Snapshot,
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-3..4_i32).prop_map(f64::from),
        2 => -1e6..1e6_f64,
        1 => prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(0.5)],
    ]
}

fn step(members: u16) -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..members, score()).prop_map(|(member, score)| Step::Put(member, score)),
        5 => (0..members).prop_map(Step::Remove),
        1 => (0..400_usize, 0..60_usize).prop_map(|(from, count)| Step::RemoveRange(from, count)),
        1 => Just(Step::Snapshot),
    ]
}

fn name(number: u16) -> Blob {
    // Every seventh is longer than a small member may be.
    let width = if number % 7 == 6 { 20 } else { 3 };
    Blob::from(format!("{number:0width$}"))
}

fn sorted(model: &mut [(Blob, f64)]) {
    model.sort_by(|a, b| compare((a.1, &a.0), (b.1, &b.0)));
}

fn assert_same(set: &SortedSet, model: &[(Blob, f64)]) {
    assert_eq!(set.len(), model.len());
    assert_eq!(set.elements(0..set.len()), model);
    let mut reversed = Vec::new();
    set.for_each(0..set.len(), true, |member, score| {
        reversed.push((member, score))
    });
    assert!(reversed.iter().rev().eq(model));
    for (rank, (member, score)) in model.iter().enumerate() {
        assert_eq!(set.rank(member), Some((rank, *score)));
        assert_eq!(set.score(member), Some(*score));
        assert_eq!(set.at(rank).as_ref(), Some(&model[rank]));
    }
    for bound in [-2.0, 0.0, 0.5, 1e5] {
        let expected = model.iter().filter(|(_, score)| *score < bound).count();
        assert_eq!(set.rank_where_score(|score| score < bound), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_sorted_set_is_a_sorted_vector(
        entries in prop_oneof![Just(0_usize), Just(8), Just(128)],
        steps in prop::collection::vec(step(300), 1..700),
    ) {
        let limits = SortedSetLimits { entries, bytes: 10, seed: 3 };
        let mut set = SortedSet::for_first(1, limits);
        let mut model: Vec<(Blob, f64)> = Vec::new();
        let mut snapshots = Vec::new();
        for step in steps {
            match step {
                Step::Put(number, score) => {
                    let member = name(number);
                    match model.iter_mut().find(|(known, _)| *known == member) {
                        Some(known) => {
                            prop_assert_eq!(set.score(&member), Some(known.1));
                            set.set_score(&member, score);
                            known.1 = score;
                        }
                        None => {
                            prop_assert_eq!(set.score(&member), None);
                            set.insert(&member, score, limits);
                            model.push((member, score));
                        }
                    }
                }
                Step::Remove(number) => {
                    let member = name(number);
                    let len = model.len();
                    model.retain(|(known, _)| *known != member);
                    prop_assert_eq!(set.remove(&member), model.len() < len);
                }
                Step::RemoveRange(from, count) => {
                    let from = from.min(model.len());
                    let to = (from + count).min(model.len());
                    set.remove_range(from..to);
                    model.drain(from..to);
                }
                Step::Snapshot => snapshots.push((set.clone(), model.clone())),
            }
            sorted(&mut model);
        }
        assert_same(&set, &model);
        for (set, model) in snapshots {
            prop_assert_eq!(set.elements(0..set.len()), model);
        }
        // A scan in pieces gives every element once.
        let (mut cursor, mut seen) = (0, Vec::new());
        loop {
            let (next, found) = set.scan(cursor, 7);
            seen.extend(found);
            if next == 0 { break }
            cursor = next;
        }
        sorted(&mut seen);
        prop_assert_eq!(&seen, &model);
        prop_assert_eq!(SortedSet::from_elements(seen, limits).elements(0..model.len()), model);
    }
}

#[test]
fn the_limits_decide_what_is_packed() {
    let limits = SortedSetLimits {
        entries: 3,
        bytes: 5,
        seed: 0,
    };
    let mut set = SortedSet::for_first(5, limits);
    for (member, is_packed) in [("a", true), ("b", true), ("c", true), ("d", false)] {
        set.insert(member.as_bytes(), 1.0, limits);
        assert_eq!(set.is_packed(), is_packed, "{member}");
    }
    set.remove_range(0..3);
    assert!(!set.is_packed() && set.len() == 1);
    assert!(!SortedSet::for_first(6, limits).is_packed());
    let mut set = SortedSet::for_first(1, limits);
    set.insert(b"longer", 1.0, limits);
    assert!(!set.is_packed());
}

#[test]
fn a_member_that_stays_is_seen_by_a_scan_that_sees_others_go() {
    let limits = SortedSetLimits {
        entries: 0,
        bytes: 0,
        seed: 0,
    };
    let mut set = SortedSet::for_first(1, limits);
    for number in 0..500 {
        set.insert(&name(number), f64::from(number), limits);
    }
    let (mut cursor, mut seen, mut removed) = (0, Vec::new(), 0);
    loop {
        let (next, found) = set.scan(cursor, 10);
        seen.extend(found.into_iter().map(|(member, _)| member));
        for number in (removed..removed + 20).filter(|number| number % 2 == 1 && *number < 500) {
            set.remove(&name(number));
            set.insert(&name(1000 + number), 0.0, limits);
        }
        removed += 20;
        if next == 0 {
            break;
        }
        cursor = next;
    }
    assert!(
        (0..500)
            .step_by(2)
            .all(|number| seen.contains(&name(number)))
    );
}
