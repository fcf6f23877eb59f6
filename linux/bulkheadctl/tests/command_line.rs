//! The command line: what is understood, and that a mistake says what to write instead.

use bulkheadctl::arguments::{
    Backing, Command, Format, HELP, Invocation, ReadOptions, Request, ServeOptions, WriteOptions, parse,
};
use bulkheadctl::failure::USAGE;
use std::time::Duration;

fn understood(line: &str) -> Invocation {
    match parse(line.split_whitespace().map(Into::into).collect()) {
        Ok(Request::Run(invocation)) => invocation,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn commands_are_understood() {
    let read =
        |count, timeout, is_watch| Command::ChannelRead(ReadOptions { name: "a".into(), count, timeout, is_watch });
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(understood("channel list").command, Command::ChannelList);
    assert_eq!(understood("channel read a").command, read(Some(1), seconds(0), false));
    assert_eq!(understood("channel read a --count 5 --timeout 2s").command, read(Some(5), seconds(2), false));
    assert_eq!(understood("--format json channel watch a").command, read(None, None, true));
    assert_eq!(understood("--format json channel watch a").format, Format::Json);
    let write =
        WriteOptions { name: "a".into(), data: Some(b"x".to_vec()), lines: false, ring: true, timeout: seconds(0) };
    assert_eq!(understood("channel write a x").command, Command::ChannelWrite(write));
    let every = Duration::from_millis(50);
    assert_eq!(understood("heartbeat --every 50ms").command, Command::Heartbeat { every, count: None });
    assert_eq!(understood("latency --every 50ms --count 9").command, Command::Latency { every, count: 9, each: false });
    assert_eq!(
        understood("latency --every 50ms --count 9 --each").command,
        Command::Latency { every, count: 9, each: true }
    );
}

#[test]
fn what_is_served_is_understood() {
    let serve = |backing, timeout| Command::Serve(ServeOptions { name: "a".into(), backing, timeout });
    let file = |is_read_only| Backing::File { path: "x.img".into(), is_read_only };
    assert_eq!(understood("serve a x.img").command, serve(file(false), None));
    assert_eq!(understood("serve a x.img --read-only").command, serve(file(true), None));
    let second = Some(Duration::from_secs(1));
    assert_eq!(understood("serve a --tap t0 --timeout 1s").command, serve(Backing::Tap("t0".into()), second));
}

#[test]
fn a_dash_is_standard_input_and_everything_behind_two_dashes_is_data() {
    let data = |line| match understood(line).command {
        Command::ChannelWrite(options) => options.data,
        other => panic!("{other:?}"),
    };
    assert_eq!(data("channel write a -"), None);
    assert_eq!(data("channel write a"), None);
    assert_eq!(data("channel write a -- --hex"), Some(b"--hex".to_vec()));
    assert_eq!(data("channel write a --hex 0aFF"), Some(vec![10, 255]));
}

#[test]
fn mistakes_say_what_to_write() {
    for (line, hint) in [
        ("", "a command is missing"),
        ("chanel list", "unknown command \"chanel\""),
        ("channel", "one of list, show"),
        ("channel read", "takes one NAME"),
        ("channel read a b", "takes one NAME"),
        ("channel list a", "takes no name"),
        ("serve a", "NAME FILE"),
        ("serve a x --tap t0", "NAME --tap INTERFACE"),
        ("serve a --tap t0 --read-only", "NAME --tap INTERFACE"),
        ("channel write a --hex xyz", "two digits"),
        ("channel read a --timeout 5", "did you mean \"5ms\""),
        ("channel read a --timeout 5h", "the units are"),
        ("channel read a --timeout 99999999999999999999s", "a whole number"),
        ("channel read a --format xml", "text, json and raw"),
        ("channel list --format raw", "channel read and channel watch"),
        ("channel read a --count many", "many"),
        ("channel read a --verbose", "--verbose"),
        ("partition", "one of list, status"),
        ("partition restart", "takes one NAME"),
        ("heartbeat", "--every"),
        ("latency --every 50ms", "--count"),
        ("latency --count 3", "--every"),
    ] {
        let failure = parse(line.split_whitespace().map(Into::into).collect()).unwrap_err();
        assert_eq!(failure.code, USAGE, "{line}");
        assert!(failure.message.contains(hint), "{line}: {failure}");
    }
}

#[test]
fn help_names_every_exit_code() {
    let Ok(Request::Print(text)) = parse(vec!["channel".into(), "--help".into()]) else { panic!("no help") };
    assert_eq!(text, HELP);
    assert!((0..=7).all(|code| text.contains(&format!("{code} "))));
}
