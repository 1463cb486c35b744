//! The machine on which a run is taken, as far as the system says it without special rights.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The environment captured at the start of a run. What the system does not say is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Version of aforo.
    pub aforo: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Processor architecture, for example `x86_64`.
    pub architecture: String,
    /// Names this boot: stamps of the monotonic clock are comparable only within one.
    pub boot: Option<String>,
    /// Distribution, as `/etc/os-release` names it.
    pub system: Option<String>,
    /// Processor model of the first core.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: Option<usize>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory that this process may use, in bytes, where its control group (a container) sets a limit.
    pub memory_limit_bytes: Option<u64>,
    /// Container runtime around it, as far as it shows.
    pub container: Option<String>,
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
            architecture: uname.machine().to_string_lossy().into_owned(),
            boot: boot(),
            system: field("/etc/os-release", "PRETTY_NAME", '=')
                .map(|name| name.trim_matches('"').to_owned()),
            cpu: field("/proc/cpuinfo", "model name", ':'),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            memory_bytes: field("/proc/meminfo", "MemTotal", ':').as_deref().and_then(kibibytes),
            memory_limit_bytes: memory_limit(),
            container: container(),
            clock_source: word("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            over_ssh: std::env::var_os("SSH_CONNECTION").is_some(),
            multiplexer,
        }
    }
}

/// Names this boot; `None` when the system does not say.
pub fn boot() -> Option<String> {
    word("/proc/sys/kernel/random/boot_id")
}

/// The limit of the control group, in its second or first version; a limit that says "none" is `None`.
fn memory_limit() -> Option<u64> {
    // The first version writes "none" as the largest number of whole pages.
    const NONE: u64 = 1 << 62;
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .into_iter()
        .find_map(word)?
        .parse()
        .ok()
        .filter(|limit| *limit < NONE)
}

fn container() -> Option<String> {
    if let Some(named) = word("/run/systemd/container") {
        return Some(named);
    }
    [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")]
        .into_iter()
        .find_map(|(mark, name)| Path::new(mark).exists().then(|| name.to_owned()))
}

/// The only line of a small file.
fn word(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
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
