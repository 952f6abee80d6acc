//! What a call sends, and what a good answer becomes.

use bytes::Bytes;
use redrive::core::class::{Class, ReasonName};
use redrive::core::outcome::{Cause, Outcome, Output, OutputName};
use redrive::core::record::HeaderName;
use redrive::core::time::Timestamp;
use redrive::topology::model::{HttpHandler, Shown, Text};

use super::place::{cause, deliver, delivery, envelope, header, http, refused, silent, writing};
use super::server::{Reply, Server, answer, bytes};

fn every_byte() -> Vec<u8> {
    (0..=255).collect()
}

#[tokio::test]
async fn a_call_is_a_cloud_event_in_binary_mode() {
    let server = Server::saying(bytes(204, &[], b"")).await;
    let mut delivery = delivery(envelope(Some(b"{\"amount\":3}")));
    delivery.due = Some(Timestamp::from_millis(1_700_000_005_000));

    assert_eq!(writing(http(&server.url)).handle(delivery).await, Outcome::done());

    let seen = server.only();
    assert_eq!(seen.line, "POST /pay?a=1 HTTP/1.1");
    assert_eq!(seen.body, b"{\"amount\":3}");
    let names = ["ce-specversion", "ce-id", "ce-source", "ce-type", "ce-time", "idempotency-key"];
    let values = ["1.0", "payments.in/3/42", "/shop/payments", "payments.in", "2023-11-14T22:13:20.123Z"];
    for (name, value) in names.into_iter().zip(values.into_iter().chain(["payments.in/3/42"])) {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    assert_eq!(seen.header("redrive-key"), Some("Y3VzdG9tZXItNw=="));
    assert_eq!(seen.header("redrive-attempt"), Some("2"));
    assert_eq!(seen.header("redrive-execution"), Some("3"));
    assert_eq!(seen.header("redrive-due"), Some("1700000005000"));
    for absent in ["redrive-tombstone", "authorization", "trace", "content-type", "transfer-encoding"] {
        assert_eq!(seen.header(absent), None, "{absent}");
    }
}

#[tokio::test]
async fn the_value_goes_out_and_comes_back_byte_for_byte() {
    let server = Server::start(|seen| async move { answer(200, &[], &seen.body) }).await;
    let long: Vec<u8> = every_byte().into_iter().cycle().take(900_000).collect();
    let handler = writing(http(&server.url));
    for value in [every_byte(), long, b"\xef\xbb\xbf\r\n\r\n".to_vec()] {
        let outcome = deliver(&handler, &value).await;
        let envelope = envelope(None);
        let output = Output {
            to: OutputName::Main,
            key: envelope.key,
            value: Some(value.into()),
            headers: envelope.foreign,
        };
        assert!(outcome == Outcome::Done(vec![output]), "the value changed on its way");
    }
}

#[tokio::test]
async fn a_tombstone_is_told_from_an_empty_value() {
    let server = Server::saying(bytes(204, &[], b"")).await;
    let handler = writing(http(&server.url));
    for value in [None, Some(&b""[..])] {
        assert_eq!(handler.handle(delivery(envelope(value))).await, Outcome::done());
    }
    let seen = server.seen();
    assert_eq!(seen[0].header("redrive-tombstone"), Some("true"));
    assert_eq!(seen[1].header("redrive-tombstone"), None);
    for seen in seen {
        assert_eq!((seen.header("content-length"), seen.body.len()), (Some("0"), 0));
    }
}

#[tokio::test]
async fn a_null_key_is_told_from_an_empty_one() {
    let server = Server::saying(bytes(204, &[], b"")).await;
    let handler = writing(http(&server.url));
    for key in [None, Some(Bytes::new())] {
        let mut envelope = envelope(Some(b""));
        envelope.key = key;
        assert_eq!(handler.handle(delivery(envelope)).await, Outcome::done());
    }
    let seen = server.seen();
    assert_eq!((seen[0].header("redrive-key"), seen[1].header("redrive-key")), (None, Some("")));
}

#[tokio::test]
async fn ids_that_are_no_header_values_are_percent_encoded() {
    let server = Server::saying(bytes(204, &[], b"")).await;
    let mut envelope = envelope(Some(b""));
    envelope.identity.event_id = Some(Bytes::from_static(b"a b\r\nx: y"));
    envelope.identity.operation_id = Some(Bytes::from_static(b"100%\xff"));
    assert_eq!(writing(http(&server.url)).handle(delivery(envelope)).await, Outcome::done());
    let seen = server.only();
    assert_eq!(seen.header("ce-id"), Some("a%20b%0D%0Ax:%20y"));
    assert_eq!(seen.header("idempotency-key"), Some("100%25%FF"));
}

#[tokio::test]
async fn foreign_headers_are_forwarded_only_by_name_and_where_http_can_carry_them() {
    let server = Server::saying(bytes(204, &[], b"")).await;
    let mut envelope = envelope(Some(b""));
    envelope.foreign = vec![
        header("traceparent", Some(b"one")),
        header("other", Some(b"kept back")),
        header("traceparent", None),
        header("traceparent", Some(b"line\nbreak")),
        header("Traceparent", Some(b"another name to Kafka")),
        header("traceparent", Some(b"tw\xc3\xb6")),
    ];
    let spec =
        HttpHandler { forward_headers: vec![HeaderName::from_static("traceparent")], ..http(&server.url) };
    assert_eq!(writing(spec).handle(delivery(envelope)).await, Outcome::done());
    let seen = server.only();
    assert_eq!(seen.all("traceparent"), [&b"one"[..], b"tw\xc3\xb6"]);
    assert_eq!(seen.header("other"), None);
}

#[tokio::test]
async fn headers_of_the_topology_are_sent_with_every_call() {
    let server = Server::saying(bytes(204, &[], b"")).await;
    let text = |plain: &str| Text { plain: plain.into(), shown: Shown::Masked };
    let headers = vec![
        ("content-type".into(), text("application/json")),
        ("X-Api-Key".into(), text("s3cret")),
        ("Host".into(), text("orders.internal")),
    ];
    let handler = writing(HttpHandler { headers, ..http(&server.url) });
    for _ in 0..2 {
        assert_eq!(deliver(&handler, b"{}").await, Outcome::done());
    }
    for seen in server.seen() {
        assert_eq!(seen.header("content-type"), Some("application/json"));
        assert_eq!(seen.header("x-api-key"), Some("s3cret"));
        assert_eq!(seen.header("host"), Some("orders.internal"));
    }
    assert!(!format!("{handler:?}").contains("s3cret"));
}

#[test]
fn headers_that_frame_the_request_or_are_redrives_own_are_refused() {
    let bad = ["content-length", "Transfer-Encoding", "connection", "ce-id", "Redrive-Attempt", "a b", ""];
    for name in bad {
        let forward_headers = vec![HeaderName::new(name)];
        let text = refused(HttpHandler { forward_headers, ..http("http://localhost/") });
        assert!(text.starts_with(&format!("header `{name}` cannot be sent: ")), "{text}");
        let headers = vec![(name.into(), Text { plain: "1".into(), shown: Shown::Plain })];
        let text = refused(HttpHandler { headers, ..http("http://localhost/") });
        assert!(text.starts_with(&format!("header `{name}` cannot be sent: ")), "{text}");
    }
}

#[test]
fn urls_that_cannot_be_called_are_refused() {
    for url in ["", "orders:8080", "ftp://localhost/", "/pay", "http://"] {
        let text = refused(http(url));
        assert!(text.starts_with(&format!("handler url `{url}` cannot be called: ")), "{text}");
    }
    let text = refused(http("http://me:s3cret@localhost/"));
    assert!(text.contains("`http://localhost/`") && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn an_answer_other_than_204_is_the_output_even_where_it_is_empty() {
    let server = Server::start(|seen| async move {
        match seen.body.as_slice() {
            b"empty" => answer(202, &[], b""),
            _ => Reply::Send(
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
                    .into(),
            ),
        }
    })
    .await;
    let handler = writing(http(&server.url));
    for (value, body) in [(&b"empty"[..], &b""[..]), (b"chunked", b"abcde")] {
        let Outcome::Done(outputs) = deliver(&handler, value).await else { panic!("failed") };
        assert_eq!(outputs.len(), 1);
        assert_eq!(outputs[0].value.as_deref(), Some(body));
    }
}

#[tokio::test]
async fn without_an_output_the_body_is_ignored() {
    let server = Server::saying(bytes(200, &[], b"ignored")).await;
    let handler = silent(http(&server.url));
    for _ in 0..3 {
        assert_eq!(deliver(&handler, b"{}").await, Outcome::done());
    }
    assert!(server.seen().iter().all(|seen| seen.connection == 0), "the connection is used again");
}

#[tokio::test]
async fn an_answer_too_large_for_a_record_is_a_permanent_failure() {
    let (limit, too_large) = (1024 * 1024, ReasonName::from_static("answer-too-large"));
    let chunked = |size: usize| {
        let mut all =
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{size:x}\r\n").into_bytes();
        all.extend(vec![b'x'; size]);
        all.extend(b"\r\n0\r\n\r\n");
        all
    };
    let whole = |size: usize| bytes(200, &[], &vec![b'x'; size]);
    for at_limit in [whole(limit), chunked(limit)] {
        let server = Server::saying(at_limit).await;
        let Outcome::Done(outputs) = deliver(&writing(http(&server.url)), b"").await else {
            panic!("failed")
        };
        assert_eq!(outputs[0].value.as_ref().map(Bytes::len), Some(limit));
    }
    for over in [whole(limit + 1), chunked(limit + 1)] {
        let server = Server::start(move |_| std::future::ready(Reply::SendAndHang(over.clone()))).await;
        let named = Cause::Named { class: Class::Permanent, reason: too_large.clone() };
        assert_eq!(cause(&writing(http(&server.url))).await, named);
        assert_eq!(deliver(&silent(http(&server.url)), b"").await, Outcome::done());
    }
}
