//! Clients that break the protocol, lie, stall or come in thousands. None of them may hurt another.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Client, Running, error, eventually};
use dipper_mysql::constants::command;
use dipper_mysql::{Settings, code, read_packets};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

/// Sends bytes on a logged-in connection: the error that comes back before the end, if one does.
fn last_words(server: &Running, bytes: &[u8]) -> Option<u16> {
    let mut client = server.root();
    client.stream.write_all(bytes).unwrap();
    let _ = client.stream.shutdown(std::net::Shutdown::Write);
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).unwrap();
    (rest.len() > 4).then(|| error(&rest[4..]).code)
}

#[test]
fn malformed_packets_close_their_connection_only() {
    let server = Running::new(Settings { max_allowed_packet: 1 << 20, ..Settings::default() });
    let mut witness = server.root();
    // A wrong sequence number.
    assert_eq!(last_words(&server, &[1, 0, 0, 3, command::PING]), Some(code::NET_PACKETS_OUT_OF_ORDER));
    // A packet above the limit is refused by its header; so is one that only grows by its continuation.
    assert_eq!(last_words(&server, &[0, 0, 0x20, 0, command::QUERY]), Some(code::NET_PACKET_TOO_LARGE));
    // No command at all.
    assert_eq!(last_words(&server, &[0, 0, 0, 0]), Some(code::MALFORMED_PACKET));
    // A statement id cut short.
    assert_eq!(last_words(&server, &[3, 0, 0, 0, command::STMT_EXECUTE, 1, 0]), Some(code::MALFORMED_PACKET));
    // COM_CHANGE_USER without an end of the user name.
    assert_eq!(last_words(&server, &[3, 0, 0, 0, command::CHANGE_USER, b'a', b'b']), Some(code::MALFORMED_PACKET));
    // Half a packet: no client is left to receive an error.
    assert_eq!(last_words(&server, &[200, 0, 0, 0, command::QUERY, b'o']), None);
    assert_eq!(witness.query("one")[0].rows().len(), 1);
    drop(witness);
    eventually(|| server.registry.is_empty());
    let counters = &server.counters;
    assert_eq!(counters.opened.load(Ordering::SeqCst), counters.closed.load(Ordering::SeqCst));
}

#[test]
fn long_data_of_all_statements_has_one_bound() {
    let server = Running::new(Settings { max_allowed_packet: 1 << 20, ..Settings::default() });
    let mut client = server.root();
    let ids = [(); 2].map(|()| {
        let ok = client.ask(command::STMT_PREPARE, b"echo ?, ?");
        // Two parameters and two columns, each list with an end.
        (0..6).for_each(|_| drop(client.receive()));
        [ok[1], ok[2], ok[3], ok[4]]
    });
    let execute = |client: &mut Client, id: [u8; 4]| {
        client.command(command::STMT_EXECUTE, &[&id[..], &[0, 1, 0, 0, 0, 1, 1, 6, 0, 0xfd, 0]].concat());
        client.answers(true).remove(0)
    };
    let long = [&[1, 0][..], &[b'x'; 600 << 10]].concat();
    for _ in 0..2 {
        for id in ids {
            client.command(command::STMT_SEND_LONG_DATA, &[&id[..], &long].concat());
        }
        assert_eq!(execute(&mut client, ids[1]).error(), code::NET_PACKET_TOO_LARGE);
        assert_eq!(execute(&mut client, ids[0]).rows().len(), 1);
    }
    // Closed and reset statements do not count.
    client.command(command::STMT_SEND_LONG_DATA, &[&ids[0][..], &long].concat());
    client.command(command::STMT_CLOSE, &ids[0]);
    client.command(command::STMT_SEND_LONG_DATA, &[&ids[1][..], &long].concat());
    assert_eq!(client.ask(command::STMT_RESET, &ids[1])[0], 0);
    client.command(command::STMT_SEND_LONG_DATA, &[&ids[1][..], &long].concat());
    assert_eq!(execute(&mut client, ids[1]).rows().len(), 1);
}

#[test]
fn text_that_is_not_utf8_is_an_error_of_its_statement() {
    let server = Running::new(Settings::default());
    let mut client = server.root();
    for command in [command::QUERY, command::STMT_PREPARE, command::INIT_DB] {
        assert_eq!(error(&client.ask(command, b"one '\xe9'")).code, code::INVALID_CHARACTER_STRING);
    }
    assert_eq!(client.query("one")[0].rows().len(), 1);
}

#[test]
fn malformed_parameters() {
    let server = Running::new(Settings::default());
    let mut client = server.root();
    let ok = client.ask(command::STMT_PREPARE, b"echo ?");
    assert_eq!(ok[0], 0);
    (0..4).for_each(|_| drop(client.receive()));
    let body = [&ok[1..5], &[0, 1, 0, 0, 0, 0, 1, 0xfd, 0, 0xfe, 255, 255, 255, 255, 255, 255, 255, 127]].concat();
    assert_eq!(error(&client.ask(command::STMT_EXECUTE, &body)).code, code::MALFORMED_PACKET);
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn broken_logins() {
    let server = Running::new(Settings::default());
    let refuse = |payload: &[u8]| {
        let mut client = server.connect();
        client.greeting();
        client.send(payload);
        let mut rest = Vec::new();
        client.stream.read_to_end(&mut rest).unwrap();
        assert!(rest.len() > 4);
        error(&rest[4..]).code
    };
    assert_eq!(refuse(b""), code::MALFORMED_PACKET);
    assert_eq!(refuse(b"GET / HTTP/1.1\r\n\r\n"), code::NOT_SUPPORTED_AUTH_MODE);
    assert_eq!(refuse(&[0, 2, 0, 0, 1]), code::MALFORMED_PACKET);
    // A name without an end, and a proof that claims 2^63 bytes.
    let head = [&[0x00, 0xa2, 0x2a, 0x00][..], &[0; 4], &[45], &[0; 23]].concat();
    assert_eq!(refuse(&[&head[..], b"root"].concat()), code::MALFORMED_PACKET);
    let claim = [&head[..], b"root\0", &[0xfe, 255, 255, 255, 255, 255, 255, 255, 127]].concat();
    assert_eq!(refuse(&claim), code::MALFORMED_PACKET);
    // A request for TLS, which the server does not offer.
    let tls = [&[0x00, 0xaa, 0x2a, 0x00][..], &[0; 4], &[45], &[0; 23]].concat();
    assert_eq!(refuse(&tls), code::HANDSHAKE);
    // Before login, packets are small.
    let mut client = server.connect();
    client.greeting();
    client.stream.write_all(&[0, 0, 0x10, 1]).unwrap();
    assert_eq!(error(&client.receive_after(2)).code, code::NET_PACKET_TOO_LARGE);
    assert_eq!(server.counters.opened.load(Ordering::SeqCst), 0);
}

trait ReceiveAfter {
    fn receive_after(&mut self, sequence: u8) -> Vec<u8>;
}

impl ReceiveAfter for Client {
    /// The next packet, whatever its number: the server counts from what it understood.
    fn receive_after(&mut self, _: u8) -> Vec<u8> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).unwrap();
        let mut payload = vec![0; usize::from(header[0]) | usize::from(header[1]) << 8];
        self.stream.read_exact(&mut payload).unwrap();
        payload
    }
}

#[test]
fn silent_connections_end_and_do_not_keep_others_out() {
    let settings =
        Settings { login_timeout: Duration::from_millis(700), unauthenticated_max: 100, ..Settings::default() };
    let server = Running::new(settings);
    let start = Instant::now();
    let mut silent = (0..300).map(|_| TcpStream::connect(server.address).unwrap()).collect::<Vec<_>>();
    // The newest 100 wait; the others were ended, oldest first, before their time.
    let mut greeting = [0; 4];
    silent[299].read_exact(&mut greeting).unwrap();
    for stream in &mut silent[..200] {
        stream.set_read_timeout(Some(Duration::from_millis(600))).unwrap();
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    assert!(start.elapsed() < Duration::from_millis(650), "{:?}", start.elapsed());
    let mut client = server.root();
    assert_eq!(client.query("one")[0].rows().len(), 1);
    for stream in &mut silent[200..] {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
    }
    assert!(start.elapsed() < Duration::from_millis(2_500), "{:?}", start.elapsed());
    assert_eq!(client.query("one")[0].rows().len(), 1);
}

#[test]
fn a_slow_handshake_runs_out_of_time() {
    let server = Running::new(Settings { login_timeout: Duration::from_millis(400), ..Settings::default() });
    let mut client = server.connect();
    let nonce = client.greeting();
    let proof = Client::proof(&client.plugin, &nonce, "");
    let response = client.response("root", &proof, None);
    let packet = client.frame(&response);
    let start = Instant::now();
    let mut written = 0;
    for &byte in &packet {
        if client.stream.write_all(&[byte]).is_err() {
            break;
        }
        written += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(written < packet.len() && start.elapsed() < Duration::from_secs(2));
    server.root();
}

#[test]
fn a_packet_that_stops_in_the_middle_runs_out_of_time() {
    let server = Running::new(Settings { read_timeout: Duration::from_millis(200), ..Settings::default() });
    let mut client = server.root();
    client.stream.write_all(&[9, 0, 0, 0, command::QUERY]).unwrap();
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    eventually(|| server.registry.is_empty());
}

#[test]
fn a_client_that_does_not_read_runs_out_of_time() {
    let server = Running::new(Settings { write_timeout: Duration::from_millis(300), ..Settings::default() });
    let mut client = server.root();
    client.command(3, b"big 50000000");
    eventually(|| server.registry.is_empty());
    drop(client);
}

/// Random bytes, and valid packets with random damage, through packet reader and decoders. A failure names its seed.
#[test]
fn random_bytes_neither_panic_nor_grow() {
    let samples: Vec<Vec<u8>> = vec![
        b"\x09\0\0\0\x03select 1".to_vec(),
        b"\x13\0\0\0\x17\x02\0\0\0\0\x01\0\0\0\0\x01\x08\0\xfd\0\x05\0\0\0".to_vec(),
        b"\x27\0\0\0\x11alice\0\x14aaaaaaaaaaaaaaaaaaaadb\0\x2d\0plugin\0\x00".to_vec(),
        [
            &b"\x3a\0\0\0"[..],
            &[0x0d, 0xa2, 0x3a, 0],
            &[0; 4],
            &[45],
            &[0; 23],
            b"root\0\x00db\0plug\0\x04\x01k\x01vxxxx",
        ]
        .concat(),
        b"\x0a\0\0\0\0\0\0select".to_vec(),
        b"\x10\0\0\0\x40\0\0\x78\x9c\x4b\x4c\x4a\x4e\x49\x4d\x4b\xcf\xc8\xcc\x02\x00\x0b\x6c".to_vec(),
    ];
    for seed in 0..20_000u64 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut bytes = Vec::new();
        for _ in 0..random.random_range(1..6) {
            if random.random_bool(0.3) {
                let mut noise = vec![0; random.random_range(0..200)];
                random.fill_bytes(&mut noise);
                bytes.extend(noise);
            } else {
                let mut sample = samples[random.random_range(0..samples.len())].clone();
                for _ in 0..random.random_range(0..4) {
                    let at = random.random_range(0..sample.len());
                    sample[at] = if random.random_bool(0.5) {
                        random.random()
                    } else {
                        sample[at] ^ (1 << random.random_range(0..8))
                    };
                }
                if random.random_bool(0.3) {
                    // The header tells the truth again.
                    let length = sample.len() - 4;
                    sample[..4].copy_from_slice(&[length as u8, 0, 0, 0]);
                }
                bytes.extend(sample);
            }
        }
        let step = [1, 3, 64, 4096][random.random_range(0..4)];
        let compression = random.random_range(0..3);
        let run = || read_packets(&bytes, step, 1 << 20, compression);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        assert!(result.is_ok(), "seed {seed}: {bytes:?}");
        // How the bytes are cut does not matter.
        assert_eq!(result.unwrap(), read_packets(&bytes, bytes.len(), 1 << 20, compression), "seed {seed}");
    }
}

/// Random bytes over a socket, where the server's answers and its end are visible.
#[test]
fn random_commands_over_a_socket() {
    let server = Running::new(Settings { read_timeout: Duration::from_millis(100), ..Settings::default() });
    let mut witness = server.root();
    for seed in 0..300u64 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut client = server.root();
        for _ in 0..random.random_range(1..5) {
            let mut body = vec![0; random.random_range(1..40)];
            random.fill_bytes(&mut body);
            body[0] = random.random_range(0..0x25);
            client.sequence = 0;
            let packet = client.frame(&body);
            if client.stream.write_all(&packet).is_err() {
                break;
            }
        }
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        client.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut rest = Vec::new();
        if let Err(error) = client.stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "seed {seed}: the server hangs");
        }
    }
    assert_eq!(witness.query("one")[0].rows().len(), 1);
    eventually(|| server.registry.len() == 1);
}
