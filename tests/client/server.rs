//! A server that does exactly what a test says: what it writes, when, and how it ends a connection.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// A test that waits longer than this for the other side has failed.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Hands each connection to `serve`, on a thread of its own. The connection is closed when it returns.
    pub(crate) fn start(serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        Self::limited(usize::MAX, serve)
    }

    /// The same for that many connections. When the last of them is served, nobody listens any more.
    pub(crate) fn limited(connections: usize, serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (Arc::clone(&accepted), Arc::new(serve));
        let mut listening = (connections > 0).then_some(listener);
        thread::spawn(move || {
            while let Some(listener) = &listening {
                let (stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                let number = count.fetch_add(1, SeqCst);
                if number + 1 == connections {
                    listening = None;
                }
                let serve = Arc::clone(&serve);
                let reader = BufReader::new(stream.try_clone().unwrap());
                thread::spawn(move || serve(&mut Peer { number, stream, reader }));
            }
        });
        Self { address, accepted }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn accepted_count(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.accepted)
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(SeqCst)
    }
}

/// A request as it arrived.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// The server's end of one connection.
pub(crate) struct Peer {
    /// Counted from 0.
    pub(crate) number: usize,
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Peer {
    /// The next request; `None` when the client closed.
    pub(crate) fn request(&mut self) -> Option<Received> {
        let head = self.head()?;
        let mut request = Received { head, body: Vec::new() };
        let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
        request.body.resize(length, 0);
        self.reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    /// The head of the next request; its body stays unread.
    pub(crate) fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        Some(head)
    }

    /// Writes; a client that is gone is no matter.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Each byte in a write of its own.
    pub(crate) fn send_single_bytes(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref() {
            self.send([*byte]);
        }
    }

    /// Waits until the client has read everything from its socket: what is sent next comes in another read.
    pub(crate) fn wait_until_read(&mut self) {
        let place = |address: SocketAddr| match address {
            SocketAddr::V4(v4) => format!("{:08X}:{:04X}", u32::from_ne_bytes(v4.ip().octets()), v4.port()),
            SocketAddr::V6(_) => panic!("the test server is on IPv4"),
        };
        let client = place(self.stream.peer_addr().unwrap());
        let server = place(self.stream.local_addr().unwrap());
        wait_until("the client has read", || {
            let table = fs::read_to_string("/proc/self/net/tcp").unwrap();
            let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let line = lines.find(|fields| fields[1] == client && fields[2] == server);
            line.is_none_or(|fields| fields[4].ends_with(":00000000"))
        });
        // The client's thread may have been stopped between its read and its clock.
        thread::sleep(Duration::from_millis(20));
    }

    /// Closes with RST.
    pub(crate) fn reset(&mut self) {
        set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
        // The reader's descriptor is of the same socket: the last one to be closed sends the RST, when `serve` returns.
    }

    /// Says that nothing more will come, and stays to read.
    pub(crate) fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Stays until the client closes.
    pub(crate) fn hold(&mut self) {
        let mut rest = Vec::new();
        // A reset is an end as well.
        let _ = self.reader.read_to_end(&mut rest);
    }

    /// The socket itself, for another protocol.
    pub(crate) fn stream(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }
}

/// A condition that one thread waits for and another fulfils.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn wait(&self) {
        let open = self.0.0.lock().unwrap();
        let (_open, waited) = self.0.1.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap();
        assert!(!waited.timed_out(), "nobody opened the gate");
    }
}

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
