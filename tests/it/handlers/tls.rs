//! Calls over TLS.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use redrive::core::outcome::{Cause, Outcome};
use redrive::topology::model::HttpHandler;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::place::{cause, deliver, failure, http, refused, writing};

/// The authority and the server's certificate for `localhost` hold until 2126. The authority's key is gone.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/tls").join(name)
}

/// Serves one connection: 204 to each of `calls` requests. Tells how many it answered.
fn serve(calls: usize) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/pay", listener.local_addr().unwrap().port());
    let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        let mut stream = BufReader::new(StreamOwned::new(connection, stream));
        for call in 0..calls {
            loop {
                let mut line = String::new();
                match stream.read_line(&mut line) {
                    Ok(0) | Err(_) => return call,
                    Ok(_) if line == "\r\n" => break,
                    Ok(_) => {}
                }
            }
            stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        }
        calls
    });
    (url, serving)
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_the_topology_names_it() {
    let (url, serving) = serve(3);
    let handler = writing(HttpHandler { ca_file: Some(fixture("ca.pem")), ..http(&url) });
    for _ in 0..3 {
        assert_eq!(deliver(&handler, b"").await, Outcome::done());
    }
    assert_eq!(serving.join().unwrap(), 3, "one connection for all calls");
}

#[tokio::test]
async fn a_name_that_is_not_in_the_certificate_was_sent_nothing() {
    let (url, serving) = serve(1);
    let url = url.replace("localhost", "127.0.0.1");
    let handler = writing(HttpHandler { ca_file: Some(fixture("ca.pem")), ..http(&url) });
    let failure = failure(&handler).await;
    assert_eq!(failure.cause, Cause::NotSent);
    assert!(failure.detail.contains("certificate"), "{}", failure.detail);
    assert_eq!(serving.join().unwrap(), 0);
}

#[tokio::test]
async fn a_server_that_never_greets_was_sent_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let spec =
        HttpHandler { timeout: Duration::from_millis(400), ca_file: Some(fixture("ca.pem")), ..http(&url) };
    assert_eq!(cause(&writing(spec)).await, Cause::NotSent);
}

#[test]
fn an_authority_that_cannot_be_read_is_refused_at_start() {
    for (name, why) in [("none.pem", "No such file"), ("server.key", "no certificate")] {
        let ca_file = Some(fixture(name));
        let text = refused(HttpHandler { ca_file, ..http("https://localhost/") });
        assert!(text.starts_with("ca-file `") && text.contains(name) && text.contains(why), "{text}");
    }
}
