//! All definitions of one namespace, with resolved names and checked for faults.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{Base, Body, Definition, Shape, Type, Union, Value};
use crate::lexer::{Fault, Span, fault};
use crate::names::type_name;

/// A type that is written by hand instead of generated.
#[derive(Clone, Copy, Debug)]
pub struct Override {
    /// The name of the type in the RFC.
    pub name: &'static str,
    /// The path of the Rust type. It is `Copy`, `Clone`, `Debug`, `PartialEq` and `Eq`, without a
    /// lifetime.
    pub rust: &'static str,
    /// The minimum length of a value on the wire in bytes.
    pub wire_min: u64,
}

/// One namespace of definitions.
#[derive(Debug)]
pub struct Model {
    /// The definitions in the order of the input. Extensions are merged, and linked lists lack
    /// their last member.
    pub definitions: Vec<Definition>,
    /// The types that are written by hand.
    pub overrides: Vec<Override>,
    by_name: BTreeMap<String, usize>,
    numbers: BTreeMap<String, i128>,
    enum_of: BTreeMap<String, String>,
    lists: BTreeSet<String>,
}

/// A type after resolving all aliases.
#[derive(Clone, Copy, Debug)]
pub enum Meaning<'a> {
    /// A type without a name.
    Plain(&'a Type),
    /// An enum, a struct or a union.
    Nominal(&'a Definition),
    /// A type that is written by hand.
    Foreign(&'a Override),
}

impl Model {
    /// Resolves a namespace. Later files may extend the enums and unions of earlier ones.
    ///
    /// # Errors
    /// A [`Fault`] for names that are missing, defined twice or equal in Rust, for recursive types
    /// other than linked lists, and for unions without a usable discriminant.
    pub fn new(input: Vec<Definition>, overrides: &[Override]) -> Result<Self, Fault> {
        let mut model = Self {
            definitions: Vec::new(),
            overrides: overrides.to_vec(),
            by_name: BTreeMap::new(),
            numbers: BTreeMap::new(),
            enum_of: BTreeMap::new(),
            lists: BTreeSet::new(),
        };
        for definition in input {
            model.add(definition)?;
        }
        model.number()?;
        model.find_lists();
        model.check()?;
        Ok(model)
    }

    fn add(&mut self, definition: Definition) -> Result<(), Fault> {
        if self.overrides.iter().any(|hand| hand.name == definition.name) {
            return Ok(());
        }
        let Some(first) = self.by_name.get(&definition.name).and_then(|at| self.definitions.get_mut(*at))
        else {
            self.by_name.insert(definition.name.clone(), self.definitions.len());
            self.definitions.push(definition);
            return Ok(());
        };
        let elsewhere = first.span.file != definition.span.file;
        match (&mut first.body, definition.body) {
            (Body::Enum(values), Body::Enum(more)) if elsewhere => values.extend(more),
            (Body::Union(union), Body::Union(more)) if elsewhere => {
                let same = union.discriminant.ty == more.discriminant.ty;
                if !same || (more.default.is_some() && more.default != union.default) {
                    let message = format!(
                        "this extends `{}` at {}, but differs in its head",
                        definition.name, first.span
                    );
                    return fault(&definition.span, message);
                }
                union.arms.extend(more.arms);
            }
            _ => {
                let message = format!("`{}` is defined already, at {}", definition.name, first.span);
                return fault(&definition.span, message);
            }
        }
        Ok(())
    }

    /// Assigns its number to every constant and every enum value.
    fn number(&mut self) -> Result<(), Fault> {
        let mut open = Vec::new();
        for definition in &self.definitions {
            match &definition.body {
                Body::Const(value) => {
                    open.push((definition.name.clone(), value.clone(), definition.span.clone()))
                }
                Body::Enum(values) => {
                    open.extend(values.iter().cloned());
                    let values = values.iter().map(|(name, ..)| (name.clone(), definition.name.clone()));
                    self.enum_of.extend(values);
                }
                _ => {}
            }
        }
        let mut seen = BTreeSet::new();
        if let Some((name, _, span)) = open.iter().find(|(name, ..)| !seen.insert(name)) {
            return fault(span, format!("the number `{name}` is defined already"));
        }
        // A value may be used before its definition, so this repeats until it finds no more
        // numbers.
        loop {
            let before = open.len();
            open.retain(|(name, value, _)| match self.value(value) {
                Some(number) => {
                    self.numbers.insert(name.clone(), number);
                    false
                }
                None => true,
            });
            match open.first() {
                None => return Ok(()),
                Some((name, _, span)) if open.len() == before => {
                    return fault(span, format!("`{name}` has no number: its definition leads nowhere"));
                }
                Some(_) => {}
            }
        }
    }

    fn value(&self, value: &Value) -> Option<i128> {
        match value {
            Value::Number(number) => Some(*number),
            Value::Name(name) if name == "TRUE" => Some(1),
            Value::Name(name) if name == "FALSE" => Some(0),
            Value::Name(name) => self.numbers.get(name).copied(),
        }
    }

    /// Returns the number of `value`. A checked model has a number for each value.
    pub fn number_of(&self, value: &Value) -> i128 {
        self.value(value).unwrap_or_default()
    }

    /// Returns the enum that defines the value `name`.
    pub fn enum_of(&self, name: &str) -> Option<&str> {
        self.enum_of.get(name).map(String::as_str)
    }

    /// Returns whether `name` is an element of a linked list: a struct with a last member that
    /// pointed to itself.
    pub fn is_list(&self, name: &str) -> bool {
        self.lists.contains(name)
    }

    /// Returns the definition of a type or constant.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.by_name.get(name).and_then(|at| self.definitions.get(*at))
    }

    fn find_lists(&mut self) {
        for definition in &mut self.definitions {
            let Body::Struct(fields) = &mut definition.body else { continue };
            let own = Type { base: Base::Named(definition.name.clone()), shape: Shape::Optional };
            if fields.last().is_some_and(|last| last.ty == own) {
                fields.pop();
                self.lists.insert(definition.name.clone());
            }
        }
    }

    /// Resolves the aliases of a type.
    pub fn meaning<'a>(&'a self, ty: &'a Type) -> Meaning<'a> {
        let (Base::Named(name), Shape::One) = (&ty.base, &ty.shape) else { return Meaning::Plain(ty) };
        if let Some(hand) = self.overrides.iter().find(|hand| hand.name == name) {
            return Meaning::Foreign(hand);
        }
        match self.get(name) {
            Some(Definition { body: Body::Alias(target), .. }) => self.meaning(target),
            Some(definition) => Meaning::Nominal(definition),
            None => Meaning::Plain(ty),
        }
    }

    fn check(&self) -> Result<(), Fault> {
        let mut rust = BTreeMap::new();
        for definition in &self.definitions {
            if !matches!(definition.body, Body::Const(_))
                && let Some(other) = rust.insert(type_name(&definition.name), &definition.name)
            {
                let both = type_name(other);
                return fault(
                    &definition.span,
                    format!("`{}` and `{other}` are both `{both}` in Rust", definition.name),
                );
            }
            for (ty, span) in uses(&definition.body) {
                self.check_type(ty, span.unwrap_or(&definition.span))?;
            }
            self.check_recursion(&definition.name, definition, &mut BTreeSet::new())?;
        }
        // No alias leads back to itself now, so aliases can be resolved.
        for definition in &self.definitions {
            if let Body::Union(union) = &definition.body {
                self.check_union(union, &definition.span)?;
            }
        }
        Ok(())
    }

    fn check_type(&self, ty: &Type, span: &Span) -> Result<(), Fault> {
        if let Base::Named(name) = &ty.base {
            let hand = self.overrides.iter().any(|hand| hand.name == name);
            match self.get(name).map(|definition| &definition.body) {
                None if !hand => return fault(span, format!("the type `{name}` is not defined")),
                Some(Body::Const(_)) => return fault(span, format!("`{name}` is a number, not a type")),
                _ => {}
            }
            if self.is_list(name) && ty.shape != Shape::Optional {
                return fault(span, format!("`{name}` is a linked list and can only be used as `{name} *`"));
            }
        }
        let (Shape::Fixed(length) | Shape::Variable(Some(length))) = &ty.shape else { return Ok(()) };
        match self.value(length) {
            Some(length) if (0..=i128::from(u32::MAX)).contains(&length) => Ok(()),
            Some(length) => fault(span, format!("{length} is no length")),
            None => fault(span, format!("the length {length:?} is not defined")),
        }
    }

    fn check_recursion(&self, root: &str, at: &Definition, seen: &mut BTreeSet<String>) -> Result<(), Fault> {
        for (ty, _) in uses(&at.body) {
            let Base::Named(name) = &ty.base else { continue };
            if name == root {
                let message =
                    format!("`{root}` contains itself; only linked lists (a last member `{root} *`) may");
                return fault(&at.span, message);
            }
            if seen.insert(name.clone())
                && let Some(next) = self.get(name)
            {
                self.check_recursion(root, next, seen)?;
            }
        }
        Ok(())
    }

    fn check_union(&self, union: &Union, span: &Span) -> Result<(), Fault> {
        let ty = &union.discriminant.ty;
        let usable = match self.meaning(ty) {
            Meaning::Plain(Type { base: Base::Int | Base::UnsignedInt | Base::Bool, shape: Shape::One }) => {
                true
            }
            Meaning::Nominal(definition) => matches!(definition.body, Body::Enum(_)),
            _ => false,
        };
        if !usable {
            return fault(span, "a discriminant is an int, an unsigned int, a bool or an enum");
        }
        let mut seen = BTreeMap::new();
        for (label, span) in union.arms.iter().flat_map(|arm| &arm.labels) {
            let Some(number) = self.value(label) else {
                return fault(span, format!("the label {label:?} is not defined"));
            };
            if seen.insert(number, label).is_some() {
                return fault(span, format!("a second arm for {number}"));
            }
        }
        Ok(())
    }
}

/// Returns the types that a definition uses, with their positions.
pub fn uses(body: &Body) -> Vec<(&Type, Option<&Span>)> {
    match body {
        Body::Const(_) | Body::Enum(_) => Vec::new(),
        Body::Alias(ty) => vec![(ty, None)],
        Body::Struct(fields) => fields.iter().map(|field| (&field.ty, Some(&field.span))).collect(),
        Body::Union(union) => {
            let bodies = union.arms.iter().filter_map(|arm| arm.body.as_ref());
            let declarations = std::iter::once(&union.discriminant).chain(bodies);
            let declarations = declarations.chain(union.default.iter().flatten());
            declarations.map(|declared| (&declared.ty, Some(&declared.span))).collect()
        }
    }
}
