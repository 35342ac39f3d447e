//! A vector that shares its chunks with its clones: a clone copies one pointer, and the first change behind it
//! copies one chunk and the pointers above it.

use std::sync::Arc;

/// Chunks below one branch, a power of two.
const BRANCH: usize = 64;

type Chunk<T> = Arc<Vec<T>>;
type Branch<T> = Arc<Vec<Chunk<T>>>;

/// A vector in chunks of `CHUNK` elements, a power of two.
#[derive(Clone, Debug)]
pub(super) struct Chunked<T, const CHUNK: usize> {
    root: Arc<Vec<Branch<T>>>,
    len: usize,
}

impl<T, const CHUNK: usize> Default for Chunked<T, CHUNK> {
    fn default() -> Self {
        Self {
            root: Arc::default(),
            len: 0,
        }
    }
}

impl<T: Clone, const CHUNK: usize> Chunked<T, CHUNK> {
    /// `len` times the same element.
    pub(super) fn filled(len: usize, element: T) -> Self {
        let chunk = |from: usize| Arc::new(vec![element.clone(); CHUNK.min(len - from)]);
        let branch = |from: usize| {
            let to = len.min(from + CHUNK * BRANCH);
            Arc::new((from..to).step_by(CHUNK).map(chunk).collect())
        };
        let root = (0..len).step_by(CHUNK * BRANCH).map(branch).collect();
        Self {
            root: Arc::new(root),
            len,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        let branch = self.root.get(at / (CHUNK * BRANCH))?;
        branch.get(at / CHUNK % BRANCH)?.get(at % CHUNK)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let root = Arc::make_mut(&mut self.root);
        let branch = Arc::make_mut(root.get_mut(at / (CHUNK * BRANCH))?);
        let chunk = Arc::make_mut(branch.get_mut(at / CHUNK % BRANCH)?);
        chunk.get_mut(at % CHUNK)
    }

    pub(super) fn push(&mut self, element: T) {
        let root = Arc::make_mut(&mut self.root);
        if self.len.is_multiple_of(CHUNK * BRANCH) {
            root.push(Arc::default());
        }
        if let Some(branch) = root.last_mut() {
            let branch = Arc::make_mut(branch);
            if self.len.is_multiple_of(CHUNK) {
                branch.push(Arc::default());
            }
            if let Some(chunk) = branch.last_mut() {
                Arc::make_mut(chunk).push(element);
                self.len += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stand_where_they_were_put() {
        let mut chunked = Chunked::<usize, 4>::default();
        for at in 0..1000 {
            assert_eq!(chunked.get(at), None);
            chunked.push(at);
            assert_eq!(chunked.len(), at + 1);
        }
        assert!((0..1000).all(|at| chunked.get(at) == Some(&at)));
        for len in [0, 1, 4, 5, 256, 257, 600] {
            let filled = Chunked::<u8, 4>::filled(len, 7);
            assert!((0..len).all(|at| filled.get(at) == Some(&7)) && filled.get(len).is_none());
        }
    }

    #[test]
    fn a_clone_keeps_what_it_had() {
        let mut chunked = Chunked::<usize, 4>::filled(1000, 0);
        let before = chunked.clone();
        for at in (0..1000).step_by(3) {
            *chunked.get_mut(at).expect("an element") = at;
        }
        chunked.push(1);
        assert!((0..1000).all(|at| before.get(at) == Some(&0)) && before.get(1000).is_none());
        assert!((0..1000).all(|at| chunked.get(at) == Some(&if at % 3 == 0 { at } else { 0 })));
    }
}
