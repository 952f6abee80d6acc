//! The rules of the source tree: who may import whom, where the Kafka client may appear, how long a file may be, and
//! what must not be shipped. Each breach names its rule and its place.

mod client;
mod direction;
mod shipped;
mod token;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A rule of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    ImportDirection,
    UnplacedModule,
    ImportFromItsModule,
    ClientOutsideKafka,
    ClientInPublicSignature,
    FileTooLong,
    MachinePath,
    LeftOpen,
}

impl Rule {
    const fn text(self) -> &'static str {
        match self {
            Self::ImportDirection => {
                "a module imports only from its right: main → cli → runtime → admin → {dlq, lag} → \
                 {kafka, codec, handler} → {telemetry, fail_point} → topology → core"
            }
            Self::UnplacedModule => "every module of the crate has a place in the import direction",
            Self::ImportFromItsModule => {
                "inside the crate things are imported from their module, not from the crate root"
            }
            Self::ClientOutsideKafka => "the Kafka client appears only under src/kafka",
            Self::ClientInPublicSignature => {
                "no public signature or re-export mentions a type of the Kafka client"
            }
            Self::FileTooLong => "a Rust file has at most 500 lines",
            Self::MachinePath => "no absolute path of somebody's machine is shipped",
            Self::LeftOpen => "nothing is shipped that is marked as unfinished, and no test is switched off",
        }
    }
}

/// A rule that does not hold, and where.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Breach {
    rule: Rule,
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n  rule: {}", self.path, self.line, self.what, self.rule.text())
    }
}

/// Every text file of the project by its path from the root, separated by `/`.
type Tree = BTreeMap<String, String>;

fn breaches(tree: &Tree) -> Vec<Breach> {
    let mut found = Vec::new();
    for (path, text) in tree {
        if let Some(module_path) = path.strip_prefix("src/").and_then(|path| path.strip_suffix(".rs")) {
            let tokens = token::tokens(text);
            direction::check(path, module_path, &tokens, &mut found);
            client::check(path, module_path, &tokens, &mut found);
        }
        shipped::check(path, text, &mut found);
    }
    found.sort();
    found
}

#[test]
fn the_tree_keeps_its_rules() {
    let tree = shipped::read(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(tree.contains_key("src/lib.rs") && tree.contains_key("Cargo.toml"), "the tree was not read");
    let found: Vec<String> = breaches(&tree).iter().map(Breach::to_string).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// The rules that a planted file breaks.
fn broken_by(path: &str, text: &str) -> Vec<Rule> {
    let tree = Tree::from([(path.to_owned(), text.to_owned())]);
    breaches(&tree).into_iter().map(|breach| breach.rule).collect()
}

#[test]
fn an_import_from_the_left_is_a_breach() {
    let planted = [
        ("src/core/gate.rs", "use crate::topology::model::Topology;"),
        ("src/core/gate.rs", "use crate::{core::time::Now, runtime::clock};"),
        (
            "src/core/gate.rs",
            "use crate::{\n    core::{time::Now, record},\n    kafka::{convert, source},\n};",
        ),
        ("src/core/gate.rs", "fn now() { crate::runtime::clock::now() }"),
        ("src/core/processor/tests.rs", "use crate::handler::Handler;"),
        ("src/core/gate.rs", "pub(crate) use crate::telemetry::event;"),
        ("src/core/mod.rs", "use super::topology;"),
        ("src/core/processor/tests.rs", "use super::super::super::topology::model;"),
        ("src/core/mod.rs", "fn f() {}\nmod tests { fn f() {} use super::super::topology; }"),
        ("src/core/mod.rs", "mod tests { fn f() {} }\nuse super::topology;"),
        ("src/topology/mod.rs", "use redrive::telemetry::metrics;"),
        ("src/kafka/source.rs", "use crate::runtime::worker::Worker;"),
        ("src/telemetry/event.rs", "use crate::kafka::admin;"),
        ("src/runtime/worker.rs", "use crate::cli::run;"),
    ];
    for (path, text) in planted {
        assert_eq!(broken_by(path, text), [Rule::ImportDirection], "{path}: {text}");
    }
}

#[test]
fn an_import_from_a_sibling_is_a_breach() {
    for (path, text) in [
        ("src/kafka/source.rs", "use crate::handler::Handler;"),
        ("src/handler/http.rs", "use crate::codec::json;"),
        ("src/lag/mod.rs", "use crate::dlq::browse;"),
    ] {
        assert_eq!(broken_by(path, text), [Rule::ImportDirection], "{path}: {text}");
    }
}

#[test]
fn an_import_from_the_right_or_from_its_own_module_is_none() {
    for (path, text) in [
        ("src/main.rs", "use redrive::cli;"),
        ("src/cli/run.rs", "use crate::{cli::exit, core::time::Now, runtime::worker::Worker};"),
        ("src/kafka/source.rs", "use crate::core::record::Record;\nuse super::settings;"),
        ("src/core/processor/tests.rs", "use super::super::time::Now;\nuse super::*;"),
        ("src/cli/mod.rs", "fn f() {}\nmod tests { use super::*; mod deep { use super::super::run; } }"),
        (
            "src/core/gate.rs",
            "//! See [`crate::runtime::clock`].\n/* crate::cli */ const TEXT: &str = \"crate::cli\";",
        ),
        (
            "src/core/gate.rs",
            "const RAW: &str = r#\"a \" crate::cli\"#; fn f<'a>(c: &'a str) -> char { '\"' }",
        ),
        ("src/lib.rs", "pub use crate::core::processor::Processor;\npub mod core;"),
    ] {
        assert_eq!(broken_by(path, text), [], "{path}: {text}");
    }
}

#[test]
fn a_module_without_a_place_and_an_import_from_the_root_are_breaches() {
    assert_eq!(broken_by("src/common/text.rs", "fn f() {}"), [Rule::UnplacedModule]);
    assert_eq!(broken_by("src/kafka/source.rs", "use crate::Processor;"), [Rule::ImportFromItsModule]);
    assert_eq!(broken_by("src/kafka/source.rs", "use crate::*;"), [Rule::ImportFromItsModule]);
}

#[test]
fn the_kafka_client_outside_its_home_is_a_breach() {
    for text in [
        "use rdkafka::message::Message;",
        "fn f(error: ::rdkafka::error::KafkaError) {}",
        "use rdkafka_sys as sys;",
    ] {
        assert_eq!(broken_by("src/runtime/worker.rs", text), [Rule::ClientOutsideKafka], "{text}");
        assert_eq!(broken_by("src/kafka/source.rs", text), [], "{text}");
    }
}

#[test]
fn the_kafka_client_in_a_public_signature_is_a_breach() {
    for text in [
        "pub use rdkafka::error::KafkaError;",
        "pub(crate) use rdkafka::error::KafkaError;",
        "pub fn f(error: &rdkafka::error::KafkaError) {}",
        "use rdkafka::error::KafkaError;\npub fn f() -> Result<(), KafkaError> { Ok(()) }",
        "use rdkafka::{consumer::{BaseConsumer as Client, Consumer}, Offset};\npub struct Source { pub client: Client }",
        "use rdkafka::error::KafkaError;\npub type Error = KafkaError;",
        "use rdkafka::error::KafkaError;\npub enum Failed { Client(KafkaError) }",
    ] {
        assert_eq!(broken_by("src/kafka/source.rs", text), [Rule::ClientInPublicSignature], "{text}");
    }
    for text in [
        "use rdkafka::error::KafkaError;\npub(crate) fn f(error: KafkaError) {}",
        "use rdkafka::Offset;\npub fn f(offset: u64) { Offset::Beginning; }",
        "use rdkafka::consumer::BaseConsumer;\npub struct Source { client: BaseConsumer, pub(crate) second: BaseConsumer }",
    ] {
        assert_eq!(broken_by("src/kafka/source.rs", text), [], "{text}");
    }
}

#[test]
fn a_file_over_the_limit_is_a_breach() {
    assert_eq!(broken_by("tests/it/long.rs", &"fn f() {}\n".repeat(501)), [Rule::FileTooLong]);
    assert_eq!(broken_by("tests/it/long.rs", &"fn f() {}\n".repeat(500)), []);
    assert_eq!(broken_by("docs/long.md", &"text\n".repeat(501)), []);
}

#[test]
fn a_path_of_a_machine_is_a_breach() {
    for home in ["root", "home", "Users", "work"] {
        let planted = format!("log = \"/{home}/somebody/log\"");
        assert_eq!(broken_by("topology/own.toml", &planted), [Rule::MachinePath], "{planted}");
    }
    assert_eq!(broken_by("README.md", "https://example.org/home/page and target/work/x"), []);
}

#[test]
fn what_is_marked_as_unfinished_or_switched_off_is_a_breach() {
    let marks = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["to", "do!()"],
        ["unimple", "mented!()"],
        ["#[ig", "nore]"],
        ["#[ig", "nore = \"slow\"]"],
    ];
    for mark in marks.map(|parts| parts.concat()) {
        assert_eq!(broken_by("src/core/gate.rs", &format!("// {mark}\n")), [Rule::LeftOpen], "{mark}");
        assert_eq!(broken_by("README.md", &format!("{mark}\n")), [Rule::LeftOpen], "{mark}");
    }
    assert_eq!(broken_by("README.md", "git ignores it; the method of todos\n"), []);
}
