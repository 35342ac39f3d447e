//! The README lists all commands. `UPDATE=1` rewrites the list.

const BEGIN: &str =
    "<!-- commands: begin (UPDATE=1 cargo test -p redouble --test behaviour readme) -->\n";
const END: &str = "<!-- commands: end -->";

#[cfg(feature = "script")]
#[test]
fn the_readme_lists_every_command() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let text = std::fs::read_to_string(path)?;
    let (head, rest) = text
        .split_once(BEGIN)
        .expect("the README has a place for the list");
    let (found, tail) = rest.split_once(END).expect("the list ends");
    let names = redouble::command_names();
    assert!(names.len() > 60, "{} commands", names.len());
    let list = format!("`{}`\n", names.join("` `").to_ascii_uppercase());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{head}{BEGIN}{list}{END}{tail}"))?;
    } else {
        assert_eq!(found, list, "UPDATE=1 rewrites it");
    }
    Ok(())
}
