//! Where the Kafka client may appear.

use std::collections::BTreeSet;

use super::token::Token;
use super::{Breach, Rule};

const HOME: &str = "kafka";

fn is_client(word: &str) -> bool {
    word == "rdkafka" || word == "rdkafka_sys"
}

pub(super) fn check(path: &str, module_path: &str, tokens: &[Token], found: &mut Vec<Breach>) {
    if module_path.split('/').next() != Some(HOME) {
        let outside = tokens.iter().find(|token| is_client(&token.text));
        found.extend(outside.map(|token| Breach {
            rule: Rule::ClientOutsideKafka,
            path: path.to_owned(),
            line: token.line,
            what: format!("`{}` is named", token.text),
        }));
        return;
    }
    let imported = imported(tokens);
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.text == "pub") {
        let rest = &tokens[index + 1..];
        let restricted = rest.first().is_some_and(|next| next.text == "(");
        let signature = if restricted { behind_parentheses(rest) } else { rest };
        let re_export = signature.first().is_some_and(|next| next.text == "use");
        if restricted && !re_export {
            continue;
        }
        let client = signature_words(signature)
            .find(|word| is_client(word) || (!re_export && imported.contains(*word)));
        found.extend(client.map(|word| Breach {
            rule: Rule::ClientInPublicSignature,
            path: path.to_owned(),
            line: token.line,
            what: format!("`{word}` is public"),
        }));
    }
}

fn behind_parentheses(tokens: &[Token]) -> &[Token] {
    let end = tokens.iter().position(|token| token.text == ")").unwrap_or(0);
    &tokens[end + 1..]
}

/// The names that `use rdkafka::…` brings into a file, as the file calls them.
fn imported(tokens: &[Token]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (index, token) in tokens.iter().enumerate() {
        let of_client = tokens.get(index + 1).is_some_and(|next| is_client(&next.text));
        if token.text == "use" && of_client {
            let path: Vec<&Token> =
                tokens[index + 1..].iter().take_while(|token| token.text != ";").collect();
            for (at, word) in path.iter().enumerate() {
                let next = path.get(at + 1).map_or("}", |next| next.text.as_str());
                if matches!(next, "}" | ",")
                    && word.text.chars().all(|sign| sign.is_alphanumeric() || sign == '_')
                {
                    names.insert(word.text.clone());
                }
            }
        }
    }
    names
}

/// The words that others see of a public item: a function up to its body, a field up to its comma, all of an enum.
fn signature_words(tokens: &[Token]) -> impl Iterator<Item = &str> {
    let whole = tokens.first().is_some_and(|first| matches!(first.text.as_str(), "enum" | "type" | "use"));
    let (mut nested, mut braces) = (0_i32, 0_i32);
    tokens.iter().map(|token| token.text.as_str()).take_while(move |word| match *word {
        "(" | "[" | "<" => {
            nested += 1;
            true
        }
        ")" | "]" | ">" => {
            nested -= 1;
            nested >= 0
        }
        "{" if whole => {
            braces += 1;
            true
        }
        "}" if whole => {
            braces -= 1;
            braces > 0
        }
        "," => whole || nested > 0,
        "{" | "}" => false,
        "=" => whole,
        ";" => false,
        _ => true,
    })
}
