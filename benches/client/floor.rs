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
    let (mut buffer, mut events) = (vec![0; 64 * 1024], 0);
    while left.get() > 0 {
        left.set(left.get() - 1);
        socket.write_all(request.as_bytes()).await.unwrap();
        loop {
            let read = socket.read(&mut buffer).await.unwrap();
            assert!(read > 0);
            // Events are never split over a newline pair's end here: the pair stands before the chunk's own end.
            events += memmem::find_iter(&buffer[..read], b"\n\n").count();
            if buffer[..read].ends_with(END) {
                break;
            }
        }
    }
    events
}
