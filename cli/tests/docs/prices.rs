//! The costs and the prices that the pages name are those of `tenure cost`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::page::root;

fn report() -> Value {
    let cost = Command::new(env!("CARGO_BIN_EXE_tenure")).args(["cost", "--json"]).output();
    serde_json::from_slice(&cost.expect("it runs").stdout).expect("one JSON object")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn services(report: &Value) -> &Vec<Value> {
    report["costs"].as_array().expect("a list")
}

/// The text of a page, with single spaces.
fn words(page: &str) -> String {
    let text = fs::read_to_string(root().join(page)).expect("the page is there");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_readme_says_what_the_arithmetic_says() {
    let (report, readme) = (report(), words("README.md"));
    let says = |words: &str| assert!(readme.contains(words), "the README does not say {words:?}");
    let dollars = |cost: &Value, role: &str| format!("${:.2}", number(&cost[role]));
    let s3 = &services(&report)[0];
    let (leader, follower) = (dollars(s3, "leader"), dollars(s3, "follower"));
    says(&format!("{leader} a month for the leader and {follower} for each"));
    for cost in services(&report) {
        let name = cost["prices"]["name"].as_str().expect("a name");
        let [leader, follower, all] = ["leader", "follower", "all"].map(|role| dollars(cost, role));
        says(&format!("| {name} | {leader} | {follower} | {all} |"));
    }
    let seconds = number(&report["days"]) * 86_400.0;
    let every = |role: &str, kind: &str| seconds / number(&report["requests"][role][kind]);
    says("a PUT every 10 s, a GET every 30 s");
    assert_eq!((every("leader", "writes"), every("leader", "reads")), (10.0, 30.0));
    says("a GET every 5 s");
    assert_eq!(every("follower", "reads"), 5.0);
}

#[test]
fn the_table_of_stores_has_the_built_in_prices() {
    let report = report();
    let stores = fs::read_to_string(root().join("docs/stores.md")).expect("the page is there");
    let row = |name: &str| {
        let row = stores.lines().find(|line| line.starts_with(&format!("| {name} |")));
        let cells = row.unwrap_or_else(|| panic!("no row {name}")).split('|').skip(2);
        cells.filter(|cell| !cell.trim().is_empty()).map(str::trim).collect::<Vec<_>>()
    };
    let rounded = |kind: &str| {
        let price = |cost: &Value| number(&cost["prices"][kind]);
        let text =
            |price: f64| if price == 0.0 { "free".to_owned() } else { format!("{price:.2}") };
        let round = |cost| text((price(cost) * 100.0).round() / 100.0);
        services(&report).iter().map(round).collect::<Vec<_>>()
    };
    assert_eq!(row("create, renewal, seal"), rounded("write"));
    assert_eq!(row("LIST"), rounded("list"));
    assert_eq!(row("poll, read"), rounded("read"));
    assert_eq!(row("DELETE"), rounded("delete"));
    let dynamo = services(&report).last().expect("the last is DynamoDB");
    let cents = |role: &str| format!("{:.0} cents", number(&dynamo[role]) * 100.0);
    let (leader, follower, page) = (cents("leader"), cents("follower"), words("docs/stores.md"));
    assert!(page.contains(&format!("costs about {leader} a month")), "{leader}");
    assert!(page.contains(&format!("every 5 s about {follower}")), "{follower}");
}
