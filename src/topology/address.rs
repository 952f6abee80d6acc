//! Addresses: brokers, the listener, the handler's URL.

use std::net::SocketAddr;

use crate::topology::code::Code;
use crate::topology::reading::{Read, Reading};
use crate::topology::value::{From, Told};

/// Brokers, `host:port`, several apart by commas as environment variables give them.
pub(crate) fn brokers(reading: &Reading<'_>, told: &Told) -> Read<Vec<String>> {
    let brokers = told.text.split(',').map(str::trim);
    let broker = |broker: &str| {
        if is_host_and_port(broker) {
            return Ok(broker.to_owned());
        }
        let message = format!("{told} is not the address of a broker");
        let hint = "`host:port`, like `localhost:9092` or `[::1]:9092`; no scheme";
        Err(reading.report_with_hint(Code::BadAddress, &told.at, message, hint))
    };
    brokers.map(broker).collect()
}

/// Where to listen.
pub(crate) fn listener(reading: &Reading<'_>, told: &Told) -> Read<SocketAddr> {
    told.text.parse().map_err(|_| {
        let message = format!("{told} is not an address to listen at");
        let hint = "an IP address and a port, like `0.0.0.0:9400`";
        reading.report_with_hint(Code::BadAddress, &told.at, message, hint)
    })
}

/// Where to POST. A URL that may hold a password is not shown.
pub(crate) fn url(reading: &Reading<'_>, told: &Told) -> Read<String> {
    let text = told.text.as_str();
    let rest = ["http://", "https://"].into_iter().find_map(|scheme| text.strip_prefix(scheme));
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let wrong = if authority.is_some_and(|authority| authority.contains('@')) {
        reading.hide(&told.at);
        ("the URL holds a user or a password".to_owned(), "take them from outside, in `headers` or `token`")
    } else if text.contains(|c: char| c.is_whitespace() || c.is_control())
        || !authority.is_some_and(is_authority)
    {
        let shown = match told.from {
            From::Literal | From::Default(_) => told.to_string(),
            From::Variable(ref name) => format!("the value of environment variable `{name}`"),
            From::File(ref path) => format!("the text of file `{}`", path.display()),
        };
        (format!("{shown} is not a URL of a handler"), "like `http://localhost:8080/orders`")
    } else if text.contains('#') {
        (format!("{told} has a fragment, which is never sent"), "leave out what follows `#`")
    } else {
        return Ok(told.text.clone());
    };
    let (message, hint) = wrong;
    Err(reading.report_with_hint(Code::BadUrl, &told.at, message, hint))
}

/// A host, with or without a port.
fn is_authority(text: &str) -> bool {
    is_host(text) || is_host_and_port(text)
}

fn is_host_and_port(text: &str) -> bool {
    let port =
        |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0);
    text.rsplit_once(':').is_some_and(|(host, end)| is_host(host) && port(end))
}

fn is_host(text: &str) -> bool {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            // A name that ends in a number is an address (<https://url.spec.whatwg.org/#ends-in-a-number-checker>).
            let last = text.rsplit('.').find(|label| !label.is_empty()).unwrap_or_default();
            if last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") {
                return text.parse::<std::net::Ipv4Addr>().is_ok();
            }
            text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && text.chars().all(legal)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_names_or_addresses_and_ports_in_range() {
        for good in ["localhost:9092", "kafka-0.kafka:9092", "10.0.0.1:1", "[::1]:9092", "my_host:65535"] {
            assert!(is_host_and_port(good), "{good}");
        }
        for bad in [
            "",
            "localhost",
            ":9092",
            "a:",
            "a:0",
            "a:65536",
            "a:+1",
            "a b:1",
            "::1:9092",
            "[::1]",
            "PLAINTEXT://a:1",
            "10.0.0.256:1",
            "10.1:1",
        ] {
            assert!(!is_host_and_port(bad), "{bad}");
        }
    }
}
