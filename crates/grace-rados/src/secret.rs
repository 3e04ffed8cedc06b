//! The secret that all members share: the source of the keys that must be the same on every
//! gateway.

use crate::{GraceStore, StoreError};
use ceph::rados::WriteStep;

/// The object with the secret.
const SECRET: &str = "orthrus-secret";
/// Bytes of the object, which is a line of hexadecimal digits.
const LENGTH: usize = 65;

impl GraceStore {
    /// Returns the secret; `None` if there is none yet.
    ///
    /// # Errors
    /// `Damaged`, `Denied`, `Blocklisted`, `Unavailable`.
    pub fn secret(&self) -> Result<Option<[u8; 32]>, StoreError> {
        let content = match self.objects_pool().read(SECRET, LENGTH + 1) {
            Ok(content) => content,
            Err(error) if error.number() == libc::ENOENT => return Ok(None),
            Err(error) => return Err(self.failed(SECRET, error)),
        };
        match decode(&content.data) {
            Some(secret) => Ok(Some(secret)),
            None => Err(StoreError::Damaged {
                object: SECRET.to_owned(),
                reason: "it is no line of 64 hexadecimal digits; restore it from a backup, or remove it with `rados \
                         rm` while no gateway runs: clients then have to mount again"
                    .to_owned(),
            }),
        }
    }

    /// Returns the secret of the cluster, which is `new` if there was none.
    ///
    /// # Errors
    /// As [`GraceStore::secret`].
    pub fn secret_or(&self, new: &[u8; 32]) -> Result<[u8; 32], StoreError> {
        let text: String = new.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_owned()]).collect();
        match self.objects_pool().write(SECRET, &[WriteStep::CreateNew, WriteStep::Write(text.as_bytes())]) {
            Ok(()) => Ok(*new),
            // Another member was faster.
            Err(error) if error.number() == libc::EEXIST => {
                self.secret()?.ok_or_else(|| self.failed(SECRET, error))
            }
            Err(error) => Err(self.failed(SECRET, error)),
        }
    }
}

fn decode(data: &[u8]) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(data).ok()?.strip_suffix('\n')?;
    let mut secret = [0; 32];
    if text.len() != 2 * secret.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in secret.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(secret)
}
