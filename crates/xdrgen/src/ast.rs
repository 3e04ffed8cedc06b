//! The definitions of a grammar, in the form in which they were written.

use crate::lexer::Span;

/// A number, or the name of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number in digits.
    Number(i128),
    /// The name of a constant or of an enum's value.
    Name(String),
}

/// The type in front of the name in a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The type `int` (RFC 4506 section 4.1).
    Int,
    /// The type `unsigned int` (RFC 4506 section 4.2).
    UnsignedInt,
    /// The type `hyper` (RFC 4506 section 4.5).
    Hyper,
    /// The type `unsigned hyper` (RFC 4506 section 4.5).
    UnsignedHyper,
    /// The type `bool` (RFC 4506 section 4.4).
    Bool,
    /// The type `opaque`, only with a length.
    Opaque,
    /// The type `string`, only with `<>`.
    String,
    /// A type that is defined elsewhere, by its name.
    Named(String),
}

/// The marks around the name in a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A single value, without a mark.
    One,
    /// A fixed length, `[n]`.
    Fixed(Value),
    /// A variable length, `<n>` or `<>`.
    Variable(Option<Value>),
    /// A value that may be absent, `*`.
    Optional,
}

/// The type of a declaration: a base and its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// The type of one element.
    pub base: Base,
    /// The number of elements.
    pub shape: Shape,
}

/// A declared name with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The name that is declared.
    pub name: String,
    /// The type of the name.
    pub ty: Type,
    /// The position of the name.
    pub span: Span,
}

/// One or several `case` labels with their body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// The labels with their positions.
    pub labels: Vec<(Value, Span)>,
    /// The declaration behind the discriminant; `None` for `void`.
    pub body: Option<Declaration>,
}

/// A discriminated union (RFC 4506 section 4.15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// The discriminant's type and name.
    pub discriminant: Declaration,
    /// The arms in the order of the grammar.
    pub arms: Vec<Arm>,
    /// The `default` arm, if there is one; the inner `None` is `void`.
    pub default: Option<Option<Declaration>>,
}

/// The content of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A `const`, or a number from a `program` block.
    Const(Value),
    /// An `enum`: names, values and positions.
    Enum(Vec<(String, Value, Span)>),
    /// A `struct` with its members.
    Struct(Vec<Declaration>),
    /// A `union` with its arms.
    Union(Box<Union>),
    /// A `typedef` of another type.
    Alias(Type),
}

/// One definition of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The name that is defined.
    pub name: String,
    /// The position of the name.
    pub span: Span,
    /// The content of the definition.
    pub body: Body,
}
