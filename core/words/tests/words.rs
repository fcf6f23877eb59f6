//! The numbers are part of the image format, and a word is found again by its number and by its name.

use bulkhead_words::{
    Anchor, FloatingPoint, Gate, OnEmpty, OnInterrupt, Parameter, Reading, Ring, RouteRule, Rule, ScheduleKind,
    ServerFlag, Word, name_of,
};

/// Checks one set against the numbers and names that images and descriptions have.
fn check<W: Word + std::fmt::Debug>(expected: &[(u32, &str)]) {
    let found: Vec<_> = W::ALL.iter().map(|word| (word.number(), word.name())).collect();
    assert_eq!(found, expected, "{}", W::SET);
    assert_eq!(W::NAMES.to_vec(), expected.iter().map(|(_, name)| *name).collect::<Vec<_>>());
    for word in W::ALL {
        assert_eq!(W::from_number(word.number()), Some(*word));
        assert_eq!(W::from_name(word.name()), Some(*word));
        assert_eq!(name_of::<W>(word.number()), word.name());
        assert!(word.meaning().ends_with('.') && !word.meaning().starts_with(' '), "{word:?}: {}", word.meaning());
    }
    let beyond = expected.iter().map(|(number, _)| number).max().unwrap() + 1;
    assert_eq!(W::from_number(beyond), None);
    assert_eq!(W::from_number(u32::MAX), None);
    assert_eq!(name_of::<W>(u32::MAX), "unknown");
    assert_eq!(W::from_name("Sporadic"), None, "names are in lower case");
    assert!(W::ABOUT.ends_with('.'));
}

#[test]
fn numbers_and_names_are_those_of_the_image_and_the_description() {
    check::<ScheduleKind>(&[(1, "fixed-priority"), (2, "round-robin"), (3, "cyclic")]);
    check::<OnInterrupt>(&[(0, "none"), (1, "recycle"), (2, "reset"), (3, "reset-extend")]);
    check::<Reading>(&[(0, "masked"), (1, "latched")]);
    check::<Ring>(&[(0, "stays"), (1, "moves")]);
    check::<FloatingPoint>(&[(0, "lazy"), (1, "eager")]);
    check::<RouteRule>(&[(0, "priority"), (1, "preempt"), (2, "defer")]);
    check::<Rule>(&[(0, "unlimited"), (1, "sporadic"), (2, "deferrable"), (3, "polling"), (4, "pibs")]);
    check::<Anchor>(&[(0, "eligible"), (1, "dispatch")]);
    check::<Gate>(&[(0, "always"), (1, "interrupt"), (2, "window"), (3, "never")]);
    check::<OnEmpty>(&[(0, "stop"), (1, "background"), (2, "notify")]);
    check::<ServerFlag>(&[(1, "dispatch anchor"), (2, "lag clamp"), (4, "voluntary return"), (8, "published rule")]);
}

#[test]
fn flags_are_different_bits() {
    let all = ServerFlag::ALL.iter().fold(0, |bits, flag| {
        assert!(flag.number().is_power_of_two() && !flag.is_in(bits));
        bits | flag.bits_if(true)
    });
    assert!(ServerFlag::ALL.iter().all(|flag| flag.is_in(all) && flag.bits_if(false) == 0));
}

#[test]
fn a_rule_has_its_own_parameters() {
    assert!(Rule::Unlimited.parameters().is_empty());
    for rule in Rule::ALL {
        assert_eq!(rule.has(Parameter::Budget), rule.has(Parameter::Period), "{rule:?}");
        assert_eq!(rule.has(Parameter::Share), rule.has(Parameter::Clients), "{rule:?}");
        assert_eq!(rule.has(Parameter::OnEmpty), *rule != Rule::Unlimited);
    }
    assert!(Rule::Sporadic.has(Parameter::Chunks) && !Rule::Polling.has(Parameter::Chunks));
}
