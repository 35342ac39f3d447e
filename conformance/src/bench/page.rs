//! Measurements as one self-contained HTML file: charts, and their figures.

use super::{
    chart::{bars, curves, escaped},
    latencies::Latencies,
    measured::{Failure, Measured},
    table::{quartet, remarks, span},
};
use std::fmt::Write;

/// The style of the suite's report, and additions.
const STYLES: [&str; 2] = [
    include_str!("../report/html/style.css"),
    include_str!("page.css"),
];

/// Returns the whole page.
#[must_use]
pub fn page(all: &[Measured]) -> String {
    let sound = all.iter().all(Measured::is_sound);
    let (class, title) = if sound {
        ("good", "Locks under load")
    } else {
        ("bad", "Locks under load: one had too many holders")
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>redouble-check bench</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{}</style>\n</head>\n\
         <body class=\"bench\">\n<a class=\"skip\" href=\"#figures\">To the figures</a>\n\
         <header><div><h1 class=\"{class}\">{title}</h1><p>{}</p></div></header>\n<main>\n",
        STYLES.concat(),
        all.first()
            .map_or_else(String::new, |it| escaped(&facts(it))),
    );
    for remark in all.iter().flat_map(remarks) {
        let class = if remark.starts_with("!!") {
            "witness"
        } else {
            "remark"
        };
        let _ = writeln!(page, "<p class=\"{class}\">{}</p>", escaped(remark.trim()));
    }
    charts(&mut page, all);
    figures(&mut page, all);
    page + "</main>\n</body>\n</html>\n"
}

/// Describes the load in a sentence.
fn facts(measured: &Measured) -> String {
    let load = &measured.load;
    let how = load.rate.map_or_else(
        || "each client starts a cycle when its last one is over".to_owned(),
        |rate| format!("{rate} cycles per second start at fixed times"),
    );
    let tasks = match load.tasks {
        1 => String::new(),
        tasks => format!(" of {tasks} tasks each"),
    };
    let clients =
        |count: u8, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}; {}{tasks} on {}, held for {} with a lease of {}; {how}.",
        measured.place,
        clients(load.clients, "client"),
        clients(load.keys, "key"),
        span(load.hold),
        span(load.lease),
    )
}

fn charts(page: &mut String, all: &[Measured]) {
    let of = |pick: fn(&Measured) -> &Latencies| -> Vec<(&str, &Latencies)> {
        all.iter().map(|it| (it.lock, pick(it))).collect()
    };
    let from = if all.iter().any(|it| it.load.rate.is_some()) {
        "from the intended start to the grant"
    } else {
        "from the request to the grant"
    };
    let cycles: Vec<_> = all
        .iter()
        .map(|it| (it.lock, it.per_second(), format!("{:.0}", it.per_second())))
        .collect();
    let fairness: Vec<_> = all
        .iter()
        .filter_map(|it| Some((it.lock, it.fairness()?, format!("{:.2}", it.fairness()?))))
        .collect();
    for (title, note, svg) in [
        (
            "Acquire",
            from,
            curves(
                "Latency of acquiring, a curve per lock",
                &of(|it| &it.acquire),
            ),
        ),
        (
            "Hand-over",
            "from the start of a release to the grant of a client that waits",
            curves(
                "Latency of hand-over, a curve per lock",
                &of(|it| &it.hand_over),
            ),
        ),
        (
            "Cycles per second",
            "acquired and released, by all clients together",
            bars("Cycles per second, a bar per lock", &cycles, None),
        ),
        (
            "Fairness",
            "Jain's index: 1 if all clients held the lock equally often, 1/n if one of n held it always",
            bars("Fairness, a bar per lock", &fairness, Some(1.0)),
        ),
    ] {
        let _ = writeln!(
            page,
            "<section class=\"card\"><h2>{title}</h2><p>{note}</p>\n\
             <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">{svg}</div></section>"
        );
    }
}

fn figures(page: &mut String, all: &[Measured]) {
    page.push_str(
        "<section class=\"card\" id=\"figures\"><h2>Figures</h2>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Figures\"><table>\n\
         <thead><tr><th rowspan=\"2\" scope=\"col\">lock</th><th rowspan=\"2\" scope=\"col\">cycles/s</th>\
         <th colspan=\"4\" scope=\"colgroup\">acquire</th><th colspan=\"4\" scope=\"colgroup\">hand-over</th>\
         <th rowspan=\"2\" scope=\"col\">fairness</th><th rowspan=\"2\" scope=\"col\">commands per cycle</th>\
         <th rowspan=\"2\" scope=\"col\">requests per cycle</th><th rowspan=\"2\" scope=\"col\">server, us per cycle</th>\
         <th rowspan=\"2\" scope=\"col\">overtaken</th><th rowspan=\"2\" scope=\"col\">failed</th></tr>\n<tr>",
    );
    for heading in ["p50", "p99", "p99.9", "max"].repeat(2) {
        let _ = write!(page, "<th scope=\"col\">{heading}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for it in all {
        let number =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
        let mut cells = vec![format!("{:.0}", it.per_second())];
        cells.extend(quartet(&it.acquire));
        cells.extend(quartet(&it.hand_over));
        cells.extend([
            number(it.fairness()),
            number(it.commands_per_cycle()),
            number(it.requests_per_cycle()),
            number(it.server_us_per_cycle()),
        ]);
        cells.extend([it.overtaken.to_string(), failures(it)]);
        let cells: String = cells.iter().map(|it| format!("<td>{it}</td>")).collect();
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th>{cells}</tr>",
            escaped(it.lock)
        );
    }
    page.push_str(
        "</tbody></table></div>\n\
         <p>Commands: all commands that the servers executed, including those in scripts. Requests: how often the servers \
         read from a connection. Server: CPU time of the servers. Overtaken: grants to a client while another one has been waiting for longer.</p></section>\n",
    );
}

/// Describes the failures: how many, of which kind.
fn failures(measured: &Measured) -> String {
    let kinds = Failure::ALL.into_iter().filter_map(|how| {
        let count = measured.failures.get(&how)?;
        Some(format!("{count} {}", how.name().replace('_', " ")))
    });
    let kinds: Vec<String> = kinds.collect();
    if kinds.is_empty() {
        "0".to_owned()
    } else {
        kinds.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::{super::measured::sample, *};
    use std::time::Duration;

    #[test]
    fn the_page_has_charts_and_the_figures_they_are_made_of() {
        let mut measured = sample(vec![10, 20]);
        (1..=30).for_each(|us| measured.acquire.add(Duration::from_micros(us)));
        let text = page(&[measured.clone()]);
        assert_eq!(text.matches("<svg").count(), 4);
        assert_eq!(
            text.matches("<section").count(),
            text.matches("</section>").count()
        );
        assert!(
            text.contains("<th scope=\"row\">mutex</th><td>15</td><td>15 us</td>"),
            "{text}"
        );
        assert!(
            !text.contains("too many") && !text.contains("http"),
            "{text}"
        );
        measured.overlaps.count = 1;
        assert!(page(&[measured]).contains("too many"));
        assert!(page(&[]).ends_with("</html>\n"));
    }
}
