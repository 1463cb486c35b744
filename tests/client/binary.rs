//! The program itself against the scripted server: what the environment may and may not change.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::server::{Gate, Peer, Received, Server};
use crate::wire::{answer, page};

/// A folder with a protocol and its corpus. Each document's right answer is 4.
pub(crate) struct Site(TempDir);

impl Site {
    /// `more` is added to the protocol's `[engine]`.
    pub(crate) fn new(base_url: &str, documents: usize, more: &str) -> Self {
        Self::with_concurrency(base_url, documents, more, 1)
    }

    pub(crate) fn with_concurrency(base_url: &str, documents: usize, more: &str, concurrency: u32) -> Self {
        let site = Self(TempDir::new().unwrap());
        let lines = |line: &dyn Fn(usize) -> Value| {
            let lines: Vec<String> = (0..documents).map(|index| line(index).to_string()).collect();
            lines.join("\n")
        };
        let texts =
            lines(&|index| serde_json::json!({ "id": format!("d{index}"), "text": format!("{index}") }));
        let expected = lines(&|index| serde_json::json!({ "id": format!("d{index}"), "answer": "4" }));
        let protocol = format!(
            "name = \"scripted\"\n\
             [corpus]\ndocuments = \"documents.jsonl\"\nreferences = \"references.jsonl\"\n\
             [prompt]\nuser = \"{{{{text}}}}\"\n\
             [generation]\nmax_tokens = 4\ntemperature = 0\n\
             [engine]\nkind = \"openai\"\nbase_url = \"{base_url}\"\nmodel = \"m\"\n{more}\n\
             [quality]\nparse = \"text\"\nthreshold = 0.5\nfields.answer.compare = \"text\"\n\
             [measure]\nwarm_up.documents = 0\nrepetitions = 1\ntimeout = \"20s\"\nchunk_timeout = \"20s\"\n\
             max_error_rate = 1\n\
             [baseline]\nconcurrency = {concurrency}\n"
        );
        for (name, text) in
            [("documents.jsonl", texts), ("references.jsonl", expected), ("protocol.toml", protocol)]
        {
            fs::write(site.path().join(name), text).unwrap();
        }
        site
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// `aforo run` on the protocol, in the folder.
    pub(crate) fn aforo(&self) -> assert_cmd::Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aforo"));
        command.args(["run", "protocol.toml", "--auto", "--headless"]);
        self.prepared(command)
    }

    /// The same under `ulimit` with these arguments.
    fn aforo_under_ulimit(&self, limit: &str) -> assert_cmd::Command {
        let mut command = Command::new("sh");
        let program = env!("CARGO_BIN_EXE_aforo");
        let line = format!("ulimit {limit} && exec \"$0\" run protocol.toml --auto --headless");
        command.args(["-c", &line, program]);
        self.prepared(command)
    }

    fn prepared(&self, mut command: Command) -> assert_cmd::Command {
        command.current_dir(self.path());
        let mut command = assert_cmd::Command::from_std(command);
        command.timeout(Duration::from_secs(30));
        command
    }
}

/// The requests of a phase, as the journal of the site's one run has them.
pub(crate) fn journal(site: &Site, phase: &str) -> Vec<Value> {
    let runs: Vec<_> = fs::read_dir(site.path().join("aforo-runs")).unwrap().collect();
    assert_eq!(runs.len(), 1);
    let journal = fs::read_to_string(runs[0].as_ref().unwrap().path().join("journal.jsonl")).unwrap();
    let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let requests = lines.filter_map(|mut line| {
        let request = line.pointer_mut("/request").map(Value::take)?;
        (request["phase"] == phase).then_some(request)
    });
    requests.collect()
}

/// The pages that a run looks at; `None` for a completion.
pub(crate) fn route(request: &Received) -> Option<String> {
    match request.path() {
        "/v1/chat/completions" => None,
        "/v1/models" => {
            let body = r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#;
            Some(page("200 OK", "Content-Type: application/json\r\n", body))
        }
        _ => Some(page("404 Not Found", "", "no such page")),
    }
}

/// A server that answers all pages, and completions as told; false ends the connection.
pub(crate) fn engine(complete: impl Fn(&Received, &mut Peer) -> bool + Send + Sync + 'static) -> Server {
    Server::start(move |peer| {
        while let Some(request) = peer.request() {
            match route(&request) {
                Some(response) => peer.send(response),
                None if complete(&request, peer) => {}
                None => return,
            }
        }
    })
}

fn answering() -> Server {
    engine(|_, peer| {
        peer.send(answer("4"));
        true
    })
}

#[test]
fn loopback_never_goes_through_a_proxy() {
    let server = answering();
    let site = Site::new(&server.base_url(), 5, "");
    let mut run = site.aforo();
    for variable in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        // A port where nobody listens.
        run.env(variable, "http://127.0.0.1:1");
    }
    run.env_remove("NO_PROXY").env_remove("no_proxy").assert().success();
    assert_eq!(journal(&site, "measurement").len(), 5);
}

#[test]
fn f27_a_low_soft_limit_of_open_files_is_raised() {
    let (inside, full) = (Arc::new(AtomicUsize::new(0)), Gate::default());
    let server = engine(move |request, peer| {
        // The probe comes alone.
        if !request.header("x-request-id").unwrap().contains("probe") {
            if inside.fetch_add(1, SeqCst) + 1 == 64 {
                full.open();
            }
            full.wait();
        }
        peer.send(answer("4"));
        true
    });
    let site = Site::with_concurrency(&server.base_url(), 200, "", 64);
    site.aforo_under_ulimit("-Sn 40").assert().success();
    let requests = journal(&site, "measurement");
    assert_eq!(requests.len(), 200);
    assert!(requests.iter().all(|request| request["verdict"] == "accepted"));
}

#[test]
fn f27_a_low_hard_limit_of_open_files_refuses_the_start_with_the_number_needed() {
    let server = answering();
    let site = Site::with_concurrency(&server.base_url(), 200, "", 64);
    let refused = site.aforo_under_ulimit("-n 40").assert().failure();
    let told = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
    for part in ["concurrency 64", "128 open files", "at most 40", "ulimit -Hn 128"] {
        assert!(told.contains(part), "{part:?} is not in {told:?}");
    }
    assert!([1, 2].contains(&refused.get_output().status.code().unwrap()));
    assert_eq!(server.accepted(), 0);
}

#[test]
fn a_probe_that_fails_says_what_came_back() {
    let server = engine(|_, peer| {
        peer.send(crate::wire::error("404 Not Found", "The model `m` does not exist."));
        true
    });
    let site = Site::new(&server.base_url(), 5, "");
    let failed = site.aforo().assert().code(1);
    let told = String::from_utf8(failed.get_output().stderr.clone()).unwrap();
    for part in ["404", "The model `m` does not exist.", "lists the models: m"] {
        assert!(told.contains(part), "{part:?} is not in {told:?}");
    }
}
