//! Sizes and durations: what is written is what is read, and nothing makes the reader panic.

use bulkhead_description::unit::{
    DURATION_UNITS, SIZE_UNITS, duration_option, format_duration, format_size, parse_duration, parse_size,
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_size_survives_writing_and_reading(bytes: u64) {
        prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
    }

    #[test]
    fn a_duration_survives_writing_and_reading(nanoseconds: u64) {
        prop_assert_eq!(parse_duration(&format_duration(nanoseconds)), Ok(nanoseconds));
    }

    #[test]
    fn a_number_with_a_unit_is_their_product(number: u32, unit in 0..SIZE_UNITS.len(), spaces in 0..3usize) {
        let (name, factor) = SIZE_UNITS[unit];
        let text = format!("{}{number}{}{name} ", " ".repeat(spaces), " ".repeat(spaces));
        prop_assert_eq!(parse_size(&text), Ok(u64::from(number) * factor));
    }

    #[test]
    fn a_suggestion_for_a_number_without_a_unit_works(number: u64) {
        for problem in [parse_size(&number.to_string()), parse_size(&format!("{number:#x}"))] {
            let size = problem.expect_err("no unit");
            prop_assert!(parse_size(&size.replacement.expect("a suggestion")).is_ok());
        }
        for problem in [parse_duration(&number.to_string()), parse_duration(&format!("{number:#x}"))] {
            let replacement = problem.expect_err("no unit").replacement;
            prop_assert!(replacement.is_none_or(|replacement| parse_duration(&replacement).is_ok()));
        }
    }

    #[test]
    fn every_suggestion_is_accepted(number in 0..100_000u32, unit in "[a-zA-Zµ]{0,8}", fraction in prop::option::of(0..1000u32)) {
        let digits = fraction.map_or_else(|| number.to_string(), |fraction| format!("{number}.{fraction}"));
        // A suggestion repairs one mistake; after two at most the text is accepted.
        let mut text = format!("{digits} {unit}");
        for _ in 0..2 {
            let Err(bad) = parse_size(&text) else { break };
            let Some(replacement) = bad.replacement else { return Ok(()) };
            text = replacement;
        }
        let last = parse_size(&text);
        prop_assert!(last.as_ref().is_ok_and(|_| true) || last.expect_err("refused").replacement.is_none(), "{}", text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text: String) {
        let _ = parse_size(&text);
        let _ = parse_duration(&text);
    }
}

#[test]
fn units_mean_what_the_reference_says() {
    assert_eq!(parse_size("4 MiB"), Ok(4 << 20));
    assert_eq!(parse_size("1_024KiB"), Ok(1 << 20));
    assert_eq!(parse_duration("100 ms"), Ok(100_000_000));
    assert_eq!(parse_duration("2 min"), Ok(120_000_000_000));
    assert!(DURATION_UNITS.windows(2).all(|pair| pair[0].1 < pair[1].1), "units grow");
    assert!(SIZE_UNITS.windows(2).all(|pair| pair[0].1 < pair[1].1), "units grow");
}

#[test]
fn usual_misspellings_are_understood() {
    let meant = |text: &str| parse_size(text).or_else(|_| parse_duration(text)).err().and_then(|bad| bad.replacement);
    assert_eq!(parse_size("4 MB").expect_err("refused").replacement.as_deref(), Some("4 MiB"));
    assert_eq!(parse_duration("4 seconds").expect_err("refused").replacement.as_deref(), Some("4 s"));
    assert_eq!(parse_duration("4 µs").expect_err("refused").replacement.as_deref(), Some("4 us"));
    assert_eq!(parse_size("0.5 KiB").expect_err("refused").replacement.as_deref(), Some("512 B"));
    assert_eq!(parse_size("0.3 KiB").expect_err("refused").replacement, None, "not a whole number of bytes");
    assert_eq!(meant("four MiB"), None);
    assert!(parse_size("99999999999999999999 B").is_err() && parse_size("18446744073709551615 KiB").is_err());
}

/// A suggestion is what was meant, or there is none: a wrong one costs more time than none.
#[test]
fn suggestions_are_what_was_meant() {
    let size = |text: &str| parse_size(text).expect_err("refused").replacement;
    let duration = |text: &str| parse_duration(text).expect_err("refused").replacement;
    for (text, meant) in [("4 mib", "4 MiB"), ("4 KIB", "4 KiB"), ("4 gib", "4 GiB"), ("4 kb", "4 KiB"), ("1 b", "1 B")]
    {
        assert_eq!(size(text).as_deref(), Some(meant), "{text}");
    }
    for (text, meant) in [("4 MS", "4 ms"), ("4 Us", "4 us"), ("4 S", "4 s"), ("4 Min", "4 min"), ("4 minn", "4 min")] {
        assert_eq!(duration(text).as_deref(), Some(meant), "{text}");
    }
    // An address or a number of bytes is never a number of mebibytes.
    for (text, meant) in [
        ("0x400000", "4 MiB"),
        ("0x40_0000", "4 MiB"),
        ("0X1000 B", "4 KiB"),
        ("4194304", "4 MiB"),
        ("64", "64 MiB"),
        ("65537", "65537 B"),
    ] {
        assert_eq!(size(text).as_deref(), Some(meant), "{text}");
    }
    assert_eq!(duration("100").as_deref(), Some("100 ms"));
    assert_eq!(duration("5000000").as_deref(), Some("5 ms"), "nanoseconds, as programs write them");
    // Several units are equally near, or none is.
    for text in ["4 m", "4 h", "4 x", "4 q", "4 ps", "0x64", "0x5 ms", "3 parsec"] {
        assert_eq!(duration(text), None, "{text}");
    }
    for text in ["4 x", "4 xiB", "4 ms", "0x", "0xffffffffffffffffff", "0x4 MiB", "2 TiB", "2 tb"] {
        assert_eq!(size(text), None, "{text}");
    }
    assert!(parse_size("0x400000").expect_err("refused").problem.contains("hexadecimal"));
}

/// On the command line a number without a unit means what the option is about.
#[test]
fn an_option_says_what_its_own_number_means() {
    let refused = |text: &str| duration_option(text, "s").expect_err("refused");
    assert_eq!(refused("5"), "`5` has no unit: write one of `ns`, `us`, `ms`, `s` or `min`; did you mean \"5 s\"?");
    assert_eq!(
        refused("5 sec"),
        "`sec` is not a unit here: use one of `ns`, `us`, `ms`, `s` or `min`; did you mean \"5 s\"?"
    );
    assert_eq!(refused("soon"), "`soon` is not a duration: it must be a whole number and a unit");
    assert_eq!(duration_option("60s", "s"), Ok(60_000_000_000));
}
