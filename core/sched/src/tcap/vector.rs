//! The numbers that schedulers gave to a claim on time: one word per scheduler, sorted.

/// Most words of a vector.
pub const MAX_WORDS: usize = 16;
/// Largest number of a scheduler, the least important: 48 bits.
pub const MAX_NUMBER: u64 = (1 << 48) - 1;
/// The kernel's own scheduling. It is in every vector, and its number is not stored: it is the level of the claim's root.
pub const KERNEL: u16 = 0;
/// No scheduler has this identifier: it marks the places behind the last word.
pub const NO_SCHEDULER: u16 = u16::MAX;

const NUMBER_BITS: u32 = 48;
/// Stands for the place behind the last word; larger than every word.
const END: u64 = u64::MAX;

#[inline]
const fn word(scheduler: u16, number: u64) -> u64 {
    (scheduler as u64) << NUMBER_BITS | number & MAX_NUMBER
}

#[inline]
const fn scheduler_of(word: u64) -> u16 {
    (word >> NUMBER_BITS) as u16
}

/// Up to [`MAX_WORDS`] words `scheduler : 16, number : 48`, sorted by scheduler; [`KERNEL`] is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Zero behind the last one.
    words: [u64; MAX_WORDS],
    count: u8,
}

impl Vector {
    /// The words of a claim that has not passed through any other scheduler: the kernel's and its own.
    #[must_use]
    pub const fn of(own: u16, number: u64) -> Self {
        let mut vector = Self { words: [0; MAX_WORDS], count: 0 };
        vector.begin(own, number);
        vector
    }

    /// Becomes what [`Self::of`] makes, where it lies.
    #[inline]
    pub(super) const fn begin(&mut self, own: u16, number: u64) {
        if self.count > 2 {
            self.words = [0; MAX_WORDS];
        }
        self.words[0] = word(KERNEL, 0);
        (self.words[1], self.count) = if own == KERNEL { (0, 1) } else { (word(own, number), 2) };
    }

    /// Schedulers and their numbers, in the order of the schedulers. The kernel's number is 0.
    pub fn entries(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.known().iter().map(|word| (scheduler_of(*word), *word & MAX_NUMBER))
    }

    /// How many words there are: at least the kernel's.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u8 {
        self.count
    }

    /// Never: the kernel's word is in every vector.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// No scheduler but the kernel's has given a number: nothing is in common with anybody.
    #[inline]
    #[must_use]
    pub const fn is_of_the_kernel_alone(&self) -> bool {
        self.count <= 1
    }

    /// The number that a scheduler gave. `None` when the claim has not passed through it; 0 of the kernel.
    #[must_use]
    pub fn number(&self, scheduler: u16) -> Option<u64> {
        self.entries().find(|(of, _)| *of == scheduler).map(|(_, number)| number)
    }

    /// The word behind the kernel's says that this scheduler gave this number: that of the claim's own scheduler, nearly always.
    #[inline]
    pub(super) fn has_second(&self, scheduler: u16, number: u64) -> bool {
        self.count > 1 && self.words.get(1) == Some(&word(scheduler, number))
    }

    /// Replaces the number of one scheduler. Returns false when the claim has not passed through it. The kernel's is not stored.
    pub fn set_number(&mut self, scheduler: u16, number: u64) -> bool {
        // That of the claim's own scheduler, which is nearly always the second one.
        if let Some(place) = self.words.get_mut(1)
            && scheduler_of(*place) == scheduler
            && self.count > 1
        {
            *place = word(scheduler, number);
            return true;
        }
        for place in self.words.iter_mut().take(usize::from(self.count)) {
            if scheduler_of(*place) == scheduler {
                *place = word(scheduler, if scheduler == KERNEL { 0 } else { number });
                return true;
            }
        }
        false
    }

    #[inline]
    fn known(&self) -> &[u64] {
        self.words.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Adds the words of `other`, in which `own` has `number` instead of its own; where both have a scheduler, the worse number stays.
    /// Returns false, and changes nothing, when these are more than [`MAX_WORDS`].
    pub(super) fn join(&mut self, other: &Self, own: u16, number: u64) -> bool {
        let own = word(own, if own == KERNEL { 0 } else { number });
        if self.join_in_place(other, own) {
            return true;
        }
        let mut joined = [0; MAX_WORDS];
        let mut places = joined.iter_mut();
        let (mut mine, mut theirs) = (self.known().iter(), other.known().iter());
        let after = |words: &mut core::slice::Iter<'_, u64>| words.next().copied().unwrap_or(END);
        let theirs_after = |words: &mut core::slice::Iter<'_, u64>| {
            let next = after(words);
            if scheduler_of(next) == scheduler_of(own) { own } else { next }
        };
        let (mut left, mut right) = (after(&mut mine), theirs_after(&mut theirs));
        while left & right != END {
            let Some(place) = places.next() else { return false };
            let (left_id, right_id) = (scheduler_of(left), scheduler_of(right));
            // Of one scheduler the larger word has the larger number; of two, the smaller word comes first.
            *place = if left_id == right_id { left.max(right) } else { left.min(right) };
            if left_id <= right_id {
                left = after(&mut mine);
            }
            if right_id <= left_id {
                right = theirs_after(&mut theirs);
            }
        }
        let count = MAX_WORDS.wrapping_sub(places.len()) as u8;
        copy(&mut self.words, &joined);
        self.count = count;
        true
    }

    /// The same of two that have passed through the same schedulers, which is the usual case: each word stays where it is. Returns false, and changes nothing,
    /// of any others.
    #[inline]
    fn join_in_place(&mut self, other: &Self, own: u64) -> bool {
        let theirs = other.known();
        let Some(mine) = self.words.get_mut(..usize::from(self.count)) else { return false };
        // One bit of each word in which any two differ.
        let differ = mine.iter().zip(theirs).fold(0, |all, (mine, theirs)| all | mine ^ theirs);
        if mine.len() != theirs.len() || scheduler_of(differ) != 0 {
            return false;
        }
        if differ == 0 && mine.get(1) == Some(&own) {
            return true;
        }
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            let theirs = if scheduler_of(*theirs) == scheduler_of(own) { own } else { *theirs };
            // Of one scheduler the larger word has the larger number.
            *mine = (*mine).max(theirs);
        }
        true
    }

    /// States whether no scheduler but the kernel's that both have gave this claim a worse number than the other one. What one of
    /// them alone has does not count. At most `2 * MAX_WORDS` steps.
    #[must_use]
    pub fn is_not_worse_than(&self, other: &Self) -> bool {
        // The first word is the kernel's.
        let (mut mine, mut theirs) = (self.known().iter().skip(1), other.known().iter().skip(1));
        let (mut left, mut right) = (mine.next(), theirs.next());
        while let (Some(ours), Some(other)) = (left, right) {
            let (our_id, other_id) = (scheduler_of(*ours), scheduler_of(*other));
            if our_id == other_id && ours > other {
                return false;
            }
            if our_id <= other_id {
                left = mine.next();
            }
            if other_id <= our_id {
                right = theirs.next();
            }
        }
        true
    }
}

/// Four words at a time: the usual copy of four is a call that takes three times as long.
#[inline]
fn copy(to: &mut [u64; MAX_WORDS], from: &[u64; MAX_WORDS]) {
    if let ([a, b, c, d], [e, f, g, h]) = (to.as_chunks_mut::<4>().0, from.as_chunks::<4>().0) {
        (*a, *b) = (*e, *f);
        (*c, *d) = (*g, *h);
    }
}
