//! Lists the built dashboard page (`dashboard/dist`) for `src/page`, so that the binary carries it
//! and needs no Node to build.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, error, fs};

fn main() -> Result<(), Box<dyn error::Error>> {
    let dist = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("dashboard/dist");
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    walk(&dist, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&dist)?.to_str().ok_or("a file's name isn't UTF-8")?;
        writeln!(list, "({name:?}, include_bytes!({file:?}).as_slice()),")?;
    }
    list.push(']');
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("page.rs"), list)?;
    Ok(())
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for found in fs::read_dir(folder)? {
        let path = found?.path();
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
