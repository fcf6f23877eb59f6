//! What EL3 and the payload should say to a call, in a few lines that share none with theirs.

use crate::Parameters;
use crate::machine::AtLevel;
use bulkhead_world::cores::{CALL_KICK, CALL_WATCH};

pub(crate) const CPU_ON: u64 = 0xc400_0003;

/// An answer, and the core that is kicked besides, at once or at the end of a watch.
pub(crate) struct Expected {
    pub(crate) answer: u64,
    pub(crate) kicks: Option<usize>,
}

fn only(answer: i64) -> Expected {
    Expected { answer: answer as u64, kicks: None }
}

/// While all cores are on.
pub(crate) fn expected(given: &Parameters, core: usize, level: AtLevel, arguments: &[u64; 4]) -> Expected {
    let [function, first, second, _] = *arguments;
    if level == AtLevel::El1 {
        return only(-1);
    }
    let [start, bytes] = given.window;
    match function & 0xffff_ffff {
        CALL_KICK if first < 4 && given.allowed[core] >> first & 1 == 1 => {
            Expected { answer: 0, kicks: Some(first as usize) }
        }
        CALL_KICK => only(-2),
        CALL_WATCH if core != 0 => Expected { answer: 0, kicks: Some(core) },
        0x8400_0003 | CPU_ON if first >= 4 => only(-2),
        0x8400_0003 | CPU_ON if second < start || second - start > bytes - 4 || second % 4 != 0 => only(-9),
        0x8400_0003 | CPU_ON => only(-4),
        0x8400_0004 | 0xc400_0004 if first >= 4 || second != 0 => only(-2),
        0x8400_0004 | 0xc400_0004 => only(0),
        _ => only(-1),
    }
}
