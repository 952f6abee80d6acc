use std::fmt::Write as _;

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;

fn pointer(text: &str) -> Pointer {
    text.parse().unwrap()
}

fn read<'a>(places: &[&str], document: &'a str) -> Result<Vec<Option<Scalar<'a>>>, NotJson> {
    let mut finder = Finder::new(places.iter().map(|place| pointer(place)).collect());
    finder.read(document.as_bytes()).map(Iterator::collect)
}

fn one<'a>(place: &str, document: &'a str) -> Option<Scalar<'a>> {
    let [found] = read(&[place], document).unwrap().try_into().unwrap();
    found
}

fn text(text: &str) -> Option<Scalar<'_>> {
    Some(Scalar::Text(Cow::Borrowed(text)))
}

fn refused(document: &[u8]) -> NotJson {
    let found = Finder::new(vec![pointer("/a")]).read(document).map(Iterator::count);
    found.expect_err(&String::from_utf8_lossy(document))
}

#[test]
fn places_are_found_wherever_they_are() {
    let document =
        r#" { "operation" : {"id":"o-1","n":[10,{"x":true}]}, "version":7 , "":"empty", "a/b":1, "m~n":2 } "#;
    let places = [
        "/operation/id",
        "/version",
        "/operation/n/0",
        "/operation/n/1/x",
        "/",
        "/a~1b",
        "/m~0n",
        "/none",
        "/operation/n/2",
    ];
    let found = read(&places, document).unwrap();
    let whole = |digits| Some(Scalar::Whole(digits));
    let (truth, empty) = (Some(Scalar::Other("true")), text("empty"));
    assert_eq!(
        found,
        [text("o-1"), whole("7"), whole("10"), truth, empty, whole("1"), whole("2"), None, None]
    );
    assert_eq!(one("", " 12 "), whole("12"));
}

/// The example of RFC 6901, section 5.
#[test]
fn the_pointers_of_the_specification_lead_where_it_says() {
    let document = r#"{
        "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8
    }"#;
    assert_eq!(one("", document), Some(Scalar::Other(document)));
    assert_eq!(one("/foo", document), Some(Scalar::Other(r#"["bar", "baz"]"#)));
    assert_eq!(one("/foo/0", document), text("bar"));
    let places = ["/", "/a~1b", "/c%d", "/e^f", "/g|h", "/i\\j", "/k\"l", "/ ", "/m~0n"];
    let expected = ["0", "1", "2", "3", "4", "5", "6", "7", "8"].map(|digits| Some(Scalar::Whole(digits)));
    assert_eq!(read(&places, document).unwrap(), expected);
}

#[test]
fn a_place_may_lie_in_another_and_be_looked_for_twice() {
    let found = read(&["/a", "/a/b", "/a", "/a/b/c"], r#"{"a":{"b":1}}"#).unwrap();
    let outer = Some(Scalar::Other(r#"{"b":1}"#));
    assert_eq!(found, [outer.clone(), Some(Scalar::Whole("1")), outer, None]);
}

#[test]
fn of_several_members_of_one_name_the_last_counts() {
    assert_eq!(one("/a", r#"{"a":1,"a":2}"#), Some(Scalar::Whole("2")));
    assert_eq!(one("/a/b", r#"{"a":{"b":1},"a":{"b":2}}"#), Some(Scalar::Whole("2")));
    assert_eq!(one("/a/b", r#"{"a":{"b":1},"a":{}}"#), None, "the last `a` has no `b`");
    assert_eq!(one("/a/b", r#"{"a":{"b":1},"a":5}"#), None);
    assert_eq!(one("/a", r#"{"a":1,"\u0061":2}"#), Some(Scalar::Whole("2")));
}

#[test]
fn one_document_leaves_nothing_for_the_next() {
    let mut finder = Finder::new(vec![pointer("/a")]);
    let mut found =
        |document: &'static str| finder.read(document.as_bytes()).map(|found| found.flatten().count());
    assert_eq!(found(r#"{"a":1}"#), Ok(1));
    assert_eq!(found("{}"), Ok(0));
    assert_eq!(found("[[[1]]]"), Ok(0));
    assert!(found(r#"{"a":1,"#).is_err());
    assert_eq!(found("[]"), Ok(0));
}

#[test]
fn an_item_is_not_a_member_and_a_member_not_an_item() {
    assert_eq!(one("/0", r#"{"0":"member"}"#), text("member"));
    assert_eq!(one("/0", r#"["item"]"#), text("item"));
    assert_eq!(one("/00", r#"["item"]"#), None);
    assert_eq!(one("/-", r#"["item"]"#), None, "what is behind the last item is not there");
    assert_eq!(one("/length", "[1]"), None);
}

#[test]
fn numbers_are_whole_only_without_fraction_and_exponent() {
    for (written, digits) in [
        ("0", "0"),
        ("-0", "0"),
        ("-5", "-5"),
        ("9223372036854775808", "9223372036854775808"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
    ] {
        assert_eq!(one("", written), Some(Scalar::Whole(digits)), "{written}");
    }
    for written in ["1.0", "-0.0", "1e3", "1E3", "0e0", "1e999", "1.5e-3", "null", "false", "[1]", "{}"] {
        assert_eq!(one("", written), Some(Scalar::Other(written)));
    }
}

#[test]
fn escapes_are_resolved_in_texts_and_names() {
    let document = r#"{"\u006b\"":"a\"b\\c\/d\b\f\n\r\t\u00e9\ud83d\ude00é"}"#;
    assert_eq!(one("/k\"", document), text("a\"b\\c/d\u{8}\u{c}\n\r\té😀é"));
    assert!(matches!(one("", r#""plain é""#), Some(Scalar::Text(Cow::Borrowed("plain é")))));
}

#[test]
fn half_a_surrogate_pair_is_no_text_and_spoils_nothing_else() {
    for half in
        [r"\ud800", r"\udc00", r"\ud800x", r"\ud800\n", r"\ud800\ud800", r"\udc00\ud800", r"\ud83d\u0041"]
    {
        let document = format!(r#"{{"{half}":1,"a":"{half}","b":"{half}","c":"good"}}"#);
        let found = read(&["/a", "/c", "/\u{fffd}"], &document).unwrap();
        assert_eq!(found, [Some(Scalar::Other(&format!("\"{half}\""))), text("good"), None], "{half}");
    }
}

#[test]
fn what_is_no_json_is_told_with_its_place() {
    let told = |document: &[u8]| refused(document).to_string();
    assert_eq!(told(b""), "the value is no JSON: byte 0 of 0 should be the beginning of a value");
    assert_eq!(told(br#"{"a":1 "b"}"#), "the value is no JSON: byte 7 of 11 should be `,` or `}`");
    assert_eq!(told(b"{\"a\":\"\xff\"}"), "the value is no JSON: byte 6 of 9 should be UTF-8");
    assert_eq!(told(b"[1,2] x"), "the value is no JSON: byte 6 of 7 should be the end");
}

#[test]
fn everything_else_is_refused_wherever_it_stands() {
    let good = [r#"{"a":true}"#, "[]", "1", r#""x""#];
    let bad: [&[u8]; 42] = [
        b"",
        b" ",
        b"\xef\xbb\xbf1",
        b"NaN",
        b"Infinity",
        b"-",
        b"-x",
        b"+1",
        b"01",
        b"-01",
        b"1.",
        b".5",
        b"1e",
        b"1e+",
        b"1.e1",
        b"0x10",
        b"1_0",
        b"tru",
        b"truE",
        b"nul",
        b"True",
        b"'a'",
        b"\"",
        b"\"a",
        b"\"\\\"",
        b"\"\\x\"",
        b"\"\\u12\"",
        b"\"\\u12g4\"",
        b"\"\n\"",
        b"\"\t\"",
        b"\"\0\"",
        b"{",
        b"{\"a\"}",
        b"{\"a\":}",
        b"{\"a\":1,}",
        b"{a:1}",
        b"{1:1}",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"1 2",
        b"// x\n1",
    ];
    for document in bad {
        refused(document);
        let shown = String::from_utf8_lossy(document);
        // Where it is looked into, and where it is passed over.
        for (before, behind) in [("{\"a\":{\"b\":", "}}"), ("{\"x\":[0,", ",0]}"), ("[", "]")] {
            if document.trim_ascii().is_empty() || shown == "1 2" && before == "[" {
                continue;
            }
            refused(&[before.as_bytes(), document, behind.as_bytes()].concat());
        }
    }
    for document in good {
        assert!(read(&["/a"], document).is_ok(), "{document}");
        for trailing in ["x", "1", ",", "]", "}", "\0", "\u{feff}", "\u{a0}", "{}"] {
            refused(format!("{document}\n{trailing}").as_bytes());
        }
        for cut in 1..document.len() {
            let cut = &document.as_bytes()[..cut];
            assert_eq!(
                serde_json::from_slice::<IgnoredAny>(cut).is_ok(),
                Finder::new(Vec::new()).read(cut).is_ok()
            );
        }
    }
}

#[test]
fn every_byte_is_seen_wherever_it_stands_in_a_text() {
    for length in 1..=20 {
        for place in 0..length {
            for byte in 0..0x80u8 {
                let mut inner = vec![b'x'; length];
                inner[place] = byte;
                let document = [b"\"", inner.as_slice(), b"\""].concat();
                let expected = serde_json::from_slice::<IgnoredAny>(&document).is_ok();
                let found = Finder::new(Vec::new()).read(&document).is_ok();
                assert_eq!(found, expected, "{byte:#x} at {place} of {length}");
            }
        }
    }
}

#[test]
fn no_depth_exhausts_the_stack() {
    let depth = 1_000_000;
    let place = "/0".repeat(Pointer::MOST_STEPS);
    for (open, inner, close) in [("[", "", "]"), ("{\"a\":", "1", "}"), ("[{\"a\":", "1", "}]")] {
        let document = [open.repeat(depth), inner.to_owned(), close.repeat(depth)].concat();
        assert!(read(&[&place, "/a/a/a"], &document).is_ok());
        assert!(read(&["/a"], &open.repeat(depth)).is_err());
    }
}

/// A document before it is written.
#[derive(Clone, Debug)]
enum Draft {
    Word(&'static str),
    Text(String),
    List(Vec<Draft>),
    Object(Vec<(String, Draft)>),
}

/// Few names, so that members meet places and each other.
const NAMES: [&str; 6] = ["a", "b", "0", "1", "a/b", "é\"~"];
const PLACES: [&str; 12] =
    ["", "/a", "/b", "/a/b", "/a/a/a", "/0", "/1/0", "/a/1", "/a~1b", "/é\"~0", "/b/é\"~0/0", "/none"];

fn draft() -> impl Strategy<Value = Draft> {
    const WORDS: [&str; 11] =
        ["null", "true", "false", "0", "-0", "7", "-12", "9223372036854775807", "1.5", "1e3", "-0.0"];
    let text = prop_oneof![Just(String::new()), "[a-z\"\\\\/\u{0}-\u{1f}é😀]{0,12}", Just("x".repeat(30))];
    let leaf =
        prop_oneof![prop::sample::select(&WORDS[..]).prop_map(Draft::Word), text.prop_map(Draft::Text)];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let name = prop::sample::select(&NAMES[..]).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Draft::List),
            prop::collection::vec((name, inner), 0..6).prop_map(Draft::Object),
        ]
    })
}

/// Writes a document, spaced and escaped as `luck` has it.
fn write(draft: &Draft, luck: &mut impl Iterator<Item = u8>, to: &mut String) {
    let mut luck_of = |most: u8| luck.next().unwrap_or_default() % most;
    to.push_str(["", "", " ", "\n\t", "\r "][usize::from(luck_of(5))]);
    match draft {
        Draft::Word(word) => to.push_str(word),
        Draft::Text(text) => {
            to.push('"');
            for character in text.chars() {
                match (character, luck_of(8)) {
                    (_, 0) => {
                        character
                            .encode_utf16(&mut [0; 2])
                            .iter()
                            .for_each(|unit| write!(to, "\\u{unit:04X}").unwrap());
                    }
                    ('\n', _) => to.push_str("\\n"),
                    ('"' | '\\', _) | ('/', 1) => to.extend(['\\', character]),
                    ('\0'..' ', _) => write!(to, "\\u{:04x}", u32::from(character)).unwrap(),
                    (plain, _) => to.push(plain),
                }
            }
            to.push('"');
        }
        Draft::List(items) => {
            to.push('[');
            for (place, item) in items.iter().enumerate() {
                to.push_str(if place == 0 { "" } else { "," });
                write(item, luck, to);
                to.push_str(if luck.next().unwrap_or_default().is_multiple_of(3) { " " } else { "" });
            }
            to.push(']');
        }
        Draft::Object(members) => {
            to.push('{');
            for (place, (name, member)) in members.iter().enumerate() {
                to.push_str(if place == 0 { "" } else { "," });
                write(&Draft::Text(name.clone()), luck, to);
                to.push_str(if luck.next().unwrap_or_default().is_multiple_of(3) { " :" } else { ":" });
                write(member, luck, to);
            }
            to.push('}');
        }
    }
}

fn as_found(value: &Value, written: &Scalar<'_>) -> bool {
    match (value, written) {
        (Value::String(text), Scalar::Text(found)) => text == found,
        (Value::Number(number), Scalar::Whole(digits)) => {
            number.is_i64() && number.to_string() == *digits
                || (*digits == "0" && number.as_f64() == Some(0.0))
        }
        (Value::String(_) | Value::Number(_), _) => number_of(written).is_some_and(|number| value == &number),
        (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_), Scalar::Other(written)) => {
            serde_json::from_str::<Value>(written).is_ok_and(|written| written == *value)
        }
        (_, Scalar::Text(_) | Scalar::Whole(_)) => false,
    }
}

/// A number that is not whole.
fn number_of(written: &Scalar<'_>) -> Option<Value> {
    let Scalar::Other(written) = written else { return None };
    assert!(written.contains(['.', 'e', 'E']), "{written}");
    serde_json::from_str(written).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3_000) })]

    #[test]
    fn it_finds_what_another_parser_finds(draft in draft(), luck in prop::collection::vec(any::<u8>(), 100)) {
        let mut document = String::new();
        write(&draft, &mut luck.into_iter(), &mut document);
        let value: Value = serde_json::from_str(&document).unwrap();
        let found = read(&PLACES, &document).unwrap();
        for (place, found) in PLACES.iter().zip(found) {
            match (value.pointer(place), found) {
                (None, None) => {}
                (Some(expected), Some(found)) => prop_assert!(as_found(expected, &found), "{place}: {found:?} in {document}"),
                differ => prop_assert!(false, "{place}: {differ:?} in {document}"),
            }
        }
    }

    #[test]
    fn it_takes_and_refuses_what_another_parser_does(
        draft in draft(),
        luck in prop::collection::vec(any::<u8>(), 100),
        cut in any::<prop::sample::Index>(),
        length in 0usize..4,
        put in prop_oneof!["[\\[\\]{}:,\"\\\\ntf0-9.eE+\\- \u{0}-\u{1f}u]{0,3}", "\\PC{0,2}"],
        raw in prop::option::weighted(0.1, any::<u8>()),
    ) {
        let mut document = String::new();
        write(&draft, &mut luck.into_iter(), &mut document);
        let mut document = document.into_bytes();
        let start = cut.index(document.len() + 1);
        let end = (start + length).min(document.len());
        document.splice(start..end, put.bytes().chain(raw));
        let expected = str::from_utf8(&document).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
        let mut finder = Finder::new(PLACES.iter().map(|place| pointer(place)).collect());
        let found = finder.read(&document).map(Iterator::count);
        prop_assert_eq!(found.is_ok(), expected, "{:?} {}", found, String::from_utf8_lossy(&document));
        prop_assert!(found.err().is_none_or(|refused| refused.at <= refused.length));
        prop_assert_eq!(Finder::new(Vec::new()).read(&document).is_ok(), expected);
    }

    #[test]
    fn any_bytes_are_read_or_refused(document in prop::collection::vec(any::<u8>(), 0..64)) {
        let expected = str::from_utf8(&document).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
        prop_assert_eq!(Finder::new(vec![pointer("/a")]).read(&document).is_ok(), expected);
    }
}
