//! The effects that a bucket's versioning and lifecycle rules have on elections and groups under a
//! prefix.

use tenure::store::{
    BucketSettings, LifecycleRule, S3Store, StoreError, StoreErrorKind, Versioning,
};

use super::advice::{Advice, Setting};

/// Maximum length of an epoch's or a session's record in bytes.
const MOST_BYTES: i64 = 64 * 1024;
/// Maximum length of an assignment in bytes.
const MOST_OF_ASSIGNMENTS: i64 = 4 * 1024 * 1024;
/// Minimum length of an epoch's record in bytes: the length of `{"expired":false}`.
const LEAST_BYTES: i64 = 17;

/// Returns the settings of the bucket, and warnings about them with remedies.
pub async fn look(store: &S3Store, prefix: &str) -> (Vec<Setting>, Vec<Advice>) {
    check(&store.bucket_settings().await, prefix)
}

fn check(settings: &BucketSettings, prefix: &str) -> (Vec<Setting>, Vec<Advice>) {
    // The keys of epochs, including `lock.json`, begin with the first text. The keys of assignments
    // begin with the second text, and the keys of sessions with the third.
    let keys = ["lock", "assignment-", "members/"].map(|key| format!("{prefix}{key}"));
    let (mut lines, mut advice) = (Vec::new(), Vec::new());
    let rules = settings.lifecycle.as_ref().map(|rules| {
        rules.iter().filter(|rule| touched(rule, &keys).next().is_some()).collect::<Vec<_>>()
    });
    let expires_noncurrent =
        rules.as_ref().is_ok_and(|rules| rules.iter().any(|rule| rule.expires_noncurrent));
    lines.push(Setting {
        name: "versioning",
        value: match &settings.versioning {
            Ok(Versioning::Off) => "off".to_owned(),
            Ok(Versioning::On) if expires_noncurrent => "on, and old versions expire".to_owned(),
            Ok(Versioning::On) => {
                advice.push(keeps_every_renewal(rules.is_ok()));
                "on".to_owned()
            }
            Ok(Versioning::Suspended) => "suspended; new writes leave no version".to_owned(),
            Err(error) => not_seen(error),
        },
    });
    lines.push(Setting {
        name: "lifecycle",
        value: match &rules {
            Ok(rules) => {
                advice.extend(rules.iter().flat_map(|rule| against(rule, &keys)));
                describe(rules, prefix)
            }
            Err(error) => not_seen(error),
        },
    });
    (lines, advice)
}

/// Returns the elements of `keys` that the rule affects. A rule for objects with tags affects no
/// key, because elections and groups write no tags.
fn touched<'a>(
    rule: &LifecycleRule,
    keys: &'a [String],
) -> impl Iterator<Item = &'a str> + use<'a> {
    let LifecycleRule { prefix, tagged, larger_than, smaller_than, .. } = rule.clone();
    keys.iter().map(String::as_str).filter(move |key| {
        let most = if key.ends_with("assignment-") { MOST_OF_ASSIGNMENTS } else { MOST_BYTES };
        let by_key = key.starts_with(&prefix) || prefix.starts_with(key);
        let by_size = larger_than.is_none_or(|bytes| bytes < most)
            && smaller_than.is_none_or(|bytes| bytes > LEAST_BYTES);
        by_key && by_size && !tagged
    })
}

fn describe(rules: &[&LifecycleRule], prefix: &str) -> String {
    let described: Vec<_> =
        rules.iter().map(|rule| format!("{} {}", named(rule), does(rule))).collect();
    if described.is_empty() {
        return format!("no rule is for {prefix}lock…, {prefix}assignment-… or {prefix}members/…");
    }
    described.join("; ")
}

fn named(rule: &LifecycleRule) -> String {
    match (rule.id.as_str(), rule.prefix.as_str()) {
        ("", "") => "the rule for all keys".to_owned(),
        ("", prefix) => format!("the rule for {prefix}…"),
        (id, _) => format!("the rule {id:?}"),
    }
}

fn does(rule: &LifecycleRule) -> String {
    let effects = [
        (rule.expires_current, "deletes current versions"),
        (rule.archives, "archives current versions"),
        (rule.expires_noncurrent, "deletes old versions"),
    ];
    let effects: Vec<_> =
        effects.into_iter().filter(|(does, _)| *does).map(|(_, effect)| effect).collect();
    if effects.is_empty() { "does no harm".to_owned() } else { effects.join(" and ") }
}

fn against(rule: &LifecycleRule, keys: &[String]) -> Vec<Advice> {
    let mut advice = Vec::new();
    let name = named(rule);
    let all: Vec<_> = touched(rule, keys).map(|key| format!("{key}…")).collect();
    let (elects, keys) = (all.iter().any(|key| key.ends_with("lock…")), all.join(", "));
    if rule.expires_current {
        advice.push(Advice::new(
            "lifecycle",
            match elects {
                true => format!(
                    "{name} would delete the newest epoch of an idle election: no process would \
                     be elected, or tokens would start again"
                ),
                false => format!(
                    "{name} would delete the newest assignment of an idle group, or its \
                     sessions: no partition would be assigned, or tokens would start again"
                ),
            },
            format!("exclude {keys} from the rule, and delete old objects with `tenure compact`"),
        ));
    }
    if rule.archives {
        advice.push(Advice::new(
            "lifecycle",
            match elects {
                true => format!(
                    "{name} would move the newest epoch to an archive, where it cannot be read"
                ),
                false => format!(
                    "{name} would move assignments or sessions to an archive, where they cannot \
                     be read"
                ),
            },
            format!("exclude {keys} from the rule"),
        ));
    }
    advice
}

fn keeps_every_renewal(rules_seen: bool) -> Advice {
    let what = match rules_seen {
        true => "no rule expires old versions: each renewal leaves one, 8,640 per leader and day",
        false => {
            "each renewal leaves a version, 8,640 per leader and day, unless a lifecycle rule \
             expires old versions; the probe has no permission to read the rules"
        }
    };
    let todo = "add a lifecycle rule for the prefix with NoncurrentVersionExpiration of 1 day and \
                ExpiredObjectDeleteMarker";
    Advice::new("versioning", what, todo)
}

fn not_seen(error: &StoreError) -> String {
    match error.kind() {
        StoreErrorKind::AccessDenied => {
            "access denied (s3:GetBucketVersioning, s3:GetLifecycleConfiguration)".to_owned()
        }
        StoreErrorKind::Transient => format!("unknown: {error}"),
        _ => "not reported by the store".to_owned(),
    }
}

#[cfg(test)]
mod tests;
