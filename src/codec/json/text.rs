//! What the escapes of a text stand for.

use std::borrow::Cow;

/// The text that is written so between its quotes; `None` where an escape stands for no character by itself. What is
/// written is well formed.
pub(super) fn unescaped(written: &str) -> Option<Cow<'_, str>> {
    let Some((plain, mut rest)) = written.split_once('\\') else { return Some(Cow::Borrowed(written)) };
    let mut text = String::with_capacity(written.len());
    text.push_str(plain);
    loop {
        let mut characters = rest.chars();
        text.push(match characters.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let (character, behind) = character(characters.as_str())?;
                characters = behind.chars();
                character
            }
            itself => itself,
        });
        match characters.as_str().split_once('\\') {
            None => {
                text.push_str(characters.as_str());
                return Some(Cow::Owned(text));
            }
            Some((plain, behind)) => {
                text.push_str(plain);
                rest = behind;
            }
        }
    }
}

/// The character of a `\u` escape, of which the digits are left, and what stands behind it. Characters beyond the first plane are
/// two escapes, a surrogate pair.
fn character(digits: &str) -> Option<(char, &str)> {
    let (first, rest) = unit(digits)?;
    let Some(second) = rest.strip_prefix("\\u").filter(|_| (0xd800..0xdc00).contains(&first)) else {
        return Some((char::from_u32(first)?, rest));
    };
    let (second, rest) = unit(second)?;
    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    let high = first.checked_sub(0xd800)?;
    Some((char::from_u32(0x1_0000 + (high << 10) + low)?, rest))
}

fn unit(digits: &str) -> Option<(u32, &str)> {
    let (digits, rest) = digits.split_at_checked(4)?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}
