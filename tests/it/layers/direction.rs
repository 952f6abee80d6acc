//! Who may import whom.

use super::token::Token;
use super::{Breach, Rule};

/// From left to right; modules of one group do not import each other.
const LAYERS: [&[&str]; 9] = [
    &["main"],
    &["cli"],
    &["runtime"],
    &["admin"],
    &["dlq", "lag"],
    &["kafka", "codec", "handler"],
    &["telemetry", "fail_point"],
    &["topology"],
    &["core"],
];

fn place(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|group| group.contains(&layer))
}

/// The crate root declares everything and re-exports; it has no place itself.
const ROOT: &str = "lib";

pub(super) fn check(path: &str, module_path: &str, tokens: &[Token], found: &mut Vec<Breach>) {
    let own = module_path.split('/').next().unwrap_or(module_path);
    if own == ROOT {
        return;
    }
    let Some(own_place) = place(own) else {
        let what = format!("`{own}` has no place");
        found.push(Breach { rule: Rule::UnplacedModule, path: path.to_owned(), line: 1, what });
        return;
    };
    for import in imports(module_path, tokens) {
        let Import { line, ref layer } = import;
        let breach = |rule, what| Breach { rule, path: path.to_owned(), line, what };
        match place(layer) {
            Some(_) if layer == own => {}
            Some(place) if place > own_place => {}
            Some(_) => found.push(breach(Rule::ImportDirection, format!("`{own}` imports `{layer}`"))),
            None => found.push(breach(
                Rule::ImportFromItsModule,
                format!("`{own}` imports `{layer}` from the crate root"),
            )),
        }
    }
}

/// One step from the crate root into a module.
struct Import {
    line: usize,
    layer: String,
}

fn imports(module_path: &str, tokens: &[Token]) -> Vec<Import> {
    let mut found = Vec::new();
    let mut nesting = Nesting::of(module_path);
    let text = |index: usize| tokens.get(index).map(|token| token.text.as_str());
    for (index, token) in tokens.iter().enumerate() {
        nesting.pass(index.checked_sub(2).and_then(text), &token.text);
        let inside_a_path = index > 0 && text(index - 1) == Some("::");
        let after_root = match token.text.as_str() {
            "crate" => Some(index + 1),
            // The binary, examples in documentation and derived code name the library so.
            "redrive" if !inside_a_path => Some(index + 1),
            "super" if !inside_a_path => after_supers(nesting.depth(), tokens, index),
            _ => None,
        };
        if let Some(next) = after_root.filter(|next| text(*next) == Some("::")) {
            steps(tokens, next + 1, &mut found);
        }
    }
    found
}

/// How many modules lie between a place in a file and the crate root.
struct Nesting {
    of_file: usize,
    braces: usize,
    /// The braces that were open where each module inside the file began.
    modules: Vec<usize>,
}

impl Nesting {
    fn of(module_path: &str) -> Self {
        let of_file = module_path.trim_end_matches("/mod").split('/').count();
        Self { of_file, braces: 0, modules: Vec::new() }
    }

    /// Goes past a token; `before` stands two tokens before it.
    fn pass(&mut self, before: Option<&str>, token: &str) {
        match token {
            "{" => {
                if before == Some("mod") {
                    self.modules.push(self.braces);
                }
                self.braces += 1;
            }
            "}" => {
                self.braces = self.braces.saturating_sub(1);
                self.modules.pop_if(|outside| *outside == self.braces);
            }
            _ => {}
        }
    }

    fn depth(&self) -> usize {
        self.of_file + self.modules.len()
    }
}

/// The place behind a chain of `super`, where it is long enough to reach the crate root.
fn after_supers(depth: usize, tokens: &[Token], first: usize) -> Option<usize> {
    let mut chain = 1;
    let mut next = first + 1;
    while let [colons, word, ..] = tokens.get(next..)? {
        if colons.text != "::" || word.text != "super" {
            break;
        }
        chain += 1;
        next += 2;
    }
    (chain == depth).then_some(next)
}

/// What follows the root's `::`: one name, or the first name of each branch of a group.
fn steps(tokens: &[Token], from: usize, found: &mut Vec<Import>) {
    let mut push = |token: &Token| {
        if token.text != "self" {
            found.push(Import { line: token.line, layer: token.text.clone() });
        }
    };
    let Some(first) = tokens.get(from) else { return };
    if first.text != "{" {
        push(first);
        return;
    }
    let (mut depth, mut expected) = (0, false);
    for token in &tokens[from..] {
        match token.text.as_str() {
            "{" => {
                depth += 1;
                expected = depth == 1;
            }
            "}" if depth == 1 => return,
            "}" => depth -= 1,
            "," => expected = depth == 1,
            _ if expected => {
                push(token);
                expected = false;
            }
            _ => {}
        }
    }
}
