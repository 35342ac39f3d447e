//! Sorts only the part of a list that a LIMIT or a COUNT selects (`pqsort.c`).
//!
//! This is the quicksort of Bentley and McIlroy ("Engineering a Sort Function", 1993), which skips partitions
//! outside of the wanted part. It is not stable: the order of equal items shows in replies, so pivots and
//! swaps have to be the same as in Redis.

use std::cmp::Ordering;
use std::ops::Range;

/// Length up to which slices are sorted by insertion.
const INSERTION_MAX: usize = 6;
/// Length above which the pivot is the middle of three items.
const MIDDLE_ITEM_MAX: usize = 7;
/// Length above which the pivot is the middle of three such middles.
const MIDDLE_OF_THREE_MAX: usize = 40;

/// Sorts the items that belong into `wanted`. The other items stay on their side of it, unsorted.
pub(super) fn sort_range<T>(
    items: &mut [T],
    wanted: Range<usize>,
    compare: impl Fn(&T, &T) -> Ordering,
) {
    let mut pending = vec![(0, items.len())];
    while let Some((start, end)) = pending.pop() {
        let slice = &mut items[start..end];
        if slice.len() <= INSERTION_MAX {
            insertion_sort(slice, &compare);
            continue;
        }
        let (lower, greater) = partition(slice, &compare);
        for (start, end) in [(start, start + lower), (end - greater, end)] {
            if end - start > 1 && start < wanted.end && wanted.start < end {
                pending.push((start, end));
            }
        }
    }
}

fn insertion_sort<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && compare(&items[at - 1], &items[at]) == Ordering::Greater {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Moves the items below a pivot to the front, and greater items to the end; returns the numbers of lower and
/// of greater items.
fn partition<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) -> (usize, usize) {
    let len = items.len();
    let pivot = pivot(items, compare);
    items.swap(0, pivot);
    // Items that equal the pivot are collected at both ends.
    let (mut equal_left, mut low) = (1, 1);
    let (mut high, mut equal_right) = (len - 1, len - 1);
    loop {
        while low <= high {
            match compare(&items[low], &items[0]) {
                Ordering::Greater => break,
                Ordering::Equal => {
                    items.swap(equal_left, low);
                    equal_left += 1;
                }
                Ordering::Less => {}
            }
            low += 1;
        }
        while low <= high {
            match compare(&items[high], &items[0]) {
                Ordering::Less => break,
                Ordering::Equal => {
                    items.swap(high, equal_right);
                    equal_right -= 1;
                }
                Ordering::Greater => {}
            }
            high -= 1;
        }
        if low > high {
            break;
        }
        items.swap(low, high);
        low += 1;
        high -= 1;
    }
    let (lower, greater) = (low - equal_left, equal_right - high);
    let moved = equal_left.min(lower);
    for at in 0..moved {
        items.swap(at, low - moved + at);
    }
    let moved = greater.min(len - 1 - equal_right);
    for at in 0..moved {
        items.swap(low + at, len - moved + at);
    }
    (lower, greater)
}

fn pivot<T>(items: &[T], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let (len, middle) = (items.len(), items.len() / 2);
    let of_three = |a, b, c| middle_of(items, [a, b, c], compare);
    if len <= MIDDLE_ITEM_MAX {
        middle
    } else if len <= MIDDLE_OF_THREE_MAX {
        of_three(0, middle, len - 1)
    } else {
        let step = len / 8;
        let low = of_three(0, step, 2 * step);
        let middle = of_three(middle - step, middle, middle + step);
        let high = of_three(len - 1 - 2 * step, len - 1 - step, len - 1);
        of_three(low, middle, high)
    }
}

fn middle_of<T>(
    items: &[T],
    [a, b, c]: [usize; 3],
    compare: &impl Fn(&T, &T) -> Ordering,
) -> usize {
    let order = |x: usize, y: usize| compare(&items[x], &items[y]);
    if order(a, b) == Ordering::Less {
        if order(b, c) == Ordering::Less {
            b
        } else if order(a, c) == Ordering::Less {
            c
        } else {
            a
        }
    } else if order(b, c) == Ordering::Greater {
        b
    } else if order(a, c) == Ordering::Less {
        a
    } else {
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers with many repetitions, from a linear congruential generator.
    fn numbers(len: usize, seed: u64) -> Vec<u64> {
        let next = |state: &u64| {
            Some(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            )
        };
        let states = std::iter::successors(Some(seed), next);
        states.skip(1).map(|state| state >> 59).take(len).collect()
    }

    #[test]
    fn the_wanted_part_is_that_of_a_full_sort() {
        for len in [0, 1, 2, 6, 7, 8, 40, 41, 300] {
            for seed in 0..20 {
                let items = numbers(len, seed);
                let mut sorted = items.clone();
                sorted.sort_unstable();
                let middle = len / 3..len / 2 + 1;
                for wanted in [0..len, 0..len.min(3), middle, len.saturating_sub(2)..len] {
                    let wanted = wanted.start.min(len)..wanted.end.min(len);
                    let mut partly = items.clone();
                    sort_range(&mut partly, wanted.clone(), u64::cmp);
                    assert_eq!(
                        partly[wanted.clone()],
                        sorted[wanted.clone()],
                        "{items:?} {wanted:?}"
                    );
                    partly.sort_unstable();
                    assert_eq!(partly, sorted, "no item is lost");
                }
            }
        }
    }

    #[test]
    fn equal_items_are_exchanged_as_in_redis() {
        let mut items: Vec<(u8, char)> = vec![(1, 'a'), (0, 'b'), (1, 'c'), (0, 'd'), (1, 'e')];
        sort_range(&mut items, 0..2, |a, b| a.0.cmp(&b.0));
        let letters: String = items.iter().map(|item| item.1).collect();
        assert_eq!(letters, "bdace", "short lists are sorted by insertion");
    }
}
