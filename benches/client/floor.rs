//! The floor: a reader that sends the same requests, reads the same bytes and only counts events.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::cpu_time;
use super::server::{END, Plan, Server};

/// Bytes of a read that stay in front of the next: what is looked for may be cut by it.
const KEPT: usize = END.len() - 1;

/// CPU time that counting all events takes.
pub(crate) fn run(server: &Server, plan: Plan) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = cpu_time();
    let events = LocalSet::new().block_on(&runtime, count(server.port, plan));
    let cpu = cpu_time() - before;
    // Role, finish and [DONE] are events too.
    assert_eq!(events, plan.requests * (plan.events + 3));
    cpu
}

async fn count(port: u16, plan: Plan) -> usize {
    let left = Rc::new(Cell::new(plan.requests));
    let streams: Vec<_> =
        (0..plan.streams).map(|_| tokio::task::spawn_local(stream(port, Rc::clone(&left)))).collect();
    let mut events = 0;
    for stream in streams {
        events += stream.await.unwrap();
    }
    events
}

async fn stream(port: u16, left: Rc<Cell<usize>>) -> usize {
    let body = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{}\"}}]}}", "x".repeat(1000));
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let (mut buffer, mut events) = (vec![0; KEPT + 64 * 1024], 0);
    while left.get() > 0 {
        left.set(left.get() - 1);
        socket.write_all(request.as_bytes()).await.unwrap();
        buffer[..KEPT].fill(0);
        loop {
            let end = KEPT + socket.read(&mut buffer[KEPT..]).await.unwrap();
            assert!(end > KEPT, "the server closed");
            events += memmem::find_iter(&buffer[KEPT - 1..end], b"\n\n").count();
            if buffer[..end].ends_with(END) {
                break;
            }
            buffer.copy_within(end - KEPT..end, 0);
        }
    }
    events
}
