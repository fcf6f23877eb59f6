//! Reads what the kernel counts of its instance, and says it: of the server and of the thread with the number 0, which are to be more important than its own. With the
//! argument 1 it writes there as well, which is a fault.
#![no_std]
#![no_main]

use bulkhead_component::println;
use bulkhead_kernel_abi::call::Call;

bulkhead_component::entry!(main);

bulkhead_component::accounts!(used);

fn main(argument: u64) {
    let pages = used::pages();
    if let Some(server) = pages.server(0) {
        println!(
            "server 0: {} and {} ticks, {} times",
            server.charged_ticks, server.background_ticks, server.dispatches
        );
    }
    if let Some(thread) = pages.thread(0) {
        println!("thread 0: {} ticks, loaded {} times", thread.ran_ticks, thread.switches);
    }
    let (versions, threads) = (pages.times(Call::Version), pages.thread(64).is_some());
    println!("faults {}, versions {versions}, idle {}, beyond {threads}", pages.faults(), pages.idle_ticks());
    if argument == 1 {
        // SAFETY: none: the pages are the kernel's, and the store must not come back.
        unsafe { core::ptr::with_exposed_provenance_mut::<u64>(pages.address() as usize).write_volatile(0) };
        println!("still here");
    }
}
