//! The definitions of a grammar as they were written.

use crate::lexer::Span;

/// A number or the name of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Written out.
    Number(i128),
    /// A constant or an enum's value.
    Name(String),
}

/// The type before the name in a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// `int`
    Int,
    /// `unsigned int`
    UnsignedInt,
    /// `hyper`
    Hyper,
    /// `unsigned hyper`
    UnsignedHyper,
    /// `bool`
    Bool,
    /// `opaque`, only with a length
    Opaque,
    /// `string`, only with `<>`
    String,
    /// A type that is defined elsewhere
    Named(String),
}

/// What stands around the name in a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing
    One,
    /// `[n]`
    Fixed(Value),
    /// `<n>` or `<>`
    Variable(Option<Value>),
    /// `*`
    Optional,
}

/// A base and its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// What one element is.
    pub base: Base,
    /// How many there are.
    pub shape: Shape,
}

/// A type with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The declared name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Where the name stands.
    pub span: Span,
}

/// One or several `case` labels and what they carry; `None` is `void`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arm {
    /// The labels.
    pub labels: Vec<(Value, Span)>,
    /// What follows the discriminant.
    pub body: Option<Declaration>,
}

/// The discriminated union of RFC 4506 section 4.15.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// The discriminant's type and name.
    pub discriminant: Declaration,
    /// The arms in their order.
    pub arms: Vec<Arm>,
    /// The `default` arm, if there is one.
    pub default: Option<Option<Declaration>>,
}

/// What a definition defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// `const`, or a number from a `program` block
    Const(Value),
    /// `enum`
    Enum(Vec<(String, Value, Span)>),
    /// `struct`
    Struct(Vec<Declaration>),
    /// `union`
    Union(Box<Union>),
    /// `typedef`
    Alias(Type),
}

/// One definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The defined name.
    pub name: String,
    /// Where it stands.
    pub span: Span,
    /// What it stands for.
    pub body: Body,
}
