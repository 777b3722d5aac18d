//! The metadata services of this machine, which issue its credentials. Requests to these services
//! bypass the proxy, because a proxy would reach no metadata service, or the metadata service of
//! another machine.

use std::net::{IpAddr, Ipv6Addr};

/// Environment variables that name a metadata service.
const NAMED_BY: [&str; 6] = [
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "GCE_METADATA_HOST",
    "GCE_METADATA_ROOT",
    "GCE_METADATA_IP",
    "IDENTITY_ENDPOINT",
];
/// The IPv6 addresses of the metadata services of EC2 and EKS.
const V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
];

/// Returns true if this host, with or without brackets, is a metadata service.
pub(super) fn is_metadata_host(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    match host.parse() {
        Ok(IpAddr::V4(address)) if address.is_link_local() => return true,
        Ok(IpAddr::V6(address)) if V6.contains(&address) => return true,
        _ if host.eq_ignore_ascii_case("metadata.google.internal") => return true,
        _ => {}
    }
    let named = NAMED_BY.iter().filter_map(|name| std::env::var(name).ok());
    named.into_iter().any(|named| host_of(&named).eq_ignore_ascii_case(host))
}

/// Returns the host of a URL or of a `host:port` pair.
fn host_of(named: &str) -> &str {
    let authority = named.split_once("://").map_or(named, |(_, rest)| rest);
    let authority = authority.split(['/', '?']).next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_requests_to_metadata_services_bypass_the_proxy() {
        for host in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "metadata.google.internal",
            "Metadata.Google.Internal",
            "[fd00:ec2::254]",
            "fd00:ec2::23",
        ] {
            assert!(is_metadata_host(host), "{host}");
        }
        for host in ["s3.amazonaws.com", "10.0.0.1", "storage.googleapis.com", "::1", ""] {
            assert!(!is_metadata_host(host), "{host}");
        }
    }

    #[test]
    fn the_host_is_read_from_a_url_or_a_host_with_a_port() {
        for named in ["h", "h:80", "http://h", "http://h:80/a?b", "h/path"] {
            assert_eq!(host_of(named), "h", "{named}");
        }
        assert_eq!(host_of("http://[fd00:ec2::254]:80/"), "fd00:ec2::254");
    }
}
