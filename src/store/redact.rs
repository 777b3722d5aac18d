//! Prepares the text of stores and their clients for messages: one short line without secrets.

/// Returns the text on one line of at most 300 characters, without the secrets of URLs.
pub fn printable(text: &str) -> String {
    let line: String = text.split_inclusive(char::is_whitespace).map(without_secrets).collect();
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

/// Returns `word`. If `word` is a URL, the result omits its user name, password and query.
pub(super) fn without_secrets(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let space = if word.ends_with(char::is_whitespace) { " " } else { "" };
    if path.contains('@') {
        // If a password contains a slash, `path` may contain a part of the password. So nothing
        // after the scheme is shown.
        return format!("{scheme}://…{space}");
    }
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let path = path.split(['?', '#']).next().unwrap_or(path);
    format!("{scheme}://{}{}{space}", host.trim_end(), path.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_removed_from_messages() {
        for (text, shown) in [
            ("no URL: a@b?c", "no URL: a@b?c"),
            ("at http://127.0.0.1:9000/x y", "at http://127.0.0.1:9000/x y"),
            ("at `https://me:secret@host/x?token=secret` now", "at `https://host/x now"),
            ("at https://me:secret@host\nnow", "at https://host now"),
            ("at https://me:sec/ret@host now", "at https://… now"),
            ("https://host?secret", "https://host"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
