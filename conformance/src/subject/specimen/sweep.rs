//! Clean-up of a token whose request may have no reply.

use super::SoundLock;

/// Removes a token in the background when it is dropped, unless [`done`](Self::done) was called.
pub(in crate::subject) struct Sweep<P: SoundLock> {
    place: P,
    token: String,
    armed: bool,
}

impl<P: SoundLock> Sweep<P> {
    /// Makes the clean-up of a token.
    pub(in crate::subject) fn over(place: &P, token: &str) -> Self {
        Self {
            place: place.clone(),
            token: token.to_owned(),
            armed: true,
        }
    }

    /// Cancels the clean-up: a reply came.
    pub(in crate::subject) fn done(mut self) {
        self.armed = false;
    }
}

impl<P: SoundLock> Drop for Sweep<P> {
    fn drop(&mut self) {
        if self.armed {
            self.place.sweep(std::mem::take(&mut self.token));
        }
    }
}
