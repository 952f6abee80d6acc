//! The naive worker: an ordinary loop of consumer, handler and transactional producer, which commits its offsets apart from
//! its transactions, as consumers do by themselves. Whoever kills it doubles records: the soak's ledger must find them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use reqwest::{Client, StatusCode};
use tokio::time::Instant;

use crate::chaos::naive::Work;
use crate::found;

/// Records of a transaction.
const BATCH: usize = 200;
/// How long a batch may fill.
const FILLS_WITHIN: Duration = Duration::from_millis(50);
/// As many as the ladder of the round's pipeline has.
const MOST_ATTEMPTS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(20);

/// A record with its place.
#[derive(Clone, Debug)]
struct Taken {
    partition: i32,
    offset: i64,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Dead { reason: &'static str, attempt: u32 },
}

/// Works until it is told to end; ends with an error as soon as anything goes wrong.
pub(crate) fn run(work: &Work) -> Result<()> {
    let end = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&end)).context("listening")?;
    // No TLS is spoken, but the client wants a provider of it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().tls_certs_only([]).build().context("making a client")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("a runtime")?;

    let producer: ThreadedProducer<DefaultProducerContext> = found::client(&work.bootstrap)
        .set("transactional.id", format!("{}-{}", work.group, work.instance))
        .set("transaction.timeout.ms", "4000")
        .set("message.timeout.ms", "4000")
        .set("partitioner", "murmur2_random")
        .create()
        .context("creating a producer")?;
    producer.init_transactions(PATIENCE).context("initialising transactions")?;
    let consumer: BaseConsumer = found::client(&work.bootstrap)
        .set("group.id", &work.group)
        .set("auto.offset.reset", "earliest")
        .set("session.timeout.ms", "6000")
        // Here is the fault: what was worked off is committed by a timer (of 5 s, the client's default), in no transaction.
        .set("enable.auto.commit", "true")
        .set("enable.auto.offset.store", "false")
        .create()
        .context("creating a consumer")?;
    consumer.subscribe(&[&work.source]).context("subscribing")?;
    while !end.load(Ordering::Relaxed) {
        let batch = take(&consumer)?;
        let fates = runtime.block_on(join_all(batch.iter().map(|taken| handle(work, &client, taken))));
        write(work, &producer, &batch, &fates)?;
        for taken in &batch {
            consumer
                .store_offset(&work.source, taken.partition, taken.offset)
                .context("storing an offset")?;
        }
    }
    Ok(())
}

fn take(consumer: &BaseConsumer) -> Result<Vec<Taken>> {
    let until = Instant::now() + FILLS_WITHIN;
    let mut batch = Vec::new();
    while batch.len() < BATCH
        && let Some(left) = until.checked_duration_since(Instant::now())
    {
        match consumer.poll(left) {
            Some(Ok(record)) => batch.push(taken(&record)),
            // A node may be away.
            Some(Err(error)) => eprintln!("{error}"),
            None => {}
        }
    }
    Ok(batch)
}

fn taken(record: &BorrowedMessage<'_>) -> Taken {
    Taken {
        partition: record.partition(),
        offset: record.offset(),
        key: record.key().unwrap_or_default().to_vec(),
        value: record.payload().unwrap_or_default().to_vec(),
    }
}

/// Tries again at once, as often as the ladder would.
async fn handle(work: &Work, client: &Client, taken: &Taken) -> Result<Fate> {
    let id = id(work, taken);
    for attempt in 1..=MOST_ATTEMPTS {
        let call = client.post(&work.url).header("ce-id", &id).header("redrive-attempt", attempt);
        let answer = call.header("redrive-execution", 1).body(taken.value.clone()).send().await;
        match answer.context("calling the handler")?.status() {
            StatusCode::OK => return Ok(Fate::Done),
            StatusCode::UNPROCESSABLE_ENTITY => return Ok(Fate::Dead { reason: "http-422", attempt }),
            _ => {}
        }
    }
    Ok(Fate::Dead { reason: "exhausted", attempt: MOST_ATTEMPTS })
}

fn id(work: &Work, taken: &Taken) -> String {
    format!("{}/{}/{}", work.source, taken.partition, taken.offset)
}

fn write(
    work: &Work,
    producer: &ThreadedProducer<DefaultProducerContext>,
    batch: &[Taken],
    fates: &[Result<Fate>],
) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    producer.begin_transaction().context("beginning a transaction")?;
    for (taken, fate) in batch.iter().zip(fates) {
        let Ok(fate) = fate else { anyhow::bail!("a call failed: {fate:?}") };
        let (id, partition, offset) =
            (id(work, taken), taken.partition.to_string(), taken.offset.to_string());
        let own = OwnedHeaders::new().insert(header("redrive-event-id", &id));
        let sent = match fate {
            Fate::Done => {
                producer.send(BaseRecord::to(&work.output).key(&taken.key).payload(&taken.value).headers(own))
            }
            Fate::Dead { reason, attempt } => {
                let own = own
                    .insert(header("redrive-reason", reason))
                    .insert(header("redrive-attempt", &attempt.to_string()))
                    .insert(header("redrive-origin-topic", &work.source))
                    .insert(header("redrive-origin-partition", &partition))
                    .insert(header("redrive-origin-offset", &offset));
                let record = BaseRecord::to(&work.dead_letters).partition(taken.partition);
                producer.send(record.key(&taken.key).payload(&taken.value).headers(own))
            }
        };
        sent.map_err(|(error, _)| error).with_context(|| format!("writing what became of `{id}`"))?;
    }
    producer.commit_transaction(PATIENCE).context("committing")?;
    ensure!(producer.in_flight_count() == 0, "a committed transaction has nothing in flight");
    Ok(())
}

fn header<'a>(key: &'a str, value: &'a str) -> Header<'a, &'a str> {
    Header { key, value: Some(value) }
}
