//! The words of the SDK and of a service, fit for a message.

use std::error::Error as StdError;
use std::fmt::Write as _;

use aws_credential_types::provider::error::CredentialsError;

use crate::store::StoreErrorKind;

/// What is wrong where nothing came as far as the network, and what to do then.
pub(in crate::store) fn not_sent(
    error: &(dyn StdError + 'static),
) -> (StoreErrorKind, &'static str) {
    match find::<CredentialsError>(error) {
        Some(CredentialsError::CredentialsNotLoaded(_)) => (
            StoreErrorKind::AccessDenied,
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or \
             give the machine a role",
        ),
        Some(CredentialsError::InvalidConfiguration(_)) => {
            (StoreErrorKind::AccessDenied, "the settings of the credentials are wrong")
        }
        // A service that hands out credentials is away as often as any other.
        Some(_) => (StoreErrorKind::Transient, "the credentials could not be fetched"),
        None if causes(error).contains("region") => {
            (StoreErrorKind::Invalid, "no region: set AWS_REGION, or region in the profile")
        }
        None => (StoreErrorKind::Invalid, "the request could not be built"),
    }
}

/// Whether there was no connection to send the request on.
pub(in crate::store) fn never_connected(error: &(dyn StdError + 'static)) -> bool {
    find::<hyper_util::client::legacy::Error>(error).is_some_and(|error| error.is_connect())
}

/// The first error of this type in the chain of causes.
fn find<'e, T: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e T> {
    chain(error).find_map(|error| error.downcast_ref())
}

fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

/// The chain of causes on one line, without the SDK's outer words and without repetitions.
pub(in crate::store) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut line = String::new();
    for error in chain(error).skip(1) {
        let text = printable(&error.to_string());
        if !line.contains(&text) {
            let separator = if line.is_empty() { "" } else { ": " };
            let _ = write!(line, "{separator}{text}");
        }
    }
    line
}

/// The words of the store or the SDK, on one line, short, and without what a URL may hide.
pub(in crate::store) fn printable(text: &str) -> String {
    let line: String = text.split_inclusive(char::is_whitespace).map(without_secrets).collect();
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

/// A word that may be a URL, without the name, the password and the query that one could write
/// into it.
pub(in crate::store) fn without_secrets(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let space = if word.ends_with(char::is_whitespace) { " " } else { "" };
    if path.contains('@') {
        // A password may hold a slash.
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
    fn a_message_shows_no_password_of_a_url() {
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
