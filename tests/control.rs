//! Viewers come, stay, misbehave and leave; the runner, played by the tests, goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::net::UnixListener as Fake;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aforo::engine::Stamp;
use aforo::measure::LiveCounts;
use aforo::run::control::wire::{Answered, Outcome};
use aforo::run::control::{ConnectError, Events, Listener, Live, Message, Server, Sources, Viewer};
use aforo::run::decision::{Choice, Decision};
use aforo::run::desk::{Answer, Desk, Order};
use aforo::run::event::{Event, Line};
use aforo::run::folder::RunFolder;
use aforo::run::recorder::Committed;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Longest time that anything may take before it counts as hanging.
const HANGS: Duration = Duration::from_secs(60);

/// What a viewer hears of a line at this place.
fn line(seq: u64) -> Line {
    let text = format!("{seq} {}", "é".repeat(usize::try_from(seq * 37 % 600).unwrap()));
    Line {
        seq,
        at: jiff::Timestamp::UNIX_EPOCH,
        clock: Stamp::from_nanos(seq),
        event: Event::Caution { text },
    }
}

/// Stands in for the recorder.
struct Recorder {
    journal: File,
    committed: watch::Sender<Committed>,
}

impl Recorder {
    /// Appends that many lines and says so.
    fn append(&mut self, lines: u64) {
        let Committed { mut bytes, next_seq } = *self.committed.borrow();
        let mut text = Vec::new();
        for seq in next_seq..next_seq + lines {
            serde_json::to_writer(&mut text, &line(seq)).unwrap();
            text.push(b'\n');
        }
        self.journal.write_all(&text).unwrap();
        bytes += text.len() as u64;
        self.committed.send_replace(Committed { bytes, next_seq: next_seq + lines });
    }
}

/// Stands in for the runner.
struct Runner {
    _temp: TempDir,
    folder: PathBuf,
    recorder: Recorder,
    trouble: watch::Sender<Option<String>>,
    counts: Arc<Mutex<Option<LiveCounts>>>,
    orders: mpsc::Receiver<Order>,
    server: Server,
}

impl Runner {
    /// With this many lines in its journal.
    fn start(lines: u64) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("run");
        fs::create_dir(&path).unwrap();
        let folder = RunFolder::open(&path);
        let journal = File::create(folder.journal()).unwrap();
        let (committed, readable) = watch::channel(Committed { bytes: 0, next_seq: 0 });
        let (trouble, troubles) = watch::channel(None);
        let (desk, orders) = Desk::new();
        let counts = Arc::new(Mutex::new(None));
        let mut recorder = Recorder { journal, committed };
        recorder.append(lines);
        let shown = Arc::clone(&counts);
        let sources = Sources {
            journal: folder.journal(),
            committed: readable,
            trouble: troubles,
            live: Arc::new(move || *shown.lock().unwrap()),
            desk,
            run: "run".to_owned(),
        };
        let server = Server::start(Listener::bind(&folder).unwrap(), sources).unwrap();
        Self { _temp: temp, folder: path, recorder, trouble, counts, orders, server }
    }

    fn socket(&self) -> PathBuf {
        let runner: Value =
            serde_json::from_slice(&fs::read(self.folder.join("runner.json")).unwrap()).unwrap();
        PathBuf::from(runner["socket"].as_str().unwrap())
    }

    async fn viewer(&self) -> Viewer {
        Viewer::connect(&self.folder).await.unwrap()
    }

    async fn events(&self, from: u64) -> Events {
        self.viewer().await.follow(from).await.unwrap().0
    }

    async fn raw(&self) -> Raw {
        let mut raw = Raw::connect(self).await;
        let hello = raw.value().await;
        assert_eq!(hello["hello"]["run"], "run", "{hello}");
        raw
    }

    fn show(&self, sent: u64) {
        *self.counts.lock().unwrap() =
            Some(LiveCounts { in_flight: 1, in_flight_peak: 1, sent, ended: sent - 1 });
    }
}

/// A connection that says what it likes.
struct Raw {
    lines: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

impl Raw {
    async fn connect(runner: &Runner) -> Self {
        let (read, write) = UnixStream::connect(runner.socket()).await.unwrap().into_split();
        Self { lines: BufReader::new(read), write }
    }

    async fn say(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next line; empty at the end.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(HANGS, self.lines.read_line(&mut line)).await.expect("a line in time");
        // An end with unread requests is a reset.
        read.map_or_else(|_| String::new(), |_| line)
    }

    async fn value(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    async fn answer(&mut self) -> Answered {
        serde_json::from_value(self.value().await["answer"].take()).unwrap()
    }

    async fn refusal(&mut self) -> (Option<u64>, String) {
        match self.answer().await {
            Answered { id, outcome: Outcome::Refused { why } } => (id, why),
            accepted @ Answered { .. } => panic!("{accepted:?}"),
        }
    }
}

async fn next(events: &mut Events) -> Option<Message> {
    timeout(HANGS, events.next()).await.expect("a message in time").transpose().unwrap()
}

/// Takes the lines of these places, none missing, none twice, and what came between them.
async fn take(events: &mut Events, from: u64, until: u64) -> Vec<Live> {
    let mut lives = Vec::new();
    let mut seq = from;
    while seq < until {
        match next(events).await.expect("more lines") {
            Message::Line(found) => {
                assert_eq!(*found, line(seq));
                seq += 1;
            }
            Message::Live(live) => lives.push(live),
        }
    }
    lives
}

async fn live(events: &mut Events) -> Live {
    match next(events).await {
        Some(Message::Live(live)) => live,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_comes_once_and_in_order_from_any_place_while_the_journal_grows() {
    let mut runner = Runner::start(500);
    assert_eq!(runner.viewer().await.hello().next_seq, 500);
    let mut viewers = tokio::task::JoinSet::new();
    for from in [0, 1, 250, 499, 500, 501, 3000, 5499] {
        let mut events = runner.events(from).await;
        viewers.spawn(async move { take(&mut events, from, 5500).await });
    }
    let runner = tokio::task::spawn_blocking(move || {
        let mut left = 5000;
        for batch in (1..).map(|step: u64| step * 7 % 90 + 1) {
            let batch = batch.min(left);
            runner.recorder.append(batch);
            left -= batch;
            if left == 0 {
                break;
            }
        }
        runner
    })
    .await
    .unwrap();
    assert_eq!(viewers.join_all().await.len(), 8);
    runner.server.finish().await;
}

#[tokio::test]
async fn a_viewer_that_does_not_read_loses_live_lines_and_nothing_else() {
    let mut runner = Runner::start(1);
    let (mut first, mut second, mut asleep) =
        (runner.events(0).await, runner.events(0).await, runner.events(0).await);
    // Far more than the socket holds. Nothing here waits for a viewer.
    for _ in 0..40 {
        runner.recorder.append(100);
    }
    runner.show(1);
    let mut lives = take(&mut first, 0, 4001).await;
    lives.extend(take(&mut second, 0, 4001).await);
    for sent in 2..10 {
        runner.show(sent);
        while live(&mut first).await.counts.unwrap().sent != sent {}
    }
    assert!(lives.iter().all(|live| live.dropped <= 1), "{lives:?}");
    take(&mut asleep, 0, 4001).await;
    runner.show(10);
    let told = live(&mut asleep).await;
    assert!(told.dropped > 0, "{told:?}");
}

#[tokio::test]
async fn trouble_is_told_although_the_journal_stands_still_and_nothing_is_told_twice() {
    let runner = Runner::start(3);
    let mut events = runner.events(0).await;
    take(&mut events, 0, 3).await;
    runner.show(1);
    assert_eq!(live(&mut events).await.counts.unwrap().sent, 1);
    runner.trouble.send_replace(Some("the disk is full".to_owned()));
    let told = live(&mut events).await;
    assert_eq!((told.trouble.as_deref(), told.dropped), (Some("the disk is full"), 0));
    runner.trouble.send_replace(None);
    assert_eq!(live(&mut events).await.trouble, None);
    // Who comes now is told what goes on.
    let mut late = runner.events(3).await;
    assert_eq!(live(&mut late).await.counts.unwrap().sent, 1);
}

#[tokio::test]
async fn decisions_are_answered_by_id_while_events_stream() {
    let mut runner = Runner::start(2000);
    let mut raw = runner.raw().await;
    raw.say("{\"id\":1,\"follow\":{\"from\":0}}\n").await;
    assert_eq!(raw.answer().await, Answered::accepted(1));
    raw.say(concat!(
        r#"{"id":7,"decide":{"choice":"next","reason":"é","gate":12}}"#,
        "\n",
        r#"{"id":8,"decide":{"choice":{"set":{"parameter":"concurrency","value":4}}}}"#,
        "\n"
    ))
    .await;
    // The later one is answered first.
    let orders = &mut runner.orders;
    let desk = async {
        let mut orders = [orders.recv().await.unwrap(), orders.recv().await.unwrap()];
        orders.sort_by_key(|order| order.decision.choice != Choice::Next);
        let [next, set] = orders;
        assert_eq!(next.decision, Decision { choice: Choice::Next, reason: "é".to_owned(), gate: Some(12) });
        assert!(matches!(set.decision.choice, Choice::Set { value: 4, .. }));
        set.answer.send(Answer::Refused { why: "no".to_owned() }).unwrap();
        next.answer.send(Answer::Accepted).unwrap();
    };
    let hear = async {
        let (mut seq, mut answers) = (0, Vec::new());
        while seq < 2000 || answers.len() < 2 {
            let mut value = raw.value().await;
            if value.get("answer").is_some() {
                answers.push(serde_json::from_value::<Answered>(value["answer"].take()).unwrap());
            } else {
                assert_eq!(value, serde_json::to_value(line(seq)).unwrap());
                seq += 1;
            }
        }
        answers.sort_by_key(|answered| answered.id);
        answers
    };
    let ((), answers) = tokio::join!(desk, hear);
    assert_eq!(answers, [Answered::accepted(7), Answered::refused(Some(8), "no")]);
}

#[tokio::test]
async fn a_decision_is_answered_although_nobody_reads_the_events() {
    let mut runner = Runner::start(4000);
    let (mut events, remote) = runner.viewer().await.follow(0).await.unwrap();
    let orders = &mut runner.orders;
    let desk = async {
        let order = orders.recv().await.unwrap();
        assert_eq!(order.decision, Decision::new(Choice::Pause, "lunch"));
        order.answer.send(Answer::Accepted).unwrap();
    };
    let other = remote.clone();
    let (answer, ()) = tokio::join!(other.decide(Decision::new(Choice::Pause, "lunch")), desk);
    assert_eq!(answer, Answer::Accepted);
    take(&mut events, 0, 4000).await;
    // The runner takes no more decisions.
    let over = Answer::Refused { why: "the run is over".to_owned() };
    runner.orders.close();
    assert_eq!(remote.decide(Decision::new(Choice::Next, "")).await, over);
    runner.server.finish().await;
    assert_eq!(remote.decide(Decision::new(Choice::Next, "")).await, over);
    assert_eq!(next(&mut events).await, None);
}

#[tokio::test]
async fn nothing_is_lost_when_waiting_is_given_up() {
    let mut runner = Runner::start(0);
    let mut events = runner.events(0).await;
    let mut seq = 0;
    while seq < 300 {
        if runner.recorder.committed.borrow().next_seq < 300 {
            runner.recorder.append(1);
        }
        tokio::select! {
            biased;
            message = events.next() => {
                assert_eq!(message.unwrap().unwrap(), Message::Line(Box::new(line(seq))));
                seq += 1;
            }
            () = tokio::task::yield_now() => {}
        }
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_the_talk_goes_on() {
    let runner = Runner::start(3);
    let mut raw = runner.raw().await;
    for (text, id, word) in [
        ("\n", None, "not JSON"),
        ("GET / HTTP/1.1\r\n", None, "not JSON"),
        ("[[[\n", None, "not JSON"),
        ("{\"id\":1,\"quit\":{}}\n", Some(1), "unknown variant `quit`"),
        ("{\"id\":2,\"decide\":{\"choice\":\"dance\"}}\n", Some(2), "unknown variant `dance`"),
        ("{\"id\":3}\n", Some(3), "allowed: {\"id\":1,\"decide\""),
        ("{\"follow\":{\"from\":0}}\n", None, "needs an \"id\""),
        ("{\"id\":4,\"follow\":{\"from\":-1}}\n", Some(4), "-1"),
    ] {
        raw.say(text).await;
        let (found, why) = raw.refusal().await;
        assert_eq!(found, id, "{text}");
        assert!(why.contains(word), "{text}: {why}");
    }
    raw.write.write_all(b"\xff\xfe\0\x1b[2J\n").await.unwrap();
    assert!(raw.refusal().await.1.contains("not JSON"));
    let deep = format!("{}\n", "[".repeat(60_000));
    raw.say(&deep).await;
    assert!(raw.refusal().await.1.contains("not JSON"));
    raw.say("{\"id\":5,\"follow\":{\"from\":2}}\n{\"id\":6,\"follow\":{\"from\":0}}\n").await;
    assert_eq!(raw.answer().await, Answered::accepted(5));
    let (mut lines, mut refused) = (0, 0);
    for _ in 0..2 {
        match raw.value().await {
            value if value["seq"] == json!(2) => lines += 1,
            value => {
                assert_eq!(value["answer"]["id"], 6);
                assert!(value["answer"]["why"].as_str().unwrap().contains("follows already"));
                refused += 1;
            }
        }
    }
    assert_eq!((lines, refused), (1, 1));
}

#[tokio::test]
async fn a_request_without_end_is_refused_and_the_connection_closed() {
    let runner = Runner::start(1);
    for rest in ["", "\n", "\n{\"id\":1,\"follow\":{\"from\":0}}\n"] {
        let mut raw = runner.raw().await;
        let text = format!("{}{rest}", " ".repeat(65 * 1024));
        // The server may hang up before it has read everything.
        let _ = raw.write.write_all(text.as_bytes()).await;
        assert!(raw.refusal().await.1.contains("at most 65536 bytes"));
        assert_eq!(raw.line().await, "");
    }
    // As long as it may be.
    let mut raw = runner.raw().await;
    let start = "{\"id\":1,\"follow\":{\"from\":0}}";
    raw.say(&format!("{}{start}\n", " ".repeat(64 * 1024 - start.len()))).await;
    assert_eq!(raw.answer().await, Answered::accepted(1));
}

#[tokio::test]
async fn viewers_may_leave_at_any_moment() {
    let mut runner = Runner::start(2000);
    let talk =
        "{\"id\":1,\"follow\":{\"from\":0}}\n{\"id\":2,\"decide\":{\"choice\":\"next\"}}\nnonsense\n{\"id\"";
    for length in 0..=talk.len() {
        let mut raw = Raw::connect(&runner).await;
        if length % 2 == 0 {
            raw.line().await;
        }
        // Enough connections can be open that one is turned away.
        let _ = raw.write.write_all(&talk.as_bytes()[..length]).await;
        if length % 3 == 0 && talk[..length].contains('\n') {
            raw.line().await;
        }
    }
    for _ in 0..40 {
        drop(UnixStream::connect(runner.socket()).await.unwrap());
    }
    // What they decided may be known to the runner; nobody waits for it.
    while let Ok(order) = runner.orders.try_recv() {
        let _ = order.answer.send(Answer::Accepted);
    }
    runner.orders.close();
    let mut events = until_there_is_room(&runner).await;
    take(&mut events, 0, 2000).await;
}

/// Comes again until those who left are noticed.
async fn until_there_is_room(runner: &Runner) -> Events {
    timeout(HANGS, async {
        loop {
            let refused = match Viewer::connect(&runner.folder).await {
                Ok(viewer) => match viewer.follow(0).await {
                    Ok((events, _)) => return events,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            assert!(matches!(refused, ConnectError::Refused { .. }), "{refused:?}");
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("room in time")
}

#[tokio::test]
async fn thirty_two_may_follow_and_a_further_one_is_told_so() {
    let runner = Runner::start(5);
    let (mut following, mut refused) = (Vec::new(), 0);
    for _ in 0..40 {
        match runner.viewer().await.follow(0).await {
            Ok((events, _)) => following.push(events),
            Err(ConnectError::Refused { why }) => {
                assert_eq!(why, "32 viewers follow this run already: close one");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((following.len(), refused), (32, 8));
    following.pop();
    let mut late = until_there_is_room(&runner).await;
    for events in following.iter_mut().chain([&mut late]) {
        take(events, 0, 5).await;
    }
}

#[tokio::test]
async fn a_connection_too_many_gets_one_line() {
    let runner = Runner::start(1);
    let mut open = Vec::new();
    for _ in 0..48 {
        open.push(runner.raw().await);
    }
    let mut raw = Raw::connect(&runner).await;
    assert_eq!(raw.refusal().await, (None, "48 connections are open already: close a viewer".to_owned()));
    assert_eq!(raw.line().await, "");
    let error = Viewer::connect(&runner.folder).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    drop(open);
    until_there_is_room(&runner).await;
}

/// Whether somebody can be reached by what `runner.json` says.
fn listens(run_folder: &Path) -> bool {
    fs::read(run_folder.join("runner.json")).is_ok_and(|json| {
        let runner: Value = serde_json::from_slice(&json).unwrap();
        std::os::unix::net::UnixStream::connect(runner["socket"].as_str().unwrap()).is_ok()
    })
}

#[tokio::test]
async fn a_run_folder_may_have_a_long_path() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a".repeat(150)).join("b".repeat(150));
    fs::create_dir_all(&path).unwrap();
    let _listener = Listener::bind(&RunFolder::open(&path)).unwrap();
    assert!(listens(&path));
}

#[tokio::test]
async fn what_a_killed_runner_left_is_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let folder = RunFolder::open(temp.path());
    assert!(!listens(temp.path()));
    let listener = Listener::bind(&folder).unwrap();
    let json = fs::read(temp.path().join("runner.json")).unwrap();
    let runner: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(runner["pid"], std::process::id());
    drop(listener);
    assert!(!temp.path().join("runner.json").exists());
    // A file that nobody listens to, as after kill -9.
    drop(Fake::bind(runner["socket"].as_str().unwrap()).unwrap());
    fs::write(temp.path().join("runner.json"), json).unwrap();
    assert!(!listens(temp.path()));
    assert!(matches!(Viewer::connect(temp.path()).await.unwrap_err(), ConnectError::NotRunning));
    let _listener = Listener::bind(&folder).unwrap();
    assert!(listens(temp.path()));
}

#[tokio::test]
async fn at_the_end_everything_is_sent_and_the_files_are_gone() {
    let mut runner = Runner::start(10);
    let socket = runner.socket();
    let mut reader = runner.events(0).await;
    let _stuck = runner.events(0).await;
    assert!(listens(&runner.folder));
    runner.recorder.append(5000);
    let read = tokio::spawn(async move {
        take(&mut reader, 0, 5010).await;
        next(&mut reader).await
    });
    // One does not read: it is not waited for without end.
    timeout(HANGS, runner.server.finish()).await.expect("an end");
    assert_eq!(read.await.unwrap(), None);
    assert!(!socket.exists() && !runner.folder.join("runner.json").exists());
    assert!(!listens(&runner.folder));
    assert!(matches!(Viewer::connect(&runner.folder).await.unwrap_err(), ConnectError::NotRunning));
}

#[tokio::test]
async fn a_server_that_is_dropped_leaves_nothing() {
    let runner = Runner::start(1);
    let (socket, mut events) = (runner.socket(), runner.events(0).await);
    take(&mut events, 0, 1).await;
    drop(runner.server);
    assert_eq!(next(&mut events).await, None);
    assert!(!socket.exists() && !runner.folder.join("runner.json").exists());
}

#[tokio::test]
async fn without_a_recorder_the_viewers_stay() {
    let runner = Runner::start(3);
    let mut events = runner.events(0).await;
    take(&mut events, 0, 3).await;
    drop(runner.recorder);
    runner.trouble.send_replace(Some("it ended".to_owned()));
    assert_eq!(live(&mut events).await.trouble.as_deref(), Some("it ended"));
}

/// A server that says one line to each who comes.
fn fake(lines: Vec<String>) -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("s");
    let runner = json!({ "pid": 1, "socket": socket });
    fs::write(temp.path().join("runner.json"), runner.to_string()).unwrap();
    let listener = Fake::bind(socket).unwrap();
    std::thread::spawn(move || {
        for line in lines {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(line.as_bytes()).unwrap();
        }
    });
    temp
}

fn hello(major: u32, pid: u32) -> String {
    let control = json!({ "major": major, "minor": 9 });
    let hello = json!({ "control": control, "aforo": "9", "run": "r", "pid": pid, "next_seq": 0, "more": 1 });
    format!("{}\n", json!({ "hello": hello }))
}

#[tokio::test]
async fn a_runner_of_a_later_version_is_refused() {
    let strange = "{\"hello\":{\"control\":{\"major\":2,\"minor\":0}}}\n".to_owned();
    let temp = fake(vec![hello(2, 1), strange, "{\"later\":1}\n".to_owned(), String::new()]);
    for _ in 0..2 {
        let error = Viewer::connect(temp.path()).await.unwrap_err();
        assert!(matches!(error, ConnectError::Newer { found: 2 }), "{error}");
    }
    let error = Viewer::connect(temp.path()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Garbled(_)), "{error}");
    let error = Viewer::connect(temp.path()).await.unwrap_err();
    assert!(matches!(error, ConnectError::NotRunning), "{error}");
}

#[tokio::test]
async fn a_later_minor_version_is_understood_and_another_runner_gets_no_decision() {
    let follow = "{\"answer\":{\"id\":1,\"outcome\":\"accepted\",\"more\":1}}\n";
    let later = "{\"later\":{}}\n";
    let more = serde_json::to_string(&line(0)).unwrap();
    let temp = fake(vec![format!("{}{follow}{later}{more}\n", hello(1, 1)), hello(1, 2)]);
    let viewer = Viewer::connect(temp.path()).await.unwrap();
    assert_eq!(viewer.hello().control.minor, 9);
    let (mut events, remote) = viewer.follow(0).await.unwrap();
    take(&mut events, 0, 1).await;
    assert_eq!(next(&mut events).await, None);
    let Answer::Refused { why } = remote.decide(Decision::new(Choice::Next, "")).await else {
        panic!("taken by another runner")
    };
    assert!(why.contains("resumed"), "{why}");
}

#[tokio::test]
async fn who_may_not_reach_the_runner_is_told_so() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("runner.json")).unwrap();
    let error = Viewer::connect(temp.path()).await.unwrap_err();
    assert!(matches!(&error, ConnectError::System { .. }), "{error}");
    assert!(error.to_string().contains("runner.json"), "{error}");
}
