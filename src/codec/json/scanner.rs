//! From one token of a document to the next.

/// What the grammar has where a document has something else: there the scanner stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected(pub(super) &'static str);

/// Where the reading of a document stands.
#[derive(Clone, Copy)]
pub(super) struct Scanner<'d> {
    document: &'d str,
    at: usize,
}

impl<'d> Scanner<'d> {
    pub(super) const fn new(document: &'d str) -> Self {
        Self { document, at: 0 }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.document.as_bytes().get(self.at).copied()
    }

    /// Goes on behind one byte, if it is the next.
    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        if self.peek() != Some(byte) {
            return false;
        }
        self.at += 1;
        true
    }

    #[inline]
    pub(super) fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Nothing but space is left.
    pub(super) fn end(&mut self) -> Result<(), Expected> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Expected("the end")),
        }
    }

    /// Goes into the list or object that begins here; whether it ends at once.
    #[inline]
    pub(super) fn opens(&mut self, close: u8) -> bool {
        self.at += 1;
        self.skip_space();
        self.take(close)
    }

    /// Goes on behind a value inside of a list or an object; whether another follows.
    #[inline]
    pub(super) fn goes_on(&mut self, close: u8) -> Result<bool, Expected> {
        self.skip_space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.skip_space();
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(_) | None => Err(Expected(if close == b'}' { "`,` or `}`" } else { "`,` or `]`" })),
        }
    }

    /// Reads the name of a member up to its value.
    pub(super) fn name(&mut self) -> Result<&'d str, Expected> {
        let start = self.at.saturating_add(1);
        let end = self.skip_name()?;
        Ok(self.document.get(start..end).unwrap_or_default())
    }

    /// As [`Self::name`]; where its last character ends.
    #[inline]
    fn skip_name(&mut self) -> Result<usize, Expected> {
        if self.peek() != Some(b'"') {
            return Err(Expected("the name of a member"));
        }
        self.skip_string()?;
        let end = self.at.saturating_sub(1);
        self.skip_space();
        if !self.take(b':') {
            return Err(Expected("`:`"));
        }
        self.skip_space();
        Ok(end)
    }

    /// Goes on behind the value that begins here, whatever it holds. `open` is room for what closes the lists and objects in it.
    pub(super) fn skip_value(&mut self, open: &mut Vec<u8>) -> Result<(), Expected> {
        // A copy, so that the position is in a register all the way.
        let mut here = *self;
        let end = here.pass_value(open);
        *self = here;
        end
    }

    #[inline]
    fn pass_value(&mut self, open: &mut Vec<u8>) -> Result<(), Expected> {
        open.clear();
        loop {
            match self.peek() {
                Some(b'"') => self.skip_string()?,
                Some(b'{') => {
                    if !self.opens(b'}') {
                        open.push(b'}');
                        self.skip_name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    if !self.opens(b']') {
                        open.push(b']');
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.skip_number()?,
                Some(b't') => self.skip_word("true")?,
                Some(b'f') => self.skip_word("false")?,
                Some(b'n') => self.skip_word("null")?,
                Some(_) | None => return Err(Expected("the beginning of a value")),
            }
            loop {
                let Some(close) = open.last().copied() else { return Ok(()) };
                if self.goes_on(close)? {
                    if close == b'}' {
                        self.skip_name()?;
                    }
                    break;
                }
                open.pop();
            }
        }
    }

    #[inline]
    fn skip_word(&mut self, word: &'static str) -> Result<(), Expected> {
        let rest = self.document.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(Expected("the beginning of a value"));
        }
        self.at += word.len();
        Ok(())
    }

    #[inline]
    fn skip_number(&mut self) -> Result<(), Expected> {
        self.take(b'-');
        if !self.take(b'0') {
            self.skip_digits()?;
        }
        if self.take(b'.') {
            self.skip_digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'+') || self.take(b'-');
            self.skip_digits()?;
        }
        Ok(())
    }

    #[inline]
    fn skip_digits(&mut self) -> Result<(), Expected> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(Expected("a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    #[inline]
    fn skip_string(&mut self) -> Result<(), Expected> {
        self.at += 1;
        loop {
            self.at += plain(self.document.as_bytes().get(self.at..).unwrap_or_default());
            if self.take(b'"') {
                return Ok(());
            }
            if !self.take(b'\\') {
                return Err(Expected(match self.peek() {
                    None => "the rest of a text",
                    Some(_) => "an escape: no control character stands in a text as it is",
                }));
            }
            self.skip_escape()?;
        }
    }

    fn skip_escape(&mut self) -> Result<(), Expected> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(Expected("a hexadecimal digit"));
                    }
                    self.at += 1;
                }
                Ok(())
            }
            Some(_) | None => Err(Expected("one of the escapes of JSON")),
        }
    }
}

/// How many bytes at the beginning stand for themselves in a text. Eight at a time: most of a document is text.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    const EACH: u64 = u64::MAX / 0xff;
    const TOP: u64 = EACH * 0x80;
    // The top bit of every byte that is zero, exact up to the first of them.
    let zeros = |word: u64| word.wrapping_sub(EACH) & !word;
    let mut count = 0;
    let mut rest = bytes;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let quotes = zeros(word ^ (EACH * u64::from(b'"')));
        let escapes = zeros(word ^ (EACH * u64::from(b'\\')));
        let controls = word.wrapping_sub(EACH * 0x20) & !word;
        let others = (quotes | escapes | controls) & TOP;
        if others != 0 {
            let bits = usize::try_from(others.trailing_zeros()).unwrap_or_default();
            return count + bits / 8;
        }
        count += 8;
        rest = behind;
    }
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
    count + rest.iter().take_while(|byte| is_plain(byte)).count()
}
