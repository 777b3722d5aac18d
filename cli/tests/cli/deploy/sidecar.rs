//! Checks the manifests with a sidecar. The tests run the command of the sidecar on a directory,
//! and send the requests of the application.

use std::process::Command;

use saphyr::{LoadableYamlNode as _, Yaml};
use serde_json::Value;

use crate::TENURE;
use crate::serve::client::{Sidecar, member, sidecar};
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;

const STATEFUL_SET: &str = include_str!("../../../../deploy/kubernetes/sidecar-group.yaml");
const DEPLOYMENT: &str = include_str!("../../../../deploy/kubernetes/sidecar.yaml");
const OPENAPI: &str = include_str!("../../../openapi.json");

fn words(list: &Yaml) -> Vec<String> {
    let words = list.as_sequence().expect("a list").iter();
    words.map(|word| word.as_str().expect("a word").to_owned()).collect()
}

/// Returns the options of the manifest, changed for a test. Free ports replace the fixed ports, and
/// `--name` and `--log-format` are removed.
fn options(args: &[String]) -> Vec<String> {
    let places = [("127.0.0.1:4040", "127.0.0.1:0"), ("0.0.0.0:8081", "127.0.0.1:0")];
    let word = |word: &String| {
        let place = places.iter().find(|(there, _)| there == word);
        place.map_or(word.clone(), |(_, here)| (*here).to_owned())
    };
    let mut options: Vec<_> = args.iter().map(word).collect();
    // The test gives the sidecar another name, and reads its log as text.
    for option in ["--name", "--log-format"] {
        let at =
            options.iter().position(|word| word == option).expect("the manifest has this option");
        options.drain(at..at + 2);
    }
    options
}

#[test]
fn the_sidecar_answers_the_requests_of_the_application() {
    let documents = Yaml::load_from_str(DEPLOYMENT).expect("YAML");
    let pod = &documents[1]["spec"]["template"]["spec"];
    let args = words(&pod["initContainers"][0]["args"]);
    assert_eq!(args[..3], ["serve", "--election", "orders=s3://BUCKET/PREFIX"]);
    let script = words(&pod["containers"][0]["args"]).join("\n");
    let options = options(&args[3..]);
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let scene = Scene::new(TENURE);
    let a = sidecar(&scene, "pod", &options);
    let document: Value = serde_json::from_str(OPENAPI).expect("JSON");
    let urls: Vec<_> = script.split("http://127.0.0.1:4040").skip(1).collect();
    assert_eq!(urls.len(), 2, "{script}");
    for rest in urls {
        let path = rest.split([';', ')', '\n']).next().expect("a path").trim();
        let described = path.replace("/orders", "/{name}");
        assert!(document["paths"][&described].is_object(), "{described}");
    }
    assert_eq!(a.json("POST", "/v1/heartbeat", "").0, 200);
    eventually("the candidate leads", || a.get("/v1/elections/orders/token").0 == 200);
    // The shell script of the application extracts the token from this part of the reply.
    let (_, reply) = a.ask("GET", "/v1/elections/orders/token", "");
    assert!(reply.contains(r#""token":1,"#), "{reply}");
}

/// Runs the script of the application, which needs curl. Each run executes one iteration of the
/// script's loop. The group has fewer partitions than in the manifest.
#[test]
fn the_application_of_a_member_works_and_releases_partitions() {
    let documents = Yaml::load_from_str(STATEFUL_SET).expect("YAML");
    let pod = &documents[2]["spec"]["template"]["spec"];
    let args = words(&pod["initContainers"][0]["args"]);
    assert_eq!(args[..3], ["serve", "--group", "orders=s3://BUCKET/PREFIX"]);
    let options = options(&args[3..]);
    let fewer = |word: &String| match &**word {
        "0..64" => "0..6".to_owned(),
        // With `--rebalance-delay 0s`, the first member need not wait for other members.
        "10s" => "0s".to_owned(),
        _ => word.clone(),
    };
    let mut options: Vec<_> = options.iter().map(fewer).collect();
    options.extend(["--poll", "200ms"].map(str::to_owned));
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let scene = Scene::new(TENURE);
    let script = words(&pod["containers"][0]["args"]).join("\n");
    let application = |sidecar: &Sidecar, log: &str| {
        let script = script.replace("127.0.0.1:4040", &sidecar.address);
        let script = script.replace("while true; do", "for once in 1; do").replace("sleep 1\n", "");
        let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
        assert!(output.stderr.is_empty(), "{log}: {output:?}");
        String::from_utf8(output.stdout).expect("text").lines().count()
    };
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: curl is not installed");
        return;
    }
    let a = member(&scene, "a", &options);
    eventually("member a works on all partitions", || application(&a, "a") == 6);
    let b = member(&scene, "b", &options);
    eventually("each member works on half of the partitions", || {
        let (of_a, of_b) = (application(&a, "a"), application(&b, "b"));
        assert!(of_a + of_b <= 6, "{of_a} {of_b}");
        (of_a, of_b) == (3, 3)
    });
}
