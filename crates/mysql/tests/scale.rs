//! Memory costs of many connections. One test, because memory is counted for the process.

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use common::Running;
use dipper_mysql::Settings;
use dipper_mysql::constants::command;

#[test]
fn many_connections_are_cheap() {
    a_claimed_length_costs_nothing();
    thousands_of_half_open_connections();
    thousands_of_idle_sessions();
}

fn a_claimed_length_costs_nothing() {
    let server = Running::new(Settings { max_allowed_packet: 1 << 30, ..Settings::default() });
    let before = resident_bytes();
    // 200 connections claim packets of 16 MB and send a little of them.
    let mut clients = (0..200).map(|_| server.root()).collect::<Vec<_>>();
    for client in &mut clients {
        client.stream.write_all(&[0xff, 0xff, 0xff, 0, command::QUERY]).unwrap();
        client.stream.write_all(&[b'x'; 1000]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for 200 claims");
    assert_eq!(server.registry.len(), 200);
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Thousands of connections that never log in, one process as both sides: 2 descriptors each.
fn thousands_of_half_open_connections() {
    let count = (descriptors().saturating_sub(600) / 2).min(10_000);
    assert!(count >= 200, "ulimit -n is too small for this test");
    let server = Running::new(Settings { unauthenticated_max: count + 10, ..Settings::default() });
    let before = resident_bytes();
    let half_open = (0..count).map(|_| TcpStream::connect(server.address).unwrap()).collect::<Vec<_>>();
    let mut client = server.root();
    assert_eq!(client.query("rows 10")[0].rows().len(), 10);
    let each = resident_bytes().saturating_sub(before) / count;
    assert!(each < 24 * 1024, "{each} bytes for each of {count} half-open connections");
    println!("{count} half-open connections, {each} bytes each");
    drop(half_open);
    assert_eq!(client.query("rows 10")[0].rows().len(), 10);
}

/// Thousands of idle sessions: what each costs once its buffers are given back.
fn thousands_of_idle_sessions() {
    let count = (descriptors().saturating_sub(600) / 2).min(2_000);
    let server = Running::new(Settings::default());
    let before = resident_bytes();
    let mut clients = (0..count).map(|_| server.root()).collect::<Vec<_>>();
    for client in &mut clients {
        assert_eq!(client.query("rows 100")[0].rows().len(), 100);
    }
    std::thread::sleep(Duration::from_millis(1_300));
    let each = resident_bytes().saturating_sub(before) / count;
    assert!(each < 32 * 1024, "{each} bytes for each of {count} idle sessions");
    println!("{count} idle sessions, {each} bytes each, client side included");
    assert_eq!(server.registry.len(), count);
    for client in &mut clients {
        assert_eq!(client.query("one")[0].rows().len(), 1);
    }
}

/// Descriptors that this process may open.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line["Max open files".len()..].split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX)
}
