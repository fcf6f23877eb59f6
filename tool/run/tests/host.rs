//! What needs no machine: versions, the command line, the control connection, space for RAM, damaged images.

mod common;

use bulkhead_abi::image::RamBank;
use bulkhead_abi::observe::COUNTERS_MAGIC;
use bulkhead_abi::status::{STATE_INITIAL, STATE_OFF};
use bulkhead_plan::model::QemuUart;
use bulkhead_run::qemu::{Endpoints, Streams, Version, check_version, parse_version};
use bulkhead_run::qmp::Qmp;
use bulkhead_run::trace::Trace;
use bulkhead_run::{ImagePlan, MachineOptions, Observer, Ram, RunError, exit_code};
use common::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

#[test]
fn versions_are_read_from_what_distributions_print() {
    let version = |major, minor, micro| Some(Version { major, minor, micro });
    let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright (c) 2003-2022\n";
    assert_eq!(parse_version(debian), version(7, 2, 22));
    assert_eq!(parse_version("QEMU emulator version 10.0.2"), version(10, 0, 2));
    assert_eq!(parse_version("QEMU emulator version 8.1.50 (v8.1.0-1-gdeadbeef-dirty)"), version(8, 1, 50));
    assert_eq!(parse_version("QEMU emulator version 6.2"), version(6, 2, 0));
    for nonsense in ["", "qemu-system-aarch64: not found", "QEMU emulator version ", "QEMU emulator version x.y"] {
        assert_eq!(parse_version(nonsense), None, "{nonsense:?}");
    }
}

/// A program that prints `text` when asked for its version.
fn fake_qemu(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("bulkhead-fake-qemu-{name}-{}", std::process::id()));
    let script = format!("#!/bin/sh\necho '{text}'\n");
    // Written by another process: a file that this one had open for writing, and that a test beside this one took along when it
    // started a program, could not be executed.
    let write =
        Command::new("sh").args(["-c", "printf %s \"$1\" >\"$0\" && chmod 700 \"$0\""]).arg(&path).arg(script).status();
    assert!(write.expect("the shell runs").success(), "a temporary file can be written");
    path
}

#[test]
fn an_old_or_strange_qemu_is_refused_with_what_to_do() {
    let old = fake_qemu("old", "QEMU emulator version 5.2.0 (Debian 1:5.2)");
    let strange = fake_qemu("strange", "hello");
    let (old_answer, strange_answer) = (check_version(&old), check_version(&strange));
    std::fs::remove_file(old).expect("the file is there");
    std::fs::remove_file(strange).expect("the file is there");
    let old_error = old_answer.expect_err("5.2 is too old");
    assert_eq!(old_error.exit_code(), exit_code::HOST);
    assert!(old_error.to_string().starts_with("QEMU 5.2.0 is too old; Bulkhead needs 7.2 or newer."), "{old_error}");
    let strange_error = strange_answer.expect_err("not QEMU");
    assert!(strange_error.to_string().contains("hello") && strange_error.to_string().contains("BULKHEAD_QEMU"));
}

#[test]
fn the_printed_command_is_exact() {
    let mut options = MachineOptions::for_image(image(&two_partitions(), &[])).expect("a valid image");
    options.qemu = "qemu-system-aarch64".into();
    let expected = "qemu-system-aarch64 \\\n    -nodefaults \\\n    -no-user-config \\\n    -no-reboot \\\n    -display none \\\n    \
        -M virt,gic-version=3,virtualization=on,memory-backend=ram \\\n    \
        -object memory-backend-file,id=ram,size=67108864,mem-path=bulkhead.ram,share=on \\\n    \
        -cpu cortex-a53 \\\n    -smp 3 \\\n    -m 64M \\\n    -accel tcg,thread=multi \\\n    -monitor none \\\n    -serial stdio \\\n    \
        -kernel 'my system.img' \\\n    -rtc clock=vm";
    assert_eq!(options.shell_command("my system.img", "bulkhead.ram"), expected);
    options.icount_shift = Some(0);
    options.gdb_port = Some(1234);
    options.plugins = vec!["count.so,text=1-2".to_owned()];
    options.extra = vec!["-d".to_owned(), "guest_errors".to_owned()];
    let command = options.shell_command("a.img", "r,m");
    for part in
        ["-icount shift=0,sleep=off", "-gdb tcp:127.0.0.1:1234", "-S", "-plugin count.so,text=1-2", "mem-path=r,,m"]
    {
        assert!(command.contains(part), "{part} is not in {command}");
    }
    assert!(command.ends_with("-d guest_errors"));
    assert!(!command.contains("thread=multi"), "-icount runs all cores on one host thread");
}

/// QEMU gives its `-serial` lines to the UARTs in the order of the board file, whichever of them the monitor keeps.
#[test]
fn every_uart_has_a_serial_line_in_the_order_of_the_board() {
    let mut options = MachineOptions::for_image(image(&two_partitions(), &[])).expect("a valid image");
    let uart = |name: &str, is_monitors| QemuUart { name: name.to_owned(), is_monitors };
    options.facts.uarts = vec![uart("linux", false), uart("uart1", true), uart("uart2", false)];
    assert_eq!(options.serial_lines(), [Some("linux"), None, Some("uart2")]);
    let command = options.shell_command("board.img", "board.ram").replace(" \\\n    ", " ");
    let expected = "-monitor none -serial file:linux.log -serial stdio -serial file:uart2.log ";
    assert!(command.contains(expected), "{command}");
    let streams = Streams::Inherited { qmp: 7, serial: vec![8, 9, 10] };
    let endpoints = Endpoints { ram: "ram".to_owned(), boot: "image".to_owned(), streams };
    let words = options.arguments(&endpoints).join(" ");
    let line = |number, descriptor| format!("socket,id=serial{number},fd={descriptor} -serial chardev:serial{number}");
    let expected = format!("-chardev {} -chardev {} -chardev {}", line(0, 8), line(1, 9), line(2, 10));
    assert!(words.contains(&expected), "{words}");
    let names = options.console_names();
    assert_eq!(names.all(), ["linux", "control", "linux.uart", "uart2"], "a name says who prints");
    assert_eq!((names.place("uart2"), names.uart(3), names.uart(1), names.uart(4)), (Some(3), Some(1), None, None));
    options.facts.uarts.clear();
    assert_eq!(options.serial_lines(), [None], "a machine of which nothing is known has its own line");
}

#[test]
fn too_little_space_is_one_message_before_the_start() {
    let parents = [std::env::temp_dir(), PathBuf::from("/no/such/directory")];
    let Err(error) = Ram::create_in(&parents, &[RamBank { start: RAM_START, bytes: 1 << 60 }]) else {
        panic!("an exabyte was found")
    };
    assert_eq!(error.exit_code(), exit_code::HOST);
    let text = error.to_string();
    assert!(
        text.starts_with("there is too little space for the machine's RAM: 1099511627792 MiB are needed, "),
        "{text}"
    );
    assert!(text.contains("MiB free. Free some, set TMPDIR"), "{text}");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn reads_outside_ram_are_refused() {
    let (ram, _) = ram_and_plan(&two_partitions());
    let end = RAM_START.0 + RAM_BYTES;
    let at = bulkhead_abi::PhysicalAddress;
    ram.write_at(at(end - 8), &7_u64.to_le_bytes()).expect("the last word is RAM");
    assert_eq!(ram.load_u64(at(end - 8)), Some(7));
    assert_eq!(ram.read_at::<[u8; 9]>(at(end - 9)), Some([0, 7, 0, 0, 0, 0, 0, 0, 0]));
    for outside in [0, RAM_START.0 - 8, end - 4, end, u64::MAX - 7, u64::MAX] {
        assert_eq!(ram.read_at::<u64>(at(outside)), None, "{outside:#x}");
        assert!(ram.write_at(at(outside), &[0; 8]).is_err(), "{outside:#x}");
    }
    assert_eq!(ram.load_u64(at(RAM_START.0 + 4)), None, "a misaligned word could be torn");
    assert_eq!(ram.load_u32(at(RAM_START.0 + 4)), Some(0));
}

#[test]
fn damaged_images_are_refused_with_the_reason() {
    let good = image(&two_partitions(), &[]);
    let header = 0x4000;
    let refused = |bytes: &[u8], reason: &str| {
        let error = ImagePlan::from_bytes(bytes).expect_err(reason);
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(error.exit_code(), exit_code::FAILURE);
    };
    let changed = |offset: usize| {
        let mut bytes = good.clone();
        bytes[offset] ^= 1;
        bytes
    };
    refused(&[], "arm64 Image header");
    refused(&changed(56), "arm64 Image header");
    refused(&changed(header), "no page of it holds an image header");
    refused(&changed(header + 8), "another version");
    refused(&changed(header + 200), "checksum");
    refused(&good[..header + 0x1000], "plan of core 0 is outside the file");
    refused(&changed(header + 0x1000), "plan of core 0 is damaged");
    refused(&changed(header + 0x9000), "plan of partition 0 is damaged");
    let plan = ImagePlan::from_bytes(&good).expect("the unchanged image is accepted");
    assert_eq!(plan.partition_names(), ["linux", "control"]);
    assert_eq!((plan.cores_of(0), plan.cores_of(1)), (vec![0, 1], vec![2]));
    assert_eq!((plan.partition_named("control"), plan.partition_named("nobody")), (Some(1), None));
}

#[test]
fn trace_records_are_merged_by_time_and_named() {
    let (ram, plan) = ram_and_plan(&two_partitions());
    let write = |core: usize, records: &[(u64, u16, u32, u64, u64)]| {
        for (index, (ticks, kind, small, first, second)) in records.iter().enumerate() {
            let mut bytes = ticks.to_le_bytes().to_vec();
            bytes.extend(kind.to_le_bytes());
            bytes.extend([core as u8, u8::from(core == 2)]);
            bytes.extend(small.to_le_bytes());
            bytes.extend(first.to_le_bytes());
            bytes.extend(second.to_le_bytes());
            let slot = index as u64 % 16;
            ram.write_at(bulkhead_abi::PhysicalAddress(trace(core).0 + 4096 + slot * 32), &bytes).expect("in RAM");
        }
        let header = [bulkhead_abi::observe::TRACE_MAGIC, 16, records.len() as u64, 1];
        let bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        ram.write_at(trace(core), &bytes).expect("in RAM");
    };
    let calls = [(50, 7, 0, 0x8400_0008, 7), (60, 7, 0, 0xc600_0099, 8), (70, 2, 0, 0x9381_0006, 0x4020_52c8)];
    write(0, &[(10, 1, 0, 0x4000_0000, 0), (30, 4, 5, 1, 0), calls[0], calls[1], calls[2]]);
    write(2, &[(20, 3, 27, 0, 0)]);
    write(1, &[(1, 3, 1, 0, 0); 20]);
    let observer = Observer::new(ram, plan);
    let trace = Trace::read(&observer);
    assert_eq!(trace.lost, [0, 5, 0], "20 records in a ring of 16, of which one slot may be in use");
    let text = trace.text(&observer);
    let lines: Vec<_> = text.lines().filter(|line| !line.contains("interrupt 1")).collect();
    assert_eq!(lines[0], "# core 1: 5 older records were overwritten");
    // 62.5 MHz: a tick has 16 ns.
    assert_eq!(lines[1], "           160 core 0 linux        guest start at 0x40000000");
    assert_eq!(lines[2], "           320 core 2 control      interrupt 27");
    assert_eq!(lines[4], "           800 core 0 linux        call SYSTEM_OFF(0x7)");
    assert_eq!(lines[5], "           960 core 0 linux        call 0xc6000099(0x8)");
    let abort = "exit: data abort from a lower level (class 0x24, ESR 0x93810006) at 0x402052c8";
    assert_eq!(lines[6], format!("          1120 core 0 linux        {abort}"));
    assert_eq!(lines[3], "           480 core 0 linux        state: stopped (reason: data access outside its memory)");
    let timeline = trace.timeline(&observer, "a test");
    assert_eq!((timeline.lost.as_slice(), timeline.layout.partitions.len()), ([0, 5, 0].as_slice(), 2));
    assert_eq!(timeline.layout.slot_name(2, 0).to_string(), "control");
    let file = bulkhead_trace::perfetto::write(&timeline);
    assert_eq!(bulkhead_trace::perfetto::read(&file).expect("it is one of ours"), timeline);
}

/// A boot loader has its own things in RAM until the monitor starts: they are nobody's states.
#[test]
fn what_ram_holds_before_the_monitor_is_no_state() {
    let (ram, plan) = ram_and_plan(&two_partitions());
    let observer = Observer::new(Arc::clone(&ram), plan);
    for partition in 0..2 {
        ram.write_at(status(partition), &STATE_OFF.to_le_bytes()).expect("in RAM");
    }
    assert_eq!((observer.status(1).state, observer.all_ended(), observer.has_started()), (STATE_INITIAL, false, false));
    for lead in [0, 2] {
        ram.write_at(counters(lead), &COUNTERS_MAGIC.to_le_bytes()).expect("in RAM");
    }
    assert_eq!((observer.status(1).state, observer.all_ended(), observer.has_started()), (STATE_OFF, true, true));
}

/// A QEMU that answers each line it reads with the next prepared text.
fn fake_server(greeting: &str, answers: Vec<&str>) -> (UnixStream, JoinHandle<Vec<String>>) {
    let (ours, mut theirs) = UnixStream::pair().expect("a socket pair");
    theirs.write_all(greeting.as_bytes()).expect("the greeting fits");
    let answers: Vec<_> = answers.into_iter().map(str::to_owned).collect();
    let server = std::thread::spawn(move || {
        let mut lines = BufReader::new(theirs.try_clone().expect("a second handle")).lines();
        let mut seen = Vec::new();
        for answer in answers {
            let Some(Ok(line)) = lines.next() else { break };
            seen.push(line);
            theirs.write_all(answer.as_bytes()).expect("the answer fits");
        }
        seen
    });
    (ours, server)
}

const GREETING: &str = "{\"QMP\": {\"version\": {\"qemu\": {\"major\": 7}}, \"capabilities\": []}}\r\n";

#[test]
fn the_control_connection_sorts_answers_and_events() {
    let answers = vec![
        "{\"return\": {}, \"id\": 1}\n",
        "{\"event\": \"STOP\", \"data\": {}}\n{\"return\": \"late\", \"id\": 0}\n{\"return\": {\"running\": true}, \"id\": 2}\n",
        "not JSON\n{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such thing\"}, \"id\": 3}\n",
    ];
    let (stream, server) = fake_server(GREETING, answers);
    let mut qmp = Qmp::connect(stream).expect("the greeting is accepted");
    assert_eq!(qmp.version()["qemu"]["major"], 7);
    assert_eq!(qmp.execute("query-status").expect("answered")["running"], true);
    assert!(qmp.wait_for_event("STOP", Duration::from_secs(600)));
    assert!(qmp.next_event().is_none());
    let error = qmp.execute("nonsense").expect_err("refused");
    assert!(error.to_string().contains("`nonsense` was refused: no such thing"), "{error}");
    let seen = server.join().expect("the server ends");
    assert!(seen[1].contains("\"execute\":\"query-status\""), "{}", seen[1]);
}

#[test]
fn a_control_connection_that_closes_or_lies_is_an_error() {
    let (stream, _server) = fake_server("", vec![]);
    let Err(error) = Qmp::connect(stream) else { panic!("nothing greeted") };
    assert!(error.to_string().contains("closed before its greeting"), "{error}");
    let (stream, _server) = fake_server("{\"hello\": 1}\n", vec![]);
    let Err(error) = Qmp::connect(stream) else { panic!("that was no greeting") };
    assert!(matches!(error, RunError::Qmp(_)) && error.to_string().contains("hello"), "{error}");
}
