//! Splits a grammar into tokens.

use std::{fmt, sync::Arc};

/// A position in an input file; prints as `file:line:column`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The file's name, as passed to the lexer.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// An error in a grammar, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The position of the error.
    pub span: Span,
    /// The message for the user.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.span, self.message)
    }
}

impl std::error::Error for Fault {}

/// Returns a fault with a message.
pub fn fault<T>(span: &Span, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { span: span.clone(), message: message.into() })
}

/// One token of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// An identifier or a keyword.
    Word(String),
    /// A decimal, hexadecimal or octal constant.
    Number(i128),
    /// A sign, one of `{}[]()<>;,:=*`.
    Sign(char),
    /// The end of the file.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(out, "`{word}`"),
            Self::Number(number) => write!(out, "`{number}`"),
            Self::Sign(sign) => write!(out, "`{sign}`"),
            Self::End => out.write_str("the end of the file"),
        }
    }
}

struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    at: Span,
}

/// Splits `text` into tokens. Skips comments, and lines that begin with `%`.
///
/// # Errors
/// A [`Fault`] for characters and numbers that XDR does not have, and for comments without an end.
pub fn tokens(file: &str, text: &str) -> Result<Vec<(Token, Span)>, Fault> {
    let at = Span { file: file.into(), line: 1, column: 1 };
    let mut lexer = Lexer { rest: text.chars().peekable(), at };
    let mut found = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let span = lexer.at.clone();
        let token = lexer.token()?;
        let end = token == Token::End;
        found.push((token, span));
        if end {
            return Ok(found);
        }
    }
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        if next == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(next)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|next| next != '\n') {}
    }

    fn skip_blanks(&mut self) -> Result<(), Fault> {
        loop {
            match self.rest.peek() {
                Some('%') if self.at.column == 1 => self.skip_line(),
                Some(blank) if blank.is_whitespace() => drop(self.next()),
                Some('/') => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Result<(), Fault> {
        let start = self.at.clone();
        self.next();
        match self.next() {
            Some('/') => self.skip_line(),
            Some('*') => loop {
                match self.next() {
                    Some('*') if self.rest.peek() == Some(&'/') => {
                        self.next();
                        return Ok(());
                    }
                    Some(_) => {}
                    None => return fault(&start, "this comment has no end"),
                }
            },
            _ => return fault(&start, "`/` begins a comment only as `/*` or `//`"),
        }
        Ok(())
    }

    fn token(&mut self) -> Result<Token, Fault> {
        let start = self.at.clone();
        let Some(first) = self.next() else { return Ok(Token::End) };
        match first {
            '{' | '}' | '[' | ']' | '(' | ')' | '<' | '>' | ';' | ',' | ':' | '=' | '*' => {
                Ok(Token::Sign(first))
            }
            '-' | '0'..='9' => number(&start, &self.word(first)),
            'a'..='z' | 'A'..='Z' | '_' => Ok(Token::Word(self.word(first))),
            other => fault(&start, format!("XDR has no character `{other}` here")),
        }
    }

    fn word(&mut self, first: char) -> String {
        let mut word = String::from(first);
        while let Some(next) =
            self.rest.peek().copied().filter(|next| next.is_ascii_alphanumeric() || *next == '_')
        {
            word.push(next);
            self.next();
        }
        word
    }
}

fn number(span: &Span, word: &str) -> Result<Token, Fault> {
    let (negative, digits) = word.strip_prefix('-').map_or((false, word), |digits| (true, digits));
    let lower = digits.to_ascii_lowercase();
    let parsed = match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
        (Some(hex), _) => u64::from_str_radix(hex, 16),
        (None, Some(octal)) if !octal.is_empty() => u64::from_str_radix(octal, 8),
        _ => lower.parse(),
    };
    match parsed {
        Ok(value) if negative => Ok(Token::Number(-i128::from(value))),
        Ok(value) => Ok(Token::Number(value.into())),
        Err(_) => fault(span, format!("`{word}` is no number of at most 64 bits")),
    }
}
