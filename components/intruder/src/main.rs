//! Attacks the kernel in the order that another component says, which judges what comes of each (`components/umpire`). It may end in the middle of an
//! attack, and is begun again: then it asks what is next.
#![no_std]
#![no_main]

use bulkhead_hostile::attacks;

bulkhead_component::entry!(main);

bulkhead_component::import! {
    /// Its own end point, to which nobody sends.
    fn own();
    /// The number of the next attack, when this one has come back (0: none has); 0 for none.
    fn next(finished);
}

fn main(_argument: u64) {
    attacks::own_slots(next::slot(), own::slot());
    let mut finished = 0;
    while let Ok(number) = next(finished)
        && number != 0
    {
        // What a life finds in its registers cannot be seen behind a call.
        attacks::run(number, &[0; 32]);
        finished = number;
    }
}
