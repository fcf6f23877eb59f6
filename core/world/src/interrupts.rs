//! Which world each interrupt belongs to, as writes to the interrupt controller (SG-6, SG-7; Arm IHI 0069, 4.6 and 12.9 to 12.11).
//!
//! The payload's library makes these writes before any non-secure code runs. Interrupts of the payload are group 1 secure, with
//! priorities in the urgent half (below 0x80); all others are group 1 non-secure, and what the other world writes as a priority
//! ends up in the other half by itself. Non-secure code has no access to the groups, and NSACR gives it none.

use crate::cores::OF_EL3;
use bulkhead_arm::Intid;
use bulkhead_arm::gic::{self, SGI_FRAME};

/// GICD_CTLR: EnableGrp0 0, EnableGrp1NS 1, EnableGrp1S 2, ARE_S 4, ARE_NS 5.
const CONTROL: u32 = 0x37;
/// GICD_CTLR: both kinds of affinity routing, which are to be on before a group is.
const ROUTING: u32 = 0x30;
/// IGRPMODR: with IGROUPR 0, group 1 secure in place of group 0.
pub(crate) const IGRPMODR: u64 = 0xd00;
/// NSACR: what non-secure code may do with secure interrupts; two bits for each.
const NSACR: u64 = 0xe00;
/// Priority that the payload's interrupts have until it gives them others: the least urgent one of the secure half that is no border.
pub const SECURE_PRIORITY: u8 = 0x70;
/// Priority of the others until the other world writes its own.
const OTHER_PRIORITY: u8 = 0xf0;

/// The software-generated interrupt by which the payload's library calls itself: what a hook of its kernel must not do is done in its
/// handler. It is the payload's whatever the plan says.
pub const EVENT: u32 = 9;

/// One 32-bit write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its address.
    pub address: u64,
    /// Its value.
    pub value: u32,
}

/// INTIDs in one 32-bit register.
const PER_WORD: u32 = 32;
/// The software-generated ones of the first.
const SGIS: u32 = 0xffff;

/// The writes for the distributor at this address, which has this many words of INTIDs (GICD_TYPER.ITLinesNumber + 1, at most 32).
/// All interrupts are off, neither pending nor active afterwards.
pub fn of_distributor(address: u64, words: u32, secure: &[u32; 32]) -> impl Iterator<Item = Write> + '_ {
    let start = [Write { address: address.wrapping_add(gic::GICD_CTLR), value: ROUTING }];
    let end = [Write { address: address.wrapping_add(gic::GICD_CTLR), value: CONTROL }];
    let shared =
        (1..words.min(32)).flat_map(move |word| of_word(address, word, Owners::payload(secure_of(secure, word))));
    start.into_iter().chain(shared).chain(end)
}

/// The writes for the private interrupts of the payload's core, whose redistributor is at this address. The other world makes no `closed` SGI
/// arrive here (bit n = number n): one that is not in its group at the receiver has no effect.
pub fn of_redistributor(address: u64, secure: &[u32; 32], closed: u32) -> impl Iterator<Item = Write> + '_ {
    of_word(address.wrapping_add(SGI_FRAME), 0, Owners::payload(of_payload(secure, 0, closed)))
}

/// The same for a core without a payload, where the SGI of kicks and the secure timer are EL3's: they are on afterwards, before anything
/// else is.
pub fn of_other_core(address: u64, closed: u32) -> impl Iterator<Item = Write> {
    let frame = address.wrapping_add(SGI_FRAME);
    let enable = Write { address: frame.wrapping_add(gic::ISENABLER), value: OF_EL3 };
    of_word(frame, 0, Owners { secure: closed & SGIS & !OF_EL3, el3: OF_EL3 }).chain([enable])
}

/// What is the payload's or nobody's of a word on the payload's core.
fn of_payload(secure: &[u32; 32], word: u32, closed: u32) -> u32 {
    secure_of(secure, word) | if word == 0 { 1 << EVENT | closed & SGIS } else { 0 }
}

/// Interrupts of a word that are not the other world's.
#[derive(Clone, Copy)]
struct Owners {
    /// Group 1 secure.
    secure: u32,
    /// Group 0.
    el3: u32,
}

impl Owners {
    const fn payload(secure: u32) -> Self {
        Self { secure, el3: 0 }
    }

    const fn priority(self, index: u32) -> u8 {
        match (self.secure >> index & 1, self.el3 >> index & 1) {
            (0, 0) => OTHER_PRIORITY,
            (0, _) => 0,
            _ => SECURE_PRIORITY,
        }
    }
}

fn secure_of(secure: &[u32; 32], word: u32) -> u32 {
    secure.get(word as usize).copied().unwrap_or(0)
}

fn of_word(frame: u64, word: u32, owners: Owners) -> impl Iterator<Item = Write> {
    let at =
        move |register: u64, index: u32| frame.wrapping_add(register).wrapping_add(u64::from(index).wrapping_mul(4));
    let bits = [
        (gic::ICENABLER, u32::MAX),
        (gic::IGROUPR, !(owners.secure | owners.el3)),
        (IGRPMODR, owners.secure),
        (gic::ICPENDR, u32::MAX),
        (gic::ICACTIVER, u32::MAX),
    ];
    let access =
        (0..2).map(move |half| Write { address: at(NSACR, word.wrapping_mul(2).wrapping_add(half)), value: 0 });
    let priorities = (0..PER_WORD / 4).map(move |four| {
        let first = four.wrapping_mul(4);
        let of = |index: u32| owners.priority(first.wrapping_add(index));
        let value = u32::from_le_bytes([of(0), of(1), of(2), of(3)]);
        Write { address: at(gic::IPRIORITYR, word.wrapping_mul(8).wrapping_add(four)), value }
    });
    bits.into_iter()
        .map(move |(register, value)| Write { address: at(register, word), value })
        .chain(access)
        .chain(priorities)
}

/// One write of a restart of the non-secure world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartWrite {
    /// 32 bits.
    Word(Write),
    /// A priority: a byte at this address. The bytes beside it may be the payload's, whose priorities are its own.
    Byte(u64, u8),
}

/// The writes that bring the interrupts of one word that are not the payload's to rest: off, neither pending nor active, group 1 non-secure, and
/// with the priority of the beginning (SG-62). The frame is the distributor's, or the SGI frame of the redistributor for word 0.
pub fn of_restart(frame: u64, word: u32, secure: &[u32; 32], closed: u32) -> impl Iterator<Item = RestartWrite> {
    let payload = of_payload(secure, word, closed);
    let at = move |register: u64| frame.wrapping_add(register).wrapping_add(u64::from(word).wrapping_mul(4));
    let bits = [
        (gic::ICENABLER, !payload),
        (gic::ICPENDR, !payload),
        (gic::ICACTIVER, !payload),
        (gic::IGROUPR, !payload),
        (IGRPMODR, payload),
    ];
    let first = word.wrapping_mul(PER_WORD);
    let priorities = (0..PER_WORD).filter(move |index| payload >> index & 1 == 0).map(move |index| {
        let byte = gic::IPRIORITYR.wrapping_add(u64::from(first.wrapping_add(index)));
        RestartWrite::Byte(frame.wrapping_add(byte), OTHER_PRIORITY)
    });
    let words = bits.into_iter().map(move |(register, value)| Write { address: at(register), value });
    words.map(RestartWrite::Word).chain(priorities)
}

/// The INTID is one of the payload's.
#[must_use]
pub fn is_secure(secure: &[u32; 32], intid: Intid) -> bool {
    secure_of(secure, intid.0 / PER_WORD) >> (intid.0 % PER_WORD) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    const SECURE: [u32; 32] = {
        let mut words = [0; 32];
        words[0] = 1 << 29;
        words[1] = 1 << 8;
        words
    };

    fn last(writes: impl Iterator<Item = Write>) -> BTreeMap<u64, u32> {
        writes.map(|write| (write.address, write.value)).collect()
    }

    /// CF-7.
    #[test]
    fn each_interrupt_is_in_one_group_and_its_half_of_the_priorities() {
        let registers = last(of_distributor(0x0800_0000, 9, &SECURE));
        let redistributor = last(of_redistributor(0x080a_0000, &SECURE, 0));
        for intid in 0..288 {
            let (map, frame) = if intid < 32 { (&redistributor, 0x080b_0000) } else { (&registers, 0x0800_0000) };
            let bit = |register: u64| map[&(frame + register + u64::from(intid / 32 * 4))] >> (intid % 32) & 1;
            let byte = map[&(frame + 0x400 + u64::from(intid / 4 * 4))] >> (intid % 4 * 8) & 0xff;
            let expected =
                if is_secure(&SECURE, Intid(intid)) || intid == EVENT { (0, 1, true) } else { (1, 0, false) };
            assert_eq!((bit(0x80), bit(IGRPMODR), byte < 0x80), expected, "INTID {intid}");
            assert_eq!(map[&(frame + NSACR + u64::from(intid / 16 * 4))], 0);
        }
        assert!(is_secure(&SECURE, Intid(29)) && is_secure(&SECURE, Intid(40)) && !is_secure(&SECURE, Intid(2000)));
    }

    #[test]
    fn routing_comes_before_groups_are_enabled_and_after_all_is_set() {
        let writes: Vec<Write> = of_distributor(0, 4, &SECURE).collect();
        assert_eq!((writes[0].value, writes[writes.len() - 1].value), (0x30, 0x37));
        assert!(writes[1..writes.len() - 1].iter().all(|write| write.address != 0));
    }

    /// SG-62: a restart reaches every interrupt of the other world and none of the payload's.
    #[test]
    fn a_restart_leaves_the_interrupts_of_the_payload_alone() {
        for word in 0..9 {
            // The event of the library is the payload's, whatever the plan says.
            let secure = SECURE[word as usize] | if word == 0 { 1 << EVENT } else { 0 };
            let (mut bytes, mut words) = (0, Vec::new());
            for write in of_restart(0x1000, word, &SECURE, 0) {
                match write {
                    RestartWrite::Byte(address, priority) => {
                        let intid = (address - 0x1400) as u32;
                        assert!(!is_secure(&SECURE, Intid(intid)) && intid / 32 == word && priority >= 0x80);
                        bytes |= 1 << (intid % 32);
                    }
                    RestartWrite::Word(write) => {
                        words.push((write.address - 0x1000 - u64::from(word) * 4, write.value))
                    }
                }
            }
            assert_eq!(bytes, !secure, "a priority for each");
            let expected = [(0x180, !secure), (0x280, !secure), (0x380, !secure), (0x80, !secure), (0xd00, secure)];
            assert_eq!(words, expected, "off before anything else");
        }
    }

    /// QV-16: on a closed core no SGI is in the other world's group, also after a restart; EL3's are in group 0, before any other priority.
    #[test]
    fn closed_cores_take_no_sgi_of_the_other_world() {
        let frame = 0x080b_0000;
        for (closed, own) in
            [(0xffff, 0xffff_u32 | 1 << 29), (0x8000, 0x8000 | 1 << 9 | 1 << 29), (u32::MAX, 0xffff | 1 << 29)]
        {
            let boot = last(of_redistributor(0x080a_0000, &SECURE, closed));
            assert_eq!((boot[&(frame + 0x80)], boot[&(frame + IGRPMODR)]), (!own, own), "{closed:#x}");
            for write in of_restart(frame, 0, &SECURE, closed) {
                match write {
                    RestartWrite::Byte(address, _) => assert_eq!(own >> (address - frame - 0x400) & 1, 0),
                    RestartWrite::Word(Write { address, value }) if address == frame + IGRPMODR => {
                        assert_eq!(value, own)
                    }
                    RestartWrite::Word(Write { value, .. }) => assert_eq!(value, !own),
                }
            }
            let other: Vec<Write> = of_other_core(0x080a_0000, closed).collect();
            assert_eq!(other.last(), Some(&Write { address: frame + 0x100, value: OF_EL3 }), "on when all is set");
            let other = last(other.into_iter());
            let secure = closed & 0xffff & !OF_EL3;
            assert_eq!((other[&(frame + 0x80)], other[&(frame + IGRPMODR)]), (!(secure | OF_EL3), secure));
            let byte = |intid: u64| other[&(frame + 0x400 + intid / 4 * 4)] >> (intid % 4 * 8) & 0xff;
            assert_eq!((byte(8), byte(29), byte(27)), (0, 0, 0xf0));
            assert_eq!([other[&(frame + NSACR)], other[&(frame + NSACR + 4)]], [0, 0]);
        }
    }

    #[test]
    fn no_more_words_are_written_than_exist() {
        let beyond = |words| of_distributor(0, words, &SECURE).filter(|write| write.address == 0x80 + 4 * 32).count();
        assert_eq!((beyond(32), beyond(u32::MAX)), (0, 0));
    }
}
