//! Confounders of sealed calls (RFC 3961 section 5.3), drawn in batches.

use super::fill_random;
use crate::error::Error;

/// Confounders per batch; a single call then needs no system call of its own.
const DRAWN: usize = 64;

/// The length of a confounder in bytes: a block of AES.
const LEN: usize = 16;

/// A stock of random confounders; each is used once.
#[derive(Debug, Default)]
pub(crate) struct Confounders(Vec<[u8; LEN]>);

impl Confounders {
    /// Returns the next confounder.
    ///
    /// # Errors
    /// Fails only if the system has no random bytes.
    pub(crate) fn next(&mut self) -> Result<[u8; LEN], Error> {
        if self.0.is_empty() {
            self.0.resize(DRAWN, [0; LEN]);
            if let Err(error) = fill_random(self.0.as_flattened_mut()) {
                // Drops the zeros, so that the next call does not use them.
                self.0.clear();
                return Err(error);
            }
        }
        Ok(self.0.pop().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_confounder_is_used_twice() {
        // RFC 3961 section 5.3: a confounder is random, and drawn for each message.
        let mut confounders = Confounders::default();
        let drawn: HashSet<_> = (0..3 * DRAWN).map(|_| confounders.next().expect("random bytes")).collect();
        assert_eq!(drawn.len(), 3 * DRAWN);
    }
}
