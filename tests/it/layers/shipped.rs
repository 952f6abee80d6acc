//! What may stand in the files of the project.

use std::fs;
use std::path::Path;

use super::{Breach, Rule, Tree};

const LONGEST: usize = 500;

/// Written in parts, since this file is shipped too.
const OPEN_MARKS: [[&str; 2]; 5] =
    [["TO", "DO"], ["FIX", "ME"], ["to", "do!("], ["unimple", "mented!("], ["#[ig", "nore"]];
const HOMES: [[&str; 2]; 4] = [["/ro", "ot/"], ["/ho", "me/"], ["/Us", "ers/"], ["/wo", "rk/"]];

pub(super) fn check(path: &str, text: &str, found: &mut Vec<Breach>) {
    let mut push = |rule, line, what| found.push(Breach { rule, path: path.to_owned(), line, what });
    let lines = text.lines().count();
    if path.ends_with(".rs") && lines > LONGEST {
        push(Rule::FileTooLong, lines, format!("`{lines}` lines"));
    }
    let first = |marks: &[[&str; 2]], line: &str| {
        marks.iter().map(|parts| parts.concat()).find(|mark| begins_in(line, mark))
    };
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(mark) = first(&OPEN_MARKS, line) {
            push(Rule::LeftOpen, number, format!("`{mark}`"));
        }
        if let Some(home) = first(&HOMES, line) {
            push(Rule::MachinePath, number, format!("`{home}…`"));
        }
    }
}

/// Whether a mark stands in a line where a word or an absolute path begins.
fn begins_in(line: &str, mark: &str) -> bool {
    let goes_on = |before: char| before.is_alphanumeric() || matches!(before, '_' | '.' | '-' | '}');
    line.match_indices(mark).any(|(at, _)| !line[..at].ends_with(goes_on))
}

/// Reads all text files under `root`, but for what version control and builds keep there.
pub(super) fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_symlink() || matches!(name.as_str(), ".git" | ".cache") {
                continue;
            }
            if path.is_dir() {
                // https://bford.info/cachedir/: what is built marks its folder so.
                if !path.join("CACHEDIR.TAG").exists() {
                    folders.push(path);
                }
            } else if let Ok(text) = String::from_utf8(fs::read(&path).unwrap()) {
                let parts: Vec<_> =
                    path.strip_prefix(root).unwrap().iter().map(|part| part.to_string_lossy()).collect();
                tree.insert(parts.join("/"), text);
            }
        }
    }
    tree
}
