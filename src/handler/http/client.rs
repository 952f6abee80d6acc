//! The client that an HTTP handler calls with: connections, TLS, no surprises.

use std::time::Duration;

use reqwest::{Certificate, Client, Url, redirect, retry};

use crate::handler::BuildHandlerError;
use crate::topology::model::HttpHandler;

/// An idle connection is closed after this: before the server does it, since a request that meets a closing
/// connection has an unknown outcome. Common servers close theirs after 2 s (gunicorn), 5 s (Node, uvicorn) or more.
const IDLE: Duration = Duration::from_millis(1500);

/// Asks a silent peer whether it is there; finds connections that a firewall forgot.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The client for `url`.
pub(super) fn new(spec: &HttpHandler, url: &Url) -> Result<Client, BuildHandlerError> {
    // Once per process; another one that the program has chosen stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .http1_only()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .no_proxy()
        .tcp_nodelay(true)
        .tcp_keepalive(KEEP_ALIVE)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(spec.concurrency)
        // Ends before the call's own time limit does, so that a host that does not answer at all is told from one
        // that was asked: nothing was sent.
        .connect_timeout(spec.timeout / 2);
    if url.scheme() == "http" {
        // No TLS, so no roots: a machine without any can still call plain HTTP.
        builder = builder.tls_certs_only([]);
    } else if let Some(path) = &spec.ca_file {
        let file = |why: String| BuildHandlerError::File { key: "ca-file", path: path.clone(), why };
        let pem = std::fs::read(path).map_err(|error| file(error.to_string()))?;
        let authorities = Certificate::from_pem_bundle(&pem).map_err(|error| file(error.to_string()))?;
        if authorities.is_empty() {
            return Err(file("it holds no certificate in PEM form".to_owned()));
        }
        // On top of the system's.
        builder = builder.tls_certs_merge(authorities);
    }
    builder.build().map_err(|error| BuildHandlerError::Client { why: words(&error) })
}

/// The words of an error and of what lies behind it.
fn words(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", words(source)),
        None => error.to_string(),
    }
}
