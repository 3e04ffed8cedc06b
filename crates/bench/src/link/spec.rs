//! The properties of a link: its rate, its delay, and the commands that configure a device so.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The slowest link, in bits a second: below it the least burst lasts longer than a second.
const RATE_MIN: u64 = 1_000_000;
/// The fastest link, in bits a second: no machine reaches it.
const RATE_MAX: u64 = 1_000_000_000_000;
/// The longest delay in one direction, in microseconds: once around the earth.
const DELAY_US_MAX: u32 = 200_000;

/// Bytes of an Ethernet frame that the kernel counts (RFC 894's 1,500 and their header), and of the
/// same frame on a wire with preamble, check sequence and gap (IEEE 802.3). A real link carries
/// this fraction of its rate.
const COUNTED: u64 = 1514;
const ON_THE_WIRE: u64 = 1538;

/// Minimum burst in bytes: a packet of 64 KiB, as the kernel makes them for its network cards, with
/// the headers of all its segments. The kernel would cut larger packets before, at the cost of
/// processor time.
const BURST_MIN: u64 = 128 << 10;
/// Minimum burst as a time, in microseconds: timers come late on busy machines, and only a burst
/// makes up for the lost time.
const BURST_US: u64 = 100;
/// Bytes that wait for a link. TCP keeps few of a connection there (its small queues), so that it
/// never fills.
const QUEUE: u64 = 32 << 20;
/// Packets that are under way during the delay.
const UNDER_WAY: u32 = 100_000;

/// A link of a stated rate, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// Bits a second, as an Ethernet link is named.
    pub bits_per_second: u64,
    /// Delay in one direction, in microseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_us: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl LinkSpec {
    /// Maximum size of a packet in bytes without the Ethernet header, the default of most networks.
    pub const MTU: u32 = 1500;

    /// Bytes that may leave at once after an idle time.
    pub fn burst(&self) -> u64 {
        BURST_MIN.max(self.bits_per_second / 8 * BURST_US / 1_000_000)
    }

    /// Payload of full TCP segments (timestamps included) that such a link can carry, in 10^6 bytes
    /// a second.
    pub fn payload(&self) -> f64 {
        const SEGMENT: f64 = 1448.0;
        self.bits_per_second as f64 / 8e6 * SEGMENT / ON_THE_WIRE as f64
    }

    /// Returns the commands of tc(8), for `tc -batch -`, that limit the traffic that leaves by
    /// `device` to this rate and delay.
    pub fn shaping(&self, device: &str) -> String {
        let rate = self.bits_per_second / ON_THE_WIRE * COUNTED;
        let burst = self.burst();
        let mut commands =
            format!("qdisc add dev {device} root handle 1: tbf rate {rate}bit burst {burst} limit {QUEUE}\n");
        if self.delay_us > 0 {
            let delay = self.delay_us;
            commands.push_str(&format!(
                "qdisc add dev {device} parent 1:1 handle 10: netem delay {delay}us limit {UNDER_WAY}\n"
            ));
        }
        commands
    }

    /// Describes it for a report.
    pub fn words(&self) -> String {
        format!(
            "a link of {self}: a pair of virtual devices (veth) between two network namespaces, MTU {}, each end limited (tbf, bursts of {} KiB) to \
             what an Ethernet of this rate carries; client and KDC at one end, server at the other",
            Self::MTU,
            self.burst() >> 10
        )
    }

    /// The text that it is parsed from.
    pub fn argument(&self) -> String {
        let rate = match self.bits_per_second {
            bits if bits % 1_000_000_000 == 0 => format!("{}gbit", bits / 1_000_000_000),
            bits => format!("{}mbit", bits as f64 / 1e6),
        };
        if self.delay_us > 0 { format!("{rate},{}us", self.delay_us) } else { rate }
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.bits_per_second as f64;
        match self.bits_per_second {
            1_000_000_000.. => write!(f, "{}\u{202f}Gbit/s", rate / 1e9)?,
            _ => write!(f, "{}\u{202f}Mbit/s", rate / 1e6)?,
        }
        if self.delay_us > 0 {
            write!(f, " and {}\u{202f}µs each way", self.delay_us)?;
        }
        Ok(())
    }
}

impl FromStr for LinkSpec {
    type Err = String;

    /// Reads `RATE[,DELAY]`: `1gbit`, `2.5gbit`, `100mbit`, `10gbit,100us`, `1gbit,0.5ms`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "it must be RATE or RATE,DELAY, such as 1gbit, 10gbit or 10gbit,100us".to_owned();
        let (rate, delay) = match text.split_once(',') {
            Some((rate, delay)) => (rate, Some(delay)),
            None => (text, None),
        };
        let bits = number(rate, &[("gbit", 1e9), ("mbit", 1e6)]).ok_or_else(form)?;
        let delay = delay.map_or(Some(0.0), |delay| number(delay, &[("us", 1.0), ("ms", 1000.0)]));
        let delay = delay.ok_or_else(form)?;
        if !(RATE_MIN as f64..=RATE_MAX as f64).contains(&bits) {
            return Err("the rate must be 1mbit to 1000gbit".to_owned());
        }
        if delay > f64::from(DELAY_US_MAX) {
            return Err(format!("the delay must be {}ms at most", DELAY_US_MAX / 1000));
        }
        Ok(Self { bits_per_second: bits.round() as u64, delay_us: delay.round() as u32 })
    }
}

/// Reads a number with one of these units behind it; not negative.
fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = number.parse().ok().filter(|_| plain)?;
    Some(value * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> LinkSpec {
        text.parse().unwrap()
    }

    #[test]
    fn a_link_has_a_rate_and_may_have_a_delay() {
        assert_eq!(spec("10gbit"), LinkSpec { bits_per_second: 10_000_000_000, delay_us: 0 });
        assert_eq!(spec("2.5gbit,0.5ms"), LinkSpec { bits_per_second: 2_500_000_000, delay_us: 500 });
        for text in ["1gbit", "10gbit,100us", "2500mbit", "100mbit,1000us"] {
            assert_eq!(spec(text).argument(), text);
        }
        assert_eq!(
            spec("10gbit,100us").to_string().replace('\u{202f}', " "),
            "10 Gbit/s and 100 µs each way"
        );
        assert_eq!(spec("100mbit").to_string().replace('\u{202f}', " "), "100 Mbit/s");
    }

    #[test]
    fn a_malformed_link_is_refused() {
        for text in
            ["", "gbit", "10", "1kbit", "-1gbit", "1e3gbit", "0gbit", "2000gbit", "1gbit,", "1gbit,1s"]
        {
            assert!(text.parse::<LinkSpec>().is_err(), "{text}");
        }
        assert!("1gbit,201ms".parse::<LinkSpec>().is_err());
    }

    #[test]
    fn the_rate_is_that_of_ethernet_with_all_that_a_wire_carries() {
        let rate = |text: &str| spec(text).shaping("a");
        assert_eq!(
            rate("1gbit"),
            "qdisc add dev a root handle 1: tbf rate 984395230bit burst 131072 limit 33554432\n"
        );
        // Full frames over Gigabit Ethernet carry 117.7 MB/s of payload.
        assert!((spec("1gbit").payload() - 117.7).abs() < 0.05);
        assert!(rate("100gbit").contains(" burst 1250000 "), "a tenth of a millisecond");
    }

    #[test]
    fn a_delay_is_netems_below_the_rate() {
        let commands = spec("10gbit,100us").shaping("far");
        let lines: Vec<&str> = commands.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1], "qdisc add dev far parent 1:1 handle 10: netem delay 100us limit 100000");
    }
}
