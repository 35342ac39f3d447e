//! The machine and the date of a measurement. They are in the JSON beside the figures, and so in the book.

use serde_json::{Value, json};
use std::process::Command;
use std::{fs, thread};

/// Returns the date (UTC), the processor, the number of cores that this program may use, the kernel, and the
/// load average of the last minute. Call it before the first measurement. An unknown value is an empty text.
pub fn facts() -> Value {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    json!({
        "date": date(),
        "processor": processor(&read("/proc/cpuinfo")),
        "cores": cores,
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "load": read("/proc/loadavg").split(' ').next(),
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn date() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// Returns the model of the first processor in the text of `/proc/cpuinfo`.
fn processor(cpuinfo: &str) -> &str {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(name, _)| name.trim() == "model name")
        .map_or("", |(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_found() {
        let text = "processor\t: 0\nmodel name\t: A Chip @ 2.00GHz\nmodel name\t: Another\n";
        assert_eq!(processor(text), "A Chip @ 2.00GHz");
        assert_eq!(processor(""), "");
    }

    #[test]
    fn a_date_has_ten_characters() {
        assert_eq!(facts()["date"].as_str().map(str::len), Some(10));
    }
}
