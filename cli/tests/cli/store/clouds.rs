//! Tests the command on Cloud Storage and Azure, over real HTTP.

use nix::sys::signal::Signal;

use crate::bench::{Said, command, said, without_checks};
use crate::election::status_watch::Watching;

type Env = [(&'static str, String)];

fn on(env: &Env, url: &str, verb: &str, rest: &[&str]) -> Said {
    let mut command = command(&[&[verb, "--store", url], rest].concat());
    command.envs(env.iter().map(|(name, value)| (name, value)));
    said(command.output().expect("the command runs"))
}

fn every_verb_works(env: &Env, url: &str) {
    assert!(on(env, url, "status", &[]).out.contains("vacant"));
    for _ in 0..3 {
        let said = on(env, url, "run", &["--", "echo", "elected"]);
        assert_eq!((said.code, said.out.as_str()), (0, "elected\n"), "{said:?}");
    }
    let said = on(env, url, "status", &["--json"]);
    assert!(said.out.starts_with(r#"{"state":"vacant","epoch":3,"#), "{said:?}");
    let mut watching = Watching::with(env, url, &[]);
    watching.tells("vacant");
    watching.ends(Signal::SIGTERM);
    let compact = ["--min-age", "0s", "--keep", "1", "--json"];
    let said = on(env, url, "compact", &compact);
    assert!(said.out.starts_with(r#"{"listed":3,"deleted":2,"kept":1,"#), "{said:?}");
}

#[cfg(feature = "gcs")]
mod gcs {
    use super::*;
    use tenure_testkit::command::scene::Scene;
    use tenure_testkit::gcs_server::{GcsServer, TOKEN};

    const URL: &str = "gs://tenure-test/app";

    #[test]
    fn every_verb_works_on_cloud_storage() {
        let server = GcsServer::start();
        every_verb_works(&server.env(), URL);
        assert_eq!(without_checks(server.keys()), ["app/lock-0000000003.json"]);
    }

    #[test]
    fn the_variable_storage_emulator_host_selects_the_server() {
        let server = GcsServer::start();
        let host = server.endpoint().replace("http://", "");
        let mut env = vec![("STORAGE_EMULATOR_HOST", host), ("NO_PROXY", "127.0.0.1".to_owned())];
        on(&env, URL, "status", &[]).fails(77, &["401 AuthenticationRequired"]);
        env.push(("GOOGLE_BEARER_TOKEN", TOKEN.to_owned()));
        assert_eq!(on(&env, URL, "status", &[]).code, 0);
    }

    #[test]
    fn a_missing_bucket_exits_with_69_and_a_missing_key_file_with_77() {
        let server = GcsServer::start();
        on(&server.env(), "gs://another/app", "status", &[]).fails(69, &["NoSuchBucket"]);
        let env = [("GOOGLE_SERVICE_ACCOUNT", "/no/such/file".to_owned())];
        on(&env, URL, "status", &[]).fails(77, &["gs://tenure-test", "/no/such/file"]);
        let env = [("GOOGLE_SERVICE_ACCOUNT_KEY", "no JSON".to_owned())];
        on(&env, URL, "status", &[]).fails(64, &["gs://tenure-test"]);
    }

    /// A platform may mount the key file after the start of a container, and may write it in
    /// pieces. So the command waits until the file is complete.
    #[test]
    fn regression_the_command_waits_for_a_late_key_file() {
        let (scene, server) = (Scene::new(crate::TENURE), GcsServer::start());
        let file = scene.path("key.json");
        std::fs::write(&file, "{\"type\": \"serv").expect("a file");
        let mut command = std::process::Command::new(crate::TENURE);
        command.args(["run", "--store", URL, "--", "echo", "elected"]);
        command.env("GOOGLE_SERVICE_ACCOUNT", &file).env("NO_PROXY", "127.0.0.1");
        scene.surround(&mut command);
        let mut candidate = scene.start("a", command);
        candidate.says("trying again");
        let key = serde_json::json!({
            "type": "service_account", "disable_oauth": true, "gcs_base_url": server.endpoint(),
            "client_email": "", "private_key": "", "private_key_id": "",
        });
        std::fs::write(&file, key.to_string()).expect("a file");
        // The key file selects the server but gives no token, and the server requires a token. So
        // this message shows that the command has read the complete key file.
        candidate.says("401 AuthenticationRequired");
        candidate.signal(Signal::SIGTERM);
        candidate.code();
    }
}

#[cfg(feature = "azure")]
mod azure {
    use super::*;

    #[test]
    fn a_missing_account_name_exits_with_64() {
        on(&[], "az://jobs/app", "status", &[]).fails(64, &["az://jobs", "ccount"]);
    }

    #[test]
    #[ignore = "scripts/servers/azurite.sh -- cargo test --test cli azurite -- --ignored"]
    fn every_verb_works_on_azurite() {
        let var = |name| (name, std::env::var(name).expect("set by scripts/servers/azurite.sh"));
        let names = [
            "AZURE_STORAGE_USE_EMULATOR",
            "AZURITE_BLOB_STORAGE_URL",
            "TENURE_TEST_AZURE_CONTAINER",
        ];
        let mut env = Vec::from(names.map(var));
        env.push(("NO_PROXY", "127.0.0.1".to_owned()));
        let unique = fastrand::u128(..);
        every_verb_works(&env, &format!("az://{}/cli-{unique:032x}", env[2].1));
    }
}
