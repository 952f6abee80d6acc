//! Asks a running redrive as an orchestrator does.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Where a redrive answers probes.
#[derive(Clone, Debug)]
pub(crate) struct Probes(String);

/// What one said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Probes {
    /// At an address that nobody has.
    pub(crate) fn somewhere() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self(free.local_addr().expect("its address").to_string())
    }

    pub(crate) fn address(&self) -> &str {
        &self.0
    }

    /// `None`: nobody answers.
    pub(crate) fn ask(&self, path: &str) -> Option<Said> {
        let mut connection = TcpStream::connect(&self.0).ok()?;
        connection.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.0);
        connection.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        let (head, text) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Said { status, text: text.to_owned() })
    }

    /// Whether it is alive and says of itself that it is ready.
    pub(crate) fn are_good(&self) -> bool {
        self.says("/live", 200, "") && self.says("/ready", 200, "")
    }

    /// Whether an answer has this status and these words in it.
    pub(crate) fn says(&self, path: &str, status: u16, words: &str) -> bool {
        self.ask(path).is_some_and(|said| said.status == status && said.text.contains(words))
    }
}
