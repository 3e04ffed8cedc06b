//! Parses tokens into definitions (RFC 4506 section 6.3 and RFC 5531 section 12.1).

use crate::ast::{Arm, Base, Body, Declaration, Definition, Shape, Type, Union, Value};
use crate::lexer::{Fault, Span, Token, fault, tokens};

struct Parser {
    tokens: std::vec::IntoIter<(Token, Span)>,
    token: Token,
    span: Span,
    found: Vec<Definition>,
}

/// Parses a whole file. A struct, union or enum inside another one becomes its own definition,
/// named after the outer type and the field.
///
/// # Errors
/// The first [`Fault`] of the file.
pub fn parse(file: &str, text: &str) -> Result<Vec<Definition>, Fault> {
    let mut tokens = tokens(file, text)?.into_iter();
    let (token, span) = tokens.next().unwrap_or((Token::End, Span { file: file.into(), line: 1, column: 1 }));
    let mut parser = Parser { tokens, token, span, found: Vec::new() };
    while parser.token != Token::End {
        parser.definition()?;
    }
    Ok(parser.found)
}

impl Parser {
    fn advance(&mut self) -> Token {
        let (token, span) = self.tokens.next().unwrap_or((Token::End, self.span.clone()));
        self.span = span;
        std::mem::replace(&mut self.token, token)
    }

    fn expected<T>(&self, what: &str) -> Result<T, Fault> {
        fault(&self.span, format!("expected {what}, found {}", self.token))
    }

    fn accept(&mut self, sign: char) -> bool {
        let found = self.token == Token::Sign(sign);
        if found {
            self.advance();
        }
        found
    }

    fn sign(&mut self, sign: char) -> Result<(), Fault> {
        if self.accept(sign) { Ok(()) } else { self.expected(&format!("`{sign}`")) }
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(&self.token, Token::Word(next) if next == word);
        if found {
            self.advance();
        }
        found
    }

    fn name(&mut self) -> Result<(String, Span), Fault> {
        match &self.token {
            Token::Word(word) => {
                let named = (word.clone(), self.span.clone());
                self.advance();
                Ok(named)
            }
            _ => self.expected("a name"),
        }
    }

    fn value(&mut self) -> Result<Value, Fault> {
        let value = match &self.token {
            Token::Word(word) => Value::Name(word.clone()),
            Token::Number(number) => Value::Number(*number),
            _ => return self.expected("a number or the name of one"),
        };
        self.advance();
        Ok(value)
    }

    fn define(&mut self, (name, span): (String, Span), body: Body) {
        self.found.push(Definition { name, span, body });
    }

    fn definition(&mut self) -> Result<(), Fault> {
        let Token::Word(keyword) = self.token.clone() else { return self.expected("a definition") };
        match keyword.as_str() {
            "const" => {
                self.advance();
                let name = self.name()?;
                self.sign('=')?;
                let value = self.value()?;
                self.define(name, Body::Const(value));
            }
            "typedef" => {
                self.advance();
                let outer = String::new();
                let Some(Declaration { name, ty, span }) = self.declaration(&outer)? else {
                    return self.expected("a type that is not void before this");
                };
                if builtin(&name).is_none() {
                    self.define((name, span), Body::Alias(ty));
                }
            }
            "enum" | "struct" | "union" => {
                self.advance();
                let name = self.name()?;
                let body = self.body(&keyword, &name.0)?;
                self.define(name, body);
            }
            "program" => self.program()?,
            _ => return self.expected("`const`, `enum`, `struct`, `union`, `typedef` or `program`"),
        }
        self.sign(';')
    }

    fn body(&mut self, keyword: &str, name: &str) -> Result<Body, Fault> {
        match keyword {
            "enum" => self.enumeration().map(Body::Enum),
            "struct" => self.structure(name).map(Body::Struct),
            _ => self.union(name).map(Box::new).map(Body::Union),
        }
    }

    fn enumeration(&mut self) -> Result<Vec<(String, Value, Span)>, Fault> {
        self.sign('{')?;
        let mut values = Vec::new();
        loop {
            let (name, span) = self.name()?;
            self.sign('=')?;
            values.push((name, self.value()?, span));
            if !self.accept(',') {
                self.sign('}')?;
                return Ok(values);
            }
            if self.accept('}') {
                return Ok(values);
            }
        }
    }

    fn structure(&mut self, outer: &str) -> Result<Vec<Declaration>, Fault> {
        self.sign('{')?;
        let mut fields = Vec::new();
        while !self.accept('}') {
            // A void member has no data, so it is left out.
            fields.extend(self.declaration(outer)?);
            self.sign(';')?;
        }
        Ok(fields)
    }

    fn union(&mut self, outer: &str) -> Result<Union, Fault> {
        if !self.accept_word("switch") {
            return self.expected("`switch`");
        }
        self.sign('(')?;
        let Some(discriminant) = self.declaration(outer)? else {
            return self.expected("a discriminant that is not void before this");
        };
        self.sign(')')?;
        self.sign('{')?;
        let mut union = Union { discriminant, arms: Vec::new(), default: None };
        while !self.accept('}') {
            if self.accept_word("default") {
                self.sign(':')?;
                if union.default.is_some() {
                    return fault(&self.span, "a second default arm");
                }
                union.default = Some(self.declaration(outer)?);
            } else {
                union.arms.push(self.arm(outer)?);
            }
            self.sign(';')?;
        }
        Ok(union)
    }

    fn arm(&mut self, outer: &str) -> Result<Arm, Fault> {
        let mut labels = Vec::new();
        while self.accept_word("case") {
            let span = self.span.clone();
            labels.push((self.value()?, span));
            self.sign(':')?;
        }
        if labels.is_empty() {
            return self.expected("`case`, `default` or `}`");
        }
        Ok(Arm { labels, body: self.declaration(outer)? })
    }

    /// Parses a declaration; `None` is `void`.
    fn declaration(&mut self, outer: &str) -> Result<Option<Declaration>, Fault> {
        if self.accept_word("void") {
            return Ok(None);
        }
        let place = self.found.len();
        let start = self.span.clone();
        let (base, inline) = self.base()?;
        let optional = self.accept('*');
        let (name, span) = self.name()?;
        let base = match inline {
            None => base,
            Some(_) if outer.is_empty() => {
                return fault(&start, "write this type as a definition of its own");
            }
            Some(keyword) => self.hoist(place, &keyword, format!("{outer}_{name}")),
        };
        let shape = if optional { Shape::Optional } else { self.shape()? };
        check(&base, &shape, &span)?;
        Ok(Some(Declaration { name, ty: Type { base, shape }, span }))
    }

    /// Renames a definition that was parsed before its field's name was known, and its inner
    /// definitions.
    fn hoist(&mut self, place: usize, placeholder: &str, name: String) -> Base {
        for definition in self.found.iter_mut().skip(place) {
            if let Some(inner) = definition.name.strip_prefix(placeholder) {
                definition.name = format!("{name}{inner}");
            }
            rename(&mut definition.body, placeholder, &name);
        }
        Base::Named(name)
    }

    fn shape(&mut self) -> Result<Shape, Fault> {
        if self.accept('[') {
            let length = self.value()?;
            self.sign(']')?;
            Ok(Shape::Fixed(length))
        } else if self.accept('<') {
            let max = if self.token == Token::Sign('>') { None } else { Some(self.value()?) };
            self.sign('>')?;
            Ok(Shape::Variable(max))
        } else {
            Ok(Shape::One)
        }
    }

    /// Parses the base of a type. For a type defined in place, also returns its placeholder name.
    fn base(&mut self) -> Result<(Base, Option<String>), Fault> {
        let (word, span) = self.name()?;
        let base = match word.as_str() {
            "int" => Base::Int,
            "hyper" => Base::Hyper,
            "bool" => Base::Bool,
            "opaque" => Base::Opaque,
            "string" => Base::String,
            "unsigned" if self.accept_word("hyper") => Base::UnsignedHyper,
            "unsigned" => {
                self.accept_word("int");
                Base::UnsignedInt
            }
            "float" | "double" | "quadruple" => return fault(&span, format!("`{word}` is not supported")),
            "enum" | "struct" | "union" => return self.tagged(&word, span),
            _ => builtin(&word).unwrap_or(Base::Named(word)),
        };
        Ok((base, None))
    }

    fn tagged(&mut self, keyword: &str, span: Span) -> Result<(Base, Option<String>), Fault> {
        let in_place = match keyword {
            "union" => matches!(&self.token, Token::Word(word) if word == "switch"),
            _ => self.token == Token::Sign('{'),
        };
        if !in_place {
            return Ok((Base::Named(self.name()?.0), None));
        }
        // No identifier contains a `?`, so the placeholder cannot collide with one.
        let placeholder = format!("?{}:{}?", span.line, span.column);
        let body = self.body(keyword, &placeholder)?;
        self.define((placeholder.clone(), span), body);
        Ok((Base::Named(placeholder.clone()), Some(placeholder)))
    }

    /// Parses `program NAME { version NAME { result NAME(arguments) = n; … } = n; … } = n`.
    fn program(&mut self) -> Result<(), Fault> {
        self.advance();
        let program = self.name()?;
        self.sign('{')?;
        while self.accept_word("version") {
            let version = self.name()?;
            self.sign('{')?;
            while !self.accept('}') {
                self.procedure()?;
            }
            self.sign('=')?;
            let value = self.value()?;
            self.define(version, Body::Const(value));
            self.sign(';')?;
        }
        self.sign('}')?;
        self.sign('=')?;
        let value = self.value()?;
        self.define(program, Body::Const(value));
        Ok(())
    }

    fn procedure(&mut self) -> Result<(), Fault> {
        if !self.accept_word("void") {
            self.base()?;
        }
        let name = self.name()?;
        self.sign('(')?;
        while !self.accept(')') {
            if !self.accept_word("void") {
                self.base()?;
            }
            self.accept(',');
        }
        self.sign('=')?;
        let value = self.value()?;
        self.define(name, Body::Const(value));
        self.sign(';')
    }
}

/// Returns the integer type of a conventional name. A grammar's own typedefs of these are skipped.
fn builtin(name: &str) -> Option<Base> {
    match name {
        "int32_t" => Some(Base::Int),
        "uint32_t" => Some(Base::UnsignedInt),
        "int64_t" => Some(Base::Hyper),
        "uint64_t" => Some(Base::UnsignedHyper),
        _ => None,
    }
}

fn check(base: &Base, shape: &Shape, span: &Span) -> Result<(), Fault> {
    match (base, shape) {
        (Base::Opaque, Shape::One | Shape::Optional) => {
            fault(span, "opaque data needs a length: `[n]` or `<n>`")
        }
        (Base::String, Shape::One | Shape::Optional | Shape::Fixed(_)) => {
            fault(span, "a string needs `<n>` or `<>`")
        }
        _ => Ok(()),
    }
}

fn rename(body: &mut Body, placeholder: &str, name: &str) {
    let rename = |ty: &mut Type| {
        if let Base::Named(used) = &mut ty.base
            && let Some(inner) = used.strip_prefix(placeholder)
        {
            *used = format!("{name}{inner}");
        }
    };
    match body {
        Body::Const(_) | Body::Enum(_) => {}
        Body::Alias(ty) => rename(ty),
        Body::Struct(fields) => fields.iter_mut().for_each(|field| rename(&mut field.ty)),
        Body::Union(union) => {
            rename(&mut union.discriminant.ty);
            let bodies = union.arms.iter_mut().filter_map(|arm| arm.body.as_mut());
            bodies.chain(union.default.iter_mut().flatten()).for_each(|body| rename(&mut body.ty));
        }
    }
}
