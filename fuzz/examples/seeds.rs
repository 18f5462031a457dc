//! Writes the corpora of all targets below a directory, for `cargo xtask fuzz`: `DIRECTORY/TARGET/…`, and the dictionary
//! as `DIRECTORY/TARGET.dict`.

use std::{fs, io, path::Path};

use wharf_fuzz::{TARGETS, corpus};

fn main() -> io::Result<()> {
    let directory = std::env::args_os().nth(1).ok_or(io::ErrorKind::InvalidInput)?;
    let directory = Path::new(&directory);
    for (target, _) in TARGETS {
        let corpus = directory.join(target);
        fs::create_dir_all(&corpus)?;
        for (number, seed) in corpus::seeds(target)?.iter().enumerate() {
            fs::write(corpus.join(format!("seed-{number}")), seed)?;
        }
        fs::write(directory.join(format!("{target}.dict")), corpus::dictionary(target)?)?;
    }
    Ok(())
}
