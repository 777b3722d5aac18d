//! The custom endpoint of a client from the environment.

/// The endpoint with a slash after its path. Without one the SDK joins the path and the bucket's
/// name into one word: `PUT /minio/apibucket/key`.
pub(in crate::store) fn with_final_slash(endpoint: &str) -> String {
    let end = endpoint.find(['?', '#']).unwrap_or(endpoint.len());
    let (url, rest) = endpoint.split_at(end);
    format!("{}/{rest}", url.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slash_ends_the_path_and_not_the_query() {
        assert_eq!(with_final_slash("http://h"), "http://h/");
        assert_eq!(with_final_slash("http://h/"), "http://h/");
        assert_eq!(with_final_slash("http://[::1]:9/a/b"), "http://[::1]:9/a/b/");
        assert_eq!(with_final_slash("http://h/a?b=c/d"), "http://h/a/?b=c/d");
    }
}
