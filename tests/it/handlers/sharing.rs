//! Connections and places that calls share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive::core::outcome::{Cause, Outcome};
use redrive::topology::model::HttpHandler;
use tokio::sync::Barrier;

use super::place::{cause, deliver, http, writing};
use super::server::{Reply, Server, answer, bytes};

#[tokio::test]
async fn one_connection_serves_call_after_call() {
    let server = Server::start(|seen| async move {
        match seen.body.as_slice() {
            b"1" => answer(204, &[], b""),
            b"2" => answer(500, &[], b"broken"),
            _ => answer(200, &[], b"done"),
        }
    })
    .await;
    let handler = writing(http(&server.url));
    for call in 0..60_u32 {
        let _ = deliver(&handler, (call % 3).to_string().as_bytes()).await;
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 60);
    assert!(seen.iter().all(|seen| seen.connection == 0), "more than one connection");
}

#[tokio::test]
async fn at_most_concurrency_calls_run_at_a_time() {
    const AT_ONCE: usize = 3;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, highest) = (Arc::clone(&running), Arc::clone(&most));
    // Each answer waits until as many calls as allowed are there: fewer would hang, more would be counted.
    let all_there = Arc::new(Barrier::new(AT_ONCE));
    let server = Server::start(move |_| {
        highest.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let (counted, all_there) = (Arc::clone(&counted), Arc::clone(&all_there));
        async move {
            all_there.wait().await;
            counted.fetch_sub(1, Ordering::SeqCst);
            answer(204, &[], b"")
        }
    })
    .await;
    let handler = writing(HttpHandler { concurrency: AT_ONCE, ..http(&server.url) });
    let calls: Vec<_> = (0..12)
        .map(|_| {
            let handler = handler.clone();
            tokio::spawn(async move { deliver(&handler, b"{}").await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Outcome::done());
    }
    assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
    assert!(server.seen().iter().all(|seen| seen.connection < AT_ONCE), "more connections than places");
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_is_not_used_again() {
    let server = Server::start(|_| async { Reply::SendAndClose(bytes(204, &[], b"")) }).await;
    let handler = writing(http(&server.url));
    for _ in 0..20 {
        assert_eq!(deliver(&handler, b"{}").await, Outcome::done());
        server.one_closed().await;
    }
    assert_eq!(server.seen().len(), 20);
}

#[tokio::test]
async fn an_end_on_a_used_connection_is_a_cut_and_is_not_repeated() {
    let calls = AtomicUsize::new(0);
    let server = Server::start(move |_| {
        let first = calls.fetch_add(1, Ordering::SeqCst) == 0;
        std::future::ready(if first { answer(204, &[], b"") } else { Reply::SendAndClose(Vec::new()) })
    })
    .await;
    let handler = writing(http(&server.url));
    assert_eq!(deliver(&handler, b"{}").await, Outcome::done());
    assert_eq!(cause(&handler).await, Cause::Cut);
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|seen| seen.connection == 0), "the second call used the first's connection");
}
