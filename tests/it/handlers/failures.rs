//! What a call that fails is reported as: what was sent decides.

use std::time::Duration;

use redrive::core::outcome::{Cause, Outcome};
use redrive::topology::model::HttpHandler;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket};

use super::place::{cause, deliver, failure, http, silent, status, writing};
use super::server::{Reply, Server, answer, bytes};

const SHORT: Duration = Duration::from_millis(800);

#[tokio::test]
async fn every_status_but_2xx_is_reported_as_it_is_and_never_followed() {
    let statuses = [
        300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 408, 409, 410, 422, 425, 429, 500, 501, 502, 503,
        504, 599,
    ];
    let server = Server::start(|seen| async move {
        let status = String::from_utf8(seen.body).unwrap().parse().unwrap();
        answer(status, &["location: /elsewhere"], b"no")
    })
    .await;
    let handler = writing(http(&server.url));
    for code in statuses {
        let Outcome::Failed(failure) = deliver(&handler, code.to_string().as_bytes()).await else {
            panic!("{code} is no success")
        };
        assert_eq!(failure.cause, status(code));
        assert!(failure.detail.starts_with(&code.to_string()), "{}", failure.detail);
    }
    let seen = server.seen();
    assert_eq!(seen.len(), statuses.len(), "one request each");
    assert!(seen.iter().all(|seen| seen.connection == 0), "the connection is used again");
}

#[tokio::test]
async fn an_answer_may_name_a_reason_and_a_wait() {
    let server = Server::saying(bytes(503, &["redrive-reason: no-stock", "retry-after: 7"], b"")).await;
    let failure = failure(&writing(http(&server.url))).await;
    assert_eq!(failure.cause, Cause::Status { status: 503, reason: Some("no-stock".parse().unwrap()) });
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn a_reason_that_is_no_name_is_passed_over() {
    let server = Server::saying(bytes(400, &["redrive-reason: Not A Name"], b"")).await;
    assert_eq!(cause(&writing(http(&server.url))).await, status(400));
}

#[tokio::test]
async fn only_text_for_people_is_told() {
    let plain = bytes(422, &["content-type: text/plain"], b"no stock");
    let json = bytes(422, &["content-type: application/json"], b"{\"card\":4111}");
    for (answer, detail) in
        [(plain, "422 Unprocessable Entity: no stock"), (json, "422 Unprocessable Entity")]
    {
        let server = Server::saying(answer).await;
        assert_eq!(failure(&writing(http(&server.url))).await.detail, detail);
    }
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let failure = failure(&writing(http(&url))).await;
    assert_eq!(failure.cause, Cause::NotSent);
    assert!(failure.detail.contains("refused"), "{}", failure.detail);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_was_sent_nothing() {
    assert_eq!(cause(&writing(http("http://nobody.invalid/"))).await, Cause::NotSent);
}

/// A listener whose queue is full drops what asks to connect, as a host that is gone does.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_host_that_never_answers_was_sent_nothing() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(SHORT, tokio::net::TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
    }
    let spec = HttpHandler { timeout: SHORT, ..http(&format!("http://{address}/")) };
    assert_eq!(cause(&writing(spec)).await, Cause::NotSent);
}

#[tokio::test]
async fn no_answer_in_time_is_a_timeout() {
    let server = Server::start(|_| async { Reply::SendAndHang(Vec::new()) }).await;
    let spec = HttpHandler { timeout: SHORT, ..http(&server.url) };
    assert_eq!(cause(&writing(spec)).await, Cause::TimedOut);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn half_an_answer_in_time_is_a_timeout() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec();
    let server = Server::start(move |_| std::future::ready(Reply::SendAndHang(half.clone()))).await;
    let spec = || HttpHandler { timeout: SHORT, ..http(&server.url) };
    assert_eq!(cause(&writing(spec())).await, Cause::TimedOut);
    assert_eq!(cause(&silent(spec())).await, Cause::TimedOut);
}

#[tokio::test]
async fn an_end_after_the_request_is_a_cut_and_is_not_repeated() {
    let server = Server::start(|_| async { Reply::SendAndClose(Vec::new()) }).await;
    assert_eq!(cause(&writing(http(&server.url))).await, Cause::Cut);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_reset_amid_the_request_is_a_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let reset = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // What is left unread makes the end a reset.
        stream.read_u8().await.unwrap();
    });
    assert_eq!(cause(&writing(http(&url))).await, Cause::Cut);
    reset.await.unwrap();
}

#[tokio::test]
async fn a_cut_body_is_a_cut_whatever_the_head_said() {
    let heads = ["200 OK", "201 Created", "400 No", "500 Broken"];
    let bodies =
        ["content-length: 10\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", "content-le"];
    for (head, body) in heads.into_iter().flat_map(|head| bodies.map(|body| (head, body))) {
        let half = format!("HTTP/1.1 {head}\r\n{body}").into_bytes();
        let server = Server::start(move |_| std::future::ready(Reply::SendAndClose(half.clone()))).await;
        assert_eq!(cause(&writing(http(&server.url))).await, Cause::Cut, "{head} {body}");
        assert_eq!(cause(&silent(http(&server.url))).await, Cause::Cut, "{head} {body}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_a_cut() {
    let server = Server::start(|_| async { Reply::SendAndClose(b"SSH-2.0-OpenSSH_9.9\r\n".into()) }).await;
    assert_eq!(cause(&writing(http(&server.url))).await, Cause::Cut);
}
