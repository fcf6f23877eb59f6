//! Lines of callers in the order in which they came, whole, and bytes for readers.

use bulkhead_lines::{LINE_WORDS, LINES, Lines, PIECE_BYTES, Refusal, TYPED_BYTES, Typed};

fn words(text: &str) -> (u64, [u64; LINE_WORDS]) {
    let mut words = [0; LINE_WORDS];
    for (index, byte) in text.bytes().enumerate() {
        words[index / 8] |= u64::from(byte) << (index % 8 * 8);
    }
    (text.len() as u64, words)
}

fn put(lines: &Lines, text: &str) -> Result<(), Refusal> {
    let (length, words) = words(text);
    lines.put(length, words)
}

fn taken(lines: &Lines) -> Option<String> {
    lines.take().map(|text| String::from_utf8(text.bytes().collect()).expect("text"))
}

#[test]
fn lines_come_out_in_their_order_and_full_is_said() {
    let lines = Lines::new();
    for round in 0..3 {
        for number in 0..LINES {
            assert_eq!(put(&lines, &format!("round {round}, line {number}")), Ok(()));
        }
        assert_eq!(put(&lines, "too much"), Err(Refusal::Full));
        // A place in the middle that is free again is not out of turn.
        assert_eq!(taken(&lines), Some(format!("round {round}, line 0")));
        assert_eq!(put(&lines, "later"), Ok(()));
        for number in 1..LINES {
            assert_eq!(taken(&lines), Some(format!("round {round}, line {number}")));
        }
        assert_eq!((taken(&lines).as_deref(), taken(&lines)), (Some("later"), None));
    }
    assert_eq!((put(&lines, ""), lines.put(49, [0; LINE_WORDS])), (Err(Refusal::Length), Err(Refusal::Length)));
    let longest = "x".repeat(48);
    assert_eq!((put(&lines, &longest), taken(&lines)), (Ok(()), Some(longest)));
}

/// Four threads at once, each with its lines in order: each line once, none torn.
#[test]
fn lines_of_several_callers_are_whole_and_in_their_order() {
    const EACH: usize = 2_000;
    let lines = Lines::new();
    let mut next = [0; 4];
    let mut texts = Vec::new();
    std::thread::scope(|scope| {
        for caller in 0..next.len() {
            let lines = &lines;
            scope.spawn(move || {
                for number in 0..EACH {
                    let text = format!("{caller} {number} {caller} {number} {caller} {number}");
                    while put(lines, &text) == Err(Refusal::Full) {
                        std::thread::yield_now();
                    }
                }
            });
        }
        while texts.len() < next.len() * EACH {
            match taken(&lines) {
                Some(text) => texts.push(text),
                None => std::thread::yield_now(),
            }
        }
    });
    for text in texts {
        let numbers: Vec<usize> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [caller, number] = numbers[..2] else { panic!("{text}") };
        assert_eq!((&numbers[2..4], &numbers[4..]), (&numbers[..2], &numbers[..2]), "{text}");
        assert_eq!(number, next[caller], "{text}");
        next[caller] += 1;
    }
}

#[test]
fn typed_bytes_come_in_pieces() {
    let typed = Typed::new();
    assert_eq!(typed.piece(), 0);
    for round in 0..100_u64 {
        let fits = (0..=TYPED_BYTES).filter(|number| typed.push(*number as u8)).count();
        assert_eq!(fits, TYPED_BYTES, "{round}");
        let mut all = Vec::new();
        while let word @ 1.. = typed.piece() {
            let [count, bytes @ ..] = word.to_le_bytes();
            assert!(usize::from(count) <= PIECE_BYTES);
            all.extend_from_slice(&bytes[..usize::from(count)]);
        }
        assert_eq!(all, (0..TYPED_BYTES as u8).collect::<Vec<_>>());
    }
}
