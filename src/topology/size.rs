//! Sizes as the topology spells them: `"512KiB" "64MiB" "2GiB"`.

/// The units in bytes.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A text that is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a size: a whole number with B, KiB, MiB or GiB, like `64MiB`")]
pub(crate) struct BadSize {
    text: String,
}

/// Reads a size, in bytes.
///
/// # Errors
/// Where the text is not one whole number and one unit, or has no place in 64 bits.
pub(crate) fn parse(text: &str) -> Result<u64, BadSize> {
    let bad = || BadSize { text: text.to_owned() };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).ok_or_else(bad)?;
    let (_, bytes) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(bytes)).ok_or_else(bad)
}

/// The size in the largest unit that it is a whole number of.
pub(crate) fn in_words(bytes: u64) -> String {
    let whole = |(_, unit): &(&str, u64)| bytes >= *unit && bytes.is_multiple_of(*unit);
    let (name, unit) = UNITS.into_iter().find(whole).unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_and_spelled_in_one_way() {
        let sizes = ["0B", "7B", "512KiB", "64MiB", "2GiB", "1024KiB", "007MiB"];
        let read = sizes.map(|size| parse(size).unwrap());
        assert_eq!(read, [0, 7, 524_288, 67_108_864, 2_147_483_648, 1_048_576, 7_340_032]);
        assert_eq!(read.map(in_words), ["0B", "7B", "512KiB", "64MiB", "2GiB", "1MiB", "7MiB"]);
    }

    #[test]
    fn whatever_is_not_one_number_and_one_unit_is_refused() {
        for text in ["", "64", "MiB", "64 MiB", "64mib", "64MB", "-1B", "1.5GiB", "64MiBs", "99999999999GiB"]
        {
            assert_eq!(parse(text), Err(BadSize { text: text.to_owned() }));
        }
    }
}
