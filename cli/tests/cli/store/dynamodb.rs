//! Tests the command on DynamoDB, over real HTTP.

#[cfg(not(feature = "dynamodb"))]
#[test]
fn the_error_names_the_missing_feature_dynamodb() {
    let store = ["--store", "dynamodb://locks/app"];
    for line in
        [&["status"][..], &["watch"], &["compact"], &["table", "create"], &["run", "--name", "a"]]
    {
        let mut line = [line, &store].concat();
        if line[0] == "run" {
            line.extend(["--", "echo", "elected"]);
        }
        let words = ["does not support DynamoDB", "--features dynamodb"];
        crate::bench::tenure(&line).fails(64, &words);
    }
}

#[cfg(feature = "dynamodb")]
mod built {
    use serde_json::json;

    use crate::bench::{Said, command, said};
    use tenure_testkit::dynamo_server::*;

    const STORE: [&str; 2] = ["--store", "dynamodb://tenure-test/app/leader"];

    fn on(server: &DynamoServer, line: &[&str]) -> Said {
        let mut command = command(line);
        command.envs(server.env());
        said(command.output().expect("the command runs"))
    }

    fn verb(server: &DynamoServer, verb: &str, options: &[&str]) -> Said {
        on(server, &[&[verb][..], &STORE, options].concat())
    }

    fn create_table(server: &DynamoServer) -> Said {
        on(server, &["table", "create", "--store", "dynamodb://tenure-test"])
    }

    #[test]
    fn every_verb_works_on_dynamodb() {
        let server = DynamoServer::start();
        assert!(verb(&server, "status", &[]).out.contains("vacant"));
        for _ in 0..3 {
            let said = verb(&server, "run", &["--", "echo", "elected"]);
            assert_eq!((said.code, said.out.as_str()), (0, "elected\n"), "{said:?}");
        }
        let said = verb(&server, "status", &["--json"]);
        assert!(said.out.starts_with(r#"{"state":"vacant","epoch":3,"#), "{said:?}");
        let said = verb(&server, "compact", &["--json", "--min-age", "1h", "--keep", "1"]);
        assert!(said.out.starts_with(r#"{"listed":3,"deleted":0,"kept":3,"#), "{said:?}");
        let said = verb(&server, "compact", &["--json", "--min-age", "0s", "--keep", "1"]);
        assert!(said.out.starts_with(r#"{"listed":3,"deleted":2,"kept":1,"#), "{said:?}");
        assert_eq!(
            crate::bench::without_checks(server.keys()),
            ["app/leader/lock-0000000003.json"]
        );
    }

    #[test]
    fn the_endpoint_of_the_url_has_precedence() {
        let server = DynamoServer::start();
        let url = format!("{}?endpoint={}", STORE[1], server.endpoint());
        let mut status = command(&["status", "--store", &url]);
        status.envs(server.env()).env("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1");
        let status = said(status.output().expect("the command runs"));
        assert!(status.code == 0 && status.out.contains("vacant"), "{status:?}");
    }

    /// DynamoDB keeps no date of an item. So each writer records a date in the item. The date
    /// follows the clock of the store, which the writer estimates from the dates of responses.
    #[test]
    fn epochs_that_are_old_by_the_clock_of_the_store_are_compacted() {
        let server = DynamoServer::start();
        for _ in 0..2 {
            assert_eq!(verb(&server, "run", &["--", "true"]).code, 0);
        }
        let mut old = server.item("app", "leader/lock-0000000001.json").expect("the item exists");
        let written = old["written"]["N"].as_str().and_then(|ms| ms.parse::<i64>().ok());
        let before = written.expect("the item has a date") - 3_601_000;
        old["written"] = json!({ "N": before.to_string() });
        server.in_table(|table| table.put_raw(old));
        let said = verb(&server, "compact", &["--json", "--keep", "1"]);
        assert!(said.out.starts_with(r#"{"listed":2,"deleted":1,"kept":1,"#), "{said:?}");
    }

    #[test]
    fn a_table_is_created_once() {
        let server = DynamoServer::start_empty();
        verb(&server, "status", &[])
            .fails(69, &["the table does not exist", "tenure table create"]);
        server.quirks(|quirks| quirks.slow_tables = 1);
        let said = create_table(&server);
        assert_eq!((said.code, said.out.as_str()), (0, "the table tenure-test was created\n"));
        let said = create_table(&server);
        assert!(said.code == 0 && said.out.contains("exists already"), "{said:?}");
        assert_eq!(server.count("CreateTable"), 1);
        assert_eq!(verb(&server, "run", &["--", "true"]).code, 0);
    }

    #[test]
    fn a_table_with_other_keys_exits_with_64_and_names_the_right_keys() {
        let server = DynamoServer::start_empty();
        server.create_table(TABLE, &[("LockID", "HASH", "S")]);
        let words = ["LockID", "partition key `prefix`", "sort key `name`"];
        create_table(&server).fails(64, &words);
        for (name, options) in
            [("status", &[][..]), ("watch", &[]), ("compact", &[]), ("run", &["--", "true"])]
        {
            verb(&server, name, options).fails(64, &words);
        }
        assert_eq!(server.count("PutItem"), 0);
    }

    #[test]
    fn a_url_without_a_prefix_or_a_table_is_refused_with_64() {
        let server = DynamoServer::start();
        for url in ["dynamodb://tenure-test", "dynamodb://tenure-test/"] {
            on(&server, &["status", "--store", url]).fails(64, &["dynamodb://tenure-test/PREFIX"]);
        }
        let elsewhere = on(&server, &["table", "create", "--store", "s3://bucket/app"]);
        elsewhere.fails(64, &["s3://bucket/app has no table", "dynamodb://TABLE"]);
    }

    #[test]
    fn denied_access_exits_with_77_and_names_the_permission() {
        let server = DynamoServer::start();
        server.fault(ServerFault::Answer(400, "AccessDeniedException"), "Query");
        verb(&server, "status", &[]).fails(77, &["dynamodb:Query"]);
        server.clear_faults();
        server.fault(ServerFault::Answer(400, "AccessDeniedException"), "PutItem");
        verb(&server, "run", &["--", "true"]).fails(77, &["dynamodb:PutItem"]);
        server.clear_faults();
        for _ in 0..2 {
            assert_eq!(verb(&server, "run", &["--", "true"]).code, 0);
        }
        server.fault(ServerFault::Answer(400, "AccessDeniedException"), "BatchWriteItem");
        let said = verb(&server, "compact", &["--min-age", "0s", "--keep", "1"]);
        assert!(!said.err.contains("DeleteObject"), "{said:?}");
        said.fails(77, &["dynamodb:BatchWriteItem"]);
    }
}
