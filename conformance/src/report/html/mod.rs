//! The report as one self-contained HTML file: a page, its style, its scripts and the data.

mod data;

use crate::runner::Trial;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
/// The order matters: each script uses the earlier ones.
const SCRIPTS: [&str; 5] = [
    include_str!("element.js"),
    include_str!("matrix.js"),
    include_str!("timeline.js"),
    include_str!("detail.js"),
    include_str!("page.js"),
];

/// Returns the whole page.
#[must_use]
pub fn page(trials: &[Trial]) -> String {
    // In a script element only `</script` and `<!--` have a special meaning.
    let data = data::of(trials).to_string().replace('<', "\\u003c");
    let mut page = String::with_capacity(PAGE.len() + data.len() + 64 * 1_024);
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        match name {
            "style" => page.push_str(STYLE),
            "data" => page.push_str(&data),
            "scripts" => SCRIPTS.iter().for_each(|script| page.push_str(script)),
            other => page.push_str(other),
        }
        rest = after;
    }
    page + rest
}
