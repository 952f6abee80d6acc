//! Rust source cut into words and signs, without comments, strings, characters and lifetimes.

use std::iter::Peekable;
use std::str::Chars;

/// A word or sign and its line, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Words are kept whole, `::`, `->` and `=>` are one sign each, every other sign stands alone.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut scan = Scan { rest: source.chars().peekable(), line: 1 };
    let mut found = Vec::new();
    while let Some(first) = scan.next() {
        let line = scan.line;
        let text = match first {
            '/' if scan.rest.peek() == Some(&'/') => {
                scan.skip_line();
                continue;
            }
            '/' if scan.rest.peek() == Some(&'*') => {
                scan.skip_block_comment();
                continue;
            }
            '"' => {
                scan.skip_string();
                continue;
            }
            '\'' => {
                scan.skip_char_or_lifetime();
                continue;
            }
            ':' if scan.rest.next_if_eq(&':').is_some() => "::".to_owned(),
            '-' if scan.rest.next_if_eq(&'>').is_some() => "->".to_owned(),
            '=' if scan.rest.next_if_eq(&'>').is_some() => "=>".to_owned(),
            first if first.is_alphanumeric() || first == '_' => {
                let mut word = String::from(first);
                while let Some(next) = scan.rest.next_if(|next| next.is_alphanumeric() || *next == '_') {
                    word.push(next);
                }
                // r"…", br#"…"# and the like; r#name is a word.
                if matches!(word.as_str(), "r" | "br" | "cr") && scan.skip_raw_string() {
                    continue;
                }
                word
            }
            sign if sign.is_whitespace() => continue,
            sign => String::from(sign),
        };
        found.push(Token { line, text });
    }
    found
}

struct Scan<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Scan<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|next| next != '\n') {}
    }

    fn skip_block_comment(&mut self) {
        let (mut depth, mut last) = (1, self.next());
        while depth > 0 {
            let next = self.next();
            match (last, next) {
                (Some('/'), Some('*')) => (depth, last) = (depth + 1, None),
                (Some('*'), Some('/')) => (depth, last) = (depth - 1, None),
                (_, None) => return,
                (_, next) => last = next,
            }
        }
    }

    fn skip_string(&mut self) {
        while let Some(next) = self.next() {
            match next {
                '\\' => _ = self.next(),
                '"' => return,
                _ => {}
            }
        }
    }

    /// `'a'` and `'\n'` are characters; `'a` is a lifetime, of which nothing is kept either.
    fn skip_char_or_lifetime(&mut self) {
        match self.next() {
            Some('\\') => {
                self.next();
                while self.next().is_some_and(|next| next != '\'') {}
            }
            Some(first) if self.rest.peek() != Some(&'\'') => {
                if first.is_alphanumeric() || first == '_' {
                    while self.rest.next_if(|next| next.is_alphanumeric() || *next == '_').is_some() {}
                }
            }
            Some(_) | None => _ = self.next(),
        }
    }

    /// Says whether one stood here.
    fn skip_raw_string(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        let mut hashes = 0;
        while ahead.next_if_eq(&'#').is_some() {
            hashes += 1;
        }
        if ahead.next() != Some('"') {
            return false;
        }
        for _ in 0..=hashes {
            self.next();
        }
        let mut closing = None;
        while let Some(next) = self.next() {
            closing = match (closing, next) {
                (_, '"') => Some(0),
                (Some(seen), '#') => Some(seen + 1),
                (_, _) => None,
            };
            if closing == Some(hashes) {
                break;
            }
        }
        true
    }
}
