//! Tests of the token file: other processes, other users, keychains.

use std::{fs, path::PathBuf};

use serde_json::json;

use crate::client::token_store::file::*;

struct TempFolder(PathBuf);

impl TempFolder {
    fn new(test: &str) -> Self {
        let dir = env::temp_dir().join(format!("wharf-keep-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        TempFolder(dir)
    }

    fn file(&self) -> PathBuf {
        self.0.join("state").join("logins.json")
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SERVER: &str = "https://mcp.example/mcp";
const ISSUER: &str = "https://as.example";

#[test]
fn logins_are_kept_by_server_and_issuer() {
    let folder = TempFolder::new("keyed");
    let token_store = FileTokenStore::at(folder.file());
    assert_eq!(token_store.get(SERVER, ISSUER).unwrap(), None);
    token_store.put(SERVER, ISSUER, json!(1)).unwrap();
    token_store.put(SERVER, "https://other.example", json!(2)).unwrap();
    token_store.put(SERVER, ISSUER, json!(3)).unwrap();
    let again = FileTokenStore::at(folder.file());
    assert_eq!(again.get(SERVER, ISSUER).unwrap(), Some(json!(3)));
    assert_eq!(again.get("https://mcp.example", ISSUER).unwrap(), None);
    assert_eq!(again.keys().unwrap().len(), 2);
    assert!(
        again.remove_entry(SERVER, ISSUER).unwrap() && !again.remove_entry(SERVER, ISSUER).unwrap()
    );
    assert!(again.remove_entry(SERVER, "https://other.example").unwrap());
    assert!(!folder.file().exists());
}

#[test]
fn a_path_is_independent_of_the_working_directory() {
    let here = env::current_dir().unwrap();
    assert_eq!(FileTokenStore::at("logins.json").path(), here.join("logins.json"));
    assert_eq!(FileTokenStore::at(here.join("a/logins.json")).path(), here.join("a/logins.json"));
}

#[tokio::test]
async fn a_saved_login_is_loaded_unchanged() {
    let folder = TempFolder::new("vault");
    let token_store = FileTokenStore::at(folder.file());
    let mut login = Login::new(LoginKey::new(SERVER, ISSUER));
    login.asked = vec!["files:read".to_owned()];
    assert_eq!(token_store.load(&login.key).await.unwrap(), None);
    token_store.save(&login).await.unwrap();
    assert_eq!(token_store.list().await.unwrap(), std::slice::from_ref(&login.key));
    assert_eq!(token_store.load(&login.key).await.unwrap().as_ref(), Some(&login));
    // Copied to another server's entry, it is rejected.
    let text = fs::read_to_string(folder.file()).unwrap();
    let moved = text.replacen(SERVER, "https://evil.example", 1);
    fs::write(folder.file(), moved).unwrap();
    assert!(token_store.load(&LoginKey::new("https://evil.example", ISSUER)).await.is_err());
    token_store.remove(&LoginKey::new("https://evil.example", ISSUER)).await.unwrap();
    assert!(token_store.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn one_renewal_at_a_time() {
    let folder = TempFolder::new("renewals");
    let token_store = FileTokenStore::at(folder.file());
    let key = LoginKey::new(SERVER, ISSUER);
    let lock = token_store.lock(&key).await.unwrap();
    let at_once = || {
        crate::client::token_store::owner_only_file::lock(&folder.file(), "renewal", Duration::ZERO)
    };
    assert!(at_once().unwrap_err().message.contains("another process"));
    // The store can be read and written meanwhile.
    token_store.save(&Login::new(key.clone())).await.unwrap();
    drop(lock);
    assert!(at_once().is_ok());
}

#[test]
fn concurrent_writers_lose_no_login() {
    let folder = TempFolder::new("writers");
    let path = folder.file();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for each in 0..5 {
                    let token_store = FileTokenStore::at(path.clone());
                    token_store
                        .put(&format!("https://{writer}.{each}"), ISSUER, json!(writer))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(FileTokenStore::at(path).keys().unwrap().len(), 40);
}

#[test]
fn a_foreign_file_is_not_overwritten() {
    let folder = TempFolder::new("foreign");
    let token_store = FileTokenStore::at(folder.file());
    token_store.put(SERVER, ISSUER, json!(1)).unwrap();
    fs::write(folder.file(), "hunter2").unwrap();
    for problem in [
        token_store.get(SERVER, ISSUER).unwrap_err(),
        token_store.put(SERVER, ISSUER, json!(1)).unwrap_err(),
    ] {
        assert!(problem.message.contains("move it away") && !problem.message.contains("hunter2"));
    }
    assert_eq!(fs::read_to_string(folder.file()).unwrap(), "hunter2");
}

#[tokio::test]
async fn a_file_over_the_size_limit_is_not_written() {
    let folder = TempFolder::new("room");
    let token_store = FileTokenStore::at(folder.file());
    let mut login = Login::new(LoginKey::new(SERVER, ISSUER));
    token_store.save(&login).await.unwrap();
    let kept = login.clone();
    login.asked = vec!["x".repeat(9 << 20)];
    let error = token_store.save(&login).await.unwrap_err();
    assert!(error.message.contains("no room"), "{error}");
    assert_eq!(token_store.load(&login.key).await.unwrap(), Some(kept));
    assert_eq!(fs::read_dir(folder.file().parent().unwrap()).unwrap().count(), 2);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_the_owner_can_read_it() {
        let folder = TempFolder::new("owner");
        let token_store = FileTokenStore::at(folder.file());
        token_store.put(SERVER, ISSUER, json!(1)).unwrap();
        let state = folder.file().parent().unwrap().to_owned();
        assert_eq!((mode(&folder.file()), mode(&state)), (0o600, 0o700));
        for entry in fs::read_dir(&state).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600);
        }
        for loose in [0o640, 0o604, 0o660, 0o644] {
            set_mode(&folder.file(), loose);
            let problem = token_store.get(SERVER, ISSUER).unwrap_err().message;
            assert!(problem.contains("chmod 600"), "{problem}");
            assert!(token_store.put(SERVER, ISSUER, json!(2)).is_err());
        }
        set_mode(&folder.file(), 0o600);
        assert_eq!(token_store.get(SERVER, ISSUER).unwrap(), Some(json!(1)));
        set_mode(&state, 0o777);
        let problem = token_store.put(SERVER, ISSUER, json!(2)).unwrap_err().message;
        assert!(problem.contains("chmod 700"), "{problem}");
    }

    #[test]
    fn links_and_pipes_are_refused() {
        let folder = TempFolder::new("links");
        let token_store = FileTokenStore::at(folder.file());
        token_store.put(SERVER, ISSUER, json!(1)).unwrap();
        let elsewhere = folder.0.join("elsewhere.json");
        fs::rename(folder.file(), &elsewhere).unwrap();
        symlink(&elsewhere, folder.file()).unwrap();
        assert!(token_store.get(SERVER, ISSUER).unwrap_err().message.contains("link"));
        assert!(token_store.put(SERVER, ISSUER, json!(2)).unwrap_err().message.contains("link"));
        assert!(fs::symlink_metadata(folder.file()).unwrap().is_symlink());
        fs::remove_file(folder.file()).unwrap();
        let made = std::process::Command::new("mkfifo").arg("-m600").arg(folder.file()).status();
        assert!(made.unwrap().success());
        assert!(token_store.get(SERVER, ISSUER).is_err());
        fs::remove_file(folder.file()).unwrap();
        let lock = folder.file().with_file_name("logins.json.lock");
        fs::remove_file(&lock).unwrap();
        symlink(&elsewhere, &lock).unwrap();
        assert!(token_store.put(SERVER, ISSUER, json!(2)).unwrap_err().message.contains("link"));
    }

    /// A keychain program that stores a key in a file, and logs its arguments.
    fn fake(folder: &TempFolder, script: &str) -> PathBuf {
        fs::create_dir_all(&folder.0).unwrap();
        let path = folder.0.join("keychain");
        let home = folder.0.display();
        let script = format!("#!/bin/sh\ncd '{home}'\necho \"$*\" >> calls\n{script}");
        fs::write(&path, script).unwrap();
        set_mode(&path, 0o700);
        path
    }

    const SECRET_TOOL: &str = "case $1 in store) cat > key;; lookup) cat key 2>/dev/null || exit 1;; \
                               clear) rm key;; *) exit 2;; esac\n";

    #[test]
    fn a_keychain_keeps_the_key_and_never_sees_it_as_an_argument() {
        let folder = TempFolder::new("secret-tool");
        let keychain = Keychain::secret_tool(fake(&folder, SECRET_TOOL));
        let token_store = FileTokenStore::at(folder.file()).keychain(keychain.clone());
        token_store.put(SERVER, ISSUER, json!({"token": "hunter2"})).unwrap();
        assert!(token_store.is_encrypted());
        assert!(!fs::read_to_string(folder.file()).unwrap().contains("hunter2"));
        let again = FileTokenStore::at(folder.file()).keychain(keychain);
        assert_eq!(again.get(SERVER, ISSUER).unwrap(), Some(json!({"token": "hunter2"})));
        let key = fs::read_to_string(folder.0.join("key")).unwrap();
        let calls = fs::read_to_string(folder.0.join("calls")).unwrap();
        assert!(key.len() == 43 && !calls.contains(&key), "{calls}");
        let lines: Vec<&str> = calls.lines().collect();
        let account = lines[1].strip_prefix("lookup service wharf account ").unwrap();
        let stored = format!("store --label=Wharf logins service wharf account {account}");
        assert_eq!(lines, [stored.as_str(), lines[1], lines[1]]);
        // Without the keychain, reading fails with the reason; removing needs no key.
        let shut = FileTokenStore::at(folder.file());
        assert!(shut.get(SERVER, ISSUER).unwrap_err().message.contains("keychain"));
        fs::rename(folder.0.join("key"), folder.0.join("lost")).unwrap();
        let locked =
            FileTokenStore::at(folder.file()).keychain(token_store.keychain.clone().unwrap());
        assert!(locked.put(SERVER, ISSUER, json!(1)).unwrap_err().message.contains("unlock"));
        assert!(locked.get(SERVER, ISSUER).unwrap_err().message.contains("unlock"));
        fs::rename(folder.0.join("lost"), folder.0.join("key")).unwrap();
        assert!(locked.remove_entry(SERVER, ISSUER).unwrap());
        assert!(!folder.0.join("key").exists() && !folder.file().exists());
    }

    #[tokio::test]
    async fn the_key_is_fetched_again_after_another_process_replaced_it() {
        let folder = TempFolder::new("anew");
        let keychain = Keychain::secret_tool(fake(&folder, SECRET_TOOL));
        let process = || FileTokenStore::at(folder.file()).keychain(keychain.clone());
        let (ours, theirs) = (process(), process());
        let login = |issuer: &str| Login::new(LoginKey::new(SERVER, issuer));
        let (first, second) = (login(ISSUER), login("https://other.example"));
        ours.save(&first).await.unwrap();
        // The last login is removed together with the key; the next one gets a new key.
        theirs.remove(&first.key).await.unwrap();
        theirs.save(&second).await.unwrap();
        assert_eq!(ours.load(&second.key).await.unwrap(), Some(second.clone()));

        theirs.remove(&second.key).await.unwrap();
        theirs.save(&second).await.unwrap();
        ours.save(&first).await.unwrap();
        for token_store in [&ours, &theirs, &process()] {
            assert_eq!(token_store.load(&first.key).await.unwrap(), Some(first.clone()));
            assert_eq!(token_store.load(&second.key).await.unwrap(), Some(second.clone()));
        }
    }

    #[tokio::test]
    async fn a_locked_keychain_loses_no_login() {
        let folder = TempFolder::new("locked");
        let keychain = Keychain::secret_tool(fake(&folder, SECRET_TOOL));
        let process = || FileTokenStore::at(folder.file()).keychain(keychain.clone());
        let (ours, key) = (process(), folder.0.join("key"));
        let login = |issuer: &str| Login::new(LoginKey::new(SERVER, issuer));
        let (first, second) = (login(ISSUER), login("https://other.example"));
        ours.save(&first).await.unwrap();
        let secret = fs::read_to_string(&key).unwrap();
        fs::remove_file(&key).unwrap();

        // A process with the key continues; a process without it does not encrypt with a new one.
        ours.save(&second).await.unwrap();
        let before = fs::read_to_string(folder.file()).unwrap();
        let error = process().save(&first).await.unwrap_err();
        assert!(error.message.contains("unlock"), "{error}");
        assert_eq!(fs::read_to_string(folder.file()).unwrap(), before);
        assert!(
            ours.load(&LoginKey::new(SERVER, "https://third.example")).await.unwrap().is_none()
        );
        assert_eq!(ours.load(&first.key).await.unwrap(), Some(first.clone()));

        fs::write(&key, secret).unwrap();
        for login in [first, second] {
            assert_eq!(process().load(&login.key).await.unwrap(), Some(login));
        }
    }

    #[test]
    fn the_macos_keychain_gets_the_key_over_stdin() {
        let folder = TempFolder::new("security");
        let script = "case $1 in -i) read -r line; echo \"$line\" > line; echo \"${line##* }\" > key;; \
                      find-generic-password) cat key 2>/dev/null || exit 44;; \
                      delete-generic-password) rm key;; esac\n";
        let keychain = Keychain::security(fake(&folder, script));
        let token_store = FileTokenStore::at(folder.file()).keychain(keychain.clone());
        token_store.put(SERVER, ISSUER, json!(1)).unwrap();
        assert!(token_store.is_encrypted());
        let again = FileTokenStore::at(folder.file()).keychain(keychain);
        assert_eq!(again.get(SERVER, ISSUER).unwrap(), Some(json!(1)));
        let key = fs::read_to_string(folder.0.join("key")).unwrap();
        let calls = fs::read_to_string(folder.0.join("calls")).unwrap();
        assert!(!calls.contains(key.trim()), "{calls}");
        let line = fs::read_to_string(folder.0.join("line")).unwrap();
        assert!(line.starts_with("add-generic-password -U -s wharf -a "), "{line}");
        assert!(calls.lines().last().unwrap().starts_with("find-generic-password -s wharf -a "));
        assert!(again.remove_entry(SERVER, ISSUER).unwrap() && !folder.0.join("key").exists());
    }

    #[test]
    fn without_a_working_keychain_the_file_is_unencrypted() {
        let folder = TempFolder::new("none");
        for keychain in [
            Keychain::secret_tool("/no/such/program"),
            Keychain::secret_tool("false"),
            // Accepts everything and stores nothing.
            Keychain::security("true"),
        ] {
            let token_store = FileTokenStore::at(folder.file()).keychain(keychain);
            token_store.put(SERVER, ISSUER, json!(1)).unwrap();
            assert!(!token_store.is_encrypted());
            assert_eq!(token_store.get(SERVER, ISSUER).unwrap(), Some(json!(1)));
            token_store.remove_entry(SERVER, ISSUER).unwrap();
        }
    }
}
