//! Commands on a machine made of files: output, exit codes, and what is written to the kernel and to the device.

mod support;

use bulkhead_abi::hypercall::management;
use bulkhead_abi::status::REASON_BACK_END_BUSY;
use bulkhead_channel::{Geometry, QueuingReader, QueuingWriter, SamplingReader, SamplingWriter, SharedMemory};
use bulkhead_world::pool::{self, Filter, Receiver, Sender};
use bulkheadctl::failure::{CORRUPT, FULL, MACHINE, NOT_FOUND, NOTHING, REFUSED, USAGE};
use bulkheadctl::hardware::counter_ticks;
use std::fs;
use support::{Machine, peek, peer, poke};

fn sampling() -> Geometry {
    Geometry::sampling(64).unwrap()
}

fn queuing() -> Geometry {
    Geometry::queuing(8, 2).unwrap()
}

#[test]
fn list_shows_every_port_and_nothing_else() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["channel", "list", "--format", "json"]).unwrap(), "[]\n");
    let function = machine.port(2, "telemetry", false, sampling(), true);
    machine.port(3, "commands", true, queuing(), false);
    let json = machine.run(&["channel", "list", "--format", "json"]).unwrap();
    assert_eq!(
        json,
        "[{\"name\":\"telemetry\",\"direction\":\"destination\",\"kind\":\"sampling\",\"message_bytes\":64,\"slots\":4,\
         \"doorbell\":true,\"function\":\"0000:00:02.0\"},{\"name\":\"commands\",\"direction\":\"source\",\
         \"kind\":\"queuing\",\"message_bytes\":8,\"slots\":2,\"doorbell\":false,\"function\":\"0000:00:03.0\"}]\n"
    );
    let text = machine.run(&["channel", "list"]).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert_eq!(fs::read_to_string(function.join("enable")).unwrap(), "1\n", "memory decoding was switched on");
}

#[test]
fn a_sampled_value_is_printed_as_text_json_and_raw() {
    let machine = Machine::new();
    let function = machine.port(2, "telemetry", false, sampling(), false);
    assert_eq!(machine.run(&["channel", "read", "telemetry"]).unwrap_err().code, NOTHING, "the source is closed");
    let mapping = peer(&function, sampling());
    let mut source = SamplingWriter::open(mapping.window().unwrap(), sampling(), counter_ticks()).unwrap();
    assert_eq!(machine.run(&["channel", "read", "telemetry"]).unwrap_err().code, NOTHING, "no value yet");
    let _ = source.write(b"speed=12", counter_ticks()).unwrap();
    assert_eq!(machine.run(&["channel", "read", "telemetry"]).unwrap(), "speed=12\n");
    assert_eq!(machine.run(&["channel", "read", "telemetry", "--format", "raw"]).unwrap(), "speed=12");
    let json = machine.run(&["channel", "read", "telemetry", "--format", "json"]).unwrap();
    assert!(json.starts_with("{\"channel\":\"telemetry\",\"sequence\":1,\"time_ticks\":"), "{json}");
    assert!(json.ends_with("\"bytes\":8,\"text\":\"speed=12\"}\n"), "{json}");
    let _ = source.write(&[1, 0, 2], counter_ticks()).unwrap();
    assert_eq!(machine.run(&["channel", "read", "telemetry"]).unwrap(), "010002\n");
    let failure = machine.run(&["channel", "read", "telemetry", "--count", "2", "--timeout", "20ms"]).unwrap_err();
    assert_eq!(failure.code, NOTHING, "the same value is not printed twice");
    assert_eq!(machine.run(&["channel", "write", "telemetry", "x"]).unwrap_err().code, USAGE);
}

#[test]
fn queued_messages_are_taken_once_each() {
    let machine = Machine::new();
    let function = machine.port(2, "commands", false, queuing(), false);
    let mapping = peer(&function, queuing());
    let mut source = QueuingWriter::open(mapping.window().unwrap(), queuing(), counter_ticks()).unwrap();
    let _ = source.send(b"one", 0).unwrap();
    let _ = source.send(b"two", 0).unwrap();
    assert_eq!(machine.run(&["channel", "read", "commands"]).unwrap(), "one\n");
    let _ = source.send(b"three", 0).unwrap();
    assert_eq!(machine.run(&["channel", "watch", "commands", "--count", "2"]).unwrap(), "two\nthree\n");
    assert_eq!(machine.run(&["channel", "read", "commands"]).unwrap_err().code, NOTHING);
    assert_eq!(source.free(), 2);
}

#[test]
fn a_restart_of_the_source_is_survived() {
    let machine = Machine::new();
    let function = machine.port(2, "commands", false, queuing(), false);
    let mapping = peer(&function, queuing());
    let mut source = QueuingWriter::open(mapping.window().unwrap(), queuing(), 1).unwrap();
    let _ = source.send(b"one", 0).unwrap();
    assert_eq!(machine.run(&["channel", "read", "commands"]).unwrap(), "one\n");
    poke(&function.join("resource2"), 8192, &[0; 4096]);
    let mut source = QueuingWriter::open(mapping.window().unwrap(), queuing(), 2).unwrap();
    let _ = source.send(b"again", 0).unwrap();
    assert_eq!(machine.run(&["channel", "read", "commands"]).unwrap(), "again\n");
}

#[test]
fn rubbish_from_the_peer_is_exit_code_6_and_named() {
    let machine = Machine::new();
    let function = machine.port(2, "commands", false, queuing(), false);
    let mapping = peer(&function, queuing());
    let mut source = QueuingWriter::open(mapping.window().unwrap(), queuing(), 1).unwrap();
    let _ = source.send(b"one", 0).unwrap();
    let _ = source.send(b"two", 0).unwrap();
    // Slot 0 follows the head of 64 bytes; its payload is 24 bytes in.
    poke(&function.join("resource2"), 8192 + 64 + 24, b"X");
    let failure = machine.run(&["channel", "read", "commands"]).unwrap_err();
    assert_eq!(failure.code, CORRUPT);
    assert!(failure.message.contains("checksum"), "{failure}");
    assert_eq!(machine.run(&["channel", "read", "commands"]).unwrap(), "two\n", "QV-53: the next message is read");
}

#[test]
fn written_messages_arrive_and_the_doorbell_is_rung() {
    let machine = Machine::new();
    let function = machine.port(2, "commands", true, queuing(), true);
    let registers = function.join("resource0");
    machine.run(&["channel", "write", "commands", "one", "--no-ring"]).unwrap();
    assert_eq!(peek(&registers, 0xc), 0);
    machine.run(&["channel", "write", "commands", "00ff", "--hex"]).unwrap();
    assert_eq!(peek(&registers, 0xc), 1 << 16, "destination 1, vector 0");
    assert_eq!(machine.run(&["channel", "write", "commands", "x", "--timeout", "3ms"]).unwrap_err().code, FULL);
    let mapping = peer(&function, queuing());
    let mut destination = QueuingReader::open(mapping.window().unwrap(), queuing()).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(destination.receive(&mut buffer).unwrap().payload, b"one");
    assert_eq!(destination.receive(&mut buffer).unwrap().payload, [0, 0xff]);
    machine.run(&["channel", "write", "commands", "three"]).unwrap();
    assert_eq!(destination.receive(&mut buffer).unwrap().sequence, 3, "programs take over from each other");
    let failure = machine.run(&["channel", "write", "commands", "too long!"]).unwrap_err();
    assert_eq!(failure.code, USAGE);
    assert!(failure.message.contains("9 bytes given"), "{failure}");
    assert_eq!(machine.run(&["channel", "read", "commands"]).unwrap_err().code, USAGE);
}

#[test]
fn a_sampling_source_keeps_its_sequence_over_runs() {
    let machine = Machine::new();
    let function = machine.port(2, "setpoint", true, sampling(), false);
    for value in ["1", "2", "3"] {
        machine.run(&["channel", "write", "setpoint", value]).unwrap();
    }
    let mapping = peer(&function, sampling());
    let mut destination = SamplingReader::open(mapping.window().unwrap(), sampling()).unwrap();
    let mut buffer = [0; 64];
    let sample = destination.read(&mut buffer).unwrap();
    assert_eq!((sample.message.payload, sample.message.sequence), (&b"3"[..], 3));
}

#[test]
fn waiting_re_arms_the_interrupt_and_takes_its_level() {
    let machine = Machine::new();
    let function = machine.port(2, "telemetry", false, sampling(), true);
    machine.uio(&function);
    machine.run(&["channel", "wait", "telemetry", "--timeout", "5s"]).unwrap();
    assert_eq!(peek(&function.join("resource0"), 0x0), 1, "IntrMask");
    assert_eq!(peek(&function.join("config"), 4), 0x0002, "DisINTx is clear, memory decoding untouched");
}

#[test]
fn waiting_binds_the_driver_to_this_function_alone() {
    let machine = Machine::new();
    let function = machine.port(2, "telemetry", false, sampling(), true);
    let failure = machine.run(&["channel", "wait", "telemetry"]).unwrap_err();
    assert_eq!(failure.code, MACHINE);
    assert!(failure.message.contains("modprobe uio_pci_generic"), "{failure}");
    let driver = machine.driver();
    let failure = machine.run(&["channel", "wait", "telemetry"]).unwrap_err();
    assert!(failure.message.contains("made no uio device"), "{failure}");
    assert_eq!(fs::read_to_string(driver.join("bind")).unwrap(), "0000:00:02.0");
    assert_eq!(fs::read_to_string(function.join("driver_override")).unwrap(), "uio_pci_generic");
}

#[test]
fn a_port_without_a_doorbell_says_so() {
    let machine = Machine::new();
    machine.port(2, "in", false, sampling(), false);
    machine.port(3, "out", true, sampling(), false);
    machine.port(4, "loud", true, sampling(), true);
    for arguments in [["channel", "wait", "in"], ["channel", "ring", "in"], ["channel", "ring", "out"]] {
        let failure = machine.run(&arguments).unwrap_err();
        assert_eq!(failure.code, MACHINE);
        assert!(failure.message.contains("doorbell") || failure.message.contains("destination"), "{failure}");
    }
    machine.run(&["channel", "ring", "loud"]).unwrap();
}

#[test]
fn show_prints_both_ends_and_the_peer() {
    let machine = Machine::new();
    let function = machine.port(2, "commands", true, queuing(), true);
    machine.run(&["channel", "write", "commands", "one"]).unwrap();
    poke(&function.join("resource2"), 0, &[4, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0]);
    let json = machine.run(&["channel", "show", "commands", "--format", "json"]).unwrap();
    let tail = "\"source_open\":true,\"destination_open\":false,\"written\":1,\"read\":0,\"peer_state\":\"restarting\",\
                \"peer_reason\":\"watchdog\",\"peer_generation\":3,\"peer_restarts\":2}\n";
    assert!(json.ends_with(tail), "{json}");
    let text = machine.run(&["channel", "show", "commands"]).unwrap();
    assert!(text.contains("source:       open, 1 written\ndestination:  closed, 0 read\n"), "{text}");
    let failure = machine.run(&["channel", "show", "nowhere"]).unwrap_err();
    assert_eq!(failure.code, NOT_FOUND);
    assert!(failure.message.contains("it has commands"), "{failure}");
}

#[test]
fn a_function_with_senseless_registers_is_refused() {
    let machine = Machine::new();
    let function = machine.port(2, "telemetry", false, sampling(), false);
    poke(&function.join("resource0"), 0x100, &[0; 72]);
    let failure = machine.run(&["channel", "list"]).unwrap_err();
    assert!(failure.message.contains("0000:00:02.0 is not a channel end"), "{failure}");
}

#[test]
fn a_short_resource_is_an_error_and_not_a_crash() {
    let machine = Machine::new();
    let function = machine.port(2, "telemetry", false, sampling(), false);
    fs::write(function.join("resource2"), [0; 8192]).unwrap();
    let failure = machine.run(&["channel", "read", "telemetry"]).unwrap_err();
    assert_eq!(failure.code, MACHINE);
    assert!(failure.message.contains("8192 bytes, 12288 are needed"), "{failure}");
}

#[test]
fn a_second_user_of_a_port_is_refused() {
    let machine = Machine::new();
    let function = machine.port(2, "commands", true, queuing(), false);
    let held = fs::OpenOptions::new().read(true).write(true).open(function.join("resource2")).unwrap();
    held.lock().unwrap();
    let failure = machine.run(&["channel", "write", "commands", "one"]).unwrap_err();
    assert!(failure.message.contains("in use by another process"), "{failure}");
}

#[test]
fn partitions_are_listed_and_managed() {
    let machine = Machine::new();
    assert!(machine.run(&["partition", "list"]).unwrap_err().message.contains("no management device"));
    let function = machine.management(1, 2, "linux");
    let registers = function.join("resource0");
    let expected = "{\"index\":2,\"name\":\"linux\",\"own\":true,\"state\":\"running\",\"reason\":\"requested\",\
                    \"generation\":3,\"restarts\":2}";
    assert_eq!(machine.run(&["partition", "list", "--format", "json"]).unwrap(), format!("[{expected}]\n"));
    assert_eq!(machine.run(&["partition", "status", "linux", "--format", "json"]).unwrap(), format!("{expected}\n"));
    assert!(machine.run(&["partition", "list"]).unwrap().contains("* linux"));
    poke(&registers, management::REASON, &REASON_BACK_END_BUSY.to_le_bytes());
    let status = machine.run(&["partition", "status", "linux"]).unwrap();
    assert!(status.contains("reason:    back end busy\n"), "a restart that waited for it in vain: {status}");
    assert_eq!(machine.run(&["partition", "status", "rtos"]).unwrap_err().code, NOT_FOUND);
    for (verb, command) in [("suspend", 1), ("resume", 2), ("restart", 3)] {
        machine.run(&["partition", verb, "linux"]).unwrap();
        assert_eq!((peek(&registers, 0x18), peek(&registers, 0x08)), (command, 2), "{verb}");
    }
    poke(&registers, 0x1c, &(-3i32).to_le_bytes());
    assert_eq!(machine.run(&["partition", "restart", "linux"]).unwrap_err().code, REFUSED);
    machine.run(&["heartbeat", "--every", "1ms", "--count", "3"]).unwrap();
    assert_eq!(peek(&registers, 0x20), 1);
}

/// A hostile source cannot make the reader touch anything or spin: rubbish in every word it may write.
#[test]
fn a_window_full_of_rubbish_is_reported() {
    let machine = Machine::new();
    let function = machine.port(2, "commands", false, queuing(), false);
    let mapping = peer(&function, queuing());
    let window = mapping.window().unwrap();
    (1024..window.words()).for_each(|word| window.store(word, u64::MAX));
    assert_eq!(machine.run(&["channel", "read", "commands"]).unwrap_err().code, CORRUPT);
    let failure = machine.run(&["channel", "watch", "commands", "--timeout", "20ms"]).unwrap_err();
    assert_eq!(failure.code, NOTHING);
}

/// SG-82: a program wants a latency task by a priority, and sees whether the payload has read it.
#[test]
fn a_latency_task_is_wanted_by_a_priority() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["world", "priority"]).unwrap_err().code, NOT_FOUND, "no node in the device tree");
    let page = machine.world_wish(0x1000_0000);
    let words = page.window().unwrap();
    assert_eq!(machine.run(&["world", "priority", "97"]).unwrap(), "priority 97 wants ltask0\n");
    assert_eq!(words.load(0), 97);
    assert_eq!(machine.run(&["world", "priority", "88", "--timeout", "5ms"]).unwrap_err().code, NOTHING);
    words.store(1, 88);
    assert_eq!(
        machine.run(&["world", "priority", "88", "--timeout", "1s"]).unwrap(),
        "priority 88 wants ltask1\n",
        "the payload has read it"
    );
    let shown = machine.run(&["world", "priority"]).unwrap();
    assert!(shown.contains("ltask0                   priorities 95 to 99\n"), "{shown}");
    assert!(shown.contains("ltask2                   no priority wants it\n"), "{shown}");
    assert!(shown.ends_with("wanted: 88, which is ltask1; the payload has read 88\n"), "{shown}");
    let json = machine.run(&["world", "priority", "--format", "json"]).unwrap();
    assert!(
        json.starts_with("{\"wanted\":88,\"task\":\"ltask1\",\"read\":88,\"tasks\":[{\"name\":\"ltask0\""),
        "{json}"
    );
    assert_eq!(machine.run(&["world", "priority", "0"]).unwrap(), "priority 0 wants the background task\n");
    for wrong in ["100", "-1", "high"] {
        assert_eq!(machine.run(&["world", "priority", wrong]).unwrap_err().code, USAGE, "{wrong}");
    }
    assert_eq!(words.load(0), 0, "what is refused is not written");
}

/// A device tree is data: a range of 2^32 priorities takes no longer than one of five, and a `reg` of one number is damaged.
#[test]
fn a_strange_device_tree_is_read_at_once_or_refused() {
    let machine = Machine::new();
    let _page = machine.world_wish(0x1000_0000);
    assert_eq!(
        machine.run(&["world", "priority", "97", "--format", "json"]).unwrap(),
        "{\"wanted\":97,\"task\":\"ltask0\"}\n"
    );
    let node = machine.root.join("sys/firmware/devicetree/base/bulkhead-latency/wish@10000000");
    let cells: Vec<u8> =
        [100_u32, u32::MAX, 101, u32::MAX, 1, u32::MAX].iter().flat_map(|cell| cell.to_be_bytes()).collect();
    fs::write(node.join("priorities"), cells).unwrap();
    let started = std::time::Instant::now();
    assert_eq!(machine.run(&["world", "priority", "99"]).unwrap(), "priority 99 wants ltask2\n");
    assert!(started.elapsed().as_secs() < 2, "{:?}", started.elapsed());
    fs::write(node.join("reg"), 0x1000_0000_u64.to_be_bytes()).unwrap();
    let failure = machine.run(&["world", "priority"]).unwrap_err();
    assert!(failure.code == MACHINE && failure.message.contains("is damaged"), "{}", failure.message);
}

/// A function that cannot be switched on is not one that does not exist.
#[test]
fn a_function_that_fails_is_not_taken_for_no_channel() {
    let machine = Machine::new();
    let function = machine.function(1, "0x1af4", "0x1110");
    // The kernel may refuse it; a folder cannot be written by root, either.
    fs::remove_file(function.join("enable")).unwrap();
    fs::create_dir(function.join("enable")).unwrap();
    let failure = machine.run(&["world", "list"]).unwrap_err();
    assert!(failure.code == MACHINE && failure.message.contains("enable"), "{}", failure.message);
}

/// SG-70: each run goes on where the one before stopped; what cannot be is said, and who holds a channel keeps others out.
#[test]
fn messages_of_the_secure_world_go_both_ways() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["world", "list"]).unwrap_err().code, NOT_FOUND, "no node in the device tree");
    let geometry = pool::Geometry::new(2, 16).unwrap();
    let telemetry = machine.world_channel("telemetry", "to-world", 0x1000_0000, 2, 16);
    let answers = machine.world_channel("answers", "to-payload", 0x1000_1000, 2, 16);
    let list = machine.run(&["world", "list", "--format", "json"]).unwrap();
    assert!(list.starts_with("[{\"name\":\"telemetry\",\"direction\":\"to_world\",\"blocks\":2"), "{list}");
    assert_eq!(machine.run(&["world", "list"]).unwrap().lines().count(), 2);

    let mut payload = Sender::new(telemetry.window().unwrap(), geometry).unwrap();
    assert_eq!(machine.run(&["world", "receive", "telemetry"]).unwrap_err().code, NOTHING);
    for round in 0..6_u32 {
        let block = payload.allocate().unwrap();
        payload.write(block, format!("round {round}").as_bytes()).unwrap();
        payload.enqueue(block, 7, round).unwrap();
        assert_eq!(machine.run(&["world", "receive", "telemetry"]).unwrap(), format!("round {round}\n"));
    }
    let block = payload.allocate().unwrap();
    payload.enqueue(block, 3, 9).unwrap();
    let json = machine.run(&["world", "receive", "telemetry", "--format", "json"]).unwrap();
    assert!(json.starts_with("{\"channel\":\"telemetry\",\"tag\":9,\"bytes\":3"), "{json}");

    let mut reader = Receiver::new(answers.window().unwrap(), geometry, Filter::default()).unwrap();
    for round in 0..6_u32 {
        for text in ["one", "another"] {
            machine.run(&["world", "send", "answers", text, "--tag", &round.to_string()]).unwrap();
        }
        assert_eq!(machine.run(&["world", "send", "answers", "third"]).unwrap_err().code, FULL);
        for text in ["one", "another"] {
            let message = reader.dequeue().unwrap();
            assert_eq!((message.tag(), reader.read(&message, &mut [0; 16]).unwrap()), (round, text.as_bytes()));
            reader.free(&message).unwrap();
        }
    }
    let failure = |arguments: &[&str]| machine.run(arguments).unwrap_err().code;
    assert_eq!(failure(&["world", "send", "answers", "longer than its block"]), USAGE);
    assert_eq!(failure(&["world", "send", "telemetry", "x"]), USAGE);
    assert_eq!(failure(&["world", "receive", "answers"]), USAGE);
    assert_eq!(failure(&["world", "receive", "other"]), NOT_FOUND);
    assert_eq!(failure(&["world", "forget", "answers"]), USAGE);
    telemetry.window().unwrap().store(0, u64::MAX);
    assert_eq!(failure(&["world", "receive", "telemetry"]), CORRUPT);
}

/// SG-70: in a partition a channel with the payload is a PCI function, whose BAR 2 the pool begins: its length follows from the blocks.
#[test]
fn messages_of_a_partition_go_through_a_function() {
    let machine = Machine::new();
    let geometry = pool::Geometry::new(10, 32).unwrap();
    let telemetry = machine.world_function(2, "telemetry", false, 0x1000_0000, [10, 32]);
    let answers = machine.world_function(3, "answers", true, 0x1000_2000, [10, 32]);
    let list = machine.run(&["world", "list"]).unwrap();
    let expected = "telemetry                to the world     10 blocks of 32 bytes at 0x10000000\n\
                    answers                  to the payload   10 blocks of 32 bytes at 0x10002000\n";
    assert_eq!(list, expected);
    assert!(machine.run(&["channel", "list"]).unwrap().starts_with("no channels"), "it is none between partitions");
    let mut payload = Sender::new(telemetry.window().unwrap(), geometry).unwrap();
    let block = payload.allocate().unwrap();
    payload.write(block, b"round 1").unwrap();
    payload.enqueue(block, 7, 1).unwrap();
    assert_eq!(machine.run(&["world", "receive", "telemetry"]).unwrap(), "round 1\n");
    let mut reader = Receiver::new(answers.window().unwrap(), geometry, Filter::default()).unwrap();
    machine.run(&["world", "send", "answers", "round 1"]).unwrap();
    let message = reader.dequeue().unwrap();
    assert_eq!(reader.read(&message, &mut [0; 32]).unwrap(), b"round 1");
    fs::write(machine.root.join("sys/bus/pci/devices/0000:00:02.0/resource"), "0x0 0x0 0x0\n").unwrap();
    let failure = machine.run(&["world", "list"]).unwrap_err();
    assert!(failure.code == MACHINE && failure.message.contains("no line of BAR 2"), "{}", failure.message);
}
