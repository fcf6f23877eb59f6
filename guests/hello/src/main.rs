//! Smallest guest: prints who it is and switches itself off.
#![no_std]
#![no_main]

use bulkhead_sdk::{hypercall, information, println};

bulkhead_sdk::entry!(main);

fn main() {
    match hypercall::version() {
        Ok(version) => println!("hello from {}, ABI version {version}", information::name()),
        Err(_) => println!("hello from {}, no Bulkhead below", information::name()),
    }
    let vcpus = information::information().map_or(1, |page| page.vcpu_count);
    println!("arguments \"{}\", vCPUs {vcpus}", information::arguments());
    for port in information::ports() {
        println!("port {} at {}", bulkhead_sdk::guest_abi::name_text(&port.name), port.window);
    }
    println!("goodbye");
}
