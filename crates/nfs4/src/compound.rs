//! Facts about operations that the grammar does not hold.

use crate::NfsOpnum4;

/// Returns the name of an operation number as the RFCs print it, without `OP_`: `"READ"`. An
/// unknown number is `"ILLEGAL"`, as in a server's answer to it (RFC 8881 section 15.2).
pub fn operation_name(number: u32) -> &'static str {
    let operation = NfsOpnum4::from_u32(number).unwrap_or(NfsOpnum4::OP_ILLEGAL);
    operation.name().strip_prefix("OP_").unwrap_or("ILLEGAL")
}

/// Returns whether an operation is one that 4.1 must not implement: NFS4ERR_NOTSUPP (RFC 8881
/// section 17).
pub const fn is_4_0_only(operation: NfsOpnum4) -> bool {
    use NfsOpnum4::*;
    matches!(
        operation,
        OP_OPEN_CONFIRM | OP_RENEW | OP_SETCLIENTID | OP_SETCLIENTID_CONFIRM | OP_RELEASE_LOCKOWNER
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_print_as_in_the_rfc() {
        assert_eq!(operation_name(25), "READ");
        assert_eq!(operation_name(41), "BIND_CONN_TO_SESSION");
        for unknown in [0, 1, 2, 76, 10044, u32::MAX] {
            assert_eq!(operation_name(unknown), "ILLEGAL");
        }
    }

    #[test]
    fn five_operations_ended_with_4_0() {
        // RFC 8881 section 17
        let ended = (0..=75).filter_map(NfsOpnum4::from_u32).filter(|operation| is_4_0_only(*operation));
        assert_eq!(ended.map(|operation| operation as u32).collect::<Vec<_>>(), [20, 30, 35, 36, 39]);
    }
}
