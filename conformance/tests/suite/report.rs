//! The HTML report, opened in a Chromium without a window.

use super::browser::{self, Browser};
use redouble_conformance::{
    backend::Double,
    checker::Property,
    report::html,
    runner::{Counterexample, Plan, Trial, judge, run_trial},
    scenario::generate::Generator,
    subject::{Expected, SUBJECTS},
};
use std::{collections::BTreeSet, fs, path::PathBuf};

fn trial(name: &str, seeds: u64) -> Trial {
    let row = SUBJECTS
        .iter()
        .find(|row| (row.make)().name() == name)
        .unwrap();
    let plan = Plan {
        seeds: 0..seeds,
        ..Plan::quick(&Double)
    };
    run_trial(&*(row.make)(), row.expected, &Double, &plan, &|_| {}).unwrap()
}

/// Trials like those of the whole suite: some sound locks, and ninety specimens.
fn trials() -> Vec<Trial> {
    let (mutex, canary) = (trial("mutex", 128), trial("canary", 128));
    let specimens = (1..=90).map(|at| Trial {
        name: Box::leak(format!("B{:02}{}", 1 + at / 2, ["a", "b"][at % 2]).into_boxed_str()),
        ..canary.clone()
    });
    let broken = Trial {
        name: "seed-A1",
        expected: Expected::Sound,
        ..canary.clone()
    };
    [mutex, broken]
        .into_iter()
        .chain(specimens)
        .chain([canary.clone()])
        .collect()
}

/// A sound lock with the runs of a few scenarios in which many faults strike, as if each run broke a property.
fn struck() -> Trial {
    let row = SUBJECTS
        .iter()
        .find(|row| (row.make)().name() == "mutex")
        .unwrap();
    let subject = (row.make)();
    let mut trial = trial("mutex", 2);
    let generator = Generator::of(subject.promises(), None);
    let mut missing = BTreeSet::from(STRIKES.map(|(nemesis, _)| nemesis));
    for (seed, property) in (0..2_000).zip(Property::ALL.into_iter().cycle()) {
        let scenario = generator.scenario(seed);
        let nemeses = scenario.nemeses();
        if missing.is_disjoint(&nemeses) || trial.counterexamples.len() == Property::ALL.len() {
            continue;
        }
        let judged = judge(&*subject, &Double, &scenario).unwrap();
        // A cut strikes only messages in flight.
        let lost = judged
            .run
            .history
            .messages
            .iter()
            .any(|it| it.arrived.is_none());
        if nemeses.contains("cut") && !lost {
            continue;
        }
        missing.retain(|nemesis| !nemeses.contains(nemesis));
        trial.counterexamples.push(Counterexample {
            property,
            seed,
            fixed: None,
            events_before: scenario.events.len(),
            scenario,
            shrink_runs: 0,
            judged,
        });
    }
    assert!(missing.is_empty(), "{missing:?}");
    trial
}

/// Faults, each with the selector of the part of the drawing that shows it.
const STRIKES: [(&str, &str); 9] = [
    ("pause", ".paused"),
    ("crash", ".down"),
    ("drift", ".skew"),
    ("delay", ".delay"),
    ("partition", ".partition"),
    ("cut", ".message.lost"),
    ("node-crash", ".down"),
    ("answer-error", ".trouble"),
    ("node-drift", ".skew"),
];

/// Writes a page to a file that stays after the test, so that people can look at it.
fn page(name: &str, trials: &[Trial]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, html::page(trials)).unwrap();
    path
}

fn browser() -> Option<Browser> {
    if let Some(program) = browser::program() {
        return Some(Browser::start(&program));
    }
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "no chromium on the PATH"
    );
    eprintln!("no chromium on the PATH: the report was not opened");
    None
}

const FOCUS: &str = "document.activeElement.getAttribute('aria-label') || \
                     document.activeElement.textContent";

#[test]
fn the_report_needs_nothing_else_and_stays_small() {
    let trials = trials();
    let page = html::page(&trials);
    assert!(
        page.len() < trials.len() * 60_000,
        "{} bytes for {}",
        page.len(),
        trials.len()
    );
    for address in ["http://", "https://", "//cdn", "@import", "src="] {
        let ours = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!ours.contains(address), "{address}");
    }
}

#[test]
fn the_report_works_in_a_browser_with_the_keyboard_alone() {
    let Some(mut browser) = browser() else { return };
    let trials = trials();
    let path = page("report.html", &trials);
    browser.look((1400, 900), "light");
    browser.open(&format!("file://{}", path.display()));

    // The matrix has a row per lock in its group, and a cell per property.
    let (locks, columns) = (trials.len() as u64, Property::ALL.len() as u64);
    assert_eq!(browser.number("gridRows().length"), locks);
    assert_eq!(
        browser.number("document.querySelectorAll('td.cell').length"),
        locks * columns
    );
    assert_eq!(
        browser.number("document.querySelectorAll('tr.group').length"),
        4
    );
    assert_eq!(
        browser.text("document.querySelector('h1').textContent"),
        "1 lock with an unexpected verdict"
    );
    assert_eq!(
        browser.number("document.querySelectorAll('tr.bad').length"),
        1
    );

    // The filters of the matrix.
    browser.press("/");
    for key in ["s", "e", "e", "d", "-"] {
        browser.press(key);
    }
    assert_eq!(browser.number("gridRows().length"), 1);
    browser.get("byId('name').select()");
    browser.press("B");
    browser.press("0");
    assert_eq!(browser.number("gridRows().length"), 17);
    browser.get("byId('name').value = ''; byId('name').dispatchEvent(new Event('input'))");
    let mut broken = |fault: &str| {
        browser.get(&format!("byId('fault').value = '{fault}'"));
        browser.get("byId('fault').dispatchEvent(new Event('change'))");
        browser.number("document.querySelectorAll('td.broken').length")
    };
    let [calm, overwork, all] = ["0", "1", ""].map(&mut broken);
    assert!(
        0 < calm && calm < all && 0 < overwork && overwork < all,
        "{calm} {overwork} {all}"
    );

    // From the matrix to a counterexample and back.
    browser.get("byId('skip').focus()");
    browser.press("Enter");
    assert_eq!(browser.text(FOCUS), "mutex");
    browser.press("ArrowDown");
    browser.press("ArrowRight");
    browser.press("ArrowRight");
    let focus = browser.text(FOCUS);
    assert!(
        focus.starts_with("set-nx-px (seed-A1), P1 lease exclusion: broken in"),
        "{focus}"
    );
    browser.press("Enter");
    assert_eq!(browser.text("location.hash"), "#seed-A1/P1");
    browser.until("byId('witness')");
    assert!(browser.text("byId('witness').textContent").contains("both"));
    for part in [
        "svg.timeline",
        ".belief",
        ".stored",
        ".message",
        ".wrong",
        "#slider",
        "#copy",
    ] {
        let count = browser.number(&format!("document.querySelectorAll('{part}').length"));
        assert!(count > 0, "{part}");
    }

    // The steps of the counterexample.
    browser.press("Home");
    assert_eq!(browser.number("Number(byId('slider').value)"), 0);
    let first = browser.text("byId('step').textContent");
    browser.press("ArrowRight");
    assert_eq!(browser.number("Number(byId('slider').value)"), 1);
    assert_ne!(browser.text("byId('step').textContent"), first);
    browser.press("End");
    let last = browser.number("shown.timeline.it.steps.length - 1");
    assert_eq!(browser.number("Number(byId('slider').value)"), last);
    let wide = browser.number("Math.round(shown.timeline.view[1] - shown.timeline.view[0])");
    browser.press("+");
    let narrow = browser.number("Math.round(shown.timeline.view[1] - shown.timeline.view[0])");
    assert!(narrow < wide, "{narrow} {wide}");
    browser.press("0");

    // The texts that a user can copy.
    let mut forms = BTreeSet::new();
    for tab in 0..4 {
        browser.get(&format!(
            "[...byId('copy').parentElement.children][{tab}].click()"
        ));
        forms.insert(browser.text("byId('recipe').textContent"));
    }
    let has = |what: &str| forms.iter().any(|form| form.contains(what));
    assert_eq!(forms.len(), 4);
    assert!(
        has("#[test]") && has("redouble-check replay -") && has(" s  c"),
        "{forms:?}"
    );

    browser.press("Escape");
    browser.until("location.hash === '' && !byId('witness')");
    let focus = browser.text(FOCUS);
    assert!(
        focus.starts_with("set-nx-px (seed-A1), P1"),
        "the focus comes back: {focus}"
    );

    assert_eq!(browser.complaints, [] as [&str; 0]);
}

#[test]
fn a_timeline_shows_every_kind_of_fault_that_strikes() {
    let Some(mut browser) = browser() else { return };
    let trial = struck();
    let path = page("struck.html", std::slice::from_ref(&trial));
    browser.look((1400, 900), "light");
    browser.open(&format!("file://{}", path.display()));
    let mut shown: BTreeSet<&str> = BTreeSet::new();
    for place in 0..trial.counterexamples.len() {
        browser.get(&format!(
            "drawDetail(data.subjects[0], data.subjects[0].examples[{place}].property); shown.timeline.go(0)"
        ));
        for (_, part) in STRIKES {
            if browser.number(&format!("document.querySelectorAll('svg {part}').length")) > 0 {
                shown.insert(part);
            }
        }
        let last = browser.number("shown.timeline.it.steps.length");
        assert!(last > 3, "{last} steps");
    }
    for (nemesis, part) in STRIKES {
        assert!(shown.contains(part), "{nemesis} is not shown");
    }
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

#[test]
fn the_report_is_light_or_dark_and_fits_a_small_window() {
    let Some(mut browser) = browser() else { return };
    let path = page("small.html", &trials()[..2]);
    let ground = "getComputedStyle(document.body).backgroundColor";
    let mut grounds = BTreeSet::new();
    for (size, colours) in [((1400, 900), "light"), ((600, 900), "dark")] {
        browser.look(size, colours);
        for hash in ["", "#seed-A1/P1"] {
            browser.open("about:blank");
            browser.open(&format!("file://{}{hash}", path.display()));
            let excess = "document.documentElement.scrollWidth - innerWidth";
            assert_eq!(
                browser.get(excess).as_i64().unwrap().max(0),
                0,
                "{size:?} {hash}"
            );
            assert!(browser.screenshot().len() > 10_000);
        }
        grounds.insert(browser.text(ground));
    }
    // The switch overrides the system: dark, auto, light.
    browser.get("byId('theme').click()");
    assert_eq!(browser.text("byId('theme').textContent"), "Colours: light");
    grounds.insert(browser.text(ground));
    assert_eq!(grounds.len(), 2, "{grounds:?}");
    assert_eq!(browser.complaints, [] as [&str; 0]);
}
