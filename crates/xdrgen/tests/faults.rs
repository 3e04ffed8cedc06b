//! The message for a fault in a grammar names its position.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use xdrgen::generate;

#[track_caller]
fn refused(grammar: &str, message: &str) {
    let fault = generate(&[("bad.x", grammar)], &[]).expect_err("the grammar has a fault");
    assert_eq!(fault.to_string(), message);
}

#[test]
fn faults_of_writing_name_file_line_and_column() {
    refused("const A = ;", "bad.x:1:11: expected a number or the name of one, found `;`");
    refused("const A = 1\nconst", "bad.x:2:1: expected `;`, found `const`");
    refused("struct a {\n  int b\n};", "bad.x:3:1: expected `;`, found `}`");
    refused("#define", "bad.x:1:1: XDR has no character `#` here");
    refused("/* no end", "bad.x:1:1: this comment has no end");
    refused(
        "const A = 0xfffffffffffffffff;",
        "bad.x:1:11: `0xfffffffffffffffff` is no number of at most 64 bits",
    );
    refused("typedef opaque a;", "bad.x:1:16: opaque data needs a length: `[n]` or `<n>`");
    refused("typedef float a;", "bad.x:1:9: `float` is not supported");
}

#[test]
fn faults_of_meaning_name_file_line_and_column() {
    refused("struct a { b c; };", "bad.x:1:14: the type `b` is not defined");
    refused("const A = B;", "bad.x:1:7: `A` has no number: its definition leads nowhere");
    refused("const A = 1;\nconst A = 2;", "bad.x:2:7: `A` is defined already, at bad.x:1:7");
    refused("const A = 1;\nenum b { A = 2 };", "bad.x:2:10: the number `A` is defined already");
    refused(
        "struct a_b { int c; }; struct a__b { int c; };",
        "bad.x:1:31: `a__b` and `a_b` are both `AB` in Rust",
    );
    refused(
        "enum e { X = 1 };\nunion u switch (e d) { case X: void; case 1: void; };",
        "bad.x:2:43: a second arm for 1",
    );
    refused(
        "union u switch (hyper d) { default: void; };",
        "bad.x:1:7: a discriminant is an int, an unsigned int, a bool or an enum",
    );
    refused(
        "struct a { opaque none[0]; }; struct b { a many<>; };",
        "bad.x:1:44: elements that take no bytes on the wire would make an array without a limit",
    );
}

#[test]
fn a_type_that_contains_itself_is_refused_unless_it_is_a_list() {
    let message = "contains itself; only linked lists";
    for grammar in [
        "struct a { a b<>; };",
        "struct a { a *first; int last; };",
        "struct a { b one; }; struct b { a *other; };",
        "typedef a b; typedef b a;",
        "union u switch (b c) { default: void; }; typedef a b; typedef b a;",
    ] {
        let fault = generate(&[("bad.x", grammar)], &[]).expect_err("the type is recursive");
        assert!(fault.message.contains(message), "{fault}");
    }
    assert!(generate(&[("good.x", "struct a { int b; a *next; }; struct c { a *list; };")], &[]).is_ok());
}
