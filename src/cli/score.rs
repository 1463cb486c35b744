//! `aforo score`: the same rule on outputs that exist already.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::ScoreArgs;
use super::exit::{CliError, Exit};
use super::print::print;
use super::protocol_file::{read_protocol, show_cautions};
use crate::protocol::FailureReason;
use crate::protocol::corpus::Document;
use crate::quality::{self, Judgement, Output, Verdict};
use crate::run::batch;
use crate::run::folder::{FolderError, write_atomically};
use crate::run::outputs::{self, ReadOutput};
use crate::terminal::safe::{json_safe, safe};

pub(super) fn execute(args: &ScoreArgs) -> Result<Exit, CliError> {
    let frozen = read_protocol(&args.protocol, &[])?;
    show_cautions(&args.protocol, &frozen);
    let protocol = &frozen.protocol;
    let corpus = protocol.load_corpus().map_err(|error| CliError::WrongUse(error.to_string()))?;
    let outputs = outputs::read(&args.outputs).map_err(|error| CliError::WrongUse(error.to_string()))?;
    let by_id: HashMap<_, _> =
        corpus.documents.iter().map(|document| (document.id.as_str(), document)).collect();
    let judge = |output: &ReadOutput, document: &Document| {
        if let Some(failure) = &output.failure {
            return Judgement::failed(failure.reason, &failure.text);
        }
        let raw = Output { text: &output.text, truncated: output.truncated() };
        quality::judge(&protocol.quality, &document.reference, &raw)
    };
    let mut score = Score::default();
    for output in &outputs {
        match by_id.get(output.document.as_str()) {
            Some(document) => score.take(output, judge(output, document)),
            None => score.strangers += 1,
        }
    }
    if let Some(path) = &args.to_batch {
        let lines = outputs.iter().fold(String::new(), |mut lines, output| {
            lines.push_str(&batch::line(output, protocol.engine.model()).to_string());
            lines.push('\n');
            lines
        });
        write_to(path, lines.as_bytes()).map_err(CliError::failed)?;
    }
    let expected = corpus.documents.len();
    let met = score.accepted as f64 / expected as f64 >= protocol.quality.threshold.share();
    let shown = if args.json {
        score.json(expected, met)
    } else {
        score.text(expected, met, protocol.quality.threshold.share())
    };
    print(&shown)?;
    Ok(if met { Exit::Done } else { Exit::QualityNotMet })
}

/// A file is replaced as a whole; a pipe or a device is written to, never replaced.
fn write_to(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let is_file_or_new = path.metadata().map_or(true, |found| found.is_file());
    if is_file_or_new {
        return write_atomically(path, bytes);
    }
    let written = OpenOptions::new().write(true).open(path).and_then(|mut target| target.write_all(bytes));
    written.map_err(|source| FolderError { path: path.to_owned(), source })
}

/// What an outputs file says. Of several outputs of a document the first counts; the others are duplicates.
#[derive(Debug, Default)]
struct Score {
    seen: HashSet<String>,
    judged: Vec<(String, Judgement)>,
    accepted: usize,
    repaired: usize,
    failed: HashMap<FailureReason, usize>,
    duplicates: usize,
    strangers: usize,
}

impl Score {
    fn take(&mut self, output: &ReadOutput, judgement: Judgement) {
        if !self.seen.insert(output.document.clone()) {
            self.duplicates += 1;
            return;
        }
        match &judgement.verdict {
            Verdict::Accepted => self.accepted += 1,
            Verdict::Failed { reason, .. } => *self.failed.entry(*reason).or_default() += 1,
        }
        self.repaired += usize::from(!judgement.repairs.is_empty());
        self.judged.push((output.document.clone(), judgement));
    }

    fn json(&self, expected: usize, met: bool) -> String {
        let failed: serde_json::Map<String, Value> =
            FailureReason::ALL.iter().map(|r| (r.word().to_owned(), self.failed_with(*r).into())).collect();
        let verdicts: Vec<_> = self
            .judged
            .iter()
            .map(|(document, judgement)| json!({ "document": document, "judgement": judgement }))
            .collect();
        let score = json!({
            "expected": expected,
            "with_output": self.judged.len(),
            "accepted": self.accepted,
            "quality_met": met,
            "repaired": self.repaired,
            "failed": failed,
            "duplicates": self.duplicates,
            "strangers": self.strangers,
            "verdicts": verdicts,
        });
        json_safe(&format!("{score:#}\n"))
    }

    fn text(&self, expected: usize, met: bool, threshold: f64) -> String {
        let mut text = format!(
            "accepted {} of {expected} ({:.1} %), threshold {:.1} %: {}\n",
            self.accepted,
            self.accepted as f64 / expected as f64 * 100.0,
            threshold * 100.0,
            if met { "met" } else { "not met" },
        );
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "outputs of {} documents · {} missing · {} duplicates · {} of documents not in the corpus · {} repaired",
            self.judged.len(),
            expected - self.judged.len(),
            self.duplicates,
            self.strangers,
            self.repaired,
        );
        for reason in FailureReason::ALL.into_iter().filter(|reason| self.failed_with(*reason) > 0) {
            let _ = writeln!(text, "  {reason} {}", self.failed_with(reason));
        }
        safe(&text)
    }

    fn failed_with(&self, reason: FailureReason) -> usize {
        self.failed.get(&reason).copied().unwrap_or_default()
    }
}
