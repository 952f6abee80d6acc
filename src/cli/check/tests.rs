use super::*;
use crate::topology::environment::Unreadable;

/// One file, and one variable.
struct Given(&'static str);

impl Environment for Given {
    fn variable(&self, name: &str) -> Result<String, Unreadable> {
        let known = (name == "KAFKA_PASSWORD").then(|| "hunter2".to_owned());
        known.ok_or_else(|| Unreadable { why: "it is not set".to_owned() })
    }

    fn file(&self, path: &Path) -> Result<String, Unreadable> {
        let known = (path == Path::new("shop.toml")).then(|| self.0.to_owned());
        known.ok_or_else(|| Unreadable { why: "no such file".to_owned() })
    }
}

const SHOP: &str = r#"
app = "shop"
kafka.bootstrap = ["a:9092", "b:9092"]
kafka.properties."sasl.password" = { env = "KAFKA_PASSWORD" }

[pipeline.payments]
source = "payments"
start = "latest"
output = "payments.applied"
handler.http = { url = "http://localhost/payments?key=hunter3", timeout = "2s" }
order = { guard = "latest", version = [{ header = "rev" }, { header = "at" }], stale-output = "payments.stale" }

[pipeline.payments.retry]
tiers = ["5s", "1m", "10m"]
last-tier-repeats = 3
deadline = "2h"
in-place = { executions = 3 }

[pipeline.audit]
source = "audit"
start = { group = "old" }
handler.passthrough = {}
decode = "json"
order = { key = { json = "/customer" }, co-partitioned = true, guard = "latest", version = { json = "/v" } }
retry = { tiers = ["1h"], last-tier-repeats = 100 }
"#;

fn checked(text: &'static str, output: Output) -> (Verdict, String, String) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let verdict = check(Path::new("shop.toml"), output, &Given(text), &mut stdout, &mut stderr).unwrap();
    (verdict, String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_topology_that_compiles_is_told_in_words() {
    let (verdict, stdout, stderr) = checked(SHOP, Output::Text);
    assert_eq!((verdict, stderr.as_str()), (Verdict::Fine, ""));
    assert_eq!(
        stdout,
        "\
app shop, brokers a:9092 b:9092, probes and metrics at 0.0.0.0:9400

pipeline payments
  group        shop.payments, starts at latest
  handler      POST http://localhost/payments?***, timeout 2s, 64 at a time
  source       payments
  retry.5s     shop.payments.retry.5s, kept 7d 5s
  retry.1m     shop.payments.retry.1m, kept 7d 1m
  retry.10m    shop.payments.retry.10m, kept 7d 10m
  dlq          shop.payments.dlq, kept 14d
  state        shop.payments.state, compacted
  output       payments.applied
  stale-output payments.stale
  order        by record key, latest version in header rev or header at, another value under it is a dead letter
  ladder       5s → 1m → 10m ×3, then dead letter (exhausted)
  at most      6 attempts, 18 executions; 31m 5s of waiting, deadline 2h

pipeline audit
  group        shop.audit, starts at the offsets of group old
  handler      passthrough, 0 rules to fail
  source       audit
  decode       json
  retry.1h     shop.audit.retry.1h, kept 7d 1h
  dlq          shop.audit.dlq, kept 14d
  state        shop.audit.state, compacted
  order        by `/customer` of the value, latest version in `/v` of the value, another value under it is a dead letter
  ladder       1h ×24, then dead letter (deadline)
  at most      25 attempts, 25 executions; 1d of waiting, deadline 1d
"
    );
}

#[test]
fn a_topology_that_compiles_is_told_in_json_without_secrets() {
    let (verdict, stdout, _) = checked(SHOP, Output::Json);
    let told: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(verdict, Verdict::Fine);
    assert_eq!(told["valid"], true);
    assert_eq!(told["properties"]["sasl.password"], "***");
    assert_eq!(
        told["pipelines"][0]["lanes"][1],
        json!({ "lane": "retry.5s", "topic": "shop.payments.retry.5s", "delay": "5s", "retention": "604805s" })
    );
    assert_eq!(
        told["pipelines"][0]["ladder"],
        json!({
            "waits": ["5s", "1m", "10m", "10m", "10m"], "attempts": 6, "executions": 18,
            "longest_wait": "1865s", "deadline": "2h", "ended_by": "exhausted",
        })
    );
    assert_eq!(
        told["pipelines"][0]["order"],
        json!({
            "key": "record-key", "guard": "latest", "version": [{ "header": "rev" }, { "header": "at" }],
            "equal": "conflict", "tombstone_without_version": "dead-letter", "while_retrying": "overtake",
        })
    );
    assert_eq!(told["pipelines"][0]["stale_output"], "payments.stale");
    let order = &told["pipelines"][1]["order"];
    assert_eq!(
        [&order["key"], &order["version"][0]],
        [&json!({ "json": "/customer" }), &json!({ "json": "/v" })]
    );
    assert_eq!([&told["pipelines"][0]["decode"], &told["pipelines"][1]["decode"]], ["bytes", "json"]);
    assert!(!stdout.contains("hunter"), "{stdout}");
}

#[test]
fn problems_go_to_stderr_and_in_json_to_stdout_too() {
    let (verdict, stdout, stderr) = checked("app = 5", Output::Text);
    assert_eq!((verdict, stdout.as_str()), (Verdict::Bad, ""));
    assert!(stderr.starts_with("error[missing-key]"), "{stderr}");
    assert!(stderr.ends_with("`shop.toml` has 3 problems\n"), "{stderr}");

    let (verdict, stdout, stderr) = checked("app = 5", Output::Json);
    let told: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((verdict, &told["valid"]), (Verdict::Bad, &json!(false)));
    assert_eq!(told["diagnostics"][2]["code"], "wrong-type");
    assert!(stderr.contains("error[wrong-type]"));
}

#[test]
fn a_file_that_is_missing_is_a_problem_of_its_own() {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let verdict = check(Path::new("no.toml"), Output::Text, &Given(""), &mut stdout, &mut stderr).unwrap();
    assert_eq!(verdict, Verdict::Bad);
    assert!(
        String::from_utf8(stderr).unwrap().contains("error[file-unreadable]: file `no.toml` cannot be read")
    );
}

#[test]
fn times_are_spoken_in_all_their_units() {
    let spoken = [0, 5, 1_000, 90_061_001, 86_400_000].map(|millis| spoken(Duration::from_millis(millis)));
    assert_eq!(spoken, ["0ms", "5ms", "1s", "1d 1h 1m 1s 1ms", "1d"]);
}
