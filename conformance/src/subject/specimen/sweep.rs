//! What becomes of a token when nobody waits for an answer about it any more.

use super::SoundLock;

/// Removes a token in the background when it is dropped, unless all went well.
pub(in crate::subject) struct Sweep<P: SoundLock> {
    place: P,
    token: String,
    armed: bool,
}

impl<P: SoundLock> Sweep<P> {
    /// Watches over a token.
    pub(in crate::subject) fn over(place: &P, token: &str) -> Self {
        Self {
            place: place.clone(),
            token: token.to_owned(),
            armed: true,
        }
    }

    /// There is an answer: it is known what became of the token.
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
