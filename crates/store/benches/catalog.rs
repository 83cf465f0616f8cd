//! The cost of a catalog on a local disk, at several sizes: `cargo bench -p dipper-store`. Times are medians; beside
//! them the bare system calls of a put (write, fdatasync, link, fsync) in the same directory, since disks differ more
//! than code does. As a test (`cargo test --benches`, no `--bench` argument) it runs once with few tables.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dipper_store::catalog::{Catalog, CatalogChange, Column, ExternalTable, OnExists, TableDef};
use dipper_store::local::LocalStore;

fn table(columns: usize) -> TableDef {
    TableDef::External(ExternalTable {
        columns: (0..columns).map(|i| Column::new(format!("column_{i}"), "ARRAY<STRING>")).collect(),
        format: "textfile".into(),
        location: "/warehouse/sales.db/orders".into(),
        ddl: "CREATE EXTERNAL TABLE ...".repeat(columns),
        ..ExternalTable::default()
    })
}

fn create(db: &str, name: usize) -> CatalogChange {
    CatalogChange::create(db, format!("t{name}"), table(10), OnExists::Fail)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

async fn timed<F: Future>(rounds: usize, mut run: impl FnMut(usize) -> F) -> f64 {
    let mut times = Vec::with_capacity(rounds);
    for i in 0..rounds {
        let began = Instant::now();
        run(i).await;
        times.push(began.elapsed());
    }
    median(times)
}

/// Makes the system calls that a durable put cannot do without.
fn bare_put(dir: &Path, name: usize) -> std::io::Result<()> {
    let temp = dir.join(format!("temp{name}"));
    let mut file = std::fs::File::create(&temp)?;
    file.write_all(&[7; 1000])?;
    file.sync_data()?;
    std::fs::hard_link(&temp, dir.join(format!("{name}")))?;
    std::fs::File::open(dir)?.sync_all()?;
    std::fs::remove_file(&temp)
}

async fn at_size(tables: usize, rounds: usize) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = || Arc::new(LocalStore::open(dir.path().join("data")).expect("an empty directory"));
    let catalog = Catalog::open(store()).await.expect("an empty store");
    catalog.commit(vec![CatalogChange::create_database("d", false)]).await.expect("a first commit");
    for chunk in (0..tables).collect::<Vec<_>>().chunks(500) {
        catalog.commit(chunk.iter().map(|&i| create("d", i)).collect()).await.expect("free names");
    }
    let bare = dir.path().join("bare");
    std::fs::create_dir(&bare).expect("a free name");
    let (mut commits, mut puts) = (Vec::new(), Vec::new());
    for i in 0..rounds {
        // One after the other, so that both meet the same conditions.
        let began = Instant::now();
        catalog.commit(vec![create("d", tables + i)]).await.expect("free names");
        commits.push(began.elapsed());
        let began = Instant::now();
        bare_put(&bare, i).expect("a free name");
        puts.push(began.elapsed());
    }
    let refresh = timed(rounds, |_| async { drop(catalog.refresh().await.expect("a healthy store")) }).await;
    let open = timed(rounds.min(21), |_| async { drop(Catalog::open(store()).await.expect("a healthy store")) }).await;
    let (commit, put) = (median(commits), median(puts));
    println!("{tables:>7} {commit:>10.0} {put:>10.0} {:>7.2} {refresh:>11.0} {open:>10.0}", commit / put);
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let full = std::env::args().any(|a| a == "--bench");
    println!(" tables  commit us    puts us   ratio  refresh us    open us");
    for tables in if full { &[10, 1_000, 10_000][..] } else { &[10][..] } {
        runtime.block_on(at_size(*tables, if full { 201 } else { 5 }));
    }
}
