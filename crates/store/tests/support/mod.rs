//! The stores that tests run on: memory, a local directory, and an S3 server.
//!
//! The server is versitygw, started on loopback with a directory of its own and stopped with the test. It is searched
//! for in `DIPPER_VERSITYGW`, in `~/.cache/dipper/bin` (where `make test` puts it) and in `PATH`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dipper_store::local::LocalStore;
use object_store::aws::AmazonS3Builder;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;

const KEY: &str = "dipper";
const SECRET: &str = "dipper-secret";
const BUCKET: &str = "tables";

/// A store, with the directory or server that holds it.
pub struct Stage {
    pub name: &'static str,
    pub store: Arc<dyn ObjectStore>,
    _dir: Option<TempDir>,
    _server: Option<Server>,
}

/// A server that is killed when this is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns all stores that are available.
pub async fn stages() -> Vec<Stage> {
    let dir = tempfile::tempdir().unwrap();
    let local = LocalStore::open(dir.path().join("data")).unwrap();
    let mut all = vec![
        Stage { name: "memory", store: Arc::new(InMemory::new()), _dir: None, _server: None },
        Stage { name: "local", store: Arc::new(local), _dir: Some(dir), _server: None },
    ];
    match gateway() {
        Some(program) => all.push(s3(program).await),
        // CI must not leave the bucket out, but somebody who works on something else may.
        None if std::env::var_os("CI").is_some() => panic!("versitygw is not installed: make gateway"),
        None => eprintln!("not run on S3: versitygw is not installed; `make gateway` installs it where Go is"),
    }
    all
}

fn gateway() -> Option<PathBuf> {
    if let Some(set) = std::env::var_os("DIPPER_VERSITYGW") {
        return Some(set.into());
    }
    let cached = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/dipper/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = cached.into_iter().chain(std::env::split_paths(&path));
    dirs.map(|dir| dir.join("versitygw")).find(|program| program.is_file())
}

async fn s3(program: PathBuf) -> Stage {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(BUCKET)).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Command::new(&program)
        .args(["--access", KEY, "--secret", SECRET, "--port", &format!("127.0.0.1:{port}"), "--quiet", "posix"])
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    let server = Server(server);
    let store = AmazonS3Builder::new()
        .with_endpoint(format!("http://127.0.0.1:{port}"))
        .with_allow_http(true)
        .with_virtual_hosted_style_request(false)
        .with_region("us-east-1")
        .with_access_key_id(KEY)
        .with_secret_access_key(SECRET)
        .with_bucket_name(BUCKET)
        .build()
        .unwrap();
    let began = Instant::now();
    while let Err(e) = store.put(&Path::from("ready"), "yes".into()).await {
        assert!(began.elapsed() < Duration::from_secs(30), "versitygw does not answer: {e}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    store.delete(&Path::from("ready")).await.unwrap();
    Stage { name: "s3", store: Arc::new(store), _dir: Some(dir), _server: Some(server) }
}
