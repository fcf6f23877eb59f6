//! Stock Linux with two CPUs, one of which is half of the core of a stock FreeRTOS (QV-1, SP-14).

use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{STATE_OFF, STATE_RUNNING};
use bulkhead_run::CountingOptions;
use bulkhead_system_tests::System;
use bulkhead_system_tests::system::guest;
use bulkhead_timing::Assumptions;
use bulkhead_timing::bounds::bounds;

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

/// Work on both CPUs for as long as it takes: turns across CPUs, new processes, files.
const BUSY: &str = "mkfifo,/tmp/a,/tmp/b;(taskset,-c,1,sh,-c,'while,read,x;do,(echo,$x);done',</tmp/a,>/tmp/b)&taskset,-c,0,sh,-c,'exec,4>/tmp/a,5</tmp/b;i=0;while,[,$i,-lt,200,];do,echo,$i,>&4;read,y,<&5;[,$y,=,$i,]||exit,1;cat,/proc/stat,>/tmp/c;i=$((i+1));done;echo,linux:,busy,for,$i,turns;grep,^cpu1,/proc/stat'";
const RTOS: usize = 0;

/// SP-14: what FreeRTOS waits for on its core, from the date's arrival there to its handler, in instructions that this core itself
/// executed at EL2, is within the bound of `check`; and Linux sees what it lost meanwhile.
#[test]
fn freertos_beside_two_cpus_of_linux_reacts_within_its_bound() {
    let text = SYSTEM
        .replace("PINGPONG", BUSY)
        .replace(
            "name = \"rtos\"",
            "name = \"rtos\"\ntrust = \"trusted\"\ntasks = [{ name = \"tick\", period = \"1 ms\", cost = \"200 us\" }]",
        )
        .replace(", rule = \"polling\", budget = \"2 ms\", period = \"10 ms\" }", " }")
        .replace("budget = \"5 ms\", period", "budget = \"4500 us\", period");
    let system = System::from_text("shared-smp", &text);
    let bound = bounds(&system.model, &Assumptions::default());
    let core = &bound.cores[0];
    let wait = core.interrupts.iter().find(|one| one.vcpu.partition == RTOS).and_then(|one| one.conforming_ns);
    let nanoseconds = wait.expect("its interrupts have a bound");
    let plan = system.plan();
    let counting = CountingOptions::for_freertos(&plan, RTOS, &guest("freertos.elf"));
    let counting = counting.unwrap_or_else(|error| panic!("{error}"));
    let mut running = system.start_with(|options| options.counting = Some(counting));
    running.line("linux", "busy for 200 turns");
    // Linux asks its first CPU, which has a core of its own, whether there is stolen time, and shows it for the other one.
    let stat = running.line("linux", "cpu1 ");
    let steal: u64 = stat.split_whitespace().nth(8).and_then(|field| field.parse().ok()).expect("a field for it");
    assert!(steal > 0, "{stat}");
    running.wait_for_state("linux", STATE_OFF);
    let counts = running.counts().unwrap_or_else(|error| panic!("{error}"));
    let passages = counts.cores[0].passages;
    let bound = nanoseconds * 1000 / Assumptions::default().instruction_ps;
    println!(
        "{} reactions of FreeRTOS, the worst after {} instructions (not cycles) of at most {bound}: tightness {:.2}",
        passages.reactions,
        passages.longest_reaction,
        passages.longest_reaction as f64 / bound as f64
    );
    assert!(passages.reactions > 1000, "it ran for {} ticks only", passages.reactions);
    assert!(passages.longest_reaction <= bound, "{} instructions, {bound} at most", passages.longest_reaction);
    running.assert_no_crash();
}
