//! The KV cache: a number of blocks, some private to a sequence, some shared through the prefix cache.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// Blocks of all sequences, and what the free ones still remember.
#[derive(Debug)]
pub(super) struct KvCache {
    capacity: u64,
    /// Blocks that belong to one sequence and to nothing else.
    private: u64,
    /// Blocks with a known prompt prefix, in use or not, by their hash.
    cached: HashMap<u64, Cached>,
    /// Cached blocks that nobody uses, oldest release first. They count as free and are evicted in this order.
    idle: BTreeMap<u64, u64>,
    releases: u64,
    remembers: bool,
}

#[derive(Debug)]
struct Cached {
    users: u32,
    /// Key in `idle`; meaningful while `users` is 0.
    released: u64,
}

/// Blocks that one sequence holds. They come back only through [`KvCache::release`].
#[derive(Debug, Default)]
pub(super) struct Held {
    shared: Vec<u64>,
    private: u64,
}

impl Held {
    /// Number of blocks held.
    pub(super) fn blocks(&self) -> u64 {
        self.shared.len() as u64 + self.private
    }
}

impl KvCache {
    /// An empty cache of `capacity` blocks. Without `remembers` no prefix is ever found again.
    pub(super) fn new(capacity: u64, remembers: bool) -> Self {
        Self { capacity, private: 0, cached: HashMap::new(), idle: BTreeMap::new(), releases: 0, remembers }
    }

    fn used(&self) -> u64 {
        self.private + self.cached.len() as u64 - self.idle.len() as u64
    }

    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used())
    }

    /// Share of blocks in use, 0 to 1.
    pub(super) fn usage(&self) -> f64 {
        self.used() as f64 / self.capacity.max(1) as f64
    }

    /// Takes `blocks` blocks for a new sequence; those at the start of `prefix` that are known come from the cache.
    /// Gives what is held and how many blocks were found. `None`, and nothing taken, when too few are free.
    pub(super) fn admit(&mut self, prefix: &[u64], blocks: u64) -> Option<(Held, u64)> {
        let found = prefix.iter().take_while(|hash| self.cached.contains_key(hash)).count();
        let shared = &prefix[..found];
        let revived =
            shared.iter().filter(|hash| self.cached.get(hash).is_some_and(|c| c.users == 0)).count();
        let private = blocks.saturating_sub(found as u64);
        if self.free() < private + revived as u64 {
            return None;
        }
        for hash in shared {
            if let Some(cached) = self.cached.get_mut(hash) {
                if cached.users == 0 {
                    self.idle.remove(&cached.released);
                }
                cached.users += 1;
            }
        }
        self.take(private);
        Some((Held { shared: shared.to_vec(), private }, found as u64))
    }

    /// Adds one block to what a sequence holds; false when none is free.
    pub(super) fn grow(&mut self, held: &mut Held) -> bool {
        if self.free() == 0 {
            return false;
        }
        self.take(1);
        held.private += 1;
        true
    }

    fn take(&mut self, blocks: u64) {
        self.private += blocks;
        while self.private + self.cached.len() as u64 > self.capacity {
            let Some((_, oldest)) = self.idle.pop_first() else { break };
            self.cached.remove(&oldest);
        }
    }

    /// Makes a sequence's computed prompt blocks known to later ones. A block that is known already stays private.
    pub(super) fn publish(&mut self, held: &mut Held, prefix: &[u64]) {
        if !self.remembers {
            return;
        }
        for hash in prefix.iter().skip(held.shared.len()) {
            if held.private == 0 {
                return;
            }
            if let Entry::Vacant(vacant) = self.cached.entry(*hash) {
                vacant.insert(Cached { users: 1, released: 0 });
                held.shared.push(*hash);
                held.private -= 1;
                self.private -= 1;
            }
        }
    }

    /// Gives a sequence's blocks back. The end of a prefix is forgotten before its start.
    pub(super) fn release(&mut self, held: Held) {
        self.private = self.private.saturating_sub(held.private);
        for hash in held.shared.into_iter().rev() {
            if let Some(cached) = self.cached.get_mut(&hash) {
                cached.users = cached.users.saturating_sub(1);
                if cached.users == 0 {
                    self.releases += 1;
                    cached.released = self.releases;
                    self.idle.insert(self.releases, hash);
                }
            }
        }
    }

    /// Forgets every prefix; false, and nothing forgotten, while a sequence holds a block.
    pub(super) fn reset(&mut self) -> bool {
        if self.used() > 0 {
            return false;
        }
        self.cached.clear();
        self.idle.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_prefix_is_found_again_and_shared() {
        let mut cache = KvCache::new(10, true);
        let (mut first, found) = cache.admit(&[1, 2, 3], 4).unwrap();
        assert_eq!(found, 0);
        cache.publish(&mut first, &[1, 2, 3]);
        let (second, found) = cache.admit(&[1, 2, 9], 4).unwrap();
        assert_eq!(found, 2);
        assert_eq!(cache.used(), 6, "four and two new ones");
        cache.release(first);
        cache.release(second);
        assert_eq!(cache.used(), 0);
        assert_eq!(cache.admit(&[1, 2, 3], 4).unwrap().1, 3);
    }

    #[test]
    fn the_least_recently_released_prefix_is_evicted_first_and_from_its_end() {
        let mut cache = KvCache::new(4, true);
        for prefix in [[1, 2], [3, 4]] {
            let (mut held, _) = cache.admit(&prefix, 2).unwrap();
            cache.publish(&mut held, &prefix);
            cache.release(held);
        }
        let (held, _) = cache.admit(&[], 1).unwrap();
        cache.release(held);
        assert_eq!(cache.admit(&[1, 2], 2).unwrap().1, 1, "2 went, 1 stayed");
    }

    #[test]
    fn nothing_is_taken_when_it_does_not_fit() {
        let mut cache = KvCache::new(3, true);
        let (mut held, _) = cache.admit(&[], 2).unwrap();
        assert!(cache.admit(&[], 2).is_none());
        assert!(cache.grow(&mut held));
        assert!(!cache.grow(&mut held));
        assert!(!cache.reset());
        cache.release(held);
        assert!(cache.reset());
        assert_eq!(cache.used(), 0);
    }

    #[test]
    fn an_idle_prefix_that_is_revived_takes_free_room() {
        let mut cache = KvCache::new(3, true);
        let (mut held, _) = cache.admit(&[1, 2], 2).unwrap();
        cache.publish(&mut held, &[1, 2]);
        cache.release(held);
        assert!(cache.admit(&[1, 2], 4).is_none());
        assert!(cache.admit(&[1, 2], 3).is_some());
    }
}
