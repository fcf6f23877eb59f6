//! Both ends against a reference model, over random sequences of sends, receives, restarts and resumptions.

mod support;

use bulkhead_channel::{
    Geometry, QueuingReader, QueuingWriter, ReceiveError, SampleError, SamplingReader, SamplingWriter, SendError,
};
use proptest::prelude::*;
use std::sync::atomic::AtomicU64;
use support::{restart_destination, restart_source, window};

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Receive,
    /// The source's partition restarts and opens again.
    RestartSource,
    /// The destination's partition restarts and opens again.
    RestartDestination,
    /// Another program of the source's partition takes over.
    ResumeSource,
    /// Another program of the destination's partition takes over.
    ResumeDestination,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 1..=20).prop_map(Step::Send),
        8 => Just(Step::Receive),
        1 => Just(Step::RestartSource),
        1 => Just(Step::RestartDestination),
        1 => Just(Step::ResumeSource),
        1 => Just(Step::ResumeDestination),
    ]
}

/// What a queuing channel is.
#[derive(Default)]
struct Queue {
    depth: usize,
    /// Messages of the source's present incarnation.
    messages: Vec<Vec<u8>>,
    /// Messages read, as the destination knows.
    read: usize,
    /// Messages read, as the source knew when it looked last.
    acknowledged: usize,
    /// The destination follows the source's present incarnation.
    is_followed: bool,
    /// It followed an earlier one.
    has_followed: bool,
}

impl Queue {
    fn send(&mut self, message: &[u8]) -> Result<u64, SendError> {
        if self.is_followed {
            self.acknowledged = self.read;
        }
        if self.messages.len() - self.acknowledged == self.depth {
            return Err(SendError::Full);
        }
        self.messages.push(message.to_vec());
        Ok(self.messages.len() as u64)
    }

    fn receive(&mut self, generation: u32) -> Result<(u64, Vec<u8>), ReceiveError> {
        if !self.is_followed {
            self.is_followed = true;
            self.read = self.acknowledged;
            if std::mem::replace(&mut self.has_followed, true) {
                return Err(ReceiveError::PeerReset { generation });
            }
        }
        let message = self.messages.get(self.read).ok_or(ReceiveError::Empty)?.clone();
        self.read += 1;
        Ok((self.read as u64, message))
    }

    fn restart_source(&mut self) {
        self.messages.clear();
        self.acknowledged = 0;
        self.is_followed = false;
    }

    fn restart_destination(&mut self) {
        self.is_followed = false;
        self.has_followed = false;
    }
}

fn check_queue(depth: u32, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let geometry = Geometry::queuing(20, depth).unwrap();
    let words: &[AtomicU64] = &window(geometry);
    let mut generation = 0;
    let mut model = Queue { depth: depth as usize, ..Queue::default() };
    let mut writer = QueuingWriter::open(words, geometry, 1).unwrap();
    let mut reader = QueuingReader::open(words, geometry).unwrap();
    let mut buffer = [0; 20];
    for (step, now) in steps.into_iter().zip(2u64..) {
        match step {
            Step::Send(message) => {
                prop_assert_eq!(writer.send(&message, now).map(|written| written.sequence), model.send(&message));
            }
            Step::Receive => {
                let got = reader.receive(&mut buffer).map(|message| (message.sequence, message.payload.to_vec()));
                prop_assert_eq!(got, model.receive(generation));
            }
            Step::RestartSource => {
                restart_source(words);
                generation += 1;
                prop_assert_eq!(reader.receive(&mut buffer), Err(ReceiveError::PeerClosed));
                writer = QueuingWriter::open(words, geometry, now).unwrap();
                model.restart_source();
            }
            Step::RestartDestination => {
                restart_destination(words);
                reader = QueuingReader::open(words, geometry).unwrap();
                model.restart_destination();
            }
            Step::ResumeSource => writer = QueuingWriter::open(words, geometry, now).unwrap(),
            Step::ResumeDestination => reader = QueuingReader::open(words, geometry).unwrap(),
        }
        prop_assert!(reader.pending() <= depth);
    }
    Ok(())
}

fn check_sampling(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let geometry = Geometry::sampling(20).unwrap();
    let words: &[AtomicU64] = &window(geometry);
    let mut generation = 0;
    let mut newest: Option<(u64, Vec<u8>)> = None;
    let mut count = 0;
    // 0: never followed; otherwise whether the present incarnation is followed.
    let (mut is_followed, mut has_followed, mut seen) = (false, false, 0);
    let mut writer = SamplingWriter::open(words, geometry, 1).unwrap();
    let mut reader = SamplingReader::open(words, geometry).unwrap();
    let mut buffer = [0; 20];
    for (step, now) in steps.into_iter().zip(2u64..) {
        match step {
            Step::Send(message) => {
                count += 1;
                prop_assert_eq!(writer.write(&message, now).unwrap().sequence, count);
                newest = Some((count, message));
            }
            Step::Receive => {
                let got = reader
                    .read(&mut buffer)
                    .map(|sample| (sample.message.sequence, sample.message.payload.to_vec(), sample.is_new));
                let expected =
                    if !std::mem::replace(&mut is_followed, true) && std::mem::replace(&mut has_followed, true) {
                        Err(SampleError::PeerReset { generation })
                    } else {
                        newest.clone().ok_or(SampleError::NoValue).map(|(sequence, message)| {
                            (sequence, message, std::mem::replace(&mut seen, sequence) != sequence)
                        })
                    };
                prop_assert_eq!(got, expected);
            }
            Step::RestartSource => {
                restart_source(words);
                generation += 1;
                prop_assert_eq!(reader.read(&mut buffer), Err(SampleError::PeerClosed));
                writer = SamplingWriter::open(words, geometry, now).unwrap();
                (newest, count, is_followed, seen) = (None, 0, false, 0);
            }
            Step::RestartDestination => {
                restart_destination(words);
                reader = SamplingReader::open(words, geometry).unwrap();
                (is_followed, has_followed, seen) = (false, false, 0);
            }
            Step::ResumeSource => writer = SamplingWriter::open(words, geometry, now).unwrap(),
            Step::ResumeDestination => {
                reader = SamplingReader::open(words, geometry).unwrap();
                seen = 0;
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_behaves_as_the_model(depth in 1u32..6, steps in prop::collection::vec(step(), 1..120)) {
        check_queue(depth, steps)?;
    }

    #[test]
    fn a_sampling_port_behaves_as_the_model(steps in prop::collection::vec(step(), 1..120)) {
        check_sampling(steps)?;
    }
}
