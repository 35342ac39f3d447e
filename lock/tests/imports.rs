//! No two files of a crate import each other, neither directly nor through others.
//!
//! A file imports another one if it names an item of it, by `use` or by a path that begins with `crate`, `self` or `super`. A name
//! that a file only passes on (`pub use`) is an import from where it is defined. Tests at the end of a file do not count.
//! The folders of the suite follow the flow of data besides: from vocabulary to scenarios, histories and checkers.

#![allow(clippy::unwrap_used, reason = "a test that fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The packages of the workspace, with the number of their files that are in a circle. It may only fall.
const PACKAGES: [(&str, usize); 5] = [
    ("lock", 0),
    ("benches", 0),
    ("server", 19),
    ("conformance", 0),
    ("differential", 7),
];

/// Folders of the suite, with the other folders of this list that their files may import.
const FOLDERS: [(&str, &[&str]); 7] = [
    ("vocabulary", &[]),
    ("scenario", &["vocabulary"]),
    ("history", &["scenario", "vocabulary"]),
    ("checker", &["history", "scenario", "vocabulary"]),
    ("backend", &["scenario", "vocabulary"]),
    (
        "simulation",
        &["backend", "history", "scenario", "subject", "vocabulary"],
    ),
    (
        "subject",
        &["backend", "checker", "scenario", "simulation", "vocabulary"],
    ),
];

/// A file, by the names of its modules: `kind/mutex.rs` is `["kind", "mutex"]`, and the root is empty.
type Module = Vec<String>;

#[test]
fn files_do_not_import_each_other_in_circles() {
    for (package, known) in PACKAGES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(package);
        let mut files = BTreeMap::new();
        read_folder(&folder.join("src"), &[], &mut files);
        assert!(files.contains_key(&Vec::new()), "{package} has no root");
        let circles = circles(&files);
        let found: usize = circles.iter().map(BTreeSet::len).sum();
        assert!(
            found <= known,
            "{package}: import circles among {circles:#?}"
        );
    }
}

#[test]
fn folders_of_the_suite_import_only_what_the_data_flow_allows() {
    let mut files = BTreeMap::new();
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/src");
    read_folder(&suite, &[], &mut files);
    let folder = |module: &Module| module.first().map_or("", String::as_str).to_owned();
    let mut known = BTreeSet::new();
    for (from, targets) in edges(&files) {
        let Some((name, allowed)) = FOLDERS.iter().find(|(name, _)| *name == folder(from)) else {
            continue;
        };
        known.insert(name);
        for to in targets.into_iter().map(|to| (folder(to), to)) {
            let is_listed = FOLDERS.iter().any(|(name, _)| *name == to.0);
            assert!(
                !is_listed || to.0 == *name || allowed.contains(&to.0.as_str()),
                "{} imports {}",
                from.join("/"),
                to.1.join("/")
            );
        }
    }
    assert!(FOLDERS.iter().skip(1).all(|(name, _)| known.contains(name)));
}

fn read_folder(folder: &Path, module: &[String], files: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let mut name = module.to_vec();
        if path.is_dir() {
            // Programs are crates of their own.
            if !(module.is_empty() && stem == "bin") {
                name.push(stem.to_owned());
                read_folder(&path, &name, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            match stem {
                "main" if module.is_empty() => continue,
                "mod" | "lib" => {}
                _ => name.push(stem.to_owned()),
            }
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The files that each file imports.
fn edges(files: &BTreeMap<Module, String>) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let imports: BTreeMap<_, _> = files
        .iter()
        .map(|(module, text)| (module, imports(module, text, files)))
        .collect();
    let passed_on: BTreeMap<&Module, BTreeMap<&String, &Vec<String>>> = imports
        .iter()
        .map(|(module, imports)| {
            let public = imports.iter().filter(|import| import.is_public);
            let names = public.filter_map(|import| Some((import.path.last()?, &import.path)));
            (*module, names.collect())
        })
        .collect();
    let mut edges: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (module, imports) in &imports {
        for import in imports.iter() {
            let target = definition(&import.path, files, &passed_on, 0);
            let is_own = import.is_public && target.starts_with(module);
            if !is_own && target != *module && !target.is_empty() {
                edges.entry(module).or_default().insert(target);
            }
        }
    }
    edges
}

/// The circles among these files: sets of files of which each reaches each other.
fn circles(files: &BTreeMap<Module, String>) -> Vec<BTreeSet<String>> {
    let edges = edges(files);
    let mut circles = BTreeSet::new();
    for module in files.keys() {
        let reached = reached(module, &edges);
        if reached.contains(module) {
            let back = reached
                .iter()
                .filter(|other| self::reached(other, &edges).contains(module));
            circles.insert(back.map(|module| module.join("/")).collect());
        }
    }
    circles.into_iter().collect()
}

fn reached<'a>(
    from: &Module,
    edges: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in edges.get(module).into_iter().flatten() {
            if reached.insert(*next) {
                open.push(next);
            }
        }
    }
    reached
}

/// The file that defines what this path names.
fn definition<'a>(
    path: &[String],
    files: &'a BTreeMap<Module, String>,
    passed_on: &BTreeMap<&Module, BTreeMap<&String, &Vec<String>>>,
    depth: usize,
) -> &'a Module {
    /// A name is passed on less often than this.
    const DEPTH_MAX: usize = 8;
    let lengths = (0..=path.len()).rev();
    let (module, length) = lengths
        .filter_map(|length| Some((files.get_key_value(&path[..length])?.0, length)))
        .next()
        .unwrap();
    let Some(name) = path.get(length) else {
        return module;
    };
    match passed_on[module].get(name) {
        Some(origin) if depth < DEPTH_MAX && origin[..] != path[..=length] => {
            let origin = [origin, &path[length + 1..]].concat();
            definition(&origin, files, passed_on, depth + 1)
        }
        _ => module,
    }
}

/// A path from the root of the crate.
struct Import {
    is_public: bool,
    path: Vec<String>,
}

fn imports(module: &Module, text: &str, files: &BTreeMap<Module, String>) -> Vec<Import> {
    let words = words(text);
    let mut imports = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let word = words[at].as_str();
        if word == "use" {
            let end = at + words[at..].iter().position(|word| word == ";").unwrap();
            // `pub use` or `pub(crate) use`.
            let is_public = at > 0 && ["pub", ")"].contains(&words[at - 1].as_str());
            let mut paths = Vec::new();
            expand(&words[at + 1..end], &[], &mut paths);
            imports.extend(paths.into_iter().filter_map(|path| {
                let path = from_root(module, &path, files)?;
                Some(Import { is_public, path })
            }));
            at = end;
        } else if ["crate", "super", "self"].contains(&word)
            && words.get(at + 1).is_some_and(|next| next == "::")
        {
            let mut path = vec![words[at].clone()];
            while words.get(at + 1).is_some_and(|next| next == "::")
                && words.get(at + 2).is_some_and(|next| is_name(next))
            {
                path.push(words[at + 2].clone());
                at += 2;
            }
            let path = from_root(module, &path, files);
            let is_public = false;
            imports.extend(path.map(|path| Import { is_public, path }));
        }
        at += 1;
    }
    imports
}

/// The paths of a tree such as `a::{b, c::d as e}`.
fn expand(tree: &[String], prefix: &[String], paths: &mut Vec<Vec<String>>) {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while at < tree.len() {
        match tree[at].as_str() {
            "::" => {}
            "as" => at += 1,
            "{" => {
                let (mut depth, mut begin) = (0, at + 1);
                for (end, word) in tree.iter().enumerate().skip(at) {
                    match word.as_str() {
                        "{" => depth += 1,
                        "}" => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 || depth == 1 && word == "," {
                        if begin < end {
                            expand(&tree[begin..end], &path, paths);
                        }
                        begin = end + 1;
                    }
                }
                return;
            }
            name => path.push(name.to_owned()),
        }
        at += 1;
    }
    paths.push(path);
}

/// The path from the root of the crate; nothing if it leads to another crate.
fn from_root(
    module: &Module,
    path: &[String],
    files: &BTreeMap<Module, String>,
) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let ups = path.iter().take_while(|name| *name == "super").count();
            let parent = &module[..module.len().checked_sub(ups)?];
            Some([parent, &path[ups..]].concat())
        }
        _ => {
            let child = [&module[..], std::slice::from_ref(first)].concat();
            files
                .contains_key(&child)
                .then(|| [child, rest.to_vec()].concat())
        }
    }
}

/// Names, `::` and single characters of a file, without comments, texts, and the tests at its end.
fn words(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            words.push("::".to_owned());
            2
        } else if rest.starts_with("'\"'") {
            3
        } else if first == '"' {
            text_length(rest)
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let end = end.unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            end
        } else {
            if !first.is_whitespace() {
                words.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    words
}

/// The length of a text in quotes.
fn text_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let module = |name: &str| -> Module {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let files = files
        .iter()
        .map(|(name, text)| (module(name), (*text).to_owned()));
    let circles = circles(&files.collect());
    circles
        .into_iter()
        .map(|circle| circle.into_iter().collect())
        .collect()
}

#[test]
fn a_circle_is_found() {
    let circle = [["a", "b"]];
    for (a, b) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use crate::{b::B, c};", "use super::a::{self, A as Other};"),
        ("fn f() { crate::b::g() }", "type T = super::a::A;"),
        (
            "use crate::{c::{C, D}, b};",
            "/// It's a text.\nuse crate::a;",
        ),
    ] {
        assert_eq!(
            found(&[("", ""), ("a", a), ("b", b), ("c", "")]),
            circle,
            "{a}"
        );
    }
    let through = [
        ("", ""),
        ("a", "use crate::b;"),
        ("b", "use crate::c;"),
        ("c", "use crate::a;"),
    ];
    assert_eq!(found(&through), [["a", "b", "c"]]);
}

#[test]
fn a_name_that_is_passed_on_leads_to_its_definition() {
    let parent = "mod b; mod c; pub use b::B; pub trait A {}";
    assert_eq!(
        found(&[
            ("", ""),
            ("a", parent),
            ("a/b", "use super::A;"),
            ("a/c", "")
        ]),
        [[""; 0]; 0]
    );
    let sibling = found(&[
        ("", ""),
        ("a", parent),
        ("a/b", "use super::c::C;"),
        ("a/c", "use super::B;"),
    ]);
    assert_eq!(sibling, [["a/b", "a/c"]]);
    let parent = "mod b; use b::B; pub trait A {}";
    assert_eq!(
        found(&[("", ""), ("a", parent), ("a/b", "use super::A;")]),
        [["a", "a/b"]]
    );
}

#[test]
fn comments_texts_and_tests_are_no_imports() {
    for a in [
        "// use crate::b;",
        "const T: &str = \"use crate::b; \\\" crate::b::f\";",
        "#[cfg(test)]\nmod tests { use crate::b; }",
        "use other::b;",
    ] {
        assert_eq!(
            found(&[("", ""), ("a", a), ("b", "use crate::a;")]),
            [[""; 0]; 0],
            "{a}"
        );
    }
}
