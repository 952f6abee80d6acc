//! What is shipped has no fail points: the macro expands to nothing, and no default feature switches them on.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Compiles a crate that has redrive's own macro and passes a point that does not exist.
fn compiled(arguments: &[&str]) -> (Output, Option<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fail_point.rs");
    let text = format!(
        "#[path = {module:?}]\npub mod fail_point;\npub fn work() {{ fail_point::fail_point!(NoSuchPoint); }}\n"
    );
    let (source, built) = (folder.path().join("probe.rs"), folder.path().join("probe.o"));
    fs::write(&source, text).unwrap();
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "--crate-type", "lib", "--emit", "obj", "--crate-name", "probe"]);
    let output = rustc.args(arguments).arg("-o").arg(&built).arg(&source).output().expect("run rustc");
    (output, fs::read(built).ok())
}

#[test]
fn without_the_feature_a_fail_point_expands_to_nothing() {
    let (output, built) = compiled(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let built = built.expect("what was built");
    for trace in ["REDRIVE_FAIL_POINT", "after-begin", "NoSuchPoint"] {
        let found = built.windows(trace.len()).any(|bytes| bytes == trace.as_bytes());
        assert!(!found, "`{trace}` is in what was built");
    }

    // The control: with the feature its modules are part of it, and this crate does not have them.
    let (output, _) = compiled(&["--cfg", "feature=\"fail-points\""]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("mod order"));
}

/// A feature with all that it switches on.
fn closure(features: &toml::Table, feature: &str, found: &mut BTreeSet<String>) {
    if found.insert(feature.to_owned()) {
        let more = features.get(feature).and_then(toml::Value::as_array).into_iter().flatten();
        more.filter_map(toml::Value::as_str).for_each(|more| closure(features, more, found));
    }
}

#[test]
fn no_feature_that_is_shipped_switches_fail_points_on_and_that_of_the_tests_does() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let features = manifest["features"].as_table().unwrap();
    for (feature, expected) in [("default", false), ("oidc", false), ("broker-tests", true)] {
        let mut found = BTreeSet::new();
        closure(features, feature, &mut found);
        assert!(found.contains("runtime"), "`{feature}` was read");
        assert_eq!(found.contains("fail-points"), expected, "`{feature}` switches on {found:?}");
    }
}
