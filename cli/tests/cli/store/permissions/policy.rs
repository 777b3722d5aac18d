//! Evaluates the part of the IAM policy language that `deploy/iam` uses.

#[cfg(feature = "dynamodb")]
use std::collections::BTreeSet;

use serde_json::Value;

use tenure_testkit::s3_server::{Op, REGION, S3Request};

const ACCOUNT: &str = "123456789012";

#[derive(Debug, Clone)]
pub struct Policy(Vec<Statement>);

#[derive(Debug, Clone)]
struct Statement {
    allow: bool,
    actions: Vec<String>,
    resources: Vec<String>,
    conditions: Vec<Condition>,
}

/// A condition of a statement: its operator, its key and its expected value.
#[derive(Debug, Clone)]
struct Condition {
    operator: Operator,
    key: String,
    value: String,
}

#[derive(Debug, Clone, Copy)]
enum Operator {
    StringEquals,
    StringLike,
    Null,
    Bool,
    ArnNotEquals,
}

/// The sender of a request.
#[derive(Debug, Clone)]
pub struct Who {
    pub arn: String,
}

/// A permission that a request needs: an action on a resource.
struct Needed {
    action: &'static str,
    resource: String,
    /// Value of the condition key `s3:prefix` if the request is a listing.
    prefix: Option<String>,
}

/// Returns whether the policies allow the request. At least one statement must allow the request,
/// and no statement may deny it.
pub fn allows(policies: &[Policy], who: &Who, seen: &S3Request) -> bool {
    needed(seen).into_iter().all(|needed| {
        let statements = policies.iter().flat_map(|policy| &policy.0);
        let mut matching =
            statements.filter(|statement| statement.matches(who, seen, &needed)).peekable();
        matching.peek().is_some() && matching.all(|statement| statement.allow)
    })
}

fn needed(seen: &S3Request) -> Vec<Needed> {
    let name = seen.uri.path().split('/').nth(1).unwrap_or_default();
    let bucket = format!("arn:aws:s3:::{name}");
    let of_bucket = |action, prefix| Needed { action, resource: bucket.clone(), prefix };
    let of_key =
        |action, key: &str| Needed { action, resource: format!("{bucket}/{key}"), prefix: None };
    match seen.op {
        Op::List => vec![of_bucket("s3:ListBucket", Some(seen.key.clone()))],
        Op::Session => {
            let resource = format!("arn:aws:s3express:{REGION}:{ACCOUNT}:bucket/{name}");
            vec![Needed { action: "s3express:CreateSession", resource, prefix: None }]
        }
        Op::Bucket => vec![of_bucket("s3:GetBucketLocation", None)],
        Op::Get | Op::Head => {
            let mut needed = vec![of_key("s3:GetObject", &seen.key)];
            // S3 reports a missing key only to a sender that may list the bucket. A GET has no
            // `s3:prefix`, so a permission to list only one prefix does not apply.
            if !seen.exists {
                needed.push(of_bucket("s3:ListBucket", None));
            }
            needed
        }
        Op::Put => {
            let mut needed = vec![of_key("s3:PutObject", &seen.key)];
            if seen.headers.contains_key("if-match") {
                needed.push(of_key("s3:GetObject", &seen.key));
            }
            needed
        }
        Op::Delete => {
            let keys = seen.deletes.iter();
            keys.map(|key| of_key("s3:DeleteObject", key)).collect()
        }
    }
}

impl Policy {
    /// Parses a policy of `deploy/iam`, with values for its placeholders.
    pub fn parse(text: &str, bucket: &str, prefix: &str) -> Policy {
        let text = text.replace("BUCKET", bucket).replace("PREFIX", prefix);
        let text = text.replace("ACCOUNT", ACCOUNT).replace("REGION", REGION);
        let policy: Value = serde_json::from_str(&text).expect("the text is JSON");
        assert_eq!(policy["Version"], "2012-10-17");
        Policy(array(&policy["Statement"]).map(Statement::parse).collect())
    }

    /// Returns a policy that allows all actions on all resources.
    pub fn everything() -> Policy {
        let star = || vec!["*".to_owned()];
        let conditions = Vec::new();
        Policy(vec![Statement { allow: true, actions: star(), resources: star(), conditions }])
    }

    /// Returns the actions of all statements in this policy.
    #[cfg(feature = "dynamodb")]
    pub fn actions_of(text: &str) -> BTreeSet<String> {
        let policy: Value = serde_json::from_str(text).expect("the text is JSON");
        let actions = array(&policy["Statement"]).flat_map(|statement| array(&statement["Action"]));
        actions.map(self::text).collect()
    }

    /// Removes all actions except `action` from the statements.
    pub fn only(mut self, action: &str) -> Policy {
        for statement in &mut self.0 {
            statement.actions.retain(|its| its == action);
        }
        self
    }

    /// Removes the statements whose resources all end with `end`. Also returns whether a statement
    /// was removed.
    pub fn without(mut self, end: &str) -> (Policy, bool) {
        let all = self.0.len();
        self.0.retain(|statement| !statement.resources.iter().all(|its| its.ends_with(end)));
        let some = self.0.len() < all;
        (self, some)
    }

    /// Returns variants of the policy, each without one action or one resource.
    pub fn with_one_less(&self) -> Vec<(Policy, String)> {
        let mut all = Vec::new();
        for (place, statement) in self.0.iter().enumerate() {
            for (which, action) in statement.actions.iter().enumerate() {
                let mut less = self.clone();
                less.0[place].actions.remove(which);
                all.push((less, action.clone()));
            }
            // Keep the first resource, because a statement without resources allows nothing, like a
            // statement without actions.
            for (which, resource) in statement.resources.iter().enumerate().skip(1) {
                let mut less = self.clone();
                less.0[place].resources.remove(which);
                all.push((less, resource.clone()));
            }
        }
        all
    }
}

impl Statement {
    fn parse(statement: &Value) -> Statement {
        let known = ["Sid", "Effect", "Principal", "Action", "Resource", "Condition"];
        for name in statement.as_object().expect("a statement is an object").keys() {
            assert!(known.contains(&name.as_str()), "unsupported element: {name}");
        }
        let principal = &statement["Principal"];
        assert!(principal.is_null() || principal == "*", "unsupported principal: {principal}");
        let allow = match statement["Effect"].as_str() {
            Some("Allow") => true,
            Some("Deny") => false,
            effect => panic!("unsupported effect: {effect:?}"),
        };
        let conditions = statement["Condition"].as_object().into_iter().flatten();
        let conditions = conditions.flat_map(|(operator, keys)| {
            let operator = match operator.as_str() {
                "StringEquals" => Operator::StringEquals,
                "StringLike" => Operator::StringLike,
                "Null" => Operator::Null,
                "Bool" => Operator::Bool,
                "ArnNotEquals" => Operator::ArnNotEquals,
                _ => panic!("unsupported condition: {operator}"),
            };
            let keys = keys.as_object().expect("a condition is an object");
            keys.iter().map(move |(key, value)| Condition {
                operator,
                key: key.clone(),
                value: text(value),
            })
        });
        Statement {
            allow,
            actions: array(&statement["Action"]).map(text).collect(),
            resources: array(&statement["Resource"]).map(text).collect(),
            conditions: conditions.collect(),
        }
    }

    fn matches(&self, who: &Who, seen: &S3Request, needed: &Needed) -> bool {
        self.actions.iter().any(|pattern| like(pattern, needed.action))
            && self.resources.iter().any(|pattern| like(pattern, &needed.resource))
            && self.conditions.iter().all(|condition| condition.holds(who, seen, needed))
    }
}

impl Condition {
    fn holds(&self, who: &Who, seen: &S3Request, needed: &Needed) -> bool {
        let header = |name| seen.headers.get(name).and_then(|value| value.to_str().ok());
        let query = seen.uri.query().unwrap_or_default();
        let value = match self.key.as_str() {
            "s3:prefix" => needed.prefix.as_deref(),
            "s3:if-none-match" => header("if-none-match"),
            "s3:if-match" => header("if-match"),
            "s3express:SessionMode" => header("x-amz-create-session-mode"),
            // The value is true for the request that creates the object: a simple PUT, or the last
            // request of a multipart upload.
            "s3:ObjectCreationOperation" => {
                let in_between = query.contains("partNumber=") || query.starts_with("uploads");
                Some(if in_between { "false" } else { "true" })
            }
            "aws:PrincipalArn" => Some(who.arn.as_str()),
            key => panic!("unsupported key: {key}"),
        };
        match self.operator {
            Operator::StringLike => value.is_some_and(|value| like(&self.value, value)),
            Operator::Null => value.is_none() == (self.value == "true"),
            Operator::StringEquals | Operator::Bool => value == Some(self.value.as_str()),
            Operator::ArnNotEquals => value != Some(self.value.as_str()),
        }
    }
}

/// Compares a pattern with a text. `*` matches any text.
fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices()
                .map(|(at, _)| at)
                .chain([text.len()])
                .any(|at| like(rest, &text[at..]))
        }),
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    match value {
        Value::Array(values) => values.iter(),
        Value::Null => [].iter(),
        value => std::slice::from_ref(value).iter(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
