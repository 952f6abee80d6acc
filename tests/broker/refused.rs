//! How a process ends whose brokers refuse it or do not answer, and what it tells people.

use std::io::Write;
use std::net::TcpListener;

use crate::binary::Binary;
use crate::support::Kafka;
use crate::topology::Draft;

/// Has the broker's one listener want a user and a password.
const WANTS_LOGIN: [&str; 4] = [
    "listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol=PLAIN",
    "listener.name.client.sasl.enabled.mechanisms=PLAIN",
    "listener.name.client.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
     username=\"admin\" password=\"right\" user_admin=\"right\";",
];

#[test]
fn a_refused_login_ends_the_process_as_bad_configuration_and_says_where_to_look() {
    let kafka = Kafka::start_with(&WANTS_LOGIN);
    let mut password = tempfile::NamedTempFile::new().unwrap();
    password.write_all(b"hunter2").unwrap();
    let draft = Draft::new(&kafka, 1)
        .property("security.protocol", "\"SASL_PLAINTEXT\"")
        .property("sasl.mechanism", "\"PLAIN\"")
        .property("sasl.username", "\"admin\"")
        .property("sasl.password", &format!("{{ file = \"{}\" }}", password.path().display()));
    let (code, words) = Binary::fails(&draft.text(&kafka));
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("the brokers refuse the login"), "{words}");
    assert!(words.contains("hint: look at `sasl.*` and `ssl.*`"), "{words}");
    assert!(!words.contains("hunter2"), "{words}");
}

#[test]
fn brokers_that_do_not_answer_end_the_process_and_are_named() {
    let kafka = Kafka::shared();
    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (code, words) = Binary::fails(&Draft::new(kafka, 1).text_for(&gone));
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("the brokers do not answer"), "{words}");
    assert!(words.contains("hint: are the brokers of `bootstrap` up and reachable?"), "{words}");
}
