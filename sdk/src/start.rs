//! From assembly to the guest's `main`, and the panic handler.

use crate::{console, information, psci};
use core::panic::PanicInfo;

unsafe extern "Rust" {
    safe fn bulkhead_sdk_main();
}

/// Names the guest's main function, `fn()`. When it returns, the guest switches itself off (PSCI SYSTEM_OFF).
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        fn bulkhead_sdk_main() {
            let main: fn() = $main;
            main();
        }
    };
}

/// Rust end of the image's entry: translation, stack and zeroed data are in place.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_sdk_start(device_tree: u64) -> ! {
    information::probe(device_tree);
    console::start();
    bulkhead_sdk_main();
    psci::system_off()
}

#[panic_handler]
fn panic(information: &PanicInfo<'_>) -> ! {
    crate::println!("guest {information}");
    psci::give_up()
}
