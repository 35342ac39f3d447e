//! Hears of panics in tasks that the code under test has started: its runtime catches them, and tells only
//! whoever waits for the task.

use crate::simulation::is_playing;
use std::{
    cell::RefCell,
    panic::{self, PanicHookInfo},
    sync::Once,
};

thread_local! {
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Puts an ear in front of the program's panic hook, once; that is asked as before. Whoever sets another
/// hook afterwards deafens it.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if is_playing() {
                HEARD.with_borrow_mut(|heard| {
                    heard.get_or_insert_with(|| text(info));
                });
            }
            usual(info);
        }));
    });
}

/// Forgets what others have said on this thread.
pub(super) fn forget() {
    HEARD.take();
}

/// What the first panic on this thread said since the last question.
pub(super) fn heard() -> Option<String> {
    HEARD.take()
}

fn text(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic").to_owned()
}
