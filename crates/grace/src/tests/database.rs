//! The layout and the transitions of the database.

use crate::{Database, DatabaseChange, DatabaseError, Epochs, NodeId};

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn shown(database: &Database) -> String {
    let Epochs { current, recovery } = database.epochs();
    let nodes = database.nodes().map(|(node, flags)| format!(" {node}={}", flags.to_string().trim()));
    format!("{current} {recovery}{}", nodes.collect::<String>())
}

fn with(names: &[&str]) -> Database {
    let mut database = Database::default();
    names.iter().for_each(|name| database.add(node(name)));
    database
}

#[test]
fn the_layout_is_that_of_the_design() {
    // As `ganesha-rados-grace add a b; ganesha-rados-grace start a` leaves the object.
    let data = [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let omap = [(b"a".to_vec(), vec![3]), (b"b".to_vec(), vec![2])];
    let xattrs = [("orthrus.a".to_owned(), b"00000000000000ff".to_vec()), ("other".to_owned(), vec![0xff])];
    let database = Database::decode(&data, &omap, &xattrs).unwrap();
    assert_eq!(shown(&database), "2 1 a=NE b=E");
    assert_eq!((database.instance(&node("a")), database.instance(&node("b"))), (Some(255), None));
    assert_eq!(database.epochs().encode(), data);
}

#[test]
fn an_object_that_is_no_grace_database_is_refused() {
    let epochs = |current: u64, recovery: u64| [current.to_le_bytes(), recovery.to_le_bytes()].concat();
    for data in
        [vec![], vec![1; 15], vec![1; 17], epochs(0, 0), epochs(3, 3), epochs(3, 9), epochs(u64::MAX, 0)]
    {
        assert!(Database::decode(&data, &[], &[]).is_err(), "{data:?}");
    }
    let good = epochs(3, 2);
    let omap = |name: &[u8], flags: &[u8]| Database::decode(&good, &[(name.to_vec(), flags.to_vec())], &[]);
    assert_eq!(omap(b"a", b""), Err(DatabaseError::Flags(node("a"))));
    assert_eq!(omap(b"a", b"NE"), Err(DatabaseError::Flags(node("a"))));
    assert_eq!(omap(b"", &[1]), Err(DatabaseError::Name));
    let many: Vec<_> = (0..1025).map(|number| (format!("n{number}").into_bytes(), vec![0])).collect();
    assert_eq!(Database::decode(&good, &many, &[]), Err(DatabaseError::TooMany));
    for value in [&b""[..], b"1", b"zzzzzzzzzzzzzzzz", b"\xff000000000000000"] {
        let xattrs = [("orthrus.a".to_owned(), value.to_vec())];
        assert_eq!(Database::decode(&good, &[], &xattrs), Err(DatabaseError::Instance(node("a"))));
    }
}

#[test]
fn a_period_begins_once_and_ends_with_the_last_need() {
    let mut database = with(&["a", "b"]);
    assert_eq!(shown(&database), "1 0 a=E b=E");
    database.relax(&node("a"));
    database.relax(&node("b"));
    database.need(&node("a"));
    assert_eq!(shown(&database), "2 1 a=N b=");
    database.need(&node("b"));
    assert_eq!(shown(&database), "2 1 a=N b=N");
    database.enforce(&node("a"));
    database.lift(&node("a"));
    assert_eq!(shown(&database), "2 1 a=E b=N");
    database.lift(&node("b"));
    assert_eq!(shown(&database), "2 1 a=E b=", "b has no records in epoch 2 yet");
    database.enforce(&node("b"));
    database.end_if_unneeded();
    assert_eq!(shown(&database), "2 0 a=E b=E");
    database.need(&node("nobody"));
    assert_eq!(shown(&database), "2 0 a=E b=E");
}

#[test]
fn a_removed_member_does_not_delay_the_grace_period_of_others() {
    let mut database = with(&["a", "b"]);
    database.need(&node("a"));
    database.remove(&node("a"));
    assert_eq!(shown(&database), "2 0 b=E");
    database.add(node("b"));
    assert_eq!(shown(&database), "2 0 b=E");
}

#[test]
fn numbers_of_instances_only_grow() {
    let mut database = with(&["a"]);
    assert_eq!(database.claim(&node("a"), 100), 100);
    assert_eq!(database.claim(&node("a"), 100), 101);
    assert_eq!(database.claim(&node("a"), 50), 102);
    database.remove(&node("a"));
    database.add(node("a"));
    assert_eq!(database.claim(&node("a"), 0), 103);
}

#[test]
fn a_change_has_only_the_differences() {
    let before = with(&["a", "b"]);
    assert_eq!(DatabaseChange::between(&before, before.clone()), None);
    let mut after = before.clone();
    after.claim(&node("a"), 16);
    after.need(&node("a"));
    after.remove(&node("b"));
    after.add(node("c"));
    let change = DatabaseChange::between(&before, after.clone()).unwrap();
    assert_eq!(change.epochs, Some(Epochs { current: 2, recovery: 1 }));
    let set: Vec<_> = change.set.iter().map(|(node, flags)| (node.to_string(), flags.bits())).collect();
    assert_eq!(set, [("a".to_owned(), 3), ("c".to_owned(), 2)]);
    assert_eq!(change.removed, [node("b")]);
    assert_eq!(change.attributes, [("orthrus.a".to_owned(), "0000000000000010".to_owned())]);
    assert_eq!(change.into_result(), after);
}
