//! The help page of the program: its commands in groups.

use clap::Command;
use std::fmt::Write as _;

/// The headings with their commands, in the order of the page.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start a server", &["try", "serve", "config", "import", "id", "doctor"]),
    (
        "Ask a running server",
        &[
            "status",
            "exports",
            "clients",
            "sessions",
            "contexts",
            "opens",
            "locks",
            "delegations",
            "trace",
            "web",
        ],
    ),
    ("Change a running server", &["evict", "revoke", "reload", "upgrade", "drain", "cluster"]),
    ("Measure and test", &["bench", "realm", "lab"]),
    ("Others", &["grants", "completions", "man"]),
];

/// Columns of the page.
const COLUMNS: usize = 100;
/// Columns before the text about a command.
const INDENT: usize = 15;

/// Returns the command with a help page that has its subcommands in groups, which clap cannot do.
pub(super) fn grouped(command: Command) -> Command {
    let style = *command.get_styles().get_header();
    let mut page = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (heading, names) in GROUPS {
        let _ = writeln!(page, "\n{style}{heading}:{style:#}");
        for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            append(&mut page, subcommand.get_name(), &about);
        }
    }
    let _ =
        write!(page, "\n{style}Options:{style:#}\n{{options}}\n\n`orthrus help COMMAND` explains a command.");
    command.help_template(page + "{after-help}")
}

/// Appends the lines about a command.
fn append(page: &mut String, name: &str, about: &str) {
    let mut line = format!("  {name:<width$}", width = INDENT - 2);
    for word in about.split_whitespace() {
        if line.len() + word.len() > COLUMNS {
            let _ = writeln!(page, "{}", line.trim_end());
            line = " ".repeat(INDENT);
        }
        let _ = write!(line, "{word} ");
    }
    let _ = writeln!(page, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Arguments;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Arguments::command();
        let mut shown: Vec<_> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
        let mut listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        shown.sort_unstable();
        listed.sort_unstable();
        assert_eq!(shown, listed);
    }

    #[test]
    fn the_help_page_has_headings_and_no_sentence_that_ends_unlike_the_others() {
        let page = grouped(Arguments::command()).render_help().to_string();
        for part in ["\nAsk a running server:\n  status ", "\nOptions:\n", "--log-format", "A first try"] {
            assert!(page.contains(part), "{part} is missing:\n{page}");
        }
        assert!(page.lines().all(|line| line.len() <= COLUMNS), "{page}");
        let command = Arguments::command();
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let about = one.get_about().expect("it says its purpose").to_string();
            assert!(!about.ends_with('.'), "{about}");
        }
    }

    #[test]
    fn options_have_headings() {
        let mut command = Arguments::command();
        command.build();
        for (name, headings) in [
            (
                "serve",
                &["Exports:", "Network:", "Kerberos and identities:", "State:", "Observation:", "Log:"][..],
            ),
            ("status", &["Server:", "Log:"]),
            ("bench anf", &["Server:", "Ticket:", "Link:", "Report:"]),
        ] {
            let subcommand = name
                .split(' ')
                .fold(&mut command, |outer, name| outer.find_subcommand_mut(name).expect("it is there"));
            let page = subcommand.render_long_help().to_string();
            assert!(headings.iter().all(|heading| page.lines().any(|line| line == *heading)), "{page}");
        }
    }
}
