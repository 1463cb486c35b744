//! The machine on which a run is taken, as far as the system says it without special rights.

use std::fs;

use serde::{Deserialize, Serialize};

/// The environment captured at the start of a run. What the system does not say is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Version of aforo.
    pub aforo: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Distribution, as `/etc/os-release` names it.
    pub system: Option<String>,
    /// Processor model of the first core.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: Option<usize>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Clock that the kernel takes time from.
    pub clock_source: Option<String>,
    /// Open files that this process may have, after aforo raised the limit.
    pub open_files: Option<u64>,
    /// Whether the connection is an SSH session.
    pub over_ssh: bool,
    /// Terminal multiplexer around it, which lets a run outlive its connection.
    pub multiplexer: Option<String>,
}

impl Machine {
    /// Looks at this machine.
    pub fn look() -> Self {
        let uname = rustix::system::uname();
        let multiplexer = [("TMUX", "tmux"), ("STY", "screen")]
            .into_iter()
            .find_map(|(variable, name)| std::env::var_os(variable).map(|_| name.to_owned()));
        Self {
            aforo: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            system: field("/etc/os-release", "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_owned()),
            cpu: field("/proc/cpuinfo", "model name", ':'),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            memory_bytes: field("/proc/meminfo", "MemTotal", ':').as_deref().and_then(kibibytes),
            clock_source: fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .ok()
                .map(|name| name.trim().to_owned()),
            open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            over_ssh: std::env::var_os("SSH_CONNECTION").is_some(),
            multiplexer,
        }
    }
}

fn field(path: &str, name: &str, separator: char) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn kibibytes(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
