//! Checks the statements of ARCHITECTURE.md about the crates: which may use which, what each must not know, and how
//! large the import circles among the modules of a crate are.
//!
//! Reads the sources as text; nothing of the other crates is built.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use dipper_base::retry;

/// The crates that each crate may use, in the order of ARCHITECTURE.md: a crate uses only crates above it.
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("text", &["base"]),
    ("cache", &["base"]),
    ("store", &["base"]),
    ("load", &["base", "text", "store"]),
    ("point", &["base", "store"]),
    ("iceberg", &["store"]),
    ("dialect", &["base"]),
    ("mysql", &["base"]),
    ("operators", &[]),
    ("sql", &["base", "dialect", "operators"]),
    ("node", &["base", "text", "cache", "store", "load", "point", "iceberg", "dialect"]),
    ("ingest", &["base", "text", "store", "load", "node"]),
    ("exec", &["base", "text", "cache", "store", "load", "iceberg", "sql", "node", "operators"]),
    ("variables", &["base", "text", "dialect", "node", "exec"]),
    ("lake", &["base", "text", "cache", "store", "iceberg", "dialect", "sql", "node", "exec"]),
    (
        "engine",
        &[
            "base",
            "text",
            "cache",
            "store",
            "load",
            "point",
            "iceberg",
            "dialect",
            "sql",
            "node",
            "ingest",
            "exec",
            "variables",
            "lake",
        ],
    ),
    ("server", &["store", "point", "dialect", "mysql", "sql", "engine"]),
    ("cli", &["base", "dialect", "sql", "engine", "server"]),
];

/// Libraries that a crate must not know.
const UNKNOWN: &[(&str, &[&str])] = &[
    ("base", &["datafusion", "parquet", "tokio", "object_store", "sqlparser"]),
    ("text", &["datafusion", "parquet", "tokio", "object_store", "sqlparser"]),
    ("cache", &["datafusion", "parquet", "arrow", "sqlparser"]),
    ("store", &["datafusion", "sqlparser"]),
    ("load", &["datafusion", "sqlparser"]),
    ("point", &["datafusion", "sqlparser"]),
    ("iceberg", &["datafusion", "sqlparser"]),
    ("dialect", &["datafusion", "parquet", "tokio", "object_store", "arrow"]),
    ("mysql", &["datafusion", "parquet", "object_store", "sqlparser"]),
    ("sql", &["parquet", "tokio", "object_store"]),
    ("ingest", &["datafusion", "sqlparser"]),
    ("operators", &["datafusion", "parquet", "tokio", "object_store", "sqlparser"]),
    ("server", &["datafusion", "parquet", "sqlparser"]),
];

/// The largest circle of modules in a crate that import each other, not counting a module's parents and children. The
/// number of engine is today's: it may fall and not rise.
const CIRCLES: &[(&str, usize)] = &[
    ("dialect", 12),
    ("sql", 12),
    ("node", 12),
    ("ingest", 12),
    ("exec", 12),
    ("variables", 12),
    ("lake", 12),
    ("engine", 12),
];

/// Maximum number of lines of a crate's sources, without tests.
const LINES: &[(&str, usize)] = &[("engine", 26_000)];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The names in a section of a Cargo.toml.
fn section(manifest: &str, head: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| line.trim() != head).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()));
    names.filter_map(|line| line.split(['.', ' ', '=']).next()).map(str::to_string).collect()
}

#[test]
fn crates_use_only_what_is_above_them() {
    let names: Vec<&str> = EDGES.iter().map(|(name, _)| *name).collect();
    let mut found: Vec<String> =
        fs::read_dir(crates()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    found.sort_unstable();
    let mut listed: Vec<&str> = names.clone();
    listed.sort_unstable();
    assert_eq!(found, listed, "crates/ and EDGES");
    for (at, (name, uses)) in EDGES.iter().enumerate() {
        for used in *uses {
            assert!(names[..at].contains(used), "{name} uses {used}, which is not above it");
        }
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        let dependencies = section(&manifest, "[dependencies]");
        let own: BTreeSet<&str> = dependencies.iter().filter_map(|d| d.strip_prefix("dipper-")).collect();
        assert_eq!(own, uses.iter().copied().collect(), "crates that {name} uses");
    }
}

/// The binary `cli` is above all others and may know everything.
#[test]
fn crates_say_what_they_must_not_know() {
    for (name, _) in EDGES.iter().filter(|(name, _)| *name != "cli") {
        let text = fs::read_to_string(crates().join(name).join("src/lib.rs")).unwrap();
        let says = text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains("must not know"));
        assert!(says, "the header of {name}/src/lib.rs does not say what the crate must not know");
    }
}

/// Texts of all sources below a directory.
fn texts(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.is_dir() {
        true => texts(&path),
        false => vec![fs::read_to_string(&path).unwrap()],
    };
    entries.filter(|path| path.is_dir() || path.extension().is_some_and(|e| e == "rs")).flat_map(of).collect()
}

/// Cargo compiles a crate once more to look for examples in the documentation of the crate. Crates without examples say
/// so, and crates that say so have none.
#[test]
fn examples_of_the_documentation_run() {
    for (name, _) in EDGES.iter().filter(|(name, _)| *name != "cli") {
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        let has_examples = texts(&crates().join(name).join("src")).iter().any(|text| {
            let lines = text.lines().map(str::trim_start).filter_map(|line| {
                line.strip_prefix("///").or(line.strip_prefix("//!"))?.trim_start().strip_prefix("```")
            });
            // Each other fence ends a block.
            lines.step_by(2).any(|language| matches!(language.trim(), "" | "rust" | "no_run" | "should_panic"))
        });
        assert_ne!(manifest.contains("\ndoctest = false\n"), has_examples, "examples and `doctest = false` of {name}");
    }
}

#[test]
fn crates_know_no_more_than_they_may() {
    for (name, libraries) in UNKNOWN {
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        let dependencies = section(&manifest, "[dependencies]");
        for library in *libraries {
            let known = dependencies.iter().any(|d| d == library || d == &library.replace('_', "-"));
            assert!(!known, "{name} must not know {library}");
        }
    }
}

/// Returns each module of a crate, as its path, with its text. Tests are not modules of the product.
fn modules(name: &str) -> BTreeMap<Vec<String>, String> {
    fn read(directory: &Path, path: &[String], out: &mut BTreeMap<Vec<String>, String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let file = entry.unwrap().path();
            let stem = file.file_stem().unwrap().to_str().unwrap().to_string();
            if file.is_dir() {
                read(&file, &[path, &[stem]].concat(), out);
            } else if file.extension().is_some_and(|e| e == "rs") {
                let own = match stem.as_str() {
                    "mod" | "lib" => path.to_vec(),
                    _ => [path, &[stem]].concat(),
                };
                let text = fs::read_to_string(&file).unwrap();
                let product = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
                let code = product.lines().filter(|line| !line.trim_start().starts_with("//"));
                out.insert(own, code.collect::<Vec<_>>().join("\n"));
            }
        }
    }
    let mut out = BTreeMap::new();
    read(&crates().join(name).join("src"), &[], &mut out);
    out
}

/// The modules that a module's text names by `crate::`, `super::` or `self::`.
fn imports(own: &[String], text: &str, all: &BTreeMap<Vec<String>, String>) -> BTreeSet<Vec<String>> {
    let mut out = BTreeSet::new();
    for (root, base) in [("crate::", &[][..]), ("super::", &own[..own.len().saturating_sub(1)]), ("self::", own)] {
        for (at, _) in text.match_indices(root) {
            if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            let rest = &text[at + root.len()..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
            let mut firsts = vec![rest[..end].to_string()];
            if let Some(list) = rest[end..].strip_prefix('{') {
                let list = &list[..list.find(['}', ';']).unwrap_or(list.len())];
                firsts = list.split(',').map(|item| format!("{}{}", &rest[..end], item.trim())).collect();
            }
            for first in firsts {
                let mut path = base.to_vec();
                let mut deepest = None;
                for part in first.split("::").map(str::trim).filter(|part| !part.is_empty()) {
                    path.push(part.split(' ').next().unwrap().to_string());
                    if all.contains_key(&path) {
                        deepest = Some(path.clone());
                    }
                }
                out.extend(deepest);
            }
        }
    }
    out.remove(own);
    out
}

/// Returns the largest set of modules each of which reaches every other by imports.
fn largest_circle(name: &str) -> Vec<String> {
    let all = modules(name);
    let keys: Vec<&Vec<String>> = all.keys().collect();
    let place: BTreeMap<&Vec<String>, usize> = keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
    let edges: Vec<Vec<usize>> = keys
        .iter()
        .map(|own| {
            let found = imports(own, &all[*own], &all);
            let kin = |other: &Vec<String>| other.starts_with(own) || own.starts_with(other);
            found.iter().filter(|other| !kin(other)).map(|other| place[other]).collect()
        })
        .collect();
    let reach: Vec<BTreeSet<usize>> = (0..keys.len())
        .map(|from| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(at) = open.pop() {
                open.extend(edges[at].iter().filter(|to| seen.insert(**to)));
            }
            seen
        })
        .collect();
    let both_ways = |one: usize, other: usize| reach[one].contains(&other) && reach[other].contains(&one);
    let circle = |one| (0..keys.len()).filter(|other| both_ways(one, *other)).collect::<Vec<_>>();
    let largest = (0..keys.len()).map(circle).max_by_key(Vec::len).unwrap_or_default();
    largest.into_iter().map(|at| keys[at].join("::")).collect()
}

#[test]
fn circles_of_imports_are_small() {
    for (name, most) in CIRCLES {
        let circle = largest_circle(name);
        assert!(circle.len() <= *most, "{} modules of {name} import each other: {}", circle.len(), circle.join(", "));
    }
}

/// Counts the lines of a crate's sources, without modules of tests.
fn lines(directory: &Path) -> usize {
    let mut sum = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let file = entry.unwrap().path();
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let is_test = stem.ends_with("_tests") || stem == "tests" || stem == "trouble";
        if is_test {
            continue;
        }
        if file.is_dir() {
            sum += lines(&file);
        } else if file.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&file).unwrap();
            sum += text.split("\n#[cfg(test)]\nmod tests").next().unwrap().lines().count();
        }
    }
    sum
}

#[test]
fn crates_are_no_larger_than_they_may() {
    for (name, most) in LINES {
        let found = lines(&crates().join(name).join("src"));
        assert!(found <= *most, "{name} has {found} lines: what needs no session belongs to a crate below it");
    }
}

/// The sources of all crates, without the file that defines the policies.
fn sources(directory: &Path, out: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let file = entry.unwrap().path();
        if file.is_dir() {
            sources(&file, out);
        } else if file.extension().is_some_and(|e| e == "rs") && !file.ends_with("base/src/retry.rs") {
            out.push_str(&fs::read_to_string(&file).unwrap());
        }
    }
}

#[test]
fn every_policy_of_what_is_tried_again_is_used_and_described() {
    let page = fs::read_to_string(crates().parent().unwrap().join("ARCHITECTURE.md")).unwrap();
    let section = page.split("\n### When the store fails\n").nth(1).unwrap().split("\n### ").next().unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let names: Vec<&str> = rows.iter().map(|row| row.split('`').nth(1).unwrap()).collect();
    assert_eq!(names, retry::ALL.iter().map(|policy| policy.name).collect::<Vec<_>>());
    let mut code = String::new();
    for (name, _) in EDGES {
        sources(&crates().join(name).join("src"), &mut code);
    }
    for (policy, row) in retry::ALL.iter().zip(&rows) {
        let attempts = match policy.attempts {
            u32::MAX => "no limit".to_string(),
            attempts => format!("{attempts} attempts"),
        };
        assert!(row.contains(&attempts), "{row}\nhas not '{attempts}'");
        let seconds = policy.unless_took.map(|long| format!("within {} seconds", long.as_secs()));
        assert!(seconds.is_none_or(|seconds| row.contains(&seconds)), "{row}\n{policy:?}");
        assert!(code.contains(&format!("retry::{}", policy.name)), "{} is not used", policy.name);
        for file in row.split('`').filter(|word| word.starts_with("crates/")) {
            let text = fs::read_to_string(crates().parent().unwrap().join(file)).expect(file);
            assert!(text.contains(&format!("retry::{}", policy.name)), "{file} does not use {}", policy.name);
        }
    }
}
