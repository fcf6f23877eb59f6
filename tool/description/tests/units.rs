//! Sizes and durations: what is written is what is read, and nothing makes the reader panic.

use bulkhead_description::unit::{
    DURATION_UNITS, SIZE_UNITS, format_duration, format_size, parse_duration, parse_size,
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
    fn a_number_without_a_unit_is_refused_with_a_suggestion_that_works(number: u32) {
        let size = parse_size(&number.to_string()).expect_err("no unit");
        prop_assert!(parse_size(&size.replacement.expect("a suggestion")).is_ok());
        let duration = parse_duration(&number.to_string()).expect_err("no unit");
        prop_assert!(parse_duration(&duration.replacement.expect("a suggestion")).is_ok());
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
