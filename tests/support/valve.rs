//! A server that answers measured requests only when the test lets it.

use std::sync::{Arc, Condvar, Mutex};

use serde_json::json;

use super::stub::{self, Asked, Reply};

/// How many measured requests may be answered, and how many wait.
#[derive(Default)]
struct Counts {
    allowed: usize,
    waiting: usize,
    pages_held: bool,
}

/// Holds what a server answers.
#[derive(Clone, Default)]
pub struct Valve(Arc<(Mutex<Counts>, Condvar)>);

impl Valve {
    /// A server behind this valve: warm-up and probe are answered at once. Other paths are answered by `page`.
    pub fn serve(&self, page: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> String {
        let valve = self.clone();
        stub::start(move |asked| {
            if asked.path != "/v1/chat/completions" {
                valve.wait_for_pages();
                return page(asked);
            }
            if asked.id.as_ref().is_some_and(|id| id.contains("-measurement-")) {
                valve.wait_turn();
            }
            Reply::Answer(stub::right_answer(&asked.user()), "stop")
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        let changed = change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
        changed
    }

    /// Waits until the test lets this request go.
    pub fn wait_turn(&self) {
        self.with(|counts| counts.waiting += 1);
        let counts = self.0.0.lock().unwrap();
        let mut counts = self.0.1.wait_while(counts, |counts| counts.allowed == 0).unwrap();
        counts.allowed -= 1;
        counts.waiting -= 1;
    }

    fn wait_for_pages(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |counts| counts.pages_held).unwrap());
    }

    /// Lets this many more answers go.
    pub fn allow(&self, answers: usize) {
        self.with(|counts| counts.allowed += answers);
    }

    /// Holds or releases every other page.
    pub fn hold_pages(&self, hold: bool) {
        self.with(|counts| counts.pages_held = hold);
    }

    /// Waits until exactly this many requests wait.
    pub fn holds(&self, many: usize) {
        super::until(|| self.with(|counts| counts.waiting == many && counts.allowed == 0));
    }
}

/// The pages of a server that has none but its models.
pub fn models_only(asked: &Asked) -> Reply {
    match asked.path.as_str() {
        "/v1/models" => stub::models("m"),
        _ => Reply::Page(404, json!({})),
    }
}
