//! Which names hold secrets. What stands under one is masked, and must not stand in the file itself.

/// Parts of a word that say "secret".
const SECRET: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "authorization",
    "apikey",
    "cookie",
];

/// Last words that say where or what a secret is, not the secret: `ssl.key.location`.
const ABOUT: [&str; 10] =
    ["location", "file", "path", "url", "uri", "id", "type", "name", "method", "algorithm"];

/// Client properties that hold secrets though their names do not say so.
const UNNAMED: [&str; 1] = ["sasl.oauthbearer.config"];

/// Whether the value under this name is a secret.
pub(crate) fn holds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if UNNAMED.contains(&name.as_str()) {
        return true;
    }
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let says_secret =
        |word: &&str| *word == "key" || *word == "keys" || SECRET.iter().any(|part| word.contains(part));
    words.iter().any(says_secret) && words.last().is_some_and(|last| !ABOUT.contains(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known() {
        for name in [
            "sasl.password",
            "ssl.key.password",
            "ssl.key.pem",
            "ssl.keystore.password",
            "token",
            "Authorization",
            "X-Api-Key",
            "x-apikey",
            "Cookie",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.assertion.private.key.passphrase",
        ] {
            assert!(holds_secret(name), "{name}");
        }
    }

    #[test]
    fn names_about_secrets_are_not_names_of_secrets() {
        for name in [
            "sasl.username",
            "ssl.key.location",
            "ssl.keystore.location",
            "ssl.ca.location",
            "security.protocol",
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.kerberos.keytab",
            "sasl.oauthbearer.client.id",
            "ssl.certificate.pem",
            "enable.ssl.certificate.verification",
            "x-tenant",
            "monkey",
            "",
        ] {
            assert!(!holds_secret(name), "{name}");
        }
    }
}
