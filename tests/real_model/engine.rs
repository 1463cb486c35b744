//! llama.cpp's server as a child process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running engine; stopped when dropped.
pub(crate) struct Engine {
    child: Child,
    pub(crate) url: String,
    pub(crate) model: String,
}

impl Engine {
    /// Starts it on a free port and waits until it says that it is ready. The first start installs it.
    pub(crate) fn start(shared: &Path) -> Self {
        let mut child = Command::new(shared.join("engine/llama-server"))
            .args(["--port", "0", "--parallel", "4", "--ctx", "16384", "--quant", "f16"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("READY"), "the engine did not start: {line}");
        let url = format!("{}/v1", words.next().unwrap());
        let model = words.find_map(|word| word.strip_prefix("model=")).unwrap().to_owned();
        Self { child, url, model }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        // It may have ended by itself; the wait below tells either way.
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        self.child.wait().unwrap();
    }
}
