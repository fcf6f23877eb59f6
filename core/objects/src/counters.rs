//! Life and grant of an object, and queues of threads.

use bulkhead_kernel_abi::MAX_THREADS;

/// Two counters that every object has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Raised by destroy and reset: what was inside is not inside any more.
    pub life: u32,
    /// Raised by revoke and destroy: capabilities with another number are void.
    pub grant: u32,
}

/// A counter that has come to its end. No capability and no frame has it, so the object is not used again.
pub const WORN: u32 = u32::MAX;

impl Counters {
    /// Makes all capabilities void. Returns the new grant, [`WORN`] when there is none.
    pub(crate) fn revoke(&mut self) -> u32 {
        self.grant = self.grant.saturating_add(1);
        self.grant
    }

    /// Ends what is inside. False when the object is not used again.
    pub(crate) fn end_life(&mut self) -> bool {
        self.life = self.life.saturating_add(1);
        self.life != WORN
    }
}

/// No thread.
pub(crate) const NOBODY: u8 = u8::MAX;

/// Ends of a queue of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    pub(crate) head: u8,
    pub(crate) tail: u8,
}

impl Queue {
    /// No thread waits.
    pub const EMPTY: Self = Self { head: NOBODY, tail: NOBODY };

    /// The first thread.
    #[must_use]
    pub fn first(&self) -> Option<u16> {
        (self.head != NOBODY).then_some(u16::from(self.head))
    }

    /// The last thread.
    #[must_use]
    pub fn last(&self) -> Option<u16> {
        (self.tail != NOBODY).then_some(u16::from(self.tail))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    previous: u8,
    next: u8,
    is_in: bool,
}

/// Links of all threads for one kind of queue: a thread is in one of these at most, so they need no allocation and every
/// operation is constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links([Link; MAX_THREADS]);

impl Links {
    /// No thread is in a queue.
    pub const EMPTY: Self = Self([Link { previous: NOBODY, next: NOBODY, is_in: false }; MAX_THREADS]);

    fn link(&mut self, thread: u8) -> Option<&mut Link> {
        self.0.get_mut(usize::from(thread))
    }

    /// States whether the thread is in a queue.
    #[must_use]
    pub fn has(&self, thread: u16) -> bool {
        self.0.get(usize::from(thread)).is_some_and(|link| link.is_in)
    }

    /// The thread behind this one.
    #[must_use]
    pub fn after(&self, thread: u16) -> Option<u16> {
        let next = self.0.get(usize::from(thread)).filter(|link| link.is_in)?.next;
        (next != NOBODY).then_some(u16::from(next))
    }

    /// The thread before this one.
    #[must_use]
    pub fn before(&self, thread: u16) -> Option<u16> {
        let previous = self.0.get(usize::from(thread)).filter(|link| link.is_in)?.previous;
        (previous != NOBODY).then_some(u16::from(previous))
    }

    /// Puts a thread to the back, unless it is in a queue.
    #[inline(always)] // On the way of each signal, which is counted.
    pub(crate) fn push(&mut self, queue: &mut Queue, thread: u16) {
        let Ok(thread) = u8::try_from(thread) else { return };
        let previous = queue.tail;
        let Some(link) = self.link(thread).filter(|link| !link.is_in) else { return };
        *link = Link { previous, next: NOBODY, is_in: true };
        queue.tail = thread;
        match self.link(previous) {
            Some(before) => before.next = thread,
            None => queue.head = thread,
        }
    }

    /// Puts a thread behind another one of the queue, or to the front, unless it is in a queue.
    pub(crate) fn insert(&mut self, queue: &mut Queue, thread: u16, before: Option<u16>) {
        let Ok(thread) = u8::try_from(thread) else { return };
        let previous = before.and_then(|before| u8::try_from(before).ok()).unwrap_or(NOBODY);
        let next = self.link(previous).map_or(queue.head, |before| before.next);
        let Some(link) = self.link(thread).filter(|link| !link.is_in) else { return };
        *link = Link { previous, next, is_in: true };
        match self.link(previous) {
            Some(before) => before.next = thread,
            None => queue.head = thread,
        }
        match self.link(next) {
            Some(after) => after.previous = thread,
            None => queue.tail = thread,
        }
    }

    /// Takes a thread out of the queue that it is in.
    pub(crate) fn remove(&mut self, queue: &mut Queue, thread: u16) {
        let Ok(thread) = u8::try_from(thread) else { return };
        let Some(link) = self.link(thread).filter(|link| link.is_in) else { return };
        let Link { previous, next, .. } = *link;
        *link = Link { previous: NOBODY, next: NOBODY, is_in: false };
        match self.link(previous) {
            Some(before) => before.next = next,
            None => queue.head = next,
        }
        match self.link(next) {
            Some(after) => after.previous = previous,
            None => queue.tail = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_ends_and_stays() {
        let mut counters = Counters { life: WORN - 2, grant: WORN - 1 };
        assert_eq!((counters.revoke(), counters.revoke()), (WORN, WORN));
        assert!(counters.end_life());
        assert!(!counters.end_life() && !counters.end_life());
    }

    #[test]
    fn a_thread_is_in_one_queue_and_leaves_it_from_anywhere() {
        let (mut links, mut queue, mut other) = (Links::EMPTY, Queue::EMPTY, Queue::EMPTY);
        for thread in [3, 7, 63, 3, 64, 255, 256 + 5] {
            links.push(&mut queue, thread);
        }
        links.push(&mut other, 7);
        assert_eq!((other, queue.first(), links.after(3), links.after(7)), (Queue::EMPTY, Some(3), Some(7), Some(63)));
        links.remove(&mut queue, 7);
        links.remove(&mut queue, 7);
        assert_eq!((links.after(3), links.has(7)), (Some(63), false));
        // In the middle, in front, at the end.
        links.insert(&mut queue, 9, Some(3));
        links.insert(&mut queue, 1, None);
        links.insert(&mut queue, 2, Some(63));
        let order = [1, 3, 9, 63, 2];
        assert_eq!((queue.first(), queue.last(), links.before(1), links.after(2)), (Some(1), Some(2), None, None));
        for pair in order.windows(2) {
            assert_eq!((links.after(pair[0]), links.before(pair[1])), (Some(pair[1]), Some(pair[0])));
        }
        order.iter().for_each(|thread| links.remove(&mut queue, *thread));
        assert_eq!((queue, links), (Queue::EMPTY, Links::EMPTY));
    }
}
