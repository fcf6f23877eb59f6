//! Random cases with a seed that is printed. `BULKHEAD_SEED` and `BULKHEAD_CASES` replace the seed and the number of cases.
//! Tests of other crates include this file, so that there is one generator and one way to repeat a case.
#![allow(dead_code)] // Each test program uses a part of it.

const CASES: u64 = 100_000;
const SEED: u64 = 0x5eed_0000_b0a7_0001;

/// Splitmix64: small, fast, and good enough to choose parameters.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A place in a list of this length; 0 for an empty one.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % length.max(1) as u64).expect("below a usize")
    }

    /// A number of `from..=to`.
    pub(crate) fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.next() & 1 == 0
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Runs a property on many cases, each with a generator of its own, and names the case that fails.
pub(crate) fn check(name: &str, property: impl FnMut(&mut Random)) {
    check_some(name, 1, property);
}

/// As [`check`], on all cores: each has a part of the same cases, and a state of its own, which it begins with `state`. Returns the states.
pub(crate) fn check_on_cores<S: Send>(
    name: &str,
    state: impl Fn() -> S + Sync,
    property: impl Fn(&mut Random, &mut S) + Sync,
) -> Vec<S> {
    let parts = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let part = |first: u64| {
        let (mut state, mut number) = (state(), 0);
        check_some(name, 1, |random| {
            if number % parts == first {
                property(random, &mut state);
            }
            number += 1;
        });
        state
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..parts)
            .map(|first| {
                scope.spawn({
                    let part = &part;
                    move || part(first)
                })
            })
            .collect();
        let joined = running.into_iter().map(|one| one.join());
        joined.map(|state| state.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// As [`check`], on one case in `divisor`: for properties whose every case is a long run or a search. Returns the number of cases.
pub(crate) fn check_some(name: &str, divisor: u64, mut property: impl FnMut(&mut Random)) -> u64 {
    struct Case<'a>(&'a str, u64, u64);
    impl Drop for Case<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{} fails with BULKHEAD_SEED={} at case {}", self.0, self.1, self.2);
            }
        }
    }
    let seed = setting("BULKHEAD_SEED", SEED);
    let cases = setting("BULKHEAD_CASES", CASES) / divisor;
    println!("{name}: {cases} cases, BULKHEAD_SEED={seed}");
    for number in 0..cases {
        let _case = Case(name, seed, number);
        property(&mut Random(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93)));
    }
    cases
}

/// Fewer cases than usual were asked for.
pub(crate) fn is_short() -> bool {
    setting("BULKHEAD_CASES", CASES) < CASES
}

/// `floor(d / period) * budget + min(budget, d % period)`.
pub(crate) fn stair(window: u64, budget: u64, period: u64) -> u64 {
    window / period * budget + budget.min(window % period)
}
