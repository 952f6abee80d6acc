//! Reads `[pipeline.NAME.handler.http]`: where to POST, and what goes along.

use std::path::PathBuf;
use std::time::Duration;

use crate::core::record::HeaderName;
use crate::topology::address;
use crate::topology::code::Code;
use crate::topology::keys;
use crate::topology::model::{FRAMING_HEADERS, HttpHandler, IDENTITY_HEADERS, Text, Token};
use crate::topology::reading::{Place, Read, Reading};
use crate::topology::section::{Field, Section};
use crate::topology::value::or;

const LONGEST_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Reads the table.
pub(super) fn read(reading: &Reading<'_>, handler: &Section<'_>) -> Read<HttpHandler> {
    let section = handler.section(reading, "http", keys::HANDLER_HTTP);
    let url = section
        .required(reading, "url", "url = \"http://localhost:8080/orders\"")
        .and_then(|field| field.told(reading))
        .and_then(|told| address::url(reading, &told));
    let timeout = or(section.field("timeout"), Duration::from_secs(5), |field| {
        field.duration(reading, &(Duration::from_millis(1)..=LONGEST_TIMEOUT))
    });
    let concurrency = or(section.field("concurrency"), 64, |field| field.number(reading, &(1..=10_000)));
    let ca_file = or(section.field("ca-file"), None, |field| ca_file(reading, &field).map(Some));
    let forwarded = or(section.field("forward-headers"), Vec::new(), |field| forwarded(reading, &field));
    let named = section.open_section(reading, "headers").fields();
    check_once(reading, section.field("token").as_ref(), &named, &forwarded);
    let headers = named.iter().filter_map(|field| header(reading, field).ok()).collect();
    let token = or(section.field("token"), None, |field| token(reading, &field).map(Some));
    let forward_headers = forwarded.into_iter().map(|(name, _)| name).collect();
    Ok(HttpHandler { url: url?, timeout, concurrency, headers, token, ca_file, forward_headers })
}

fn header(reading: &Reading<'_>, field: &Field<'_>) -> Read<(String, Text)> {
    // Another host than the URL's is how a gateway is told which service is meant.
    let is_host = field.name.eq_ignore_ascii_case("host");
    let name = if is_host { Ok(()) } else { check_name(reading, &field.key_at, field.name) };
    let value = field.text(reading)?;
    name?;
    check_value(reading, field, &value)?;
    Ok((field.name.to_owned(), value))
}

/// The name of a header that is free to be set.
fn check_name(reading: &Reading<'_>, at: &Place, name: &str) -> Read<()> {
    // RFC 9110, section 5.6.2: token.
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        let message = format!("`{name}` cannot be the name of a header in HTTP");
        return Err(reading.report(Code::BadHeader, at, message));
    }
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("redrive-")
        || IDENTITY_HEADERS.contains(&lower.as_str())
        || FRAMING_HEADERS.contains(&lower.as_str())
    {
        let message = format!("header `{name}` is set by redrive itself");
        return Err(reading.report(Code::ReservedHeader, at, message));
    }
    Ok(())
}

/// Visible ASCII, spaces and tabs: what servers agree on (RFC 9110, section 5.5).
fn check_value(reading: &Reading<'_>, field: &Field<'_>, value: &Text) -> Read<()> {
    if value.plain.chars().all(|c| c == '\t' || c == ' ' || c.is_ascii_graphic()) {
        return Ok(());
    }
    let message = format!("the value of `{}` holds a character that HTTP does not carry", field.path);
    let hint = "letters, digits and signs of ASCII, spaces and tabs";
    Err(reading.report_with_hint(Code::BadHeader, &field.at, message, hint))
}

fn token(reading: &Reading<'_>, field: &Field<'_>) -> Read<Token> {
    let text = field.text(reading)?;
    check_value(reading, field, &text)?;
    if text.plain.trim().is_empty() {
        let message = format!("`{}` is empty", field.path);
        return Err(reading.report(Code::BadHeader, &field.at, message));
    }
    Ok(field.file().map_or(Token::Fixed(text), |path| Token::File(PathBuf::from(path))))
}

fn ca_file(reading: &Reading<'_>, field: &Field<'_>) -> Read<PathBuf> {
    let path = PathBuf::from(field.string(reading)?);
    // RFC 7468, section 5.1.
    if field.content(reading, &path)?.contains("-----BEGIN CERTIFICATE-----") {
        return Ok(path);
    }
    let message = format!("`{}`: file `{}` holds no certificate in PEM form", field.path, path.display());
    Err(reading.report(Code::FileUnreadable, &field.at, message))
}

fn forwarded(reading: &Reading<'_>, field: &Field<'_>) -> Read<Vec<(HeaderName, Place)>> {
    let header = |field: &Field<'_>| {
        let name = field.string(reading)?;
        check_name(reading, &field.at, &name).map(|()| (HeaderName::new(&name), field.at.clone()))
    };
    let headers: Vec<Read<(HeaderName, Place)>> = field.items(reading)?.iter().map(header).collect();
    headers.into_iter().collect()
}

/// A header comes from one place: `token`, `headers`, or the record.
fn check_once(
    reading: &Reading<'_>,
    token: Option<&Field<'_>>,
    named: &[Field<'_>],
    forwarded: &[(HeaderName, Place)],
) {
    let token = token.map(|field| ("authorization", &field.key_at, "`token`"));
    let named = named.iter().map(|field| (field.name, &field.key_at, "`headers`"));
    let forwarded = forwarded.iter().map(|(name, at)| (name.as_str(), at, "`forward-headers`"));
    let mut all: Vec<_> = token.into_iter().chain(named).chain(forwarded).collect();
    all.sort_by_key(|(_, at, _)| at.start);
    for (index, (name, at, by)) in all.iter().enumerate() {
        let mut before = all.iter().take(index);
        if let Some((_, _, first)) = before.find(|(other, _, _)| other.eq_ignore_ascii_case(name)) {
            let message = format!("header `{name}` is given by {by} and already by {first}");
            reading.report_with_hint(Code::HeaderTwice, at, message, "keep one of them");
        }
    }
}
