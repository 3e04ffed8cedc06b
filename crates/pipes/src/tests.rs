use super::*;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

fn file(bytes: &[u8]) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[test]
fn data_arrives_at_a_socket_as_it_is_in_the_file() {
    let bytes = pattern(300_000);
    let file = file(&bytes);
    let (here, mut there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let mut data = FileData::of(file.as_fd(), 1000, 200_000).unwrap().unwrap();
    assert_eq!(data.len(), 200_000);
    let mut arrived = Vec::new();
    while !data.is_empty() {
        match data.send(here.as_fd(), 70_000, false) {
            Ok(sent) => {
                let start = arrived.len();
                arrived.resize(start + sent, 0);
                there.read_exact(&mut arrived[start..]).unwrap();
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    assert!(arrived == bytes[1000..201_000]);
}

#[test]
fn data_ends_where_the_file_ends() {
    let file = file(&pattern(5000));
    let data = FileData::of(file.as_fd(), 4000, 100_000).unwrap().unwrap();
    assert_eq!(data.len(), 1000);
    assert!(FileData::of(file.as_fd(), 5000, 100).unwrap().unwrap().is_empty());
}

#[test]
fn an_attachment_stands_behind_the_bytes_before_it() {
    let file = file(b"file data");
    let data = FileData::of(file.as_fd(), 5, 4).unwrap().unwrap();
    let record = Attachment { at: 4, data }.insert_into(b"headtail".to_vec()).unwrap();
    assert_eq!(record, b"headdatatail");
}

#[test]
fn a_pipe_that_is_not_empty_is_not_used_again() {
    let bytes = pattern(100_000);
    let file = file(&bytes);
    for _ in 0..100 {
        drop(FileData::of(file.as_fd(), 0, 50_000).unwrap().unwrap());
        let mut data = FileData::of(file.as_fd(), 10, 20).unwrap().unwrap();
        let mut copy = Vec::new();
        data.copy_to(&mut copy).unwrap();
        assert_eq!(copy, bytes[10..30]);
    }
}

#[test]
fn a_range_of_more_pages_than_a_pipe_holds_is_left_to_copies() {
    let file = file(&pattern(PIPE_SIZE + 8192));
    assert!(FileData::of(file.as_fd(), 1, PIPE_SIZE).unwrap().is_none());
    assert!(FileData::of(file.as_fd(), 0, PIPE_SIZE).unwrap().is_some());
}
