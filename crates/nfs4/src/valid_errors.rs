//! The errors that each operation may return (RFC 8881 sections 15.2 and 15.3, RFC 7862 section 11,
//! RFC 8276; of NFSv4.0, RFC 7530 section 13.2).

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::{NfsCbOpnum4, NfsOpnum4, Nfsstat4};

const TABLE: &str = include_str!("../../../specs/valid_errors.txt");
const TABLE_40: &str = include_str!("../../../specs/valid_errors_40.txt");

/// By the number of the operation, for the way of a failed request; ILLEGAL has the number 0 here.
static BY_NUMBER: LazyLock<ByNumber> = LazyLock::new(|| by_number(NfsOpnum4::OP_REMOVEXATTR, &VALID));

/// The same for NFSv4.0.
static BY_NUMBER_40: LazyLock<ByNumber> =
    LazyLock::new(|| by_number(NfsOpnum4::OP_RELEASE_LOCKOWNER, &VALID_40));

static VALID: LazyLock<Rows> = LazyLock::new(|| parse(TABLE));
static VALID_40: LazyLock<Rows> = LazyLock::new(|| parse(TABLE_40));

type ByNumber = Vec<&'static [Nfsstat4]>;
type Rows = HashMap<&'static str, Vec<Nfsstat4>>;

fn by_number(last: NfsOpnum4, rows: &'static Rows) -> ByNumber {
    let operations = (0..=last as u32).map(NfsOpnum4::from_u32);
    operations.map(|operation| row(rows, operation.unwrap_or(NfsOpnum4::OP_ILLEGAL).name())).collect()
}

/// Returns whether an operation may answer a status. NFS4_OK is always valid.
///
/// The table is parsed at the first call.
pub fn valid_error(operation: NfsOpnum4, status: Nfsstat4) -> bool {
    status == Nfsstat4::NFS4_OK || valid_errors(operation).contains(&status)
}

/// Returns the errors that an operation may answer, in the order of the table.
pub fn valid_errors(operation: NfsOpnum4) -> &'static [Nfsstat4] {
    of_number(&BY_NUMBER, operation)
}

/// Returns whether an operation of NFSv4.0 may answer a status (RFC 7530 section 13.2). NFS4_OK is
/// always valid.
pub fn valid_error_40(operation: NfsOpnum4, status: Nfsstat4) -> bool {
    status == Nfsstat4::NFS4_OK || valid_errors_40(operation).contains(&status)
}

/// Returns the errors that an operation of NFSv4.0 may answer, in the order of the table.
pub fn valid_errors_40(operation: NfsOpnum4) -> &'static [Nfsstat4] {
    of_number(&BY_NUMBER_40, operation)
}

fn of_number(rows: &ByNumber, operation: NfsOpnum4) -> &'static [Nfsstat4] {
    let number = if operation == NfsOpnum4::OP_ILLEGAL { 0 } else { operation as usize };
    rows.get(number).copied().unwrap_or_default()
}

/// Returns whether a callback operation may answer a status (RFC 8881 section 15.3).
pub fn valid_callback_error(operation: NfsCbOpnum4, status: Nfsstat4) -> bool {
    status == Nfsstat4::NFS4_OK || row(&VALID, operation.name()).contains(&status)
}

fn row(rows: &'static Rows, name: &str) -> &'static [Nfsstat4] {
    name.strip_prefix("OP_").and_then(|name| rows.get(name)).map_or(&[], Vec::as_slice)
}

fn parse(table: &'static str) -> Rows {
    let statuses: HashMap<&str, Nfsstat4> =
        (0..20_000).filter_map(Nfsstat4::from_u32).map(|status| (status.name(), status)).collect();
    let mut rows = HashMap::new();
    let mut operation = "";
    for line in table.lines().map(|line| line.split('#').next().unwrap_or_default()) {
        if !line.starts_with(' ') && !line.trim().is_empty() {
            operation = line.trim();
        }
        let errors = line.strip_prefix(' ').unwrap_or_default().split_whitespace();
        let row: &mut Vec<Nfsstat4> = rows.entry(operation).or_default();
        row.extend(errors.filter_map(|name| statuses.get(name).copied()));
    }
    rows.remove("");
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use Nfsstat4::*;

    const LAST_OF_4_1: u32 = NfsOpnum4::OP_RECLAIM_COMPLETE as u32;

    fn operations() -> impl Iterator<Item = NfsOpnum4> {
        (0..=NfsOpnum4::OP_ILLEGAL as u32).filter_map(NfsOpnum4::from_u32)
    }

    #[test]
    fn the_table_has_every_pair_of_the_rfc() {
        // RFC 8881 section 15.2
        let of_4_1 = operations()
            .filter(|operation| *operation as u32 <= LAST_OF_4_1 || *operation == NfsOpnum4::OP_ILLEGAL);
        let rows: Vec<_> = of_4_1.map(valid_errors).filter(|row| !row.is_empty()).collect();
        assert_eq!(rows.len(), 57);
        assert_eq!(rows.iter().map(|row| row.len()).sum::<usize>(), 1070);
    }

    #[test]
    fn the_later_rows_have_every_pair_of_their_rfcs_and_the_marked_additions() {
        // RFC 7862 sections 11.2 and 11.3, RFC 8276 section 8.4.5
        let (_, later) = TABLE.split_once("# RFC 7862").unwrap();
        let beyond = later.split("# Beyond the table: ").skip(1);
        let words = |text: &str| text.split_whitespace().filter(|word| word.starts_with("NFS4ERR_")).count();
        // The errors beyond the RFC end where the next row or remark begins.
        let beyond: usize = beyond
            .flat_map(|text| text.lines().skip(1).take_while(|line| line.starts_with(' ')))
            .map(words)
            .sum();
        assert_eq!(words(later), 377 + 94 + beyond);
        assert_eq!(beyond, 33);
    }

    #[test]
    fn every_name_in_the_table_is_an_operation_or_an_error() {
        let names: Vec<_> = operations().map(|operation| operation.name()).collect();
        let callbacks: Vec<_> =
            (0..=10_044).filter_map(NfsCbOpnum4::from_u32).map(|operation| operation.name()).collect();
        for operation in VALID.keys() {
            let name = format!("OP_{operation}");
            assert!(names.contains(&&*name) || callbacks.contains(&&*name), "{name}");
        }
        let words = TABLE.lines().filter(|line| line.starts_with(' ')).flat_map(str::split_whitespace);
        assert_eq!(words.count(), VALID.values().map(Vec::len).sum::<usize>());
    }

    #[test]
    fn every_operation_and_every_callback_has_a_row() {
        // RFC 8881 sections 15.2 and 15.3, RFC 7862 section 11, RFC 8276 section 8.4.5
        for operation in operations() {
            assert!(!valid_errors(operation).is_empty(), "{operation}");
        }
        for callback in (0..=10_044).filter_map(NfsCbOpnum4::from_u32) {
            assert!(!row(&VALID, callback.name()).is_empty(), "{callback}");
        }
    }

    #[test]
    fn single_pairs_are_as_in_the_rfc() {
        // RFC 8881 section 15.2
        assert!(valid_error(NfsOpnum4::OP_READ, NFS4_OK));
        assert!(valid_error(NfsOpnum4::OP_READ, NFS4ERR_OPENMODE));
        assert!(!valid_error(NfsOpnum4::OP_READ, NFS4ERR_NOENT));
        assert!(valid_error(NfsOpnum4::OP_LOOKUP, NFS4ERR_NOENT));
        assert!(valid_error(NfsOpnum4::OP_ILLEGAL, NFS4ERR_OP_ILLEGAL));
        assert!(valid_callback_error(NfsCbOpnum4::OP_CB_RECALL, NFS4ERR_BADHANDLE));
        assert!(!valid_callback_error(NfsCbOpnum4::OP_CB_RECALL, NFS4ERR_NOENT));
    }

    #[test]
    fn the_table_of_4_0_has_every_pair_of_its_rfc() {
        // RFC 7530 section 13.2
        let rows: Vec<_> = operations().map(valid_errors_40).filter(|row| !row.is_empty()).collect();
        assert_eq!(rows.len(), 38);
        assert_eq!(rows.iter().map(|row| row.len()).sum::<usize>(), 597);
        assert!(valid_error_40(NfsOpnum4::OP_CLOSE, NFS4ERR_BAD_SEQID));
        assert!(valid_error_40(NfsOpnum4::OP_RENEW, NFS4_OK));
        assert!(!valid_error_40(NfsOpnum4::OP_RENEW, NFS4ERR_DELAY));
        assert!(valid_errors_40(NfsOpnum4::OP_SEQUENCE).is_empty());
    }

    #[test]
    fn operations_that_ended_with_4_0_may_say_so() {
        // RFC 8881 section 17
        for operation in operations().filter(|operation| crate::is_4_0_only(*operation)) {
            assert!(valid_error(operation, NFS4ERR_NOTSUPP), "{operation}");
        }
    }
}
