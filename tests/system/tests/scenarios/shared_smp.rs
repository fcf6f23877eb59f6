//! Stock Linux with two CPUs, one of which is half of the core of a stock FreeRTOS (QV-1, QV-8, QV-34).

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{STATE_OFF, STATE_RUNNING};
use bulkhead_system_tests::System;

const SYSTEM: &str = r#"
version = 1
name = "shared-smp"
board = "qemu-virt"
memory = "512 MiB"

[[schedule]]
core = 0
kind = "fixed-priority"

[[partition]]
name = "rtos"
cores = [0]
memory = "4 MiB"
image = { kind = "elf", file = "guest:freertos.elf" }
arguments = "rounds=1000000"
console = "pl011"
servers = [{ priority = 1, rule = "polling", budget = "2 ms", period = "10 ms" }]

[[partition]]
name = "linux"
cores = [1, 0]
memory = "256 MiB"
image = { kind = "linux", file = "guest:linux/Image", initrd = "guest:linux/initramfs.cpio.gz", command_line = "console=ttyAMA0 quiet panic=1 bulkhead.mode=hello,smp bulkhead.cpus=2 bulkhead.run=PINGPONG" }
servers = [{ vcpu = 1, priority = 5, rule = "polling", budget = "5 ms", period = "10 ms" }]
"#;
/// Two programs bound to different CPUs hand a line to each other through pipes: each turn wakes the other CPU.
const PING_PONG: &str = "mkfifo,/tmp/a,/tmp/b;(taskset,-c,1,sh,-c,'while,read,x;do,echo,$x;done',</tmp/a,>/tmp/b)&taskset,-c,0,sh,-c,'exec,4>/tmp/a,5</tmp/b;i=0;while,[,$i,-lt,300,];do,echo,$i,>&4;read,y,<&5;[,$y,=,$i,]||exit,1;i=$((i+1));done;echo,linux:,ping-pong,of,$i,turns'";

#[test]
fn linux_with_two_cpus_shares_the_core_of_freertos() {
    let system = System::from_text("shared-smp", &SYSTEM.replace("PINGPONG", PING_PONG));
    let mut running = system.start();
    let hello = running.line("linux", "says hello");
    assert!(hello.ends_with("with 2 CPUs says hello"), "{hello}");
    running.line("linux", "smp: 2 CPUs work");
    running.line("linux", "ping-pong of 300 turns");
    running.wait_for_state("linux", STATE_OFF);
    let status = running.status("linux");
    assert_eq!((status.generation, status.faults), (1, 0));
    assert!(running.counter("linux", Counter::SendSgi) > 300, "the CPUs interrupt each other");
    assert_eq!(running.counter("linux", Counter::SgiOutside), 0);
    assert_eq!(running.status("rtos").state, STATE_RUNNING);
    running.assert_no_crash();
}
