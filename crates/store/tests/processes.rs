//! Several processes on one data directory, killed at any moment.
//!
//! The test starts itself as a child that changes its own database in one shared catalog, and reports each change
//! before it begins (`try`) and after it was acknowledged (`ok`). The parent kills children with SIGKILL, opens the
//! directory and compares: acknowledged changes are there, and of the others at most the one that was under way.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use dipper_store::catalog::{
    Catalog, CatalogChange, Column, ExternalTable, OnExists, Partition, TableDef, TableKind, View,
};
use dipper_store::chain::Options;
use dipper_store::local::LocalStore;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const CYCLES: usize = 200;
const CHILDREN: usize = 2;

/// Tables of one database: name to kind and number of partitions.
type Tables = BTreeMap<String, (TableKind, usize)>;

/// The next change of a child. Deterministic, so that the parent can follow it line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Create { name: String, view: bool },
    Drop { name: String, kind: TableKind },
    Rename { name: String, to: String },
    AddPartition { name: String, value: usize },
}

impl Step {
    fn random(tables: &Tables, rng: &mut StdRng) -> Self {
        let free = (0..).map(|i| format!("t{i}")).find(|n| !tables.contains_key(n)).expect("endless");
        let chosen = tables.iter().nth(rng.random_range(0..tables.len().max(1)));
        match (chosen, rng.random_range(0..10)) {
            (None, _) | (_, 0..4) => Self::Create { name: free, view: rng.random_range(0..3) == 0 },
            (Some((name, (kind, _))), 4..6) => Self::Drop { name: name.clone(), kind: *kind },
            (Some((name, (TableKind::Table, n))), 6..9) => Self::AddPartition { name: name.clone(), value: *n },
            (Some((name, _)), _) => Self::Rename { name: name.clone(), to: free },
        }
    }

    fn to_line(&self) -> String {
        match self {
            Self::Create { name, view } => format!("create {name} {view}"),
            Self::Drop { name, kind } => format!("drop {name} {}", *kind == TableKind::View),
            Self::Rename { name, to } => format!("rename {name} {to}"),
            Self::AddPartition { name, value } => format!("add {name} {value}"),
        }
    }

    fn from_line(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let name = words[1].to_string();
        match words[0] {
            "create" => Self::Create { name, view: words[2] == "true" },
            "drop" if words[2] == "true" => Self::Drop { name, kind: TableKind::View },
            "drop" => Self::Drop { name, kind: TableKind::Table },
            "rename" => Self::Rename { name, to: words[2].to_string() },
            "add" => Self::AddPartition { name, value: words[2].parse().unwrap() },
            other => panic!("unknown step {other:?}"),
        }
    }

    fn apply(&self, tables: &mut Tables) {
        match self {
            Self::Create { name, view } => {
                let kind = if *view { TableKind::View } else { TableKind::Table };
                assert!(tables.insert(name.clone(), (kind, 0)).is_none());
            }
            Self::Drop { name, .. } => drop(tables.remove(name).unwrap()),
            Self::Rename { name, to } => {
                let table = tables.remove(name).unwrap();
                assert!(tables.insert(to.clone(), table).is_none());
            }
            Self::AddPartition { name, .. } => tables.get_mut(name).unwrap().1 += 1,
        }
    }

    fn change(&self, db: &str) -> CatalogChange {
        let db = db.to_string();
        match self.clone() {
            Self::Create { name, view: true } => {
                let def = TableDef::View(View { sql: format!("select '{name}'"), ..View::default() });
                CatalogChange::create(db, name, def, OnExists::Fail)
            }
            Self::Create { name, view: false } => {
                let def = TableDef::External(ExternalTable {
                    columns: vec![Column::new("id", "BIGINT")],
                    partition_columns: vec![Column::new("dt", "STRING")],
                    format: "textfile".into(),
                    location: format!("/data/{name}"),
                    ..ExternalTable::default()
                });
                CatalogChange::create(db, name, def, OnExists::Fail)
            }
            Self::Drop { name, kind } => CatalogChange::Drop { db, name, kind, if_exists: false },
            Self::Rename { name, to } => CatalogChange::Rename { to_db: db.clone(), db, name, to_name: to },
            Self::AddPartition { name, value } => CatalogChange::AddPartitions {
                db,
                name,
                partitions: vec![Partition { values: vec![Some(value.to_string())], location: None }],
                if_not_exists: false,
            },
        }
    }
}

fn tables_of(catalog: &Catalog, db: &str) -> Tables {
    let state = catalog.snapshot();
    let Some(db) = state.database(db) else { return Tables::new() };
    let partitions = |t: &ExternalTable| t.partitions.len();
    db.tables.values().map(|t| (t.name.clone(), (t.def.kind(), t.as_external().map_or(0, partitions)))).collect()
}

/// Small limits, so that checkpoints and deletes are under way when the kill comes.
fn options() -> Options {
    Options { checkpoint_versions: 6, ..Options::default() }
}

async fn open(dir: &Path) -> Catalog {
    Catalog::open_with(Arc::new(LocalStore::open(dir).unwrap()), options()).await.unwrap()
}

async fn child(dir: &Path, db: &str, seed: u64, steps: usize) {
    let catalog = open(dir).await;
    let mut rng = StdRng::seed_from_u64(seed);
    catalog.commit(vec![CatalogChange::create_database(db, true)]).await.unwrap();
    let mut tables = tables_of(&catalog, db);
    for _ in 0..steps {
        let step = Step::random(&tables, &mut rng);
        println!("try {}", step.to_line());
        if let Err(e) = catalog.commit(vec![step.change(db)]).await {
            println!("failed {e}");
            return;
        }
        println!("ok");
        step.apply(&mut tables);
    }
    println!("end");
}

fn start(dir: &Path, db: &str, seed: u64, steps: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", dir.to_str().unwrap(), db, &seed.to_string(), &steps.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Follows the output of a child; returns the step that was under way, if any.
fn follow(child: &mut Child, tables: &mut Tables) -> (Option<Step>, bool) {
    let (mut open, mut ended) = (None, false);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    // The last line may be cut off by the kill: then it was not written whole, and is not counted.
    while out.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        match line.trim_end().split_once(' ') {
            Some(("try", step)) => open = Some(Step::from_line(step)),
            Some(("failed", why)) => panic!("a child's change failed: {why}"),
            _ if line == "ok\n" => open.take().expect("ok follows try").apply(tables),
            _ if line == "end\n" => ended = true,
            _ => panic!("unknown line {line:?}"),
        }
        line.clear();
    }
    (open, ended)
}

fn killed_at_random_moments(runtime: &tokio::runtime::Runtime) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut models = vec![Tables::new(); CHILDREN];
    let (mut committed, mut last_version) = (0, 0);
    for cycle in 0..CYCLES {
        let mut children: Vec<Child> =
            (0..CHILDREN).map(|c| start(&data, &format!("d{c}"), rng.random(), usize::MAX)).collect();
        for child in &mut children {
            std::thread::sleep(Duration::from_micros(rng.random_range(0..60_000)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let catalog = runtime.block_on(open(&data));
        for (c, child) in children.iter_mut().enumerate() {
            let (model, db) = (&mut models[c], format!("d{c}"));
            let (under_way, _) = follow(child, model);
            let found = tables_of(&catalog, &db);
            if found != *model {
                let step =
                    under_way.unwrap_or_else(|| panic!("cycle {cycle}, {db}: {found:?}, acknowledged {model:?}"));
                step.apply(model);
                assert_eq!(found, *model, "cycle {cycle}, {db}, with {step:?}");
            }
        }
        assert!(catalog.version() >= last_version, "versions went back in cycle {cycle}");
        committed += catalog.version() - last_version;
        last_version = catalog.version();
    }
    assert!(committed > CYCLES as u64, "only {committed} versions: the children were killed before they did anything");
    let temps = std::fs::read_dir(data.join(".dipper/tmp")).unwrap().count();
    assert_eq!(temps, 0, "unfinished files stay behind");
    let versions = std::fs::read_dir(data.join("catalog/v")).unwrap().count();
    assert!(versions < 200, "{versions} versions: nothing is freed");
    println!("{CYCLES} cycles, {committed} versions");
}

/// Without kills: nothing is lost between processes that commit to one chain at the same time.
fn together(runtime: &tokio::runtime::Runtime) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut children: Vec<Child> = (0..4).map(|c| start(&data, &format!("d{c}"), c, 60)).collect();
    let mut models = vec![Tables::new(); children.len()];
    for (child, model) in children.iter_mut().zip(&mut models) {
        assert_eq!(follow(child, model), (None, true));
        assert!(child.wait().unwrap().success());
    }
    let catalog = runtime.block_on(open(&data));
    for (c, model) in models.iter().enumerate() {
        assert_eq!(tables_of(&catalog, &format!("d{c}")), *model);
    }
    assert_eq!(catalog.version(), 4 + 4 * 60, "one version a change");
    println!("4 processes, {} versions", catalog.version());
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let args: Vec<String> = std::env::args().collect();
    if let [_, mode, dir, db, seed, steps] = &args[..]
        && mode == "child"
    {
        runtime.block_on(child(Path::new(dir), db, seed.parse().unwrap(), steps.parse().unwrap()));
        std::io::stdout().flush().unwrap();
        return;
    }
    type Test = fn(&tokio::runtime::Runtime);
    let tests: [(&str, Test); 2] =
        [("together", together), ("slow_killed_at_random_moments", killed_at_random_moments)];
    // Like the usual harness: words select tests, `--skip` excludes some, `--list` names them.
    let (mut wanted, mut skipped, mut list) = (Vec::new(), Vec::new(), false);
    let mut rest = args[1..].iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--skip" => skipped.extend(rest.next()),
            "--list" => list = true,
            "--test-threads" | "--format" | "--color" => drop(rest.next()),
            word if !word.starts_with('-') => wanted.push(arg),
            _ => {} // options for the output of the usual harness
        }
    }
    for (name, test) in tests {
        let chosen = wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str()));
        if list {
            println!("{name}: test");
        } else if chosen && !skipped.iter().any(|w| name.contains(w.as_str())) {
            test(&runtime);
            println!("test {name} ... ok");
        }
    }
}
