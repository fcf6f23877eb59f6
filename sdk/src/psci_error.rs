//! Answers of power calls as errors.

use bulkhead_arm::psci::Error as PsciError;

/// Finds the error of an answer, of which the lower 32 bits count; `InternalFailure` for codes that DEN 0022 does not name.
pub(crate) fn error_of(answer: u64) -> PsciError {
    let named = [
        PsciError::NotSupported,
        PsciError::InvalidParameters,
        PsciError::Denied,
        PsciError::AlreadyOn,
        PsciError::OnPending,
        PsciError::InternalFailure,
        PsciError::NotPresent,
        PsciError::Disabled,
        PsciError::InvalidAddress,
    ];
    let of_answer = |error: &PsciError| error.answer() as u32 == answer as u32;
    named.into_iter().find(of_answer).unwrap_or(PsciError::InternalFailure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_back_from_their_lower_half() {
        for code in -9_i64..=-1 {
            assert_eq!((error_of(code as u64) as i64, error_of(u64::from(code as u32)) as i64), (code, code));
        }
        assert_eq!([1, (-10_i64) as u64].map(error_of), [PsciError::InternalFailure; 2]);
    }
}
