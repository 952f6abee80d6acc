//! The topology compiler on whole files: shipped examples, bad files with their diagnostics, and any text at all.

mod compiled;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;
use redrive::topology::code::Code;
use redrive::topology::diagnostic::Diagnostics;
use redrive::topology::environment::{Environment, Unreadable};
use redrive::topology::model::Topology;

/// What the bad files find outside themselves.
const VARIABLES: [(&str, &str); 6] = [
    ("BROKERS", "kafka-1:9092,kafka-2"),
    ("EMPTY", ""),
    ("SLOW", "slow"),
    ("TOKEN", "from-the-environment"),
    ("GROUP", "shop"),
    ("A", "a"),
];
const FILES: [(&str, &str); 2] = [("/run/secrets/token", "from-a-file\n"), ("/run/secrets/empty", "\n")];

struct Given;

impl Environment for Given {
    fn variable(&self, name: &str) -> Result<String, Unreadable> {
        let found = BTreeMap::from(VARIABLES).get(name).map(|value| (*value).to_owned());
        found.ok_or_else(|| Unreadable { why: "it is not set".to_owned() })
    }

    fn file(&self, path: &Path) -> Result<String, Unreadable> {
        let found = FILES.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| Unreadable { why: "no such file".to_owned() })
    }
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let paths = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no `.{extension}` in `{}`", folder.display());
    paths
}

fn bad_files() -> Vec<PathBuf> {
    files("tests/it/topologies/bad", "toml")
}

fn compile(path: &Path) -> Result<Topology, Diagnostics> {
    let name = path.file_name().unwrap().to_str().unwrap();
    Topology::compile(&fs::read_to_string(path).unwrap(), name, &Given)
}

fn diagnostics(path: &Path) -> Diagnostics {
    compile(path).err().unwrap_or_else(|| panic!("`{}` compiles", path.display()))
}

#[test]
fn each_shipped_example_compiles() {
    let examples = files("topology", "toml");
    assert_eq!(examples.len(), 3);
    for path in examples {
        if let Err(diagnostics) = compile(&path) {
            panic!("{diagnostics}");
        }
    }
}

#[test]
fn each_bad_file_is_told_as_recorded() {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("topologies");
    fs::create_dir_all(&made).unwrap();
    let mut differing = Vec::new();
    for path in bad_files() {
        let told = format!("{}\n", diagnostics(&path));
        let recorded = path.with_extension("txt");
        if fs::read_to_string(&recorded).ok().as_deref() != Some(&told) {
            let new = made.join(recorded.file_name().unwrap());
            fs::write(&new, &told).unwrap();
            differing.push(format!("{}\n(in `{}`, for `{}`)", told, new.display(), recorded.display()));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn each_record_of_a_bad_file_has_its_file() {
    for record in files("tests/it/topologies/bad", "txt") {
        assert!(record.with_extension("toml").exists(), "`{}` is a record of nothing", record.display());
    }
}

#[test]
fn each_code_is_told_of_some_bad_file() {
    let told: BTreeSet<Code> = bad_files()
        .iter()
        .flat_map(|path| diagnostics(path).iter().map(|d| d.code).collect::<Vec<_>>())
        .collect();
    let never: Vec<_> = Code::ALL.iter().filter(|code| !told.contains(code)).collect();
    assert!(never.is_empty(), "no bad file for {never:?}");
}

#[test]
fn diagnostics_are_sorted_by_place_and_told_once() {
    for path in bad_files() {
        let diagnostics = diagnostics(&path);
        let places: Vec<_> =
            diagnostics.iter().map(|d| (d.line, d.column, d.code, d.message.clone())).collect();
        let sorted: Vec<_> = places.windows(2).map(|pair| pair[0] < pair[1]).collect();
        assert!(sorted.iter().all(|rising| *rising), "`{}`: {places:?}", path.display());
    }
}

#[test]
fn no_secret_is_shown_in_any_diagnostic() {
    for path in bad_files() {
        let told = diagnostics(&path).to_string();
        for secret in ["hunter", "31415926", "from-the-environment", "from-a-file"] {
            assert!(!told.contains(secret), "`{secret}` in {told}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_as_a_diagnostic() {
    let told = Topology::load(Path::new("no/such.toml"), &Given).unwrap_err();
    let codes: Vec<_> = told.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, [Code::FileUnreadable]);
    assert!(
        told.to_string()
            .starts_with("error[file-unreadable]: file `no/such.toml` cannot be read: no such file")
    );
}

/// Every file there is, to be broken.
static MATERIAL: LazyLock<Vec<String>> = LazyLock::new(|| {
    let paths = bad_files().into_iter().chain(files("topology", "toml"));
    paths.map(|path| fs::read_to_string(path).unwrap()).collect()
});

fn compiles_or_is_told(text: &str) {
    if let Err(diagnostics) = Topology::compile(text, "any.toml", &Given) {
        assert!(diagnostics.iter().count() > 0, "refused without a reason: {text}");
        for diagnostic in &diagnostics {
            assert!(diagnostic.line <= text.matches('\n').count() + 1);
            assert!(diagnostic.to_string().contains(diagnostic.code.as_str()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_bytes_compile_or_are_told(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        compiles_or_is_told(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_broken_file_compiles_or_is_told(
        file in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        length in 0usize..12,
        put in "[\\[\\]{}=\"'#\\.,\n\r\t a-z0-9ü-]{0,6}",
    ) {
        let mut bytes = file.get(&MATERIAL).clone().into_bytes();
        let start = cut.index(bytes.len() + 1);
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, put.bytes());
        compiles_or_is_told(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_file_with_another_value_compiles_or_is_told(
        file in any::<prop::sample::Index>(),
        line in any::<prop::sample::Index>(),
        value in prop_oneof![
            Just("0"), Just("-1"), Just("1e400"), Just("\"\""), Just("[]"), Just("{}"), Just("\"1ms\""), Just("true"),
            Just("[[]]"), Just("{ env = \"EMPTY\" }"), Just("{ file = \"/run/secrets/token\" }"), Just("[{}]"),
            Just("\"18446744073709551615ms\""), Just("0xffffffffffffffffff"), Just("9999-12-31T23:59:60Z"), Just("nan"),
        ],
    ) {
        let text = file.get(&MATERIAL);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if !lines.is_empty() {
            let line = line.get(&lines).clone();
            if let Some((key, _)) = line.split_once(" = ") {
                let changed = format!("{key} = {value}");
                lines.iter_mut().filter(|other| **other == line).for_each(|other| other.clone_from(&changed));
            }
        }
        compiles_or_is_told(&lines.join("\n"));
    }
}
