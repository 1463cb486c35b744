//! Reading a protocol file: text, changes, checks, frozen text.

use super::contradictions::{self, placeholders};
use super::keys::MAX_FILE;
use super::overrides::{Override, put};
use super::place::{Lines, Places};
use super::problem::{Finding, Problem, Severity};
use super::tree::Tree;
use super::{Protocol, build, check};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, Error as SyntaxError};
use toml_edit::DocumentMut;

/// Most problems of one file that are told apart.
const MAX_PROBLEMS: usize = 200;

/// A protocol that has passed every check.
#[derive(Debug, Clone)]
pub struct Frozen {
    /// What the file means.
    pub protocol: Protocol,
    /// The text as the run keeps it: overrides applied, paths absolute, the user message in place of its file.
    /// Comments stay. Reading it again, from any folder, gives the same protocol.
    pub source: String,
    /// What the person should know, by place in the file.
    pub cautions: Vec<Problem>,
}

/// Why a protocol file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Mistakes in it: all of them, by place in the file, with the cautions among them.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Problems(Vec<Problem>),
    /// The file cannot be read as text.
    #[error("{}: {fault}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        fault: Unreadable,
    },
}

/// Why a file cannot be read as text.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The system refuses it.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// It holds bytes that are not UTF-8.
    #[error("not UTF-8 at byte {offset}, line {line}")]
    NotUtf8 {
        /// Offset of the first such byte, from 0.
        offset: usize,
        /// Its line, from 1.
        line: usize,
    },
    /// It is larger than a protocol may be.
    #[error("larger than {MAX_FILE} bytes")]
    TooLarge,
}

/// Reads, checks and freezes a protocol file.
pub fn read(path: &Path, overrides: &[Override]) -> Result<Frozen, ReadError> {
    let unreadable = |fault: Unreadable| ReadError::Unreadable { file: path.to_owned(), fault };
    let text = read_text(path).map_err(unreadable)?;
    let absolute = std::path::absolute(path).map_err(|error| unreadable(error.into()))?;
    let folder = absolute.parent().unwrap_or(&absolute);
    read_in(folder, &text, overrides).map_err(ReadError::Problems)
}

/// A text file of bounded size, without its byte-order mark.
fn read_text(path: &Path) -> Result<String, Unreadable> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE {
        return Err(Unreadable::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let line = 1 + memchr::memchr_iter(b'\n', &error.as_bytes()[..offset]).count();
        Unreadable::NotUtf8 { offset, line }
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Checks a text whose paths are relative to an absolute folder.
fn read_in(folder: &Path, text: &str, overrides: &[Override]) -> Result<Frozen, Vec<Problem>> {
    let lines = Lines::of(text);
    let (root, syntax) = DeTable::parse_recoverable(text);
    let places = Places::of(root.get_ref());
    if !syntax.is_empty() {
        return Err(broken(root.get_ref(), &syntax, &places, &lines));
    }

    let mut findings = Vec::new();
    let changed = change(text, overrides, &mut findings);
    let (changed_root, _) = DeTable::parse_recoverable(&changed);
    let (tree, mut found) = check::check(changed_root.get_ref());
    findings.append(&mut found);
    findings.append(&mut contradictions::check(&tree));
    let user = user_message(&tree, folder, &mut findings);
    let source = freeze(&changed, &tree, folder, user.as_deref(), &mut findings);

    let set: Vec<String> = overrides.iter().map(Override::key).collect();
    let refused = findings.iter().any(|finding| finding.severity == Severity::Error);
    let problems =
        sorted(findings.into_iter().map(|finding| places.problem(finding, &lines, &set)).collect());
    match user.and_then(|user| build::protocol(&tree, folder, user)) {
        Some(protocol) if !refused => Ok(Frozen { protocol, source, cautions: problems }),
        _ => Err(problems),
    }
}

/// The problems of a text that is not TOML throughout. What a broken line may have held is not called missing, and
/// tables are not judged: a broken header moves the keys below it.
fn broken(root: &DeTable<'_>, syntax: &[SyntaxError], places: &Places, lines: &Lines<'_>) -> Vec<Problem> {
    let mut problems: Vec<Problem> = syntax
        .iter()
        .map(|error| {
            let (line, column) = lines.position(error.span().map_or(0, |span| span.start));
            Problem {
                severity: Severity::Error,
                line,
                column,
                key: String::new(),
                message: format!("not TOML: {}", error.message()),
                allowed: String::new(),
                nearest: None,
            }
        })
        .collect();
    // What follows on a broken line is a consequence.
    problems.dedup_by_key(|problem| problem.line);
    let broken: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
    let (_, findings) = check::check(root);
    let elsewhere = findings
        .into_iter()
        .filter(|finding| places.holds_value(&finding.key))
        .map(|finding| places.problem(finding, lines, &[]))
        .filter(|problem| !broken.contains(&problem.line));
    problems.extend(elsewhere);
    sorted(problems)
}

fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| (problem.line, problem.column));
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    if more > 0 {
        // Errors first, so that what is left out never turns a refusal into a list of cautions.
        problems.sort_by_key(|problem| problem.severity == Severity::Caution);
        problems.truncate(MAX_PROBLEMS);
        if let Some(last) = problems.last().cloned() {
            let message = format!("{more} more problems are not listed");
            problems.push(Problem {
                key: String::new(),
                message,
                allowed: String::new(),
                nearest: None,
                ..last
            });
        }
    }
    problems
}

/// The text with the overrides applied.
fn change(text: &str, overrides: &[Override], findings: &mut Vec<Finding>) -> String {
    if overrides.is_empty() {
        return text.to_owned();
    }
    let Ok(mut document) = text.parse::<DocumentMut>() else {
        return text.to_owned();
    };
    findings.extend(overrides.iter().filter_map(|change| change.apply(&mut document).err()));
    document.to_string()
}

/// The user message, from the file if the protocol names one.
fn user_message(tree: &Tree, folder: &Path, findings: &mut Vec<Finding>) -> Option<String> {
    const KEY: &str = "prompt.user_file";
    let prompt = tree.table("prompt")?;
    if let Some(user) = prompt.text("user") {
        return Some(user.to_owned());
    }
    match read_text(&folder.join(prompt.text("user_file")?)) {
        Ok(user) => {
            placeholders(KEY, &user, findings);
            Some(user)
        }
        Err(fault) => {
            findings.push(Finding::value(KEY, format!("cannot be read: {fault}"), "a UTF-8 text file"));
            None
        }
    }
}

/// The text that stands for itself in the run's folder.
fn freeze(text: &str, tree: &Tree, folder: &Path, user: Option<&str>, findings: &mut Vec<Finding>) -> String {
    let (Ok(mut document), Some(corpus)) = (text.parse::<DocumentMut>(), tree.table("corpus")) else {
        return text.to_owned();
    };
    for name in ["documents", "references"] {
        let Some(path) = corpus.text(name).map(|path| folder.join(path)) else { continue };
        let key = ["corpus".to_owned(), name.to_owned()];
        let Some(path) = path.to_str() else {
            let message = "is below a folder whose name is not UTF-8";
            findings.push(Finding::value(key.join("."), message, "folders with names in UTF-8"));
            continue;
        };
        if let Err(fault) = put(&mut document, &key, path.into()) {
            findings.push(Finding::value(key.join("."), fault, ""));
        }
    }
    if let (Some(user), Some(prompt)) =
        (user, document.get_mut("prompt").and_then(|item| item.as_table_like_mut()))
        && prompt.remove("user_file").is_some()
    {
        prompt.insert("user", toml_edit::value(user));
    }
    document.to_string()
}
