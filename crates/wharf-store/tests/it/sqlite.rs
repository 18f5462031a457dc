//! A SQLite file fulfils the contract, also for two handles that share it and for the next process
//! that opens it.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use wharf_model::{AttachResult, Record, Sharing, Stores};
use wharf_store::{contract, open};

/// Temporary directory, removed with the test.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wharf-store-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        TestDirectory(path)
    }

    /// The URL of a new file in it.
    fn new_url(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        format!("sqlite:{}", self.0.join(format!("{number}.db")).display())
    }

    /// Opens two handles on a new file.
    async fn open_twice(&self) -> [Stores; 2] {
        let url = self.new_url();
        [open(&url).await.unwrap(), open(&url).await.unwrap()]
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records() {
    let directory = TestDirectory::new();
    contract::records(|| async { open(&directory.new_url()).await.unwrap().tasks }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_two_handles_on_one_file() {
    let directory = TestDirectory::new();
    contract::records(|| async {
        directory.open_twice().await.map(|stores| stores.sessions).to_vec()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events() {
    let directory = TestDirectory::new();
    contract::events(|| async {
        directory.open_twice().await.map(|stores| stores.events).to_vec()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bus_nonces_and_rates() {
    let directory = TestDirectory::new();
    contract::bus(|| async { open(&directory.new_url()).await.unwrap().bus }).await;
    contract::nonces(|| async {
        directory.open_twice().await.map(|stores| stores.nonces).to_vec()
    })
    .await;
    contract::rates(|| async { open(&directory.new_url()).await.unwrap().rates }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_data_survives_reopening() {
    let directory = TestDirectory::new();
    for settings in ["", "?synchronous=normal", "?synchronous=full"] {
        let url = directory.new_url() + settings;
        let first = open(&url).await.unwrap();
        assert_eq!(first.sharing, Sharing::Machine);
        contract::leave_traces(&first).await;
        contract::find_traces(&first).await;
        drop(first);
        contract::find_traces(&open(&url).await.unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writes_at_once_are_all_written() {
    let directory = TestDirectory::new();
    let url = directory.new_url();
    let stores = open(&url).await.unwrap();
    let inserts = (0..2_000).map(|n| {
        let record = Record::new(n.to_string()).owner((n % 7).to_string());
        tokio::spawn(stores.tasks.insert(record, 1_000))
    });
    for insert in inserts.collect::<Vec<_>>() {
        assert_eq!(insert.await.unwrap(), Ok(true));
    }
    drop(stores);
    let stores = open(&url).await.unwrap();
    assert_eq!(stores.tasks.list("3", None, 1_000).await.unwrap().len(), 286);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_counts_for_its_new_owner_after_a_swap() {
    let directory = TestDirectory::new();
    let store = open(&directory.new_url()).await.unwrap().tasks;
    let record = |id: &str, owner: &str| Record::new(id.to_owned()).owner(owner.to_owned());
    assert!(store.insert(record("first", "old"), 1).await.unwrap());
    assert!(store.swap(record("first", "new").version(1)).await.unwrap());
    assert!(!store.insert(record("second", "new"), 1).await.unwrap());
    assert!(store.insert(record("second", "old"), 1).await.unwrap());
    assert!(store.remove("first").await.unwrap());
    assert!(store.insert(record("third", "new"), 1).await.unwrap());
    assert!(!store.insert(record("fourth", "old"), 1).await.unwrap());
}

#[tokio::test]
async fn writes_beyond_the_queue_are_rejected() {
    let directory = TestDirectory::new();
    let url = directory.new_url();
    let stores = open(&url).await.unwrap();
    // Another process writes, so that ours must wait.
    let other = rusqlite::Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let inserts: Vec<_> = (0..6_000)
        .map(|n| {
            let record = Record::new(n.to_string());
            tokio::spawn(stores.tasks.insert(record, 100_000))
        })
        .collect();
    // It runs after all of the inserts have been queued.
    tokio::spawn(async move { other.execute_batch("COMMIT").unwrap() });
    let mut refused = 0;
    for insert in inserts {
        match insert.await.unwrap() {
            Ok(stored) => assert!(stored),
            Err(error) => {
                assert!(error.kind.is_overloaded(), "{error:?}");
                refused += 1;
            }
        }
    }
    // 4,096 jobs are queued, and up to 512 more are being written.
    assert!((6_000 - 4_096 - 512..=6_000 - 4_096).contains(&refused), "{refused} of them");
    assert!(stores.health.is_ready(), "overload does not make the store unready");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_access_the_files() {
    use std::os::unix::fs::PermissionsExt;

    let directory = TestDirectory::new();
    let url = directory.new_url();
    let stores = open(&url).await.unwrap();
    stores.tasks.insert(Record::default(), 1).await.unwrap();
    let path = url.strip_prefix("sqlite:").unwrap();
    for beside in ["", "-wal", "-shm"] {
        let mode = fs::metadata(format!("{path}{beside}")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{beside}");
    }
}

#[tokio::test]
async fn a_write_error_makes_the_store_unready_until_it_recovers() {
    let directory = TestDirectory::new();
    let url = directory.new_url();
    let stores = open(&url).await.unwrap();
    let other = rusqlite::Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap();
    other.execute_batch("ALTER TABLE records RENAME TO hidden").unwrap();
    let insert = |id: &str| {
        let record = Record::new(id);
        stores.tasks.insert(record, 9)
    };
    let error = insert("a").await.unwrap_err();
    assert!(error.kind.is_temporarily_unavailable(), "{error:?}");
    assert!(!error.message.contains("records"), "no internal detail: {error}");
    assert!(!stores.health.is_ready());
    other.execute_batch("ALTER TABLE hidden RENAME TO records").unwrap();
    // The store recovers without requests: while it is not ready, none may be sent.
    while !stores.health.is_ready() {
        tokio::task::yield_now().await;
    }
    assert_eq!(insert("a").await, Ok(true));
}

#[cfg(unix)]
#[tokio::test]
async fn a_deleted_file_is_detected_and_accepted_back() {
    let directory = TestDirectory::new();
    let url = directory.new_url();
    let path = url.strip_prefix("sqlite:").unwrap();
    let stores = open(&url).await.unwrap();
    let record = |id: &str| Record::new(id);
    assert!(stores.tasks.insert(record("a"), 9).await.unwrap());
    let aside = format!("{path}.aside");
    fs::rename(path, &aside).unwrap();
    // No write is pending, and the deletion is detected all the same.
    until(|| !stores.health.is_ready()).await;
    let error = stores.tasks.insert(record("b"), 9).await.unwrap_err();
    assert!(error.message.contains("deleted or replaced"), "{error}");
    // Another file of that name is not the store.
    fs::write(path, "").unwrap();
    assert!(stores.tasks.insert(record("b"), 9).await.is_err());
    fs::rename(&aside, path).unwrap();
    until(|| stores.health.is_ready()).await;
    assert!(stores.tasks.insert(record("b"), 9).await.unwrap());
    assert!(stores.tasks.load("a").await.unwrap().is_some());
}

#[cfg(unix)]
async fn until(is: impl Fn() -> bool) {
    while !is() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn foreign_files_are_rejected() {
    let directory = TestDirectory::new();
    let url = directory.new_url();
    let path = url.strip_prefix("sqlite:").unwrap();
    let theirs = rusqlite::Connection::open(path).unwrap();
    theirs.execute_batch("CREATE TABLE theirs (x)").unwrap();
    let error = open(&url).await.unwrap_err();
    assert!(error.message().contains("another program"), "{error}");
    fs::write(path, "no database at all, but long enough to be taken for one".repeat(100)).unwrap();
    assert!(open(&url).await.is_err());
}

#[tokio::test]
async fn invalid_urls_are_rejected_with_advice() {
    let missing = format!("sqlite:{}/no/such/directory/x.db", std::env::temp_dir().display());
    for (url, advice) in [
        ("sqlite:", "sqlite:PATH"),
        ("sqlite::memory:", "memory:"),
        ("sqlite:x.db?synchronous=off", "full (the default) or normal"),
        ("sqlite:x.db?sync=full", "synchronous"),
        ("sqlite:x.db?max_bytes=much", "max_bytes must be a number"),
        ("mysql://root:secret@localhost", "sqlite:PATH"),
        ("nothing", "memory:"),
        ("memory:x", "memory:"),
        (missing.as_str(), "cannot create"),
    ] {
        let error = open(url).await.unwrap_err();
        assert!(error.message().contains(advice), "{url}: {error}");
        assert!(!error.message().contains("secret"), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_url_may_have_slashes() {
    let directory = TestDirectory::new();
    let path = directory.0.join("slashes.db");
    let stores = open(&format!("sqlite://{}", path.display())).await.unwrap();
    assert!(Arc::strong_count(&stores.tasks) == 1 && path.exists());
}

/// Writes and prints the acknowledged ids until it is killed. The test below runs it as a separate
/// process.
fn write_until_killed(url: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let stores = open(url).await.unwrap();
        let writers = (0..8).map(|writer| {
            let stores = stores.clone();
            tokio::spawn(async move {
                for number in 0.. {
                    let id = format!("{}/{writer}/{number}", std::process::id());
                    let record = Record::new(id.clone()).owner(id.clone());
                    assert_eq!(stores.tasks.insert(record, 9).await, Ok(true));
                    let kept = stores.tasks.attach(&id, 0, "step", id.clone().into_bytes()).await;
                    assert_eq!(kept, Ok(AttachResult::Attached));
                    println!("acknowledged {id}");
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

#[test]
fn a_process_that_is_killed_loses_nothing_it_acknowledged() {
    const URL: &str = "WHARF_TEST_STORE";
    if let Ok(url) = std::env::var(URL) {
        return write_until_killed(&url);
    }
    let directory = TestDirectory::new();
    let url = directory.new_url();
    let mut acknowledged = Vec::new();
    // Two at a time, so that the killed one leaves locks behind for the other.
    let spawn = || {
        let name = "sqlite::a_process_that_is_killed_loses_nothing_it_acknowledged";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(URL, &url).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    for _ in 0..3 {
        let mut writers = [spawn(), spawn()];
        for writer in &mut writers {
            let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
            let mut ids = lines
                .map(Result::unwrap)
                .filter_map(|line| line.split_once("acknowledged ").map(|(_, id)| id.to_owned()));
            acknowledged.extend(ids.by_ref().take(200));
            writer.kill().unwrap();
            // Ids printed before it was killed count, too.
            acknowledged.extend(ids);
            writer.wait().unwrap();
        }
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let stores = open(&url).await.unwrap();
        assert!(acknowledged.len() >= 1_200);
        for id in acknowledged {
            assert!(stores.tasks.load(&id).await.unwrap().is_some(), "{id} was acknowledged");
            let kept = stores.tasks.attachments(&id).await.unwrap();
            assert_eq!(kept.get("step"), Some(&id.into_bytes()));
        }
    });
}
