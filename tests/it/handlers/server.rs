//! An HTTP server that does exactly what a test says, byte by byte.

use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// One request as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// On which connection, from 0.
    pub(crate) connection: usize,
    /// `POST /path HTTP/1.1`.
    pub(crate) line: String,
    /// Names in lower case, values as they came.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    /// The values of a header, in order.
    pub(crate) fn all(&self, name: &str) -> Vec<&[u8]> {
        self.headers.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_slice()).collect()
    }

    /// The value of a header that must be there at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() <= 1, "`{name}` came {} times", values.len());
        values.first().map(|value| std::str::from_utf8(value).unwrap())
    }
}

/// What the server does with a request.
pub(crate) enum Reply {
    /// Writes these bytes and waits for the next request.
    Send(Vec<u8>),
    /// Writes these bytes and closes.
    SendAndClose(Vec<u8>),
    /// Writes these bytes and never anything more.
    SendAndHang(Vec<u8>),
}

/// A whole answer.
pub(crate) fn answer(status: u16, headers: &[&str], body: &[u8]) -> Reply {
    Reply::Send(bytes(status, headers, body))
}

/// The bytes of a whole answer.
pub(crate) fn bytes(status: u16, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut all = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    if status == 204 {
        all = b"HTTP/1.1 204 Said\r\n".to_vec();
    }
    for header in headers {
        all.extend(format!("{header}\r\n").into_bytes());
    }
    all.extend(b"\r\n");
    all.extend(body);
    all
}

/// What happened so far.
struct Log {
    seen: Mutex<Vec<Seen>>,
    closed: Semaphore,
}

/// A server on a free port of this machine, until it is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    log: Arc<Log>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Answers each request with what `reply` makes of it.
    pub(crate) async fn start<F, R>(reply: F) -> Self
    where
        F: Fn(Seen) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/pay?a=1", listener.local_addr().unwrap());
        let log = Arc::new(Log { seen: Mutex::new(Vec::new()), closed: Semaphore::new(0) });
        let (shared, reply) = (Arc::clone(&log), Arc::new(reply));
        let accepting = tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(converse(stream, connection, Arc::clone(&shared), Arc::clone(&reply)));
            }
        });
        Self { url, log, accepting }
    }

    /// Answers every request with the same bytes.
    pub(crate) async fn saying(bytes: Vec<u8>) -> Self {
        Self::start(move |_| std::future::ready(Reply::Send(bytes.clone()))).await
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.log.seen.lock().unwrap().clone()
    }

    /// Waits until one more connection is closed from both sides.
    pub(crate) async fn one_closed(&self) {
        self.log.closed.acquire().await.unwrap().forget();
    }

    /// The only request so far.
    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn converse<F, R>(mut stream: TcpStream, connection: usize, log: Arc<Log>, reply: Arc<F>)
where
    F: Fn(Seen) -> R + Send + Sync + 'static,
    R: Future<Output = Reply> + Send + 'static,
{
    let mut buffer = Vec::new();
    while let Some(seen) = request(&mut stream, &mut buffer, connection).await {
        log.seen.lock().unwrap().push(seen.clone());
        match reply(seen).await {
            Reply::Send(bytes) => stream.write_all(&bytes).await.unwrap(),
            Reply::SendAndClose(bytes) => {
                stream.write_all(&bytes).await.unwrap();
                stream.shutdown().await.unwrap();
                let _ = stream.read_to_end(&mut buffer).await;
                log.closed.add_permits(1);
                return;
            }
            Reply::SendAndHang(bytes) => {
                stream.write_all(&bytes).await.unwrap();
                let _ = stream.read_to_end(&mut buffer).await;
                return;
            }
        }
    }
}

/// Reads one request with its whole body; `None` where the connection ended.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> Option<Seen> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = buffer.drain(..end + 4).collect::<Vec<_>>();
    let mut lines = head[..end].split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end());
    let line = String::from_utf8(lines.next()?.to_vec()).ok()?;
    let headers = lines
        .map(|line| {
            let colon = line.iter().position(|byte| *byte == b':').unwrap();
            let name = String::from_utf8(line[..colon].to_ascii_lowercase()).unwrap();
            (name, line[colon + 1..].trim_ascii().to_vec())
        })
        .collect();
    let mut seen = Seen { connection, line, headers, body: Vec::new() };
    let length: usize = seen.header("content-length")?.parse().unwrap();
    while buffer.len() < length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    seen.body = buffer.drain(..length).collect();
    Some(seen)
}
