//! Keys and durations, as people type and read them.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cli::BadInput;

/// The bytes of a key as it was typed.
pub(super) fn key(text: &str, base64: bool) -> Result<Vec<u8>, BadInput> {
    if !base64 {
        return Ok(text.as_bytes().to_vec());
    }
    STANDARD.decode(text).map_err(|_| BadInput::NoBase64 { text: text.to_owned() })
}

/// A key in base64.
pub(super) fn base64(key: &[u8]) -> String {
    STANDARD.encode(key)
}

/// A key for people: as it is where it is text, else with escapes.
pub(super) fn shown(key: &[u8]) -> String {
    match str::from_utf8(key) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        Ok(_) | Err(_) => key.escape_ascii().to_string(),
    }
}

/// A key as an argument of a command.
pub(super) fn argument(key: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/@+".contains(byte);
    match str::from_utf8(key) {
        Ok(text) if !key.is_empty() && !text.starts_with('-') && key.iter().all(plain) => text.to_owned(),
        Ok(_) | Err(_) => format!("--base64 '{}'", base64(key)),
    }
}

/// A duration in its two largest units, rounded up to seconds: `3d 4h`, `9m 30s`, `1s`.
pub(super) fn lasting(duration: Duration) -> String {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let mut left = seconds;
    let mut parts = Vec::new();
    for (name, unit) in units {
        if left >= unit && parts.len() < 2 {
            parts.push(format!("{}{name}", left / unit));
            left %= unit;
        } else if !parts.is_empty() {
            break;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_its_two_largest_units() {
        for (millis, expected) in [
            (0, "0s"),
            (1, "1s"),
            (59_000, "59s"),
            (60_000, "1m"),
            (570_000, "9m 30s"),
            (3_600_000, "1h"),
            (3_605_000, "1h"),
            (90_061_000, "1d 1h"),
            (86_460_000, "1d"),
        ] {
            assert_eq!(lasting(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn a_key_is_shown_as_text_or_escaped_and_never_moves_the_cursor() {
        assert_eq!(shown("größe 7".as_bytes()), "größe 7");
        assert_eq!(shown(b"a\0\xff"), "a\\x00\\xff");
        assert_eq!(shown(b"a\x1b[2J"), "a\\x1b[2J");
    }

    #[test]
    fn an_argument_means_the_same_key_whatever_the_shell_does() {
        assert_eq!(argument(b"order-7"), "order-7");
        for key in [&b""[..], b"--yes", b"a b", b"$(rm)", b"\xff", "ö".as_bytes()] {
            let argument = argument(key);
            let text = argument.strip_prefix("--base64 '").unwrap().strip_suffix('\'').unwrap();
            assert_eq!(super::key(text, true).unwrap(), key);
        }
        assert!(super::key("%%", true).is_err());
        assert_eq!(super::key("%%", false).unwrap(), b"%%");
    }
}
