//! `tenure cost`: its output, and the price lists that it refuses.

use crate::bench::{Bench, tenure};

fn cost(options: &[&str]) -> serde_json::Value {
    let said = tenure(&[&["cost", "--json"][..], options].concat());
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    serde_json::from_str(&said.out).expect("the output is one JSON object")
}

/// Returns the text with one space between the columns of each line.
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
        "writes 259,110 0 0 60 0 259,170",
        "lists 0 0 0 60 1,440 1,500",
        "reads 86,370 518,400 518,400 150 30 2,160,150",
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
        (&129_510.0.into(), &10_000.into())
    );
    let single = cost(&["--layout", "single-object"]);
    assert_eq!(single["requests"]["leader"]["reads"], 0.0);
    assert!(single["requests"]["compactor"].is_null(), "{single}");
    assert_eq!(single["layout"], "single-object");
    let alone = tenure(&["cost", "--candidates", "1", "--layout", "single-object"]).out;
    assert!(!alone.contains("follower") && !alone.contains("compactor"), "{alone}");
    tenure(&["cost", "--poll", "31s"]).fails(64, &["31s", "30s"]);
    // Without `--poll`, the poll interval is a sixth of the validity. It may be shorter than 5 s,
    // the interval for the default validity.
    let quick = cost(&["--validity", "3s"]);
    assert_eq!(quick["poll_ms"], 500);
    assert_eq!(tenure(&["cost", "--candidates", "0"]).code, 64);
    assert_eq!(tenure(&["cost", "--elections-per-day", "NaN"]).code, 64);
}

#[test]
fn a_group_has_its_own_roles() {
    let said = tenure(&["cost", "--partitions", "1000", "--members", "10", "--observers", "2"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let out = squeezed(&said.out);
    for line in [
        "coordinator deputy member observer changes compactor all\n",
        "processes 1 3 6 2\n",
        "writes 259,200 259,200 259,200 0 ",
        "lists 604,800 4,320 4,320 4,320 ",
        "reads 1,296,000 1,032,480 773,280 1,378,080 ",
    ] {
        assert!(out.contains(line), "{line:?} is not in {out}");
    }
    // These sums are so large that they show a change in the last digit of the price of a write or
    // a LIST.
    let out = squeezed(&tenure(&["cost", "--partitions", "1", "--members", "100000"]).out);
    for line in [
        "S3 Standard, USD 3717.10 1.73 1.63 85.80 0.37 166493.15",
        "S3 Express, USD 318.18 0.33 0.32 17.76 0.08 32433.33",
        "Cloud Storage, USD 3717.10 1.73 1.63 85.80 0.37 166493.15",
        "Azure Blob, USD 4088.81 1.90 1.79 94.38 0.40 183142.47",
        "DynamoDB, USD 1086.71 0.29 0.26 6.75 0.01 27013.30",
    ] {
        assert!(out.contains(line), "{line:?} is not in {out}");
    }
    let group = ["--partitions", "64", "--members", "4"];
    let report = cost(&group);
    assert_eq!((&report["partitions"], &report["members"]), (&64.into(), &4.into()));
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
        &["--stores", "3", "--layout", "single-object"],
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
    // The example of a price list in the help is itself a valid price list.
    let help = tenure(&["cost", "--help"]).out;
    let start = help.find("[{\"name\"").expect("an example");
    let end = start + help[start..].find(']').expect("the block ends") + 1;
    std::fs::write(&file, &help[start..end]).expect("a file");
    let costs = cost(&["--prices", name])["costs"].clone();
    assert_eq!((costs[0]["prices"]["name"].as_str(), costs[1].is_null()), (Some("ours"), true));
    for (text, error) in [
        (&*help[start..end].replace("list", "lists"), "unknown field `lists`, expected one of"),
        (r#"[{"name":"x"}]"#, "missing field `write`"),
        ("", "EOF"),
        ("[]", "the file needs at least one price list"),
        (&help[start..end].replace("\"write\": ", "\"write\": -"), "no price may be negative"),
    ] {
        std::fs::write(&file, text).expect("a file");
        tenure(&["cost", "--prices", name]).fails(64, &[name, error]);
    }
    tenure(&["cost", "--prices", "/no/such/file"]).fails(64, &["/no/such/file", "No such file"]);
}
