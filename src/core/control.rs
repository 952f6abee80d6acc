//! What operators ask of the owner of a task, and what it answers.
//!
//! Owns the formats: the request on the control lane, the answer among the cases, the record in the audit. Requests are read
//! from any bytes: what cannot be read, or is not known, is a [`Refusal`] with words, never an error. What a command does
//! is decided by the [processor](crate::core::processor).

mod answer;
mod reply;
mod request;

pub use answer::{Answer, BadAnswer, Compliance};
pub use reply::Reply;
pub use request::{BadRequestId, Command, Head, LONGEST_NAME, Refusal, Request, RequestId, read};

/// Cuts a text to so many bytes, on a character border, and takes what moves a terminal's cursor out of it.
fn shown(text: &str, most: usize) -> String {
    let text = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests;
