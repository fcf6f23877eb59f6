//! Memory in blocks of one size (CH-3): constant time, no fragments, and what a task may have is bounded.
//!
//! A set of free blocks is words of 64 bits and a word that says which of them have any. A block has an owner: only that one gives it back, and
//! what a task had when it ended is free again. So no task can take what others were promised, keep it behind its end, or give away what is not its.
//!
//! Rejected: lists of free blocks in the blocks. A task that writes behind the end of its own would then decide what the next one gets.

use crate::{MOST_TASKS, Task};
use bulkhead_kernel_abi::Code;

/// The number of a block.
pub type Block = u16;

const NOBODY: u8 = u8::MAX;

/// `WORDS` times 64 blocks, at most 64 words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks<const WORDS: usize> {
    free: [u64; WORDS],
    /// Words with a free block.
    some: u64,
    owners: [[u8; 64]; WORDS],
    has: [u16; MOST_TASKS],
    most: u16,
}

impl<const WORDS: usize> Blocks<WORDS> {
    /// All free; each task may have this many.
    #[must_use]
    pub const fn new(most: u16) -> Self {
        const { assert!(WORDS > 0 && WORDS <= 64) };
        let some = u64::MAX.wrapping_shr(64u32.wrapping_sub(WORDS as u32));
        Self { free: [u64::MAX; WORDS], some, owners: [[NOBODY; 64]; WORDS], has: [0; MOST_TASKS], most }
    }

    /// How many a task has.
    #[must_use]
    pub fn has(&self, task: Task) -> u16 {
        self.has.get(usize::from(task.number())).copied().unwrap_or(0)
    }

    /// Gives a task a block.
    ///
    /// # Errors
    /// `Full` when there is none, `Denied` when the task has as many as it may.
    pub fn allocate(&mut self, task: Task) -> Result<Block, Code> {
        if self.has(task) >= self.most {
            return Err(Code::Denied);
        }
        let word = self.some.trailing_zeros();
        let free = self.free.get_mut(word as usize).ok_or(Code::Full)?;
        let bit = free.trailing_zeros() & 63;
        *free &= free.wrapping_sub(1);
        if *free == 0 {
            self.some &= self.some.wrapping_sub(1);
        }
        if let Some(owner) = self.owners.get_mut(word as usize).and_then(|owners| owners.get_mut(bit as usize)) {
            *owner = task.number();
        }
        if let Some(has) = self.has.get_mut(usize::from(task.number())) {
            *has = has.saturating_add(1);
        }
        Ok(word.wrapping_mul(64).wrapping_add(bit) as Block)
    }

    /// Takes a block back.
    ///
    /// # Errors
    /// `Denied` when it is not the task's: another one's, or free.
    pub fn free(&mut self, task: Task, block: Block) -> Result<(), Code> {
        let (word, bit) = (usize::from(block / 64), block % 64);
        let owner = self.owners.get_mut(word).and_then(|owners| owners.get_mut(usize::from(bit)));
        let owner = owner.filter(|owner| **owner == task.number()).ok_or(Code::Denied)?;
        *owner = NOBODY;
        if let Some(free) = self.free.get_mut(word) {
            *free |= 1u64.wrapping_shl(u32::from(bit));
        }
        self.some |= 1u64.wrapping_shl(word as u32);
        if let Some(has) = self.has.get_mut(usize::from(task.number())) {
            *has = has.saturating_sub(1);
        }
        Ok(())
    }

    /// Puts right what a task left half done that was ended here: a block is whose it is, and free if it is nobody's.
    pub fn put_right(&mut self) {
        (self.some, self.has) = (0, [0; MOST_TASKS]);
        let words = self.owners.iter().zip(&mut self.free);
        for (word, (owners, free)) in (0u32..).zip(words) {
            *free = 0;
            for (bit, owner) in (0u32..).zip(owners) {
                match self.has.get_mut(usize::from(*owner)) {
                    Some(has) => *has = has.saturating_add(1),
                    None => *free |= 1u64.wrapping_shl(bit),
                }
            }
            if *free != 0 {
                self.some |= 1u64.wrapping_shl(word);
            }
        }
    }

    /// Takes back what a task has that ended; returns how many.
    pub fn free_all(&mut self, task: Task) -> u16 {
        let had = self.has(task);
        for block in 0..(WORDS as Block).saturating_mul(64) {
            // Those of others are not its.
            let _ = self.free(task, block);
        }
        had
    }
}

#[cfg(test)]
mod tests {
    use super::Blocks;
    use crate::Task;

    /// CH-3: no block is lost, and none has two owners, whatever a task was doing when it was ended.
    #[test]
    fn what_was_left_half_done_is_put_right() {
        let [one, other] = [1, 2].map(|number| Task::new(number).expect("a task"));
        let mut blocks = Blocks::<2>::new(100);
        for _ in 0..70 {
            blocks.allocate(one).expect("there is one");
        }
        blocks.allocate(other).expect("there is one");
        blocks.free(one, 3).expect("it is its");
        let right = blocks.clone();
        (blocks.free, blocks.some) = ([u64::MAX, 0], 0);
        blocks.has.fill(9);
        blocks.put_right();
        assert_eq!(blocks, right);
    }
}
