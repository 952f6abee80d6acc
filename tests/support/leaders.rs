//! Moves what leads a partition to another node while all nodes run, by two requests that the client has no call for, each
//! written byte by byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::cluster::{Cluster, Node, wait};
use crate::found::{self, Isolation};

const PATIENCE: Duration = Duration::from_secs(60);
/// How long the nodes may take over one request, in milliseconds.
const TAKES: i32 = 30_000;

const ELECT_LEADERS: i16 = 43;
const ALTER_REASSIGNMENTS: i16 = 45;
/// The leader that is wanted leads already.
const ELECTION_NOT_NEEDED: i16 = 84;

/// Which partition of one of Kafka's own topics a name belongs to.
pub(crate) fn partition_of(cluster: &Cluster, topic: &str, name: &str) -> Result<i32> {
    let count = i32::try_from(found::partitions(&client(cluster)?, topic)?.len())?;
    // As Java hashes text of plain letters.
    let hash = name.bytes().fold(0_i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)));
    ensure!(count > 0, "`{topic}` is not there");
    Ok(hash.checked_abs().unwrap_or(0) % count)
}

/// The nodes that keep a partition, the one that leads it apart.
pub(crate) fn leader(cluster: &Cluster, topic: &str, partition: i32) -> Result<(Node, Vec<Node>)> {
    let metadata = client(cluster)?.fetch_metadata(Some(topic), PATIENCE).context("asking for metadata")?;
    let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
    let found = partitions.into_iter().find(|found| found.id() == partition).context("the partition")?;
    let node = |id: i32| usize::try_from(id).map(Node).context("a leader");
    let leader = node(found.leader())?;
    let others = found.replicas().iter().map(|id| node(*id)).collect::<Result<Vec<_>>>()?;
    Ok((leader, others.into_iter().filter(|other| *other != leader).collect()))
}

/// The end of a partition, open transactions included.
pub(crate) fn end(cluster: &Cluster, topic: &str, partition: i32) -> Result<i64> {
    let reader = found::reader(cluster.bootstrap(), &[], Isolation::Uncommitted)?;
    let mut end = None;
    // A leader that is new may not know it yet.
    wait("a leader tells the end of its partition", || {
        end = reader.fetch_watermarks(topic, partition, PATIENCE).ok().map(|(_, end)| end);
        Ok(end.is_some())
    })?;
    end.context("the end")
}

/// Has another node lead a partition, and waits until all say so.
pub(crate) fn move_leader(cluster: &Cluster, topic: &str, partition: i32) -> Result<(Node, Node)> {
    let (from, others) = leader(cluster, topic, partition)?;
    let to = *others.first().context("another node")?;
    let mut order = vec![to];
    order.extend(others.iter().skip(1));
    order.push(from);
    let mut last = None;
    let waited = wait("it is led by another node", || {
        // On a busy machine the node may be out of step for a while, or the partition without a leader.
        let led = led_by(cluster, topic, partition, &order);
        last = led.as_ref().err().map(|error| format!("{error:#}"));
        Ok(led.is_ok_and(|leader| leader == to))
    });
    waited.with_context(|| format!("last: {last:?}"))?;
    Ok((from, to))
}

/// Has the first of them lead; says who does.
fn led_by(cluster: &Cluster, topic: &str, partition: i32, order: &[Node]) -> Result<Node> {
    reassign(cluster, topic, partition, order)?;
    elect(cluster, topic, partition)?;
    Ok(leader(cluster, topic, partition)?.0)
}

fn client(cluster: &Cluster) -> Result<BaseConsumer> {
    found::client(cluster.bootstrap()).create().context("creating a client for metadata")
}

/// Names the nodes of a partition in the order in which they are to lead it.
fn reassign(cluster: &Cluster, topic: &str, partition: i32, order: &[Node]) -> Result<()> {
    let mut body = vec![0]; // no tagged fields in the head
    body.extend(TAKES.to_be_bytes());
    body.push(2); // one topic
    compact(&mut body, topic)?;
    body.push(2); // one partition
    body.extend(partition.to_be_bytes());
    body.push(u8::try_from(order.len() + 1)?);
    for node in order {
        body.extend(i32::try_from(node.0)?.to_be_bytes());
    }
    body.extend([0, 0, 0]); // no tagged fields of partition, topic, request
    let answer = ask(cluster, ALTER_REASSIGNMENTS, &body)?;
    // Tagged fields of the head, throttle time, error, no message, topics, its name, partitions, partition, error.
    ensure!(answer.get(5..7) == Some(&[0, 0]), "reassign `{topic}/{partition}`: {answer:?}");
    let at = 5 + 2 + 1 + 1 + (1 + topic.len()) + 1 + 4;
    ensure!(answer.get(at..at + 2) == Some(&[0, 0]), "reassign `{topic}/{partition}`: {answer:?}");
    Ok(())
}

/// Has the first of a partition's nodes lead it.
fn elect(cluster: &Cluster, topic: &str, partition: i32) -> Result<()> {
    let mut body = Vec::new();
    body.extend(1_i32.to_be_bytes());
    plain(&mut body, topic)?;
    body.extend(1_i32.to_be_bytes());
    body.extend(partition.to_be_bytes());
    body.extend(TAKES.to_be_bytes());
    let answer = ask(cluster, ELECT_LEADERS, &body)?;
    // Throttle time, topics, its name, partitions, partition, error.
    let at = 4 + 4 + (2 + topic.len()) + 4 + 4;
    let error = answer.get(at..at + 2).context("an answer")?;
    let error = i16::from_be_bytes(error.try_into()?);
    ensure!(error == 0 || error == ELECTION_NOT_NEEDED, "elect `{topic}/{partition}`: {error}");
    Ok(())
}

/// Sends a request in its first version to the first node, and gives what follows the correlation id of the answer.
fn ask(cluster: &Cluster, api: i16, body: &[u8]) -> Result<Vec<u8>> {
    let mut request = Vec::new();
    request.extend(api.to_be_bytes());
    request.extend(0_i16.to_be_bytes());
    request.extend(1_i32.to_be_bytes()); // correlation
    plain(&mut request, "raw")?;
    request.extend(body);
    let node = cluster.bootstrap().split(',').next().context("an address")?;
    let mut stream = TcpStream::connect(node).context("connecting")?;
    stream.set_read_timeout(Some(PATIENCE)).context("a bound")?;
    stream.write_all(&i32::try_from(request.len())?.to_be_bytes()).context("asking")?;
    stream.write_all(&request).context("asking")?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).context("an answer")?;
    let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length))?];
    stream.read_exact(&mut answer).context("a whole answer")?;
    Ok(answer.split_off(4))
}

fn plain(to: &mut Vec<u8>, text: &str) -> Result<()> {
    to.extend(i16::try_from(text.len())?.to_be_bytes());
    to.extend(text.as_bytes());
    Ok(())
}

fn compact(to: &mut Vec<u8>, text: &str) -> Result<()> {
    to.push(u8::try_from(text.len() + 1)?);
    to.extend(text.as_bytes());
    Ok(())
}
