use super::*;

/// Lets `cargo xtask memcheck` choose the path of the unit tests.
#[expect(clippy::disallowed_methods, reason = "tests have an environment")]
pub(super) fn initial() -> Cpu {
    std::env::var(CPU_VARIABLE).map_or_else(|_| Cpu::best(), |name| name.parse().unwrap())
}

#[test]
fn names_are_read_as_they_are_written() {
    for cpu in Cpu::ALL {
        assert_eq!(cpu.to_string().parse(), Ok(cpu));
    }
    assert_eq!("sse9".parse::<Cpu>(), Err(CpuError::Unknown("sse9".into())));
}

#[test]
fn the_portable_path_is_always_there_and_the_choice_is_made_once() {
    assert_eq!(Cpu::available().last(), Some(Cpu::Portable));
    let chosen = cpu();
    assert_eq!(select(chosen), Ok(()));
    for other in Cpu::ALL.into_iter().filter(|&other| other != chosen) {
        assert!(select(other).is_err());
    }
}
