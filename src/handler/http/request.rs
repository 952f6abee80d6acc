//! What one call sends: the value's bytes, and everything else in headers (CloudEvents 1.0, binary mode).

use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Method, Request, Url};

use crate::core::event::Delivery;
use crate::core::record::HeaderName as KafkaName;
use crate::handler::BuildHandlerError;
use crate::handler::http::value;
use crate::topology::model::{FRAMING_HEADERS, HttpHandler, IDENTITY_HEADERS, Pipeline, Shown};

const CE_SPECVERSION: HeaderName = HeaderName::from_static("ce-specversion");
const CE_ID: HeaderName = HeaderName::from_static("ce-id");
const CE_SOURCE: HeaderName = HeaderName::from_static("ce-source");
const CE_TYPE: HeaderName = HeaderName::from_static("ce-type");
const CE_TIME: HeaderName = HeaderName::from_static("ce-time");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const KEY: HeaderName = HeaderName::from_static("redrive-key");
const ATTEMPT: HeaderName = HeaderName::from_static("redrive-attempt");
const EXECUTION: HeaderName = HeaderName::from_static("redrive-execution");
const VERSION: HeaderName = HeaderName::from_static("redrive-version");
const DUE: HeaderName = HeaderName::from_static("redrive-due");
const TOMBSTONE: HeaderName = HeaderName::from_static("redrive-tombstone");

/// What is the same in every call of a handler.
#[derive(Debug)]
pub(super) struct Form {
    url: Url,
    headers: HeaderMap,
    forward: Vec<(KafkaName, HeaderName)>,
}

impl Form {
    /// Checks the URL and every header that the topology names.
    pub(super) fn new(app: &str, pipeline: &Pipeline, spec: &HttpHandler) -> Result<Self, BuildHandlerError> {
        let mut headers = HeaderMap::new();
        for (name, text) in &spec.headers {
            let key = match name.eq_ignore_ascii_case("host") {
                true => reqwest::header::HOST,
                false => own_name(name)?,
            };
            if key == AUTHORIZATION && spec.token.is_some() {
                return Err(header(name, "`token` sets it"));
            }
            let mut value = HeaderValue::from_str(&text.plain)
                .map_err(|_| header(name, "its value holds characters that HTTP does not carry"))?;
            value.set_sensitive(text.shown == Shown::Masked);
            headers.append(key, value);
        }
        let mut forward = Vec::with_capacity(spec.forward_headers.len());
        for name in &spec.forward_headers {
            let key = own_name(name.as_str())?;
            if headers.contains_key(&key) || (key == AUTHORIZATION && spec.token.is_some()) {
                return Err(header(name.as_str(), "it is forwarded, and the handler sets it as well"));
            }
            forward.push((name.clone(), key));
        }
        headers.insert(CE_SPECVERSION, HeaderValue::from_static("1.0"));
        let source = format!("/{app}/{}", pipeline.name);
        headers.insert(CE_SOURCE, value::text(&Bytes::from(source)));
        headers.insert(CE_TYPE, value::text(&Bytes::copy_from_slice(pipeline.source.as_str().as_bytes())));
        Ok(Self { url: url(&spec.url)?, headers, forward })
    }

    /// Where the calls go.
    pub(super) const fn url(&self) -> &Url {
        &self.url
    }

    /// The request of one execution. Shares the value's bytes.
    pub(super) fn request(&self, delivery: &Delivery, bearer: Option<&HeaderValue>) -> Request {
        let envelope = &delivery.envelope;
        let mut request = Request::new(Method::POST, self.url.clone());
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        let event_id = envelope.event_id();
        let operation_id = envelope.identity.operation_id.as_ref().unwrap_or(&event_id);
        headers.insert(IDEMPOTENCY_KEY, value::text(operation_id));
        headers.insert(CE_ID, value::text(&event_id));
        if let Some(time) = value::rfc3339(envelope.origin_timestamp) {
            headers.insert(CE_TIME, time);
        }
        if let Some(key) = &envelope.key {
            headers.insert(KEY, value::text(&Bytes::from(STANDARD.encode(key))));
        }
        headers.insert(ATTEMPT, HeaderValue::from(delivery.attempt));
        headers.insert(EXECUTION, HeaderValue::from(delivery.execution));
        if let Some(due) = delivery.due {
            headers.insert(DUE, HeaderValue::from(due.as_millis()));
        }
        if let Some(version) = envelope.version {
            headers.insert(VERSION, HeaderValue::from(version.0));
        }
        for (kafka, http) in &self.forward {
            let found = envelope.foreign.iter().filter(|header| header.name == *kafka);
            // Left out: nulls, which HTTP does not know, and values with control characters.
            let values = found.filter_map(|header| header.value.clone());
            for value in values.filter_map(|value| HeaderValue::from_maybe_shared(value).ok()) {
                headers.append(http, value);
            }
        }
        if let Some(bearer) = bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
        if envelope.value.is_none() {
            headers.insert(TOMBSTONE, HeaderValue::from_static("true"));
        }
        let body = envelope.value.clone().unwrap_or_default();
        if body.is_empty() {
            // The client leaves it out, and some servers then answer 411 (RFC 9110, 8.6 asks for it).
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        *request.body_mut() = Some(Body::from(body));
        request
    }
}

/// The name of a header that the topology adds, as HTTP spells it.
fn own_name(name: &str) -> Result<HeaderName, BuildHandlerError> {
    let key = HeaderName::from_str(name).map_err(|_| header(name, "HTTP allows no such name"))?;
    if key.as_str().starts_with("redrive-") || IDENTITY_HEADERS.contains(&key.as_str()) {
        return Err(header(name, "redrive sets it"));
    }
    if FRAMING_HEADERS.contains(&key.as_str()) {
        return Err(header(name, "it frames the request"));
    }
    Ok(key)
}

fn header(name: &str, why: &'static str) -> BuildHandlerError {
    BuildHandlerError::Header { name: name.to_owned(), why }
}

/// The URL, if it can be called.
fn url(text: &str) -> Result<Url, BuildHandlerError> {
    let refuse = |url: &str, why: &str, hint| {
        Err(BuildHandlerError::Url { url: url.to_owned(), why: why.to_owned(), hint })
    };
    let mut url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) => return refuse(text, &error.to_string(), "a whole one: http://orders:8080/confirm"),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refuse(text, "neither http nor https", "http://… or https://…");
    }
    if !url.username().is_empty() || url.password().is_some() {
        let _ = url.set_username("");
        let _ = url.set_password(None);
        return refuse(url.as_str(), "it holds a user or a password", "use `token` or `headers`");
    }
    Ok(url)
}
