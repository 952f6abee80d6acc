//! The bearer token, and what follows when it is refused.

use std::path::PathBuf;
use std::sync::Arc;

use redrive::core::class::Class;
use redrive::core::outcome::{Cause, Outcome};
use redrive::topology::model::{HttpHandler, Shown, Text, Token};
use tokio::sync::Barrier;

use super::place::{cause, deliver, http, refused, status, writing};
use super::server::{Server, answer};

/// Takes only this token.
async fn taking(token: &'static str) -> Server {
    Server::start(move |seen| async move {
        let good = seen.header("authorization") == Some(&format!("Bearer {token}"));
        answer(if good { 204 } else { 401 }, &[], b"")
    })
    .await
}

fn with_file(url: &str, path: PathBuf) -> HttpHandler {
    HttpHandler { token: Some(Token::File(path)), ..http(url) }
}

/// A folder with a file that holds this token.
fn file(token: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, token).unwrap();
    (folder, path)
}

#[tokio::test]
async fn a_token_is_sent_with_every_call() {
    let server = taking("s3cret").await;
    let token = Some(Token::Fixed(Text { plain: "s3cret".into(), shown: Shown::Masked }));
    let handler = writing(HttpHandler { token, ..http(&server.url) });
    for _ in 0..2 {
        assert_eq!(deliver(&handler, b"{}").await, Outcome::done());
    }
}

#[tokio::test]
async fn a_fixed_token_that_is_refused_is_not_tried_again() {
    let server = taking("new").await;
    let token = Some(Token::Fixed(Text { plain: "old".into(), shown: Shown::Masked }));
    assert_eq!(cause(&writing(HttpHandler { token, ..http(&server.url) })).await, status(401));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_refused_token_is_read_again_and_the_call_repeated_once() {
    let server = taking("new").await;
    let (_folder, path) = file("old\n");
    let handler = writing(with_file(&server.url, path.clone()));
    std::fs::write(&path, "new\n").unwrap();

    assert_eq!(deliver(&handler, b"{}").await, Outcome::done());
    assert_eq!(deliver(&handler, b"{}").await, Outcome::done());

    let seen = server.seen();
    let tokens: Vec<_> = seen.iter().map(|seen| seen.header("authorization").unwrap()).collect();
    assert_eq!(tokens, ["Bearer old", "Bearer new", "Bearer new"]);
    assert_eq!(seen[0].header("redrive-execution"), seen[1].header("redrive-execution"));
}

#[tokio::test]
async fn a_newer_token_that_is_refused_as_well_is_a_401() {
    let server = taking("newest").await;
    let (_folder, path) = file("old");
    let handler = writing(with_file(&server.url, path.clone()));
    std::fs::write(&path, "new").unwrap();
    assert_eq!(cause(&handler).await, status(401));
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_token_that_has_not_changed_is_not_tried_again() {
    let server = taking("new").await;
    let (_folder, path) = file("old");
    assert_eq!(cause(&writing(with_file(&server.url, path))).await, status(401));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn many_calls_that_are_refused_at_once_all_go_on_with_the_newer_token() {
    const CALLS: usize = 8;
    let all_there = Arc::new(Barrier::new(CALLS));
    let server = Server::start(move |seen| {
        let all_there = Arc::clone(&all_there);
        async move {
            if seen.header("authorization") == Some("Bearer new") {
                return answer(204, &[], b"");
            }
            all_there.wait().await;
            answer(401, &[], b"")
        }
    })
    .await;
    let (_folder, path) = file("old");
    let handler = writing(with_file(&server.url, path.clone()));
    std::fs::write(&path, "new").unwrap();
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let handler = handler.clone();
            tokio::spawn(async move { deliver(&handler, b"{}").await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Outcome::done());
    }
    assert_eq!(server.seen().len(), 2 * CALLS);
}

#[tokio::test]
async fn a_token_file_that_is_gone_is_not_the_records_fault() {
    let server = taking("new").await;
    let (folder, path) = file("old");
    let handler = writing(with_file(&server.url, path));
    drop(folder);
    let reason = "token-unreadable".parse().unwrap();
    assert_eq!(cause(&handler).await, Cause::Named { class: Class::Transient, reason });
}

#[test]
fn a_token_file_that_cannot_be_used_is_refused_at_start() {
    let (folder, path) = file(" \n");
    let text = refused(with_file("http://localhost/", path));
    assert!(text.starts_with("token `") && text.ends_with("the token is empty"), "{text}");
    let text = refused(with_file("http://localhost/", folder.path().join("none")));
    assert!(text.contains("No such file"), "{text}");
}
