//! Records panics in tasks that the code under test has started. Its runtime catches them, and otherwise
//! reports them only to a task that joins.

use crate::simulation::is_playing;
use std::{
    cell::RefCell,
    panic::{self, PanicHookInfo},
    sync::Once,
};

thread_local! {
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a panic hook once, in front of the program's own hook, which is still called. A hook that the
/// program installs later disables it.
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

/// Clears the record of this thread.
pub(super) fn forget() {
    HEARD.take();
}

/// Takes the message of the first panic on this thread since the last call.
pub(super) fn heard() -> Option<String> {
    HEARD.take()
}

fn text(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic").to_owned()
}
