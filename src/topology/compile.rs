//! Text to [`Topology`], with every problem at once.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use toml::de::DeTable;

use crate::topology::address;
use crate::topology::code::Code;
use crate::topology::diagnostic::{Diagnostic, Diagnostics};
use crate::topology::environment::Environment;
use crate::topology::kafka;
use crate::topology::keys;
use crate::topology::model::{Http, OwnTopic, Pipeline, Protocol, Topology};
use crate::topology::name::check_part;
use crate::topology::neighbour;
use crate::topology::pipeline;
use crate::topology::reading::{Read, Reading};
use crate::topology::section::Section;
use crate::topology::topics;
use crate::topology::value::or;

/// Where probes and metrics listen.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 9400);

impl Topology {
    /// Compiles the text of a topology file; `file` is its name in diagnostics.
    ///
    /// # Errors
    /// Every problem that the text alone shows, sorted by place. What compiles is valid as a whole.
    pub fn compile(text: &str, file: &str, environment: &dyn Environment) -> Result<Self, Diagnostics> {
        let reading = Reading::new(text, file, environment);
        let (table, errors) = DeTable::parse_recoverable(text);
        let topology = match errors.iter().map(|error| reading.report_syntax(error)).last() {
            // What a broken file means is anybody's guess: more problems would be made up.
            Some(reported) => Err(reported),
            None => topology(&reading, &Section::root(table.get_ref())),
        };
        reading.finish(topology)
    }

    /// Compiles a topology file.
    ///
    /// # Errors
    /// As [`Topology::compile`]; also where the file cannot be read or is not UTF-8.
    pub fn load(file: &Path, environment: &dyn Environment) -> Result<Self, Diagnostics> {
        let name = file.display().to_string();
        let text = environment.file(file).map_err(|error| {
            let message = format!("file `{name}` cannot be read: {error}");
            Diagnostics::new(&name, vec![Diagnostic::of_file(Code::FileUnreadable, &name, message)])
        })?;
        Self::compile(&text, &name, environment)
    }
}

fn topology(reading: &Reading<'_>, top: &Section<'_>) -> Read<Topology> {
    top.check(reading, keys::TOP);
    let app = top.required(reading, "app", "app = \"…\"").and_then(|field| {
        let told = field.told(reading)?;
        check_part(reading, &told.at, "an app", &told.text)?;
        Ok((topics::audit(reading, &told.text, &told.at)?, told.text))
    });
    let kafka = kafka::read(reading, top);
    let http = top.section(reading, "http", keys::HTTP);
    let listen = or(http.field("listen"), LISTEN, |field| {
        field.told(reading).and_then(|told| address::listener(reading, &told))
    });
    let protocol = kafka.as_ref().ok().map(|kafka| kafka.protocol);
    let named = app.as_ref().map(|(audit, app)| (audit, app.as_str())).map_err(|reported| *reported);
    let pipelines = pipelines(reading, top, named, protocol);
    let ((audit, app), pipelines) = (app?, pipelines?);
    Ok(Topology { app, kafka: kafka?, http: Http { listen }, audit, pipelines })
}

fn pipelines(
    reading: &Reading<'_>,
    top: &Section<'_>,
    app: Read<(&OwnTopic, &str)>,
    protocol: Option<Protocol>,
) -> Read<Vec<Pipeline>> {
    let defaults = top.section(reading, "defaults", keys::DEFAULTS);
    let section = top.open_section(reading, "pipeline");
    section.whole?;
    let fields = section.fields();
    if fields.is_empty() {
        let message = "no pipeline";
        let hint = "add a table `[pipeline.NAME]` with `source`, `start`, a handler and `retry.tiers`";
        return Err(reading.report_with_hint(Code::MissingKey, &top.key_at, message, hint));
    }
    let name = app.map(|(_, name)| name);
    let drafts: Vec<_> =
        fields.iter().map(|field| pipeline::read(reading, field, &defaults, name, protocol)).collect();
    let complete: Read<()> =
        drafts.iter().try_for_each(|draft| draft.as_ref().map(|_| ()).map_err(|reported| *reported));
    let drafts: Vec<_> = drafts.into_iter().flatten().collect();
    neighbour::check(reading, &drafts, app.ok().map(|(audit, _)| &audit.name));
    complete?;
    drafts.into_iter().map(|draft| draft.pipeline).collect()
}
