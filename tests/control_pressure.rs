//! What viewers can make the runner hold or do: never more than a bounded amount, however they behave.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aforo::measure::LiveCounts;
use aforo::run::cause::GateCause;
use aforo::run::control::{Events, Listener, Message, Server, Sources, Viewer};
use aforo::run::decision::{self, Choice, Decision};
use aforo::run::desk::{Answer, Desk, Order};
use aforo::run::event::Event;
use aforo::run::folder::RunFolder;
use aforo::run::recorder::Committed;
use aforo::run::state::State;
use serde_json::{Value, json};
use support::records::line;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Longest time that anything may take before it counts as hanging.
const HANGS: Duration = Duration::from_secs(60);

/// Bytes of a made-up line. All have the same length, so that one can be written over another.
const LENGTH: usize = 1000;

/// More than a socket and the server may hold of a viewer that does not read, by far.
const MANY: usize = 16_000;

fn made_up(seq: usize, word: &str) -> Vec<u8> {
    let bytes = |filler: usize| {
        let text = format!("{word}{}", "-".repeat(filler));
        serde_json::to_vec(&line(seq, Event::Caution { text })).unwrap()
    };
    let mut line = bytes(LENGTH - 1 - bytes(0).len());
    line.push(b'\n');
    assert_eq!(line.len(), LENGTH);
    line
}

/// A journal, and a server that knows nothing else.
struct Runner {
    _temp: TempDir,
    folder: PathBuf,
    journal: File,
    committed: watch::Sender<Committed>,
    _trouble: watch::Sender<Option<String>>,
    /// What is shown as sent; 0 shows nothing.
    sent: Arc<AtomicU64>,
    orders: Option<mpsc::Receiver<Order>>,
    server: Server,
}

impl Runner {
    fn start(lines: usize) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let folder = RunFolder::open(temp.path());
        let journal = File::create(folder.journal()).unwrap();
        let (committed, readable) = watch::channel(Committed { bytes: 0, next_seq: 0 });
        let (trouble, troubles) = watch::channel(None);
        let (desk, orders) = Desk::new();
        let sent = Arc::new(AtomicU64::new(0));
        let shown = Arc::clone(&sent);
        let sources = Sources {
            journal: folder.journal(),
            committed: readable,
            trouble: troubles,
            live: Arc::new(move || {
                let sent = shown.load(Relaxed);
                (sent > 0).then_some(LiveCounts { in_flight: 0, in_flight_peak: 1, sent, ended: sent })
            }),
            desk,
            run: "run".to_owned(),
        };
        let server = Server::start(Listener::bind(&folder).unwrap(), sources).unwrap();
        let mut runner = Self {
            folder: temp.path().to_owned(),
            _temp: temp,
            journal,
            committed,
            _trouble: trouble,
            sent,
            orders: Some(orders),
            server,
        };
        runner.append(lines);
        runner
    }

    fn append(&mut self, lines: usize) {
        let Committed { bytes, next_seq } = *self.committed.borrow();
        let first = usize::try_from(next_seq).unwrap();
        let text: Vec<u8> = (first..first + lines).flat_map(|seq| made_up(seq, "old")).collect();
        self.journal.write_all(&text).unwrap();
        let now = Committed { bytes: bytes + text.len() as u64, next_seq: (first + lines) as u64 };
        self.committed.send_replace(now);
    }

    async fn raw(&self) -> Raw {
        let runner: Value =
            serde_json::from_slice(&fs::read(self.folder.join("runner.json")).unwrap()).unwrap();
        let (read, write) =
            UnixStream::connect(runner["socket"].as_str().unwrap()).await.unwrap().into_split();
        let mut raw = Raw { lines: BufReader::new(read), write };
        assert_eq!(raw.next().await["hello"]["run"], "run");
        raw
    }
}

/// A connection without a client's manners.
struct Raw {
    lines: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

impl Raw {
    async fn say(&mut self, value: &Value) {
        self.write.write_all(format!("{value}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        timeout(HANGS, self.lines.read_line(&mut line)).await.expect("a line in time").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Reads on until the journal's line of this place, and gives all of the journal that came.
    async fn until(&mut self, last: usize) -> Vec<Value> {
        let mut lines = Vec::new();
        loop {
            let value = self.next().await;
            let is_last = value["seq"] == json!(last);
            if value.get("seq").is_some() {
                lines.push(value);
            }
            if is_last {
                return lines;
            }
        }
    }
}

async fn message(events: &mut Events) -> Message {
    timeout(HANGS, events.next()).await.expect("a message in time").expect("the server is there").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_that_does_not_read_is_kept_waiting_in_the_journal_and_not_in_memory() {
    let mut runner = Runner::start(1);
    let mut deaf = runner.raw().await;
    deaf.say(&json!({ "id": 1, "follow": { "from": 0 } })).await;
    deaf.until(0).await;
    let reading = Viewer::connect(&runner.folder).await.unwrap();
    let (mut reading, _) = reading.follow(0).await.unwrap();
    runner.append(MANY);
    // One that reads is not held up by one that does not, and hears of now when it has all.
    let mut next = 0;
    let mut shown = 0;
    while next <= MANY as u64 || shown < 5 {
        match message(&mut reading).await {
            Message::Line(line) => {
                assert_eq!(line.seq, next);
                next += 1;
            }
            Message::Live(live) => shown = live.counts.map_or(shown, |counts| counts.sent),
        }
        if next > MANY as u64 {
            runner.sent.store(shown + 1, Relaxed);
        }
    }
    // What the server holds of the journal for the deaf one, it read before this.
    for seq in 0..=MANY {
        runner.journal.write_all_at(&made_up(seq, "new"), (seq * LENGTH) as u64).unwrap();
    }
    let lines = deaf.until(MANY).await;
    assert!(lines.iter().enumerate().all(|(at, line)| line["seq"] == json!(at + 1)), "once and in order");
    let held = lines.iter().filter(|line| line["text"].as_str().unwrap().starts_with("old")).count() * LENGTH;
    assert!(held > 0 && held < 1 << 20, "{held} bytes of {} were read ahead", MANY * LENGTH);
    // It learns how much of now it has missed.
    runner.sent.store(1_000_000, Relaxed);
    loop {
        let said = deaf.next().await;
        if said["live"]["counts"]["sent"] == json!(1_000_000) {
            assert!(said["live"]["dropped"].as_u64().unwrap() > 0, "{said}");
            break;
        }
    }
    timeout(HANGS, runner.server.finish()).await.expect("an end");
}

#[tokio::test]
async fn an_answer_does_not_wait_for_a_viewer_to_catch_up() {
    let mut runner = Runner::start(MANY);
    let mut raw = runner.raw().await;
    raw.say(&json!({ "id": 1, "follow": { "from": 0 } })).await;
    raw.say(&json!({ "id": 7, "decide": { "choice": "stop" } })).await;
    let mut orders = runner.orders.take().unwrap();
    let order = timeout(HANGS, orders.recv()).await.expect("an order in time").unwrap();
    order.answer.send(Answer::Accepted).unwrap();
    let mut before = 0;
    loop {
        let said = raw.next().await;
        if said["answer"]["id"] == json!(7) {
            break;
        }
        before += usize::from(said.get("seq").is_some());
    }
    assert!(before < MANY / 4, "{before} lines of {MANY} came first");
    raw.until(MANY - 1).await;
}

#[tokio::test]
async fn who_asks_and_does_not_listen_is_not_listened_to() {
    let runner = Runner::start(3);
    let mut rude = runner.raw().await;
    let question = format!("{:>1000}", "nonsense\n").into_bytes();
    // Taken until the answers that nobody reads fill the way back.
    let mut taken = 0;
    while timeout(Duration::from_secs(1), rude.write.write_all(&question)).await.is_ok() {
        taken += question.len();
        assert!(taken < 64 << 20, "questions are taken without end");
    }
    let (mut events, _) = Viewer::connect(&runner.folder).await.unwrap().follow(2).await.unwrap();
    assert!(matches!(message(&mut events).await, Message::Line(line) if line.seq == 2));
    drop(rude);
    timeout(HANGS, runner.server.finish()).await.expect("an end");
}

#[tokio::test]
async fn of_two_viewers_that_decide_the_same_gate_one_is_refused() {
    let mut runner = Runner::start(1);
    let started = line(0, Event::RunStarted(Box::new(support::records::started(1, 2))));
    let opened = line(1, Event::GateOpened { step: 0, cause: GateCause::StepDone });
    let mut state = State::fold([&started, &opened]);
    let mut orders = runner.orders.take().unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let desk = tokio::spawn({
        let taken = Arc::clone(&taken);
        async move {
            while let Some(Order { decision, answer }) = orders.recv().await {
                let said = match decision::check(&state, &decision) {
                    Err(refusal) => Answer::Refused { why: refusal.to_string() },
                    Ok(step) => {
                        let Decision { choice, reason, .. } = decision.clone();
                        let who = decision::Who::Person;
                        state.apply(&line(2, Event::Decision { step, choice, who, reason }));
                        taken.lock().unwrap().push(decision);
                        Answer::Accepted
                    }
                };
                answer.send(said).unwrap();
            }
        }
    });
    let mut remotes = Vec::new();
    for _ in 0..2 {
        remotes.push(Viewer::connect(&runner.folder).await.unwrap().follow(0).await.unwrap());
    }
    let decide = |at: usize, choice| {
        let (remote, reason) = (remotes[at].1.clone(), format!("viewer {at}"));
        async move { remote.decide(Decision { choice, reason, gate: Some(1) }).await }
    };
    let (one, other) = tokio::join!(decide(0, Choice::Next), decide(1, Choice::Next));
    let accepted = [&one, &other].into_iter().filter(|answer| **answer == Answer::Accepted).count();
    let closed = "that gate is closed: somebody decided before".to_owned();
    assert_eq!(accepted, 1);
    assert!([one, other].contains(&Answer::Refused { why: closed }));
    let taken = taken.lock().unwrap().len();
    assert_eq!(taken, 1);
    runner.server.finish().await;
    drop(remotes);
    desk.abort();
}
