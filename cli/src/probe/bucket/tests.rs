use super::*;

fn rule(prefix: &str) -> LifecycleRule {
    LifecycleRule { prefix: prefix.to_owned(), expires_current: true, ..Default::default() }
}

fn checked(versioning: Versioning, rules: &[LifecycleRule]) -> (Vec<String>, Vec<Advice>) {
    let settings = BucketSettings { versioning: Ok(versioning), lifecycle: Ok(rules.to_vec()) };
    let (lines, advice) = check(&settings, "app/");
    (lines.into_iter().map(|line| line.value).collect(), advice)
}

fn warned(rule: LifecycleRule) -> usize {
    checked(Versioning::Off, &[rule]).1.len()
}

#[test]
fn a_rule_that_deletes_current_epochs_causes_a_warning() {
    let everything = LifecycleRule { id: "30 days".to_owned(), ..rule("") };
    let (lines, advice) = checked(Versioning::Off, &[everything]);
    assert_eq!(lines, ["off", "the rule \"30 days\" deletes current versions"]);
    let [advice] = &advice[..] else { panic!("{advice:?}") };
    for word in
        ["30 days", "newest epoch", "no process would be elected", "tokens would start again"]
    {
        assert!(advice.what.contains(word), "{advice:?}");
    }
    assert!(advice.todo.contains("app/lock") && advice.todo.contains("tenure compact"));
    for prefix in
        ["app", "app/", "app/lo", "app/lock-", "app/lock-0000000001.json", "app/lock.json"]
    {
        assert_eq!(warned(rule(prefix)), 1, "{prefix}");
    }
}

/// Before the fix, the probe checked only the keys of elections. It did not warn of a lifecycle
/// rule that deletes the assignments of a group.
#[test]
fn regression_a_rule_that_deletes_assignments_causes_a_warning() {
    for prefix in ["app/a", "app/assignment-", "app/assignment-0000000001.json", "app/members/"] {
        let (_, advice) = checked(Versioning::Off, &[rule(prefix)]);
        let [advice] = &advice[..] else { panic!("{prefix}: {advice:?}") };
        assert!(advice.what.contains("newest assignment of an idle group"), "{advice:?}");
    }
    let large = LifecycleRule { larger_than: Some(64 * 1024), ..rule("") };
    assert!(checked(Versioning::Off, &[large]).1[0].todo.contains("app/assignment-…"));
    let all = &checked(Versioning::Off, &[rule("")]).1[0].todo;
    assert!(all.contains("app/lock…, app/assignment-…, app/members/…"), "{all}");
    let archives = LifecycleRule { archives: true, expires_current: false, ..rule("app/members/") };
    let advice = checked(Versioning::Off, &[archives]).1;
    assert!(advice[0].what.contains("cannot be read"), "{advice:?}");
}

#[test]
fn a_rule_for_other_objects_causes_no_warning() {
    for prefix in ["app/log", "app/data/", "apps/", "b", "app/probe-"] {
        assert_eq!(warned(rule(prefix)), 0, "{prefix}");
    }
    assert_eq!(warned(LifecycleRule { tagged: true, ..rule("") }), 0);
    assert_eq!(warned(LifecycleRule { larger_than: Some(64 * 1024), ..rule("app/lock") }), 0);
    assert_eq!(warned(LifecycleRule { larger_than: Some(4 * 1024 * 1024), ..rule("") }), 0);
    assert_eq!(warned(LifecycleRule { larger_than: Some(128), ..rule("") }), 1);
    assert_eq!(warned(LifecycleRule { smaller_than: Some(17), ..rule("") }), 0);
    assert_eq!(warned(LifecycleRule { smaller_than: Some(1_000), ..rule("") }), 1);
}

#[test]
fn a_rule_that_archives_causes_a_warning() {
    let archives = LifecycleRule { archives: true, expires_current: false, ..rule("app/") };
    let advice = checked(Versioning::Off, &[archives]).1;
    assert!(advice[0].what.contains("cannot be read"), "{advice:?}");
}

#[test]
fn versions_that_never_expire_cause_a_warning() {
    let (lines, advice) = checked(Versioning::On, &[]);
    assert_eq!(lines, ["on", "no rule is for app/lock…, app/assignment-… or app/members/…"]);
    assert!(advice[0].todo.contains("NoncurrentVersionExpiration"), "{advice:?}");
    let old = LifecycleRule { expires_current: false, expires_noncurrent: true, ..rule("app/") };
    let (lines, advice) = checked(Versioning::On, std::slice::from_ref(&old));
    assert_eq!(lines, ["on, and old versions expire", "the rule for app/… deletes old versions"]);
    assert_eq!(advice, []);
    let elsewhere = LifecycleRule { prefix: "logs/".to_owned(), ..old };
    assert_eq!(checked(Versioning::On, &[elsewhere]).1.len(), 1);
    assert_eq!(checked(Versioning::Suspended, &[]).1, []);
}

#[test]
fn denied_access_to_settings_is_no_failure() {
    use tenure::store::Determinacy;
    let error = |kind| StoreError::new(kind, Determinacy::Determinate, "in the store's words");
    let settings = BucketSettings {
        versioning: Err(error(StoreErrorKind::AccessDenied)),
        lifecycle: Err(error(StoreErrorKind::Unsupported)),
    };
    let (lines, advice) = check(&settings, "app/");
    assert!(lines[0].value.starts_with("access denied"), "{lines:?}");
    assert_eq!(lines[1].value, "not reported by the store");
    assert_eq!(advice, []);
}
