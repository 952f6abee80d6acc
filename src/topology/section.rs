//! A table of the file together with its start values from `defaults`, and its fields with their places.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use crate::topology::code::Code;
use crate::topology::keys::Keys;
use crate::topology::nearest::nearest;
use crate::topology::reading::{Place, Read, Reading};

/// A table as a pipeline sees it: its own fields, and behind them those of `defaults`.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    /// Its name in messages: `pipeline.orders.retry`.
    pub(crate) path: String,
    /// The key that opens it; where a missing key is told.
    pub(crate) key_at: Place,
    own: Option<Layer<'a>>,
    defaults: Option<Layer<'a>>,
    /// Told where something else stands in the table's place; then nothing in it is missed.
    pub(crate) whole: Read<()>,
}

#[derive(Clone)]
struct Layer<'a> {
    path: String,
    table: &'a DeTable<'a>,
}

/// One key with its value.
#[derive(Clone)]
pub(crate) struct Field<'a> {
    /// Its name in messages: `pipeline.orders.retry.deadline`.
    pub(crate) path: String,
    /// The key alone.
    pub(crate) name: &'a str,
    /// Where the key is.
    pub(crate) key_at: Place,
    /// The value.
    pub(crate) value: &'a DeValue<'a>,
    /// Where the value is.
    pub(crate) at: Place,
}

impl<'a> Layer<'a> {
    fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let path = self.path.clone();
        self.table.iter().map(move |(key, value)| {
            let name = key.get_ref().as_ref();
            Field {
                path: if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") },
                name,
                key_at: key.span(),
                value: value.get_ref(),
                at: value.span(),
            }
        })
    }

    fn field(&self, name: &str) -> Option<Field<'a>> {
        self.fields().find(|field| field.name == name)
    }

    fn check(&self, reading: &Reading<'_>, known: Keys) {
        for field in self.fields().filter(|field| !known.names.contains(&field.name)) {
            let table = if self.path.is_empty() { String::new() } else { format!(" in `{}`", self.path) };
            let hint = match nearest(field.name, known.names.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known here: `{}`", known.names.join("`, `")),
            };
            let message = format!("unknown key `{}`{table}", field.name);
            reading.report_with_hint(Code::UnknownKey, &field.key_at, message, hint);
        }
    }
}

impl<'a> Section<'a> {
    /// The file itself.
    pub(crate) fn root(table: &'a DeTable<'a>) -> Self {
        Self {
            path: String::new(),
            key_at: 0..0,
            own: Some(Layer { path: String::new(), table }),
            defaults: None,
            whole: Ok(()),
        }
    }

    /// Tells keys that are not known here.
    pub(crate) fn check(&self, reading: &Reading<'_>, known: Keys) {
        for layer in [&self.own, &self.defaults].into_iter().flatten() {
            layer.check(reading, known);
        }
    }

    /// Whether the file has this table at all.
    pub(crate) fn is_present(&self) -> bool {
        self.own.is_some() || self.defaults.is_some()
    }

    /// A field, the pipeline's own before the one of `defaults`.
    pub(crate) fn field(&self, name: &str) -> Option<Field<'a>> {
        [&self.own, &self.defaults].into_iter().flatten().find_map(|layer| layer.field(name))
    }

    /// A field that is the pipeline's own.
    pub(crate) fn own_field(&self, name: &str) -> Option<Field<'a>> {
        self.own.as_ref().and_then(|layer| layer.field(name))
    }

    /// A field that must be there.
    pub(crate) fn required(&self, reading: &Reading<'_>, name: &str, example: &str) -> Read<Field<'a>> {
        if let Some(field) = self.field(name) {
            return Ok(field);
        }
        self.whole?;
        let table = if self.path.is_empty() { String::new() } else { format!(" in `{}`", self.path) };
        let message = format!("missing key `{name}`{table}");
        Err(reading.report_with_hint(Code::MissingKey, &self.key_at, message, format!("write `{example}`")))
    }

    /// All fields, in the order of the file.
    pub(crate) fn fields(&self) -> Vec<Field<'a>> {
        let mut fields = BTreeMap::new();
        for layer in [&self.defaults, &self.own].into_iter().flatten() {
            fields.extend(layer.fields().map(|field| (field.name, field)));
        }
        let mut fields: Vec<_> = fields.into_values().collect();
        fields.sort_by_key(|field| field.key_at.start);
        fields
    }

    /// A table in this one, with any keys; without fields where the file has none.
    pub(crate) fn open_section(&self, reading: &Reading<'_>, name: &str) -> Self {
        let mut whole = self.whole;
        let mut key_at = self.key_at.clone();
        // The pipeline's own layer comes last, and leaves its place.
        let [defaults, own] = [&self.defaults, &self.own].map(|layer| {
            let field = layer.as_ref()?.field(name)?;
            match field.table(reading) {
                Ok(table) => {
                    key_at = field.key_at;
                    Some(Layer { path: field.path, table })
                }
                Err(reported) => {
                    whole = Err(reported);
                    None
                }
            }
        });
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { path, key_at, own, defaults, whole }
    }

    /// A table in this one, with known keys.
    pub(crate) fn section(&self, reading: &Reading<'_>, name: &str, known: Keys) -> Self {
        let section = self.open_section(reading, name);
        section.check(reading, known);
        section
    }

    /// This table with the start values of another.
    pub(crate) fn with_defaults(mut self, defaults: &Self) -> Self {
        self.defaults.clone_from(&defaults.own);
        self
    }

    /// The pipeline's own fields; those of `defaults` where it has none.
    pub(crate) fn chosen(&self) -> Vec<Field<'a>> {
        let own: Vec<_> = self.own.iter().flat_map(Layer::fields).collect();
        if own.is_empty() { self.defaults.iter().flat_map(Layer::fields).collect() } else { own }
    }
}

impl<'a> Field<'a> {
    /// The value as a table.
    pub(crate) fn table(&self, reading: &Reading<'_>) -> Read<&'a DeTable<'a>> {
        self.value.as_table().ok_or_else(|| self.wrong_type(reading, "a table"))
    }

    /// The value as a table with known keys and no start values.
    pub(crate) fn section(&self, reading: &Reading<'_>, known: Keys) -> Read<Section<'a>> {
        let table = self.table(reading)?;
        let own = Some(Layer { path: self.path.clone(), table });
        let (path, key_at) = (self.path.clone(), self.key_at.clone());
        let section = Section { path, key_at, own, defaults: None, whole: Ok(()) };
        section.check(reading, known);
        Ok(section)
    }

    /// The items of a list.
    pub(crate) fn items(&self, reading: &Reading<'_>) -> Read<Vec<Field<'a>>> {
        let items = self.value.as_array().ok_or_else(|| self.wrong_type(reading, "a list"))?;
        let item = |(index, item): (usize, &'a toml::Spanned<DeValue<'a>>)| Field {
            path: format!("{}[{index}]", self.path),
            name: self.name,
            key_at: item.span(),
            value: item.get_ref(),
            at: item.span(),
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// Tells that the value is of another type.
    pub(crate) fn wrong_type(
        &self,
        reading: &Reading<'_>,
        expected: &str,
    ) -> crate::topology::reading::Reported {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date-time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        reading.report(Code::WrongType, &self.at, format!("`{}` takes {expected}, found {found}", self.path))
    }
}
