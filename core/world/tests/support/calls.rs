//! Any call of the non-secure world (SG-32).

use bulkhead_world::calls::{Action, Answer, Caller, Window, answer};

/// Ids that do something, by their numbers in the manuals and not by our constants.
const HEARTBEAT: u32 = 0xc600_0001;
const DOORBELL: u32 = 0xc600_0002;
const YIELD: u32 = 0xc600_0020;
const OFF: [u32; 2] = [0x8400_0008, 0x8400_0002];
const RESET: [u32; 3] = [0x8400_0009, 0x8400_0012, 0xc400_0012];
const SUSPEND: [u32; 2] = [0x8400_0001, 0xc400_0001];
/// Ids that are only answered.
const ANSWERED: [u32; 10] = [
    0x8400_0000,
    0x8400_0003,
    0xc400_0003,
    0x8400_0004,
    0xc400_0004,
    0x8400_0006,
    0x8400_000a,
    0x8000_0000,
    0x8000_0001,
    0xc600_0000,
];

/// Everything that must hold of one call.
pub(crate) fn check(x: &[u64; 8], caller: &Caller) -> Answer {
    let id = x[0] as u32;
    let result = answer(x, caller);
    let expected = match result.action {
        Action::Nothing => true,
        Action::Heartbeat => id == HEARTBEAT,
        Action::Yield(words) => id == YIELD && words == [x[1], x[2]],
        Action::Doorbell(channel) => {
            id == DOORBELL && u64::from(channel) == x[1] && channel < 32 && caller.doorbells >> channel & 1 == 1
        }
        Action::Standby => SUSPEND.contains(&id),
        Action::Off => OFF.contains(&id),
        Action::Reset => RESET.contains(&id),
    };
    assert!(expected, "{x:x?} came to {result:?}");
    if !known().contains(&id) {
        assert_eq!(result, Answer { x0: u64::MAX, action: Action::Nothing }, "{x:x?}");
    }
    // An answer is a small number or an error: nothing of the payload can be read by it.
    assert!(result.x0 <= 0x1_0001 || result.x0 as i64 >= -9 && result.x0 as i64 <= -1, "{x:x?}: {result:?}");
    // The upper half of x0 is nobody's, and x4 to x7 carry nothing.
    let others = [x[0] ^ 0xffff_ffff_0000_0000, x[1], x[2], x[3], !x[4], !x[5], !x[6], !x[7]];
    assert_eq!(answer(&others, caller), result, "{x:x?}");
    if id & 1 << 30 == 0 {
        let others = [x[0], x[1] ^ 1 << 33, x[2] ^ 1 << 40, x[3] ^ 1 << 63, 0, 0, 0, 0];
        // A yield and a doorbell are of the 64-bit convention, so that their arguments are whole.
        assert_eq!(answer(&others, caller), result, "32-bit convention: {x:x?}");
    }
    result
}

/// A fuzzer's bytes as a caller and its calls. Small numbers select ids that exist, so that arguments are reached.
pub(crate) fn run(bytes: &[u8]) {
    let mut words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let (Some(first), Some(size), Some(doorbells)) = (words.next(), words.next(), words.next()) else { return };
    let caller = Caller { window: Window { first, bytes: size }, doorbells: doorbells as u32 };
    let known = known();
    while let Some(id) = words.next() {
        let id = if id < 1 << 16 { u64::from(known[id as usize % known.len()]) } else { id };
        let mut x = [id; 8];
        x[1..].fill_with(|| words.next().unwrap_or(0));
        check(&x, &caller);
    }
}

/// Every id that is not refused.
pub(crate) fn known() -> Vec<u32> {
    [&[HEARTBEAT, DOORBELL, YIELD][..], &OFF, &RESET, &SUSPEND, &ANSWERED].concat()
}
