//! `tenure cost`: its output, and the price lists that it refuses.

use crate::bench::{Bench, tenure};

fn cost(options: &[&str]) -> serde_json::Value {
    let said = tenure(&[&["cost", "--json"][..], options].concat());
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    serde_json::from_str(&said.out).expect("the output is one JSON object")
}

/// Returns the lines with one space between columns.
fn squeezed(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_role_and_every_service_has_a_line() {
    let said = tenure(&["cost", "--observers", "2"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let out = squeezed(&said.out);
    for line in [
        "a month leader follower observer takeovers compactor all",
        "processes 1 2 2\n",
        "writes 259,200 0 0 180 0 259,380",
        "lists 0 0 0 150 1,440 1,590",
        "reads 86,400 518,400 518,400 210 30 2,160,240",
        "deletes 0 0 0 0 30 30",
        "S3 Standard, USD 1.33 0.21 0.21",
        "https://aws.amazon.com/s3/pricing/",
    ] {
        assert!(out.contains(line), "{line:?} is not in {out}");
    }
}

#[test]
fn settings_change_the_cost() {
    let base = cost(&[]);
    let reads = |report: &serde_json::Value| report["requests"]["all"]["reads"].as_f64();
    assert!(reads(&cost(&["--candidates", "10"])) > reads(&base));
    assert!(reads(&cost(&["--poll", "1s"])) > reads(&base));
    let slow = cost(&["--validity", "60s"]);
    assert_eq!(
        (&slow["requests"]["leader"]["writes"], &slow["poll_ms"]),
        (&129_600.0.into(), &10_000.into())
    );
    let single = cost(&["--layout", "single-object"]);
    assert_eq!(single["requests"]["leader"]["reads"], 0.0);
    assert_eq!(single["requests"]["compactor"]["lists"], 0.0);
    assert_eq!(single["layout"], "single-object");
    let alone = tenure(&["cost", "--candidates", "1", "--layout", "single-object"]).out;
    assert!(!alone.contains("follower") && !alone.contains("compactor"), "{alone}");
    tenure(&["cost", "--poll", "31s"]).fails(64, &["31s", "30s"]);
    // The default poll interval also fits a validity below 5 s.
    let quick = cost(&["--validity", "3s"]);
    assert_eq!(quick["poll_ms"], 500);
    assert_eq!(tenure(&["cost", "--candidates", "0"]).code, 64);
    assert_eq!(tenure(&["cost", "--elections-per-day", "NaN"]).code, 64);
}

#[test]
fn a_thousand_elections_cost_a_thousand_times_as_much() {
    let (one, many) = (cost(&[]), cost(&["--elections", "1000"]));
    assert_eq!((&one["elections"], &many["elections"]), (&1.into(), &1000.into()));
    for role in ["elections", "compactor", "all"] {
        for kind in ["writes", "lists", "reads", "deletes"] {
            let of = |report: &serde_json::Value| report["requests"][role][kind].as_f64().unwrap();
            let (one, many) = (of(&one), of(&many));
            assert!((many - 1000.0 * one).abs() < 1.0, "{role}, {kind}: {many} of {one}");
        }
    }
    // The requests of one leader and the costs of one follower do not depend on the number of
    // elections.
    assert_eq!(one["requests"]["leader"], many["requests"]["leader"]);
    assert_eq!(one["costs"][0]["follower"], many["costs"][0]["follower"]);
    let said = squeezed(&tenure(&["cost", "--elections", "1000", "--observers", "2"]).out);
    for line in [
        "processes 1,000 2,000 2,000\n",
        "writes 259,200 0 0 180,000 0 259,380,000",
        "lists 0 0 0 150,000 1,440,000 1,590,000",
        "deletes 0 0 0 0 30,000 30,000",
    ] {
        assert!(said.contains(line), "{line:?} is not in {said}");
    }
    for wrong in [&["--elections", "0"][..], &["--elections", "100001"]] {
        assert_eq!(tenure(&[&["cost"], wrong].concat()).code, 64, "{wrong:?}");
    }
    assert_eq!(tenure(&["cost", "--elections", "2", "--partitions", "3"]).code, 64);
}

/// The test uses 100,000 elections, because then a change in the last digit of one price changes a
/// sum by more than a dollar.
#[test]
fn built_in_prices_are_multiplied_by_the_requests() {
    let out = squeezed(&tenure(&["cost", "--elections", "100000"]).out);
    for line in [
        "S3 Standard, USD 1.33 0.21 173.40 721.20 175422.60",
        "S3 Express, USD 0.30 0.02 37.92 162.81 32859.93",
        "Cloud Storage, USD 1.33 0.21 173.40 721.20 175422.60",
        "Azure Blob, USD 1.46 0.23 190.74 793.32 192964.86",
        "DynamoDB, USD 0.17 0.06 15.75 20.25 30276.00",
    ] {
        assert!(out.contains(line), "{line:?} is not in {out}");
    }
}

#[test]
fn a_group_is_compared_with_an_election_for_each_partition() {
    let said = tenure(&["cost", "--partitions", "1000", "--members", "10", "--observers", "2"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let out = squeezed(&said.out);
    for line in [
        "coordinator deputy member observer changes compactor all leaders followers",
        "processes 1 3 6 2\n",
        "writes 259,200 259,200 259,200 0 ",
        "lists 604,800 4,320 4,320 4,320 ",
        "reads 1,296,000 1,032,480 773,280 1,378,080 ",
        " 86,400,000 4,665,600,000\n",
        "S3 Standard, USD 4.84 ",
        " 0.01 0.01 20.96 1330.56 1866.24\n",
        "https://aws.amazon.com/s3/pricing/",
    ] {
        assert!(out.contains(line), "{line:?} is not in {out}");
    }
    let group = ["--partitions", "64", "--members", "4"];
    let report = cost(&group);
    assert_eq!((&report["partitions"], &report["members"]), (&64.into(), &4.into()));
    assert_eq!(report["requests"]["leaders"]["writes"], 64.0 * 259_200.0);
    let s3 = &report["costs"][0];
    assert!(s3["all"].as_f64() < s3["leaders"].as_f64(), "{report}");
    let slow = cost(&[&group[..], &["--validity", "60s", "--elections-per-day", "0"]].concat());
    assert_eq!(slow["requests"]["member"]["writes"], 129_600.0);
    assert_eq!(slow["requests"]["changes"]["writes"], 0.0);
    let alone = tenure(&["cost", "--partitions", "1", "--members", "1"]).out;
    assert!(!alone.contains("deputy") && !alone.contains("member"), "{alone}");
    for wrong in [
        &["--members", "4"][..],
        &["--partitions", "0"],
        &["--partitions", "4", "--candidates", "4"],
        &["--partitions", "4", "--layout", "single-object"],
        &["--partitions", "4", "--poll", "31s"],
        &["--partitions", "4", "--validity", "2h"],
    ] {
        let said = tenure(&[&["cost"], wrong].concat());
        assert_eq!((said.code, said.out.as_str()), (64, ""), "{said:?}");
    }
}

#[test]
fn prices_come_from_a_file() {
    let bench = Bench::new();
    let file = bench.path("prices.json");
    let name = file.to_str().expect("UTF-8");
    // The example in the help is a valid price list.
    let help = tenure(&["cost", "--help"]).out;
    let start = help.find("{\"name\"").expect("an example");
    let end = start + help[start..].find('}').expect("the block ends") + 1;
    std::fs::write(&file, &help[start..end]).expect("a file");
    let costs = cost(&["--prices", name])["costs"].clone();
    assert_eq!((costs[0]["prices"]["name"].as_str(), costs[1].is_null()), (Some("ours"), true));
    let list =
        |write: &str| format!(r#"{{"name":"x","write":{write},"list":2,"read":0,"delete":0}}"#);
    std::fs::write(&file, format!("[{0},{0}]", list("1"))).expect("a file");
    assert_eq!(cost(&["--prices", name])["costs"].as_array().map(Vec::len), Some(2));
    for (text, error) in [
        (list("1,\"lists\":2"), "unknown field `lists`, expected one of `name`, `write`, `list`"),
        (list("-2"), "write of \"x\" must be at least 0, got -2"),
        (list("\"1\""), "invalid type: string"),
        (r#"{"name":"x"}"#.to_owned(), "missing field `write`"),
        ("[]".to_owned(), "no price list"),
        (String::new(), "EOF"),
    ] {
        std::fs::write(&file, text).expect("a file");
        tenure(&["cost", "--prices", name]).fails(64, &[name, error]);
    }
    tenure(&["cost", "--prices", "/no/such/file"]).fails(64, &["/no/such/file", "No such file"]);
}
