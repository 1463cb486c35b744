//! Lines and records of text files, bounded, with the byte at which they stop being UTF-8.

use super::refusal::Refusals;
use crate::protocol::problem::{listed, shown};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Longest line of a JSONL file, longest record of a CSV file and largest text or image file, in bytes.
pub(super) const MAX_LINE: usize = 64 << 20;

/// The mark that some editors write at the start of a UTF-8 file.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Calls `each` with the number and the text of each line that is not blank, without its end. A line that is too
/// long or not UTF-8 is refused and left out. `false` when the file could not be read to its end.
pub(super) fn each_line(
    path: &Path,
    refusals: &mut Refusals,
    mut each: impl FnMut(u64, &str, &mut Refusals),
) -> bool {
    let result = open(path).and_then(|file| lines(BufReader::new(file), path, refusals, &mut each));
    if let Err(error) = &result {
        refusals.add(path, None, format!("cannot be read: {error}"));
    }
    result.is_ok()
}

/// Opens a file for reading; a folder is an error here, not at the first read.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
}

fn lines(
    mut file: impl BufRead,
    path: &Path,
    refusals: &mut Refusals,
    each: &mut impl FnMut(u64, &str, &mut Refusals),
) -> io::Result<()> {
    let mut bytes = Vec::new();
    let (mut number, mut offset) = (0_u64, 0_u64);
    loop {
        bytes.clear();
        let most = MAX_LINE as u64 + 2;
        if file.by_ref().take(most).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(());
        }
        number += 1;
        let start = offset;
        offset += bytes.len() as u64;
        if !bytes.ends_with(b"\n") && bytes.len() as u64 == most {
            let rest = skip_line(&mut file)?;
            offset += rest;
            let length = bytes.len() as u64 + rest;
            refusals.add(
                path,
                Some(number),
                format!("a line of {length} bytes; at most {MAX_LINE} are allowed"),
            );
            continue;
        }
        let mark = if number == 1 && bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        match std::str::from_utf8(&bytes[mark..]) {
            Ok(line) => {
                let line = line.strip_suffix('\n').unwrap_or(line);
                let line = line.strip_suffix('\r').unwrap_or(line);
                if !line.trim().is_empty() {
                    each(number, line, refusals);
                }
            }
            Err(error) => {
                let at = start + mark as u64 + error.valid_up_to() as u64;
                refusals.add(path, Some(number), format!("not UTF-8 at byte {at} of the file"));
            }
        }
    }
}

/// Reads past the end of the line; the number of bytes before that end.
fn skip_line(file: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let available = file.fill_buf()?;
        if available.is_empty() {
            return Ok(skipped);
        }
        if let Some(end) = memchr::memchr(b'\n', available) {
            file.consume(end + 1);
            return Ok(skipped + end as u64);
        }
        let length = available.len();
        skipped += length as u64;
        file.consume(length);
    }
}

/// A whole text file without its byte-order mark, or what is wrong with it.
pub(super) fn text_file(path: &Path) -> Result<String, String> {
    let bytes = whole_file(path)?;
    let mark = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    match std::str::from_utf8(&bytes[mark..]) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(format!("not UTF-8 at byte {}", mark + error.valid_up_to())),
    }
}

/// The bytes of a file of bounded size, or what is wrong with it.
pub(super) fn whole_file(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let mut bytes = Vec::new();
    let file = open(path).map_err(unreadable)?;
    file.take(MAX_LINE as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_LINE { Err(format!("has more than {MAX_LINE} bytes")) } else { Ok(bytes) }
}

/// One record of a CSV file.
pub(super) struct Record<'r> {
    /// Its first line, from 1.
    pub line: u64,
    cells: &'r csv::StringRecord,
    names: &'r [&'r str],
}

impl Record<'_> {
    /// The cell of a column.
    pub(super) fn cell(&self, name: &str) -> Option<&str> {
        let at = self.names.iter().position(|other| *other == name)?;
        self.cells.get(at)
    }

    /// The names of the columns.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().copied()
    }
}

/// Calls `each` with every record of a CSV file, whose header must hold each of `columns`, and no name twice.
/// `false` when the file could not be read to its end.
pub(super) fn each_record(
    path: &Path,
    columns: &[&str],
    refusals: &mut Refusals,
    mut each: impl FnMut(&Record<'_>, &mut Refusals),
) -> bool {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) => {
            refusals.add(path, None, format!("cannot be read: {error}"));
            return false;
        }
    };
    let mut reader = csv::Reader::from_reader(file);
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => {
            refuse_csv(path, &error, refusals);
            return false;
        }
    };
    let names: Vec<&str> = header.iter().map(str::trim).collect();
    let faults = header_faults(&names, columns);
    if !faults.is_empty() {
        for fault in faults {
            refusals.add(path, Some(1), fault);
        }
        return false;
    }
    let mut record = csv::StringRecord::new();
    loop {
        match reader.read_record(&mut record) {
            Ok(false) => return true,
            Ok(true) => {
                let line = record.position().map_or(0, csv::Position::line);
                if record.as_slice().len() > MAX_LINE {
                    let length = record.as_slice().len();
                    let message = format!("a record of {length} bytes; at most {MAX_LINE} are allowed");
                    refusals.add(path, Some(line), message);
                } else {
                    each(&Record { line, cells: &record, names: &names }, refusals);
                }
            }
            Err(error) => {
                refuse_csv(path, &error, refusals);
                if matches!(error.kind(), csv::ErrorKind::Io(_)) {
                    return false;
                }
            }
        }
    }
}

fn header_faults(names: &[&str], columns: &[&str]) -> Vec<String> {
    let absent = columns.iter().filter(|name| !names.contains(name));
    let absent =
        absent.map(|name| format!("has no column {}; it has {}", shown(name), listed(names.iter().copied())));
    let twice = names.iter().enumerate().filter(|(at, name)| !name.is_empty() && names[..*at].contains(name));
    absent.chain(twice.map(|(_, name)| format!("has the column {} twice", shown(name)))).collect()
}

fn refuse_csv(path: &Path, error: &csv::Error, refusals: &mut Refusals) {
    let line = error.position().map(csv::Position::line);
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("has {len} cells; the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { pos, .. } => {
            match broken_utf8(path, pos.as_ref().map_or(0, csv::Position::byte)) {
                Some(at) => format!("not UTF-8 at byte {at} of the file"),
                None => "not UTF-8".to_owned(),
            }
        }
        csv::ErrorKind::Io(error) => format!("cannot be read: {error}"),
        _ => error.to_string(),
    };
    refusals.add(path, line, message);
}

/// The offset of the first byte from `start` on that is not UTF-8. `start` is the start of a record.
fn broken_utf8(path: &Path, start: u64) -> Option<u64> {
    use std::io::{Seek, SeekFrom};
    let mut file = open(path).ok()?;
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_LINE as u64).read_to_end(&mut bytes).ok()?;
    let at = std::str::from_utf8(&bytes).err()?.valid_up_to();
    Some(start + at as u64)
}
