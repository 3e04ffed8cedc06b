//! The services that a ticket was delegated through (MS-PAC section 2.9, S4U_DELEGATION_INFO).
//!
//! A KDC that issues a ticket by constrained delegation puts their names into the ticket's PAC, in
//! NDR: a header, then a structure, then the strings that its pointers stand for.

/// Most services that are read; a ticket has one for each step of a chain.
const SERVICES_MAX: usize = 32;

/// Bytes of the NDR header and of the pointer to the structure.
const HEADER_LEN: usize = 8 + 8 + 4;

/// Returns the names of the services in the order of the chain; `None` if the bytes are no
/// S4U_DELEGATION_INFO, or name more than 32.
pub fn delegated_through(info: &[u8]) -> Option<Vec<String>> {
    let mut ndr = Ndr { rest: info.get(HEADER_LEN..)? };
    // S4U2proxyTarget is the service that the ticket is for.
    let target = ndr.string_header()?;
    let count = ndr.u32()?;
    let services = ndr.u32()?;
    if target {
        ndr.string()?;
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= SERVICES_MAX)?;
    if count == 0 || services == 0 {
        return Some(Vec::new());
    }
    if usize::try_from(ndr.u32()?).ok()? != count {
        return None;
    }
    let headers: Option<Vec<bool>> = (0..count).map(|_| ndr.string_header()).collect();
    headers?.into_iter().map(|has_text| if has_text { ndr.string() } else { Some(String::new()) }).collect()
}

/// The rest of a structure in NDR, little-endian and aligned to four bytes.
struct Ndr<'a> {
    rest: &'a [u8],
}

impl Ndr<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (now, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*now))
    }

    /// Reads an RPC_UNICODE_STRING: two lengths, and a pointer. Returns whether it has a text.
    fn string_header(&mut self) -> Option<bool> {
        self.u32()?;
        Some(self.u32()? != 0)
    }

    /// Reads the text of a string: its allocated, skipped and actual units of UTF-16, then these.
    fn string(&mut self) -> Option<String> {
        let (_, skipped, units) = (self.u32()?, self.u32()?, self.u32()?);
        let bytes = usize::try_from(units).ok()?.checked_mul(2).filter(|_| skipped == 0)?;
        let text = self.rest.get(..bytes)?;
        let (pairs, _) = text.as_chunks();
        let text =
            String::from_utf16_lossy(&pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect::<Vec<_>>());
        self.rest = self.rest.get(bytes.next_multiple_of(4)..).unwrap_or_default();
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Vec<u8> {
        let units: Vec<u16> = text.encode_utf16().collect();
        let count = units.len() as u32;
        let mut bytes = [count, 0, count].iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn info(target: &str, services: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0x11; HEADER_LEN];
        let pointers = [0_u32, 0x2000, services.len() as u32, 0x3000];
        bytes.extend(pointers.iter().flat_map(|value| value.to_le_bytes()));
        bytes.extend(string(target));
        bytes.extend((services.len() as u32).to_le_bytes());
        services
            .iter()
            .for_each(|_| bytes.extend([0_u32, 0x4000].iter().flat_map(|value| value.to_le_bytes())));
        services.iter().for_each(|service| bytes.extend(string(service)));
        bytes
    }

    #[test]
    fn the_services_of_a_chain_come_in_its_order() {
        let chain = ["grants/head@EXAMPLE.ORG", "web/front@EXAMPLE.ORG"];
        assert_eq!(delegated_through(&info("nfs/server", &chain)).unwrap(), chain);
        assert_eq!(delegated_through(&info("nfs/server", &[])).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn damaged_bytes_are_no_chain_and_never_panic() {
        let whole = info("nfs/server", &["grants/heads@EXAMPLE.ORG"]);
        for length in 0..whole.len() {
            assert_eq!(delegated_through(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _ = delegated_through(&changed);
            }
        }
        assert_eq!(delegated_through(&info("nfs/server", &["service"; SERVICES_MAX + 1])), None);
    }
}
