//! A broker that its clients reach through a proxy, which can lose or hold what the coordinator of a transaction is told
//! and answers.
//!
//! The broker advertises the proxy's address, so that every client comes through it, wherever it bootstraps. Of what
//! passes only the heads are read: a request's api, correlation id and client id, an answer's correlation id.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;

use crate::support::Kafka;

/// The api key of EndTxn: a producer's commit or abort.
const END_TXN: i16 = 26;

/// What happens to the end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The broker never hears of it.
    LoseRequest,
    /// The broker does it, and the client never hears.
    LoseAnswer,
    /// The broker does it, and the client hears when the fault is over.
    HoldAnswer,
}

/// A fault for the clients of one pipeline. Dropped, it is over: what was lost stays lost, what was held goes on.
#[derive(Debug)]
pub(crate) struct Faulted {
    rules: Arc<Rules>,
    number: u64,
}

#[derive(Debug, Default)]
struct Rules {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    open: BTreeMap<u64, Rule>,
}

#[derive(Debug)]
struct Rule {
    /// Part of the client id.
    client: String,
    fault: Fault,
    /// How many requests the broker did not hear, or answers the client did not.
    met: usize,
}

/// A proxy in front of one broker.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) kafka: Kafka,
    rules: Arc<Rules>,
}

impl Proxy {
    /// The one that the tests of this process share; a fault is for one pipeline only.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Proxy> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port for the proxy");
        let address = listener.local_addr().expect("its address");
        // The controller's address is not for clients and stays what it listens on.
        let kafka = Kafka::start_with(&[&format!("advertised.listeners=CLIENT://{address}")]);
        let (rules, broker) = (Arc::new(Rules::default()), kafka.bootstrap().to_owned());
        let theirs = Arc::clone(&rules);
        // Ends with the process, as the broker does.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Ok(broker) = TcpStream::connect(&broker) {
                    connect(&theirs, client, broker).expect("a second handle of a connection");
                }
            }
        });
        Self { kafka, rules }
    }

    /// From now on until it is dropped: this happens to the end of every transaction of clients with this in their id.
    pub(crate) fn fault(&self, client: &str, fault: Fault) -> Faulted {
        let mut state = self.rules.lock();
        state.last += 1;
        let number = state.last;
        state.open.insert(number, Rule { client: client.to_owned(), fault, met: 0 });
        Faulted { rules: Arc::clone(&self.rules), number }
    }
}

impl Faulted {
    /// How often it happened.
    pub(crate) fn met(&self) -> usize {
        self.rules.lock().open.get(&self.number).map_or(0, |rule| rule.met)
    }
}

impl Drop for Faulted {
    fn drop(&mut self) {
        self.rules.lock().open.remove(&self.number);
        self.rules.changed.notify_all();
    }
}

impl Rules {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// The fault for a client, with its number.
    fn of(&self, client: &str) -> Option<(u64, Fault)> {
        let state = self.lock();
        let found = state.open.iter().find(|(_, rule)| client.contains(&rule.client));
        found.map(|(number, rule)| (*number, rule.fault))
    }

    fn meet(&self, number: u64) {
        if let Some(rule) = self.lock().open.get_mut(&number) {
            rule.met += 1;
        }
    }

    fn wait_until_over(&self, number: u64) {
        let over = self.changed.wait_while(self.lock(), |state| state.open.contains_key(&number));
        drop(over.expect("nobody panics with it"));
    }
}

/// What of the answers on one connection is lost or held, by correlation id.
type Awaited = Mutex<BTreeMap<i32, (u64, Fault)>>;

fn connect(rules: &Arc<Rules>, client: TcpStream, broker: TcpStream) -> io::Result<()> {
    let awaited = Arc::new(Awaited::default());
    let (to_broker, to_client) = (broker.try_clone()?, Arc::new(Mutex::new(client.try_clone()?)));
    let (ours, theirs) = (Arc::clone(rules), Arc::clone(&awaited));
    thread::spawn(move || {
        let ended = requests(&ours, &theirs, &client, &to_broker);
        close(&client, &to_broker, ended);
    });
    let rules = Arc::clone(rules);
    thread::spawn(move || {
        let ended = answers(&rules, &awaited, &broker, &to_client);
        close(&to_client.lock().expect("nobody panics with it"), &broker, ended);
    });
    Ok(())
}

/// One side has gone: so does the other.
fn close(client: &TcpStream, broker: &TcpStream, _ended: io::Result<()>) {
    let _gone = client.shutdown(Shutdown::Both);
    let _gone = broker.shutdown(Shutdown::Both);
}

fn requests(
    rules: &Rules,
    awaited: &Awaited,
    mut client: &TcpStream,
    mut broker: &TcpStream,
) -> io::Result<()> {
    loop {
        let frame = frame(&mut client)?;
        let fault = match (i16_at(&frame, 0), i32_at(&frame, 4)) {
            (Some(END_TXN), Some(correlation)) => {
                rules.of(&client_id(&frame)).map(|(number, fault)| (correlation, number, fault))
            }
            (Some(_) | None, Some(_) | None) => None,
        };
        match fault {
            Some((_, number, Fault::LoseRequest)) => {
                rules.meet(number);
                continue;
            }
            Some((correlation, number, fault @ (Fault::LoseAnswer | Fault::HoldAnswer))) => {
                awaited.lock().expect("nobody panics with it").insert(correlation, (number, fault));
            }
            None => {}
        }
        write(&mut broker, &frame)?;
    }
}

fn answers(
    rules: &Arc<Rules>,
    awaited: &Awaited,
    mut broker: &TcpStream,
    client: &Arc<Mutex<TcpStream>>,
) -> io::Result<()> {
    loop {
        let frame = frame(&mut broker)?;
        let correlation = i32_at(&frame, 0).unwrap_or_default();
        let fault = awaited.lock().expect("nobody panics with it").remove(&correlation);
        match fault {
            None => write(&mut *client.lock().expect("nobody panics with it"), &frame)?,
            Some((number, Fault::LoseRequest | Fault::LoseAnswer)) => rules.meet(number),
            Some((number, Fault::HoldAnswer)) => {
                rules.meet(number);
                let (rules, client) = (Arc::clone(rules), Arc::clone(client));
                thread::spawn(move || {
                    rules.wait_until_over(number);
                    // A client that has gone meanwhile needs no answer.
                    let _gone = write(&mut *client.lock().expect("nobody panics with it"), &frame);
                });
            }
        }
    }
}

/// What one size announces.
fn frame(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    from.read_exact(&mut size)?;
    let mut frame = vec![0; usize::try_from(i32::from_be_bytes(size)).map_err(io::Error::other)?];
    from.read_exact(&mut frame)?;
    Ok(frame)
}

fn write(to: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let size = i32::try_from(frame.len()).map_err(io::Error::other)?;
    to.write_all(&[&size.to_be_bytes(), frame].concat())
}

fn i16_at(frame: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?))
}

fn i32_at(frame: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?))
}

/// Behind api, version and correlation id.
fn client_id(request: &[u8]) -> String {
    let length = i16_at(request, 8).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    String::from_utf8_lossy(request.get(10..10 + length).unwrap_or_default()).into_owned()
}
