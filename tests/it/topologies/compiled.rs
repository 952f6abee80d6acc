//! What a topology file compiles to: start values, layers, names, masks.

use std::time::Duration;

use redrive::core::class::Class;
use redrive::core::policy::{
    Equal, Flow, Guard, InPlace, Ladder, Latest, OrderKey, OrderPolicy, Policy, Source, TombstoneVersion,
    Twins, UnknownOutcome,
};
use redrive::core::position::{Lane, TierIndex, TopicName};
use redrive::core::record::HeaderName;
use redrive::core::time::Timestamp;
use redrive::topology::model::{
    Cleanup, Format, HandlerSpec, HttpHandler, Membership, Pipeline, Protocol, Shown, Start, Token, Topology,
    Workers,
};

use super::Given;

const HOUR: Duration = Duration::from_secs(3_600);

fn compiled(text: &str) -> Topology {
    let text = format!("app = \"shop\"\nkafka.bootstrap = [\"localhost:9092\"]\n{text}");
    Topology::compile(&text, "t.toml", &Given).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

fn pipeline(text: &str) -> Pipeline {
    let text = format!("[pipeline.orders]\nsource = \"orders\"\nstart = \"latest\"\n{text}");
    compiled(&text).pipelines.into_iter().next().unwrap()
}

fn http(pipeline: &Pipeline) -> &HttpHandler {
    let HandlerSpec::Http(http) = &pipeline.handler else { panic!("{:?}", pipeline.handler) };
    http
}

#[test]
fn what_is_left_out_has_the_documented_start_value() {
    let pipeline = pipeline("handler.http.url = \"http://localhost/\"\nretry.tiers = [\"5s\", \"60s\"]");
    let policy = &pipeline.policy;
    assert_eq!(
        policy.in_place,
        InPlace {
            executions: 1,
            base: Duration::from_millis(100),
            cap: Duration::from_secs(2),
            budget: Duration::from_secs(10),
        }
    );
    let delays = vec![Duration::from_secs(5), Duration::from_secs(60)];
    assert_eq!(policy.ladder, Ladder { delays, last_tier_repeats: 1 });
    assert_eq!((policy.deadline, policy.unknown), (HOUR * 24, UnknownOutcome::DeadLetter));
    assert_eq!(policy.handler_timeout, Duration::from_secs(5));
    assert_eq!(
        policy.flow,
        Flow {
            window: 256,
            commit_interval: Duration::from_millis(50),
            drain: Duration::from_secs(20),
            revoke: Duration::from_secs(5),
            transaction_timeout: Duration::from_secs(10),
            recommit: HOUR,
            twins: Twins::Fences,
        }
    );
    let Workers { threads, session_timeout, membership } = pipeline.workers;
    assert_eq!((threads, session_timeout, membership), (1, Duration::from_secs(15), Membership::Dynamic));
    assert_eq!((pipeline.topics.replication, pipeline.topics.min_isr), (None, None));
    assert_eq!(http(&pipeline).concurrency, 64);
    assert_eq!((&policy.order, policy.order.stale_output()), (&OrderPolicy::default(), None));
    assert!(http(&pipeline).token.is_none() && http(&pipeline).headers.is_empty());
}

#[test]
fn a_short_session_shortens_transactions_that_are_not_set() {
    let pipeline = pipeline("handler.passthrough = {}\nretry.tiers = []\nworkers.session-timeout = \"6s\"");
    let flow = pipeline.policy.flow;
    assert_eq!((flow.transaction_timeout, flow.revoke), (Duration::from_secs(4), Duration::from_secs(2)));
}

#[test]
fn the_session_of_protocol_consumer_is_the_brokers() {
    let pipeline = "[pipeline.p]\nsource = \"s\"\nstart = \"latest\"\nhandler.passthrough = {}\nretry.tiers = []\n\
                    workers.static-membership = true";
    let of = |protocol: &str| compiled(&format!("kafka.protocol = \"{protocol}\"\n{pipeline}"));
    let (classic, consumer) = (of("classic"), of("consumer"));
    assert_eq!((classic.kafka.protocol, consumer.kafka.protocol), (Protocol::Classic, Protocol::Consumer));
    let workers = [classic, consumer].map(|topology| topology.pipelines[0].workers);
    assert_eq!(workers.map(|workers| workers.session_timeout.as_secs()), [15, 45]);
    assert_eq!(workers.map(|workers| workers.membership), [Membership::Static; 2]);
}

#[test]
fn own_topics_are_named_after_app_pipeline_and_lane() {
    let pipeline = pipeline(
        "handler.passthrough = {}\nretry.tiers = [\"5000ms\", \"60s\"]\ndead-letter.retention = \"30d\"\n\
         topics = { tier-retention = \"1d\", replication = 3, min-isr = 2, names = { dlq = \"governed.dead\" } }",
    );
    let own = |topic: &redrive::topology::model::OwnTopic| (topic.name.to_string(), topic.cleanup);
    let tiers: Vec<_> = pipeline.tiers.iter().map(|tier| (tier.label.as_str(), own(&tier.topic))).collect();
    assert_eq!(
        tiers,
        [
            (
                "retry.5s",
                ("shop.orders.retry.5s".to_owned(), Cleanup::Delete(HOUR * 24 + Duration::from_secs(5)))
            ),
            (
                "retry.1m",
                ("shop.orders.retry.1m".to_owned(), Cleanup::Delete(HOUR * 24 + Duration::from_secs(60)))
            ),
        ]
    );
    assert_eq!(own(&pipeline.dead_letter), ("governed.dead".to_owned(), Cleanup::Delete(HOUR * 24 * 30)));
    assert_eq!(own(&pipeline.state), ("shop.orders.state".to_owned(), Cleanup::Compact));
    assert_eq!(own(&pipeline.control), ("shop.orders.control".to_owned(), Cleanup::Delete(HOUR * 24 * 7)));
    assert_eq!(
        own(&pipeline.cases),
        ("shop.orders.cases".to_owned(), Cleanup::CompactDelete(HOUR * 24 * 90))
    );
    assert_eq!((pipeline.topics.replication, pipeline.topics.min_isr), (Some(3), Some(2)));
    assert_eq!(pipeline.group, "shop.orders");
    for lane in pipeline.policy.lanes() {
        assert_eq!(pipeline.lane_label(lane), pipeline.policy.word(lane));
        assert_eq!(pipeline.lane_topic(lane), pipeline.policy.topic(lane));
    }
    assert_eq!(pipeline.lane_topic(Lane::Tier(TierIndex(0))).as_str(), "shop.orders.retry.5s");
}

#[test]
fn defaults_are_start_values_key_by_key() {
    let topology = compiled(
        "[defaults.retry]\ntiers = [\"5s\"]\ndeadline = \"1h\"\nin-place = { executions = 3, base = \"10ms\" }\n\
         [defaults.handler.http]\nurl = \"http://localhost/all\"\ntimeout = \"1s\"\nheaders = { X-A = \"a\", X-B = \"b\" }\n\
         [pipeline.b]\nsource = \"b\"\nstart = \"latest\"\n\
         [pipeline.a]\nsource = \"a\"\nstart = \"latest\"\nretry = { deadline = \"2h\", in-place = { base = \"20ms\" } }\n\
         handler.http = { url = \"http://localhost/a\", headers = { X-B = \"c\" } }\n\
         [pipeline.c]\nsource = \"c\"\nstart = \"latest\"\nhandler.passthrough = {}\n",
    );
    let [b, a, c] = topology.pipelines.as_slice() else { panic!("the order of the file") };
    assert_eq!([&b.name, &a.name, &c.name], ["b", "a", "c"]);
    assert_eq!((b.policy.deadline, a.policy.deadline), (HOUR, HOUR * 2));
    assert_eq!((a.policy.in_place.executions, a.policy.in_place.base), (3, Duration::from_millis(20)));
    assert_eq!((http(b).url.as_str(), http(a).url.as_str()), ("http://localhost/all", "http://localhost/a"));
    assert_eq!(http(a).timeout, Duration::from_secs(1));
    let headers: Vec<_> = http(a).headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(headers, ["X-A: a", "X-B: c"]);
    assert!(matches!(c.handler, HandlerSpec::Passthrough(_)), "a handler of one's own replaces another kind");
    assert_eq!(c.policy.handler_timeout, Duration::ZERO);
}

#[test]
fn strings_come_from_the_environment_its_default_or_a_file() {
    let topology = Topology::compile(
        "app = { env = \"A\" }\nkafka.bootstrap = [{ env = \"UNSET\", default = \"k1:9092, k2:9092\" }]\n\
         [pipeline.orders]\nsource = { file = \"/run/secrets/token\" }\nstart = { env = \"UNSET\", default = \"earliest\" }\n\
         handler.rust.name = \"orders\"\nretry.tiers = [{ env = \"UNSET\", default = \"5s\" }]\n\
         outputs = { refunds = \"orders.refunds\" }\n",
        "t.toml",
        &Given,
    );
    let topology = topology.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    assert_eq!(topology.app, "a");
    assert_eq!(topology.kafka.bootstrap, ["k1:9092", "k2:9092"]);
    let pipeline = &topology.pipelines[0];
    assert_eq!(pipeline.source.as_str(), "from-a-file", "without the end of its line");
    assert_eq!(pipeline.start, Start::Earliest);
    assert_eq!(pipeline.policy.ladder.delays, [Duration::from_secs(5)]);
    assert_eq!(pipeline.outputs["refunds"].as_str(), "orders.refunds");
}

#[test]
fn secrets_from_outside_are_masked() {
    let topology = compiled(
        "kafka.properties = { \"sasl.password\" = { env = \"TOKEN\" }, \"client.rack\" = { env = \"A\" }, \
         \"socket.timeout.ms\" = 5_000, \"socket.keepalive.enable\" = true }\n\
         [pipeline.orders]\nsource = \"orders\"\nstart = \"latest\"\nretry.tiers = []\n\
         handler.http = { url = \"http://localhost/\", token = { env = \"TOKEN\" } }\n\
         [pipeline.audit]\nsource = \"audit\"\nstart = \"latest\"\nretry.tiers = []\n\
         handler.http = { url = \"http://localhost/\", token = { file = \"/run/secrets/token\" } }\n",
    );
    let properties = &topology.kafka.properties;
    assert_eq!(properties["sasl.password"].plain, "from-the-environment");
    assert_eq!(properties["sasl.password"].shown, Shown::Masked);
    assert_eq!(properties["client.rack"].to_string(), "a");
    assert_eq!(properties["socket.timeout.ms"].plain, "5000");
    assert_eq!(properties["socket.keepalive.enable"].plain, "true");
    assert!(
        matches!(&http(&topology.pipelines[0]).token, Some(Token::Fixed(text)) if text.shown == Shown::Masked)
    );
    assert!(
        matches!(&http(&topology.pipelines[1]).token, Some(Token::File(path)) if path.ends_with("token"))
    );
    assert!(!format!("{topology:?}").contains("from-"), "no secret in what is printed for a developer");
}

#[test]
fn a_start_is_a_word_a_moment_or_a_group() {
    let start = |value: &str| {
        compiled(&format!(
            "[pipeline.orders]\nsource = \"orders\"\nstart = {value}\nhandler.passthrough = {{}}\nretry.tiers = []"
        ))
        .pipelines[0]
            .start
            .clone()
    };
    assert_eq!(start("\"earliest\""), Start::Earliest);
    assert_eq!(start("\"latest\""), Start::Latest);
    let moment = Start::At(Timestamp::from_millis(1_714_521_600_000));
    assert_eq!(start("2024-05-01T02:00:00+02:00"), moment);
    assert_eq!(start("\"2024-05-01T00:00:00Z\""), moment);
    assert_eq!(start("{ group = \"old\" }"), Start::Group("old".to_owned()));
}

#[test]
fn identity_and_fail_rules_are_read() {
    let pipeline = pipeline(
        "retry.tiers = []\nidentity = { event-id = { header = \"redrive-event-id\" }, operation-id = { header = \"op\" } }\n\
         handler.passthrough.fail = [{ key-prefix = \"twice\", attempts = 2, class = \"throttled\", reason = \"flaky\", \
         after = \"5ms\" }, { reason = \"always\" }]",
    );
    assert_eq!(pipeline.policy.identity.event_id, Some(header("redrive-event-id")));
    assert_eq!(pipeline.policy.identity.operation_id, Some(header("op")));
    let HandlerSpec::Passthrough(passthrough) = &pipeline.handler else { panic!("{:?}", pipeline.handler) };
    let [twice, always] = passthrough.fail.as_slice() else { panic!("{passthrough:?}") };
    assert_eq!((twice.key_prefix.as_slice(), twice.attempts), (b"twice".as_slice(), Some(2)));
    assert_eq!((twice.class, twice.reason.as_str()), (Class::Throttled, "flaky"));
    assert_eq!(twice.after, Duration::from_millis(5));
    assert_eq!((always.key_prefix.as_slice(), always.attempts), (b"".as_slice(), None));
    assert_eq!((always.class, always.after), (Class::Transient, Duration::ZERO));
}

fn at(place: &str) -> Source {
    Source::Json(place.parse().unwrap())
}

#[test]
fn places_in_json_are_read_where_values_are_json() {
    let pipeline = pipeline(
        "handler.passthrough = {}\nretry.tiers = []\ndecode = \"json\"\n\
         identity = { event-id = { header = \"ce-id\" }, operation-id = { json = \"/operation/a~1b\" } }\n\
         order = { guard = \"latest\", version = [{ header = \"rev\" }, { json = { env = \"UNSET\", default = \"/v\" } }], \
         key = { json = \"\" }, co-partitioned = true }",
    );
    let Policy { identity, order, .. } = &pipeline.policy;
    assert_eq!(pipeline.decode, Format::Json);
    assert_eq!(identity.event_id, Some(header("ce-id")));
    assert_eq!(identity.operation_id, Some(at("/operation/a~1b")));
    assert_eq!(order.key, OrderKey::Json("".parse().unwrap()));
    assert_eq!(order.versions(), [header("rev"), at("/v")]);
}

#[test]
fn values_are_bytes_where_nothing_else_is_said_and_may_be_json_without_a_place() {
    let decode =
        |line: &str| pipeline(&format!("handler.passthrough = {{}}\nretry.tiers = []\n{line}")).decode;
    assert_eq!(decode(""), Format::Bytes);
    assert_eq!(decode("decode = \"bytes\""), Format::Bytes);
    assert_eq!(decode("decode = \"json\""), Format::Json);
}

fn guarded(order: &str) -> Pipeline {
    let order = format!("order = {{ guard = \"latest\", {order} }}");
    pipeline(&format!("handler.passthrough = {{}}\nretry.tiers = []\n{order}"))
}

fn header(name: &str) -> Source {
    Source::Header(HeaderName::new(name))
}

#[test]
fn a_guard_that_says_only_where_versions_stand_has_the_documented_start_values() {
    let pipeline = guarded("version = { header = \"rev\" }");
    let latest = Latest {
        version: vec![header("rev")],
        equal: Equal::Conflict,
        tombstone: TombstoneVersion::DeadLetter,
        stale_output: None,
    };
    assert_eq!(pipeline.policy.order, OrderPolicy { guard: Guard::Latest(latest), ..OrderPolicy::default() });
    assert_eq!(pipeline.policy.order.stale_output(), None);
}

#[test]
fn a_guard_is_read_with_all_that_it_goes_by() {
    let pipeline = guarded(
        "key = \"partition\", version = [{ header = \"rev\" }, { header = \"updated-at\" }], equal = \"drop\", \
         tombstone-without-version = \"next\", stale-output = \"orders.stale\"",
    );
    let stale = Some(TopicName::new("orders.stale"));
    let latest = Latest {
        version: vec![header("rev"), header("updated-at")],
        equal: Equal::Drop,
        tombstone: TombstoneVersion::Next,
        stale_output: stale.clone(),
    };
    let guard = Guard::Latest(latest);
    assert_eq!(
        pipeline.policy.order,
        OrderPolicy { key: OrderKey::Partition, guard, ..OrderPolicy::default() }
    );
    assert_eq!(pipeline.policy.order.stale_output(), stale.as_ref());
    let equal = guarded("version = { header = \"rev\" }, equal = \"apply\"").policy.order.guard;
    assert!(matches!(equal, Guard::Latest(Latest { equal: Equal::Apply, .. })), "{equal:?}");
}

#[test]
fn a_pipeline_may_turn_off_the_guard_of_defaults() {
    let rest = "start = \"latest\"\nhandler.passthrough = {}\nretry.tiers = []\n";
    let topology = compiled(&format!(
        "[defaults.order]\nguard = \"latest\"\nversion = {{ header = \"rev\" }}\ntombstone-without-version = \"next\"\n\
         stale-output = \"stale\"\n[pipeline.a]\nsource = \"a\"\n{rest}[pipeline.b]\nsource = \"b\"\norder.guard = \"none\"\n{rest}"
    ));
    let [a, b] = [0, 1].map(|index| topology.pipelines[index].policy.order.guard.clone());
    assert!(matches!(a, Guard::Latest(Latest { tombstone: TombstoneVersion::Next, .. })), "{a:?}");
    assert_eq!(b, Guard::None);
    let stale = topology
        .pipelines
        .iter()
        .map(|pipeline| pipeline.policy.order.stale_output().is_some())
        .collect::<Vec<_>>();
    assert_eq!(stale, [true, false], "no topic is asked for that nobody writes");
}

#[test]
fn pipelines_may_share_a_stale_output_and_one_may_read_it() {
    let order = "order = { guard = \"latest\", version = { header = \"rev\" }, stale-output = \"stale\" }\n";
    let rest = "start = \"latest\"\nhandler.passthrough = {}\nretry.tiers = []\n";
    let topology = compiled(&format!(
        "[pipeline.a]\nsource = \"one\"\n{rest}{order}[pipeline.b]\nsource = \"two\"\n{rest}{order}\
         [pipeline.c]\nsource = \"stale\"\noutput = \"three\"\n{rest}"
    ));
    assert_eq!(topology.pipelines.len(), 3);
}

#[test]
fn pipelines_may_share_a_source_and_an_output_and_feed_each_other() {
    let rest = "start = \"latest\"\nhandler.passthrough = {}\nretry.tiers = []\n";
    let topology = compiled(&format!(
        "[pipeline.a]\nsource = \"one\"\noutput = \"two\"\n{rest}[pipeline.b]\nsource = \"one\"\noutput = \"two\"\n{rest}\
         [pipeline.c]\nsource = \"two\"\noutput = \"three\"\n{rest}"
    ));
    assert_eq!(topology.pipelines.len(), 3);
}
