//! The command line as scripts see it: exit codes, what goes to stdout, what to stderr.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const TOPOLOGY: &str = r#"
app = "shop"
[kafka]
bootstrap = ["127.0.0.1:1"]
[http]
listen = "127.0.0.1:0"
[pipeline.payments]
source = "payments"
start = "earliest"
[pipeline.payments.handler.rust]
name = "payments"
[pipeline.payments.retry]
tiers = ["5s"]
"#;

/// Orders at fail points, where the build has any.
const FAIL_POINT: &str = "REDRIVE_FAIL_POINT";

fn redrive(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["REDRIVE_TOPOLOGY", "REDRIVE_INSTANCE", "REDRIVE_LOG_LEVEL", FAIL_POINT] {
        command.env_remove(name);
    }
    command
}

/// Exit code, stdout, stderr.
fn ended(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("topology.toml");
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    (folder, path)
}

#[test]
fn what_cannot_be_parsed_ends_with_2_and_says_nothing_on_stdout() {
    for arguments in
        [&[][..], &["frobnicate"], &["run", "--instance", "first"], &["check", "--output", "xml"]]
    {
        let (code, stdout, stderr) = ended(&mut redrive(arguments));
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(!stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_is_data() {
    for arguments in [&["--help"][..], &["run", "--help"], &["topics", "apply", "--help"]] {
        let (code, stdout, stderr) = ended(&mut redrive(arguments));
        assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(stdout.contains("--file <FILE>"), "{stdout}");
    }
}

#[test]
fn version_tells_what_the_kafka_client_can_do() {
    let (code, stdout, _) = ended(&mut redrive(&["version"]));
    assert_eq!((code, stdout), (0, format!("redrive {}\n", env!("CARGO_PKG_VERSION"))));

    let (code, stdout, _) = ended(&mut redrive(&["version", "--features"]));
    assert_eq!(code, 0);
    let mut expected = vec!["client librdkafka 2.12.1", "zstd yes"];
    if cfg!(feature = "tls") {
        expected.extend(["tls yes", "sasl-plain yes", "sasl-scram yes"]);
    }
    expected.push(match cfg!(feature = "oidc") {
        true => "oauthbearer-oidc yes",
        false => "oauthbearer-oidc no (built without feature `oidc`)",
    });
    for line in expected {
        assert!(stdout.lines().any(|found| found == line), "`{line}` in\n{stdout}");
    }
}

#[test]
fn a_command_needs_a_topology_file() {
    for command in [&["check"][..], &["run"], &["topics", "plan"]] {
        let (code, stdout, stderr) = ended(&mut redrive(command));
        assert_eq!((code, stdout.as_str()), (2, ""), "{command:?}");
        assert_eq!(stderr, "error: no topology file is named\nhint: -f FILE, or REDRIVE_TOPOLOGY\n");
    }
}

#[test]
fn the_file_may_stand_before_or_behind_the_command_or_in_the_environment() {
    let (_folder, path) = file(TOPOLOGY);
    let path = path.to_str().unwrap();
    let ways = [
        ended(&mut redrive(&["-f", path, "check"])),
        ended(&mut redrive(&["check", "--file", path])),
        ended(redrive(&["check"]).env("REDRIVE_TOPOLOGY", path)),
    ];
    for (code, stdout, stderr) in ways {
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(stdout.contains("shop.payments.retry.5s"), "{stdout}");
    }
}

#[test]
fn a_bad_file_ends_every_command_with_2_and_its_problems_on_stderr() {
    let (_folder, path) = file(&TOPOLOGY.replace("start =", "strat ="));
    let path = path.to_str().unwrap();
    for command in [&["check"][..], &["run"], &["topics", "plan"]] {
        let (code, stdout, stderr) = ended(redrive(command).env("REDRIVE_TOPOLOGY", path));
        assert_eq!((code, stdout.as_str()), (2, ""), "{command:?}");
        assert!(stderr.contains("strat") && stderr.contains("topology.toml:"), "{stderr}");
    }
}

#[test]
fn run_refuses_what_it_cannot_run_before_it_connects() {
    let (_folder, path) = file(TOPOLOGY);
    let path = path.to_str().unwrap();
    let (code, stdout, stderr) = ended(&mut redrive(&["run", "-f", path]));
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("error: no handler is registered as `payments`\nhint: "), "{stderr}");

    let (code, _, stderr) = ended(&mut redrive(&["run", "-f", path, "--log-level", "loud=very"]));
    assert_eq!(code, 2);
    assert!(stderr.starts_with("error: `loud=very` is no log level: "), "{stderr}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child =
        redrive(&["version", "--features"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn an_order_at_a_fail_point_that_is_none_is_refused_and_without_fail_points_nobody_reads_it() {
    let (_folder, path) = file(TOPOLOGY);
    let mut command = redrive(&["run", "-f"]);
    let (code, _, stderr) = ended(command.arg(path).env(FAIL_POINT, "after-beginn:3=kill"));
    assert_eq!(code, 2, "{stderr}");
    let refused = stderr.contains("there is no fail point `after-beginn`") && stderr.contains("after-begin,");
    assert_eq!(refused, cfg!(feature = "fail-points"), "{stderr}");
    assert_eq!(stderr.contains(FAIL_POINT), refused, "{stderr}");
}

#[test]
fn what_resume_cannot_ask_ends_with_2_and_says_why() {
    let (_folder, path) = file(TOPOLOGY);
    let path = path.to_str().unwrap();
    for (arguments, why) in [
        (&["--accept-repeats", "payments/0/9"][..], "no `topic/partition/from-to`"),
        (&["--accept-repeats", "payments/0/9-9"], "no `topic/partition/from-to`"),
        (&["--accept-repeats", "orders/0/0-9"], "`payments` reads `payments`, `shop.payments.control`"),
        (&["refunds", "--accept-repeats", "payments/0/0-9"], "there is no pipeline `refunds`"),
        (&["--accept-repeats", "payments/0/0-9", "--by", ""], "`--by` takes"),
        (&["--accept-repeats", "payments/0/0-9", "--by", "ada", "--ticket", "a\tb"], "`--ticket` takes"),
        (&["--accept-repeats", "payments/0/0-9"], "who asks is not said"),
        (&[], "--accept-repeats"),
    ] {
        let mut command = redrive(&[&["resume", "-f", path, "--yes"][..], arguments].concat());
        let (code, stdout, stderr) = ended(command.env_remove("USER"));
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?} {stderr}");
        assert!(stderr.contains(why), "{arguments:?} {stderr}");
    }
}

#[test]
fn resume_says_what_it_would_ask_and_touches_no_broker_until_it_is_told_yes() {
    let (_folder, path) = file(TOPOLOGY);
    let ranges = ["--accept-repeats", "payments/1/0-9", "--accept-repeats", "shop.payments.retry.5s/0/3-4"];
    let arguments = [&["resume", "-f", path.to_str().unwrap()][..], &ranges].concat();
    let (code, stdout, stderr) = ended(redrive(&arguments).env("USER", "ada"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "task 0  would be asked: accept-repeats shop.payments.retry.5s/0/3-4  (by ada)",
            "task 1  would be asked: accept-repeats payments/1/0-9  (by ada)",
            "next: redrive resume payments --accept-repeats payments/1/0-9 --accept-repeats \
             shop.payments.retry.5s/0/3-4 --yes",
        ]
    );
}

#[test]
fn an_id_that_no_request_has_is_bad_input() {
    let (_folder, path) = file(TOPOLOGY);
    for id in ["x", "1-2", "1-zz-3", "../1-2-3", "-1-2-3"] {
        let (code, _, stderr) = ended(&mut redrive(&[
            "answer",
            "-f",
            path.to_str().unwrap(),
            "--pipeline",
            "payments",
            "--",
            id,
        ]));
        assert_eq!(code, 2, "{id}");
        assert!(stderr.contains("no id of a request"), "{id}: {stderr}");
    }
}

/// With an order, so that there is something to know of keys.
const COUNTING: &str = "[pipeline.payments.order]\nguard = \"contiguous\"\nversion = { header = \"rev\" }\ngap-timeout = \"1m\"\n";

#[test]
fn what_versions_cannot_look_for_ends_with_2_and_says_why() {
    let (_folder, plain) = file(TOPOLOGY);
    let (_other_folder, counting) = file(&format!("{TOPOLOGY}{COUNTING}"));
    let order = "[pipeline.payments.order]\nguard = \"latest\"\nversion = { header = \"rev\" }\n";
    let (_third_folder, latest) = file(&format!("{TOPOLOGY}{order}"));
    for (path, arguments, why) in [
        (&plain, &["order-7"][..], "`payments` keeps nothing of keys\nhint: `guard`"),
        (&plain, &["verify"], "keeps nothing of keys"),
        (&counting, &["order-7", "--pipeline", "refunds"], "there is no pipeline `refunds`"),
        (&counting, &["%%", "--base64"], "`%%` is no base64"),
        (&counting, &[], "<KEY>"),
        (&counting, &["skip", "order-7"], "--to"),
        (&counting, &["skip", "order-7", "--to", "x"], "--to"),
        (&counting, &["skip", "order-7", "--to", "7", "--by", ""], "`--by` takes"),
        (&latest, &["skip", "order-7", "--to", "7", "--by", "ada"], "`payments` counts no versions\nhint: "),
        (&counting, &["ls"], "which keys are to be listed is not said"),
        (&counting, &["--pipeline", "refunds", "ls", "--held"], "there is no pipeline `refunds`"),
        (&counting, &["ls", "--held", "--pipeline", "refunds"], "there is no pipeline `refunds`"),
    ] {
        let start = ["versions", "-f", path.to_str().unwrap()];
        let (code, stdout, stderr) = ended(&mut redrive(&[&start[..], arguments].concat()));
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?} {stderr}");
        assert!(stderr.contains(why), "{arguments:?} {stderr}");
    }
}
