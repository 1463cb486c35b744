//! Time from starting the program to its first request, and its memory at 64 streams.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::server::{Pace, Plan, Server, answer};
use super::whole::write_protocol;

const STARTS: usize = 11;

fn aforo(protocol: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aforo"));
    command
        .args(["run", "--headless", "--auto", "--runs"])
        .arg(protocol.with_file_name("runs"))
        .arg(protocol);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub(crate) fn report() {
    let mut starts: Vec<f64> = (0..STARTS).map(|_| first_request().as_secs_f64() * 1e3).collect();
    starts.sort_by(f64::total_cmp);
    println!("## Start-up and memory\n\n| figure | min | median | max |\n|---|---|---|---|");
    println!(
        "| start of the program to its first completion request, 300 documents, ms | {:.1} | {:.1} | {:.1} |",
        starts[0],
        starts[STARTS / 2],
        starts[STARTS - 1]
    );
    let mut peaks: Vec<f64> = (0..3).map(|_| peak_memory() as f64 / 1024.0).collect();
    peaks.sort_by(f64::total_cmp);
    println!(
        "| peak resident memory, 64 streams, 300 documents, MiB | {:.1} | {:.1} | {:.1} |",
        peaks[0], peaks[1], peaks[2]
    );
}

/// From the start of the process to the moment its first POST is read.
fn first_request() -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let path = write_protocol(&folder, &url, "bench", 300, 1, "x");
    let begun = Instant::now();
    let mut child = aforo(&path).spawn().unwrap();
    let after = loop {
        let (socket, _) = listener.accept().unwrap();
        if let Some(at) = first_post(&socket) {
            break at - begun;
        }
    };
    stop(&mut child);
    after
}

/// The time when a completion request came on this connection. A page is answered with 404 and the connection closed,
/// so that the client opens another for the next.
fn first_post(socket: &TcpStream) -> Option<Instant> {
    let mut lines = BufReader::new(socket).lines();
    let first = lines.next()?.ok()?;
    if first.starts_with("POST /v1/") {
        return Some(Instant::now());
    }
    lines.find(|line| line.as_ref().is_ok_and(String::is_empty));
    let mut answer = socket;
    // A client that is gone wants no page.
    let _ = answer.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    None
}

/// Highest resident memory of a whole run at 64 streams, in KiB, as the system counts it.
fn peak_memory() -> u64 {
    let plan = Plan { pace: Pace::Paced, streams: 64, requests: 300, events: 100 };
    let server = Server::start(plan);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    let path = write_protocol(&folder, &url, "bench", plan.requests, plan.streams, &answer(plan.events));
    let mut child = aforo(&path).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|v| v.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(peak).max(peak);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(peak > 0);
    peak
}

fn stop(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
