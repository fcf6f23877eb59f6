//! A driver on a PIBS server with two clients, while the one that counts all else sleeps.

use crate::calls::INTERRUPT;
use crate::{Answer, Row, counted};
use bulkhead_component::call;
use bulkhead_kernel_abi::call::{Call, InterruptOperation as Line};

/// How many interrupts are served.
pub(crate) const ROUNDS: usize = 4;
/// What it takes from.
const DRIVER: u64 = 14;
/// Clients, by their servers: the more urgent one, and the one that interrupts are charged to.
const URGENT: u64 = 1;
const OTHER: u64 = 63;

const INTERRUPT_CALL: u16 = Call::Interrupt.number();

fn line(operation: Line, client: u64) -> Answer {
    counted::<INTERRUPT_CALL>([operation.number(), INTERRUPT, client, 0, 0, 0, 0, 0])
}

/// Each interrupt is of the less urgent client; meanwhile there is work for the more urgent one, which raises the server.
///
/// Each round takes the same way, but that others may run in one of them: the least of a call counts.
pub(crate) fn drive() {
    // The first interrupt, and the word to begin.
    let _ = call::receive(DRIVER, 0);
    let _ = call::receive(DRIVER, 0);
    line(Line::Finish, OTHER);
    line(Line::Done, 0);
    let nothing = Answer { code: 0, value: 0, took: u64::MAX };
    let (mut serve, mut fall, mut last, mut done) = (nothing, nothing, nothing, nothing);
    for round in 1..=ROUNDS {
        let _ = call::receive(DRIVER, 0);
        serve = serve.least(line(Line::Serve, URGENT));
        fall = fall.least(line(Line::Finish, URGENT));
        last = last.least(line(Line::Finish, OTHER));
        // The last one stays held, and disturbs no other count.
        if round < ROUNDS {
            done = done.least(line(Line::Done, 0));
        }
    }
    for (name, answers) in
        [("interrupt.serve", &[serve][..]), ("interrupt.finish", &[fall, last]), ("interrupt.done", &[done])]
    {
        let mut row = Row::new(name);
        for answer in answers {
            row.add(*answer);
        }
        row.say();
    }
}
