//! LOAD DATA LOCAL over real sockets.

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{CAPABILITIES, Client, Running, error, eventually};
use dipper_mysql::constants::{capability, command};
use dipper_mysql::{Kill, Settings, code};

/// A client that offers to send files.
fn sender(server: &Running) -> Client {
    let mut client = server.connect();
    client.capabilities = CAPABILITIES | capability::LOCAL_FILES;
    client.login("root", "", None).unwrap();
    client
}

/// Sends packets and the end; what the server says.
fn upload(client: &mut Client, packets: &[&[u8]]) -> Vec<u8> {
    assert_eq!(client.ask(command::QUERY, b"load /tmp/a b"), b"\xfb/tmp/a b");
    for packet in packets.iter().chain([&&b""[..]]) {
        client.send(packet);
    }
    client.receive()
}

#[test]
fn a_file_is_taken_to_its_end() {
    let server = Running::new(Settings::default());
    let mut client = sender(&server);
    let ok = upload(&mut client, &[b"abc", b"de"]);
    assert_eq!((ok[0], ok[1]), (0, 5));
    assert!(ok.ends_with(b"Records: 1"));
    // An empty file, and one that the client could not read, are the same.
    assert_eq!(upload(&mut client, &[])[..2], [0, 0]);
    // More packets than sequence numbers, and one longer than packets can be.
    let many = vec![&b"y"[..]; 1000];
    assert_eq!(upload(&mut client, &many)[..4], [0, 0xfc, 0xe8, 0x03]);
    let long = vec![b'y'; (1 << 24) + 5];
    assert_eq!(upload(&mut client, &[&long])[..6], [0, 0xfe, 5, 0, 0, 1]);
    assert_eq!(client.query("one")[0].rows(), [b"\x011"]);
}

#[test]
fn the_rest_is_dropped_behind_an_error() {
    let server = Running::new(Settings::default());
    let mut client = sender(&server);
    let piece = vec![b'y'; 100_000];
    let mut packets = vec![&b"x"[..]];
    packets.extend([&piece[..]; 100]);
    let refused = error(&upload(&mut client, &packets));
    assert_eq!((refused.code, &*refused.message), (code::UNKNOWN, "an x"));
    assert_eq!(client.query("one")[0].rows(), [b"\x011"]);
    // The statements behind one that failed do not run.
    client.command(command::QUERY, b"load f; one");
    assert_eq!(client.receive(), b"\xfbf");
    client.send(b"x");
    client.send(b"");
    assert_eq!(error(&client.receive()).code, code::UNKNOWN);
    client.command(command::QUERY, b"load f; one");
    assert_eq!(client.receive(), b"\xfbf");
    client.send(b"");
    assert_eq!(client.answers(false).len(), 2);
}

#[test]
fn clients_that_do_not_offer_files_are_not_asked() {
    let server = Running::new(Settings::default());
    let mut client = server.root();
    let refused = error(&client.ask(command::QUERY, b"load f"));
    assert_eq!((refused.code, &*refused.state), (code::NOT_ALLOWED_COMMAND, "42000"));
    assert!(refused.message.contains("--local-infile=1"), "{refused:?}");
    let mut client = sender(&server);
    let prepared = client.ask(command::STMT_PREPARE, b"load f");
    assert_eq!(prepared[0], 0);
    let refused = error(&client.ask(command::STMT_EXECUTE, &[&prepared[1..5], &[0, 1, 0, 0, 0]].concat()));
    assert_eq!(refused.code, code::NOT_SUPPORTED_YET);
    assert_eq!(client.query("one")[0].rows(), [b"\x011"]);
}

#[test]
fn the_work_ends_with_the_client_and_with_kill() {
    let server = Running::new(Settings::default());
    let mut client = sender(&server);
    assert_eq!(client.ask(command::QUERY, b"load f"), b"\xfbf");
    client.send(b"s");
    eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 1);
    server.registry.get(client.id).unwrap().kill(Kill::Query);
    eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 0);
    for _ in 0..20 {
        client.send(b"more");
    }
    client.send(b"");
    assert_eq!(error(&client.receive()).code, code::QUERY_INTERRUPTED);
    assert_eq!(client.query("one")[0].rows(), [b"\x011"]);
    for kill in [false, true] {
        let mut client = sender(&server);
        assert_eq!(client.ask(command::QUERY, b"load f"), b"\xfbf");
        client.send(b"s");
        eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 1);
        if kill {
            server.registry.get(client.id).unwrap().kill(Kill::Connection);
            client.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            assert!(client.try_receive().is_err());
        } else {
            drop(client);
        }
        eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 0);
    }
}
