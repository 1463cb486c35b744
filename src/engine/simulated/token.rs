//! What a token is here: four bytes of UTF-8.
//!
//! A prompt has one token per four bytes, rounded up. An answer is cut in pieces of at most four bytes that end at
//! a character boundary, one token each, so that every piece is valid text by itself.

use super::hash;

/// Bytes of a prompt in one token.
const BYTES: usize = 4;

/// Tokens in one block of the KV cache.
pub(super) const BLOCK: u64 = 16;

/// Bytes of a prompt in one block.
const BLOCK_BYTES: usize = 16 * BYTES;

/// Number of tokens of a prompt.
pub(super) fn count(prompt: &str) -> u32 {
    u32::try_from(prompt.len().div_ceil(BYTES)).unwrap_or(u32::MAX)
}

/// Identifiers of a prompt's tokens: their bytes, little endian.
pub(super) fn ids(prompt: &str) -> impl Iterator<Item = u32> + '_ {
    prompt
        .as_bytes()
        .chunks(BYTES)
        .map(|token| token.iter().rev().fold(0, |id, byte| (id << 8) | u32::from(*byte)))
}

/// Blocks that hold so many tokens.
pub(super) fn blocks(tokens: u64) -> u64 {
    tokens.div_ceil(BLOCK)
}

/// One hash for each full block of the prompt. Each covers everything before it, and the salt.
pub(super) fn block_hashes(prompt: &str, salt: Option<&str>) -> Vec<u64> {
    let mut previous = salt.map_or(0, |salt| hash::of(1, salt.as_bytes()));
    prompt
        .as_bytes()
        .chunks_exact(BLOCK_BYTES)
        .map(|block| {
            previous = hash::of(previous, block);
            previous
        })
        .collect()
}

/// An answer cut in tokens.
#[derive(Debug)]
pub(super) struct Pieces {
    text: String,
    /// End of each piece, in bytes.
    ends: Vec<usize>,
}

impl Pieces {
    /// Cuts `text`.
    pub(super) fn of(text: String) -> Self {
        let mut ends = Vec::with_capacity(text.len() / BYTES + 1);
        let mut start = 0;
        while start < text.len() {
            let end = piece_end(&text, start);
            ends.push(end);
            start = end;
        }
        Self { text, ends }
    }

    /// Number of pieces.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.ends.len()).unwrap_or(u32::MAX)
    }

    /// Text of the pieces `from..to`; empty where there are none.
    pub(super) fn slice(&self, from: u32, to: u32) -> &str {
        let end_of = |count: u32| match count.checked_sub(1) {
            None => 0,
            Some(last) => self.ends.get(last as usize).copied().unwrap_or(self.text.len()),
        };
        self.text.get(end_of(from)..end_of(to)).unwrap_or("")
    }
}

/// The last character boundary at most [`BYTES`] after `start`; a character is never longer than that.
fn piece_end(text: &str, start: usize) -> usize {
    let limit = (start + BYTES).min(text.len());
    (start + 1..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_text_and_are_short() {
        let text = "ñandú 🇪🇸 数据 plain";
        let pieces = Pieces::of(text.to_owned());
        let joined: String = (0..pieces.len()).map(|n| pieces.slice(n, n + 1)).collect();
        assert_eq!(joined, text);
        assert!((0..pieces.len()).all(|n| (1..=4).contains(&pieces.slice(n, n + 1).len())));
        assert_eq!(pieces.slice(0, pieces.len()), text);
        assert_eq!(Pieces::of(String::new()).len(), 0);
    }

    #[test]
    fn block_hashes_depend_on_everything_before_and_on_the_salt() {
        let one = block_hashes(&"a".repeat(200), None);
        assert_eq!(one.len(), 3);
        assert_ne!(one[0], one[1], "same bytes, other position");
        let salted = block_hashes(&"a".repeat(200), Some("pass-2"));
        assert!(one.iter().all(|hash| !salted.contains(hash)));
    }
}
