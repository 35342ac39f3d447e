//! Random choices of the generator. The same seed gives the same choices.

use redouble::engine::Rng;

/// Random choices of one seed and one purpose.
#[derive(Debug)]
pub(super) struct Source(Rng);

impl Source {
    pub(super) fn new(seed: u64, purpose: &str) -> Self {
        Self(Rng::for_component(seed, purpose))
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }

    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(super) fn pick<'a>(&mut self, pool: &[&'a str]) -> &'a str {
        pool[self.below(pool.len())]
    }

    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}
