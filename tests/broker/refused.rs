//! How a process ends whose brokers refuse it, and what it tells people.

use std::io::Write;

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
