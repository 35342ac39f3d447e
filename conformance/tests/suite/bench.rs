//! The page of a bench, opened in a Chromium without a window.

use super::browser::{self, Browser};
use redouble_conformance::{
    bench::{self, Load, LockBackend, measure},
    subject::SUBJECTS,
};
use std::{collections::BTreeSet, fs, path::PathBuf, sync::atomic::AtomicBool, time::Duration};

const LOCKS: [&str; 2] = ["mutex", "fair"];
/// Number of elements that take the focus: a link, five regions, and two curves or bars in each of four charts.
const FOCUSABLE: usize = 14;

#[test]
fn the_page_works_with_the_keyboard_alone_in_light_and_dark_and_in_a_small_window() {
    let Some(program) = browser::program() else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "no chromium on the PATH"
        );
        eprintln!("no chromium on the PATH: the page was not opened");
        return;
    };
    let load = Load {
        clients: 4,
        time: Duration::from_millis(300),
        ..Load::default()
    };
    let ours = SUBJECTS.iter().map(|row| (row.make)());
    let all: Vec<_> = ours
        .filter(|lock| LOCKS.contains(&lock.name()))
        .map(|lock| {
            measure(
                &*lock,
                &LockBackend::Double,
                &load,
                &AtomicBool::new(false),
                &|_| {},
            )
        })
        .collect::<Result<_, _>>()
        .unwrap();
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench.html");
    fs::write(&path, bench::page(&all)).unwrap();

    let mut browser = Browser::start(&program);
    let mut grounds = BTreeSet::new();
    for (size, colours) in [((1_200, 900), "light"), ((600, 900), "dark")] {
        browser.look(size, colours);
        browser.open("about:blank");
        browser.open(&format!("file://{}", path.display()));
        let excess = browser.get("document.documentElement.scrollWidth - innerWidth");
        assert!(excess.as_i64().unwrap() <= 0, "{size:?}: {excess}");
        grounds.insert(browser.text("getComputedStyle(document.body).backgroundColor"));
        assert!(browser.screenshot().len() > 10_000);
    }
    assert_eq!(grounds.len(), 2, "{grounds:?}");

    // Every curve and every bar takes the focus in turn, and has a label.
    let mut said: Vec<String> = Vec::new();
    for _ in 0..FOCUSABLE {
        browser.press("Tab");
        let label = browser.text("document.activeElement.getAttribute('aria-label') || ''");
        said.push(label);
    }
    for part in ["mutex: half within", "fair: half within"] {
        let curves = said.iter().filter(|label| label.starts_with(part)).count();
        assert!((1..=2).contains(&curves), "{part}: {said:?}");
    }
    for region in [
        "Acquire",
        "Hand-over",
        "Cycles per second",
        "Fairness",
        "Figures",
    ] {
        assert!(
            said.iter().any(|label| label == region),
            "{region}: {said:?}"
        );
    }
    assert_eq!(
        browser.number("document.querySelectorAll('tbody tr').length"),
        2
    );
    assert_eq!(browser.complaints, [] as [&str; 0]);
}
