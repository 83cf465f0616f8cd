//! Commands, results and logins over real sockets.

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Answer, CAPABILITIES, Client, Running, error, eventually, ok_status};
use dipper_mysql::constants::{capability, command, status};
use dipper_mysql::{Settings, code};
use mysql_common::packets::AuthPlugin;
use tokio::sync::Semaphore;

fn running() -> Running {
    Running::new(Settings::default())
}

#[test]
fn passwords_of_both_plugins() {
    let server = running();
    let native = AuthPlugin::MysqlNativePassword;
    let sha2 = AuthPlugin::CachingSha2Password;
    let other = AuthPlugin::Sha256Password;
    for (user, password, plugins) in [
        ("root", "", [&native, &sha2, &other]),
        ("alice", "secret", [&native, &sha2, &other]),
        ("old", "secret", [&native, &sha2, &other]),
        ("new", "secret", [&native, &sha2, &other]),
    ] {
        for plugin in plugins {
            let mut client = server.connect();
            client.plugin = plugin.clone();
            client.login(user, password, Some("db")).unwrap();
            assert_eq!(client.query("whoami")[0].rows(), [[&[user.len() as u8], user.as_bytes(), b"\x02db"].concat()]);
            let mut client = server.connect();
            client.plugin = plugin.clone();
            let refused = client.login(user, "wrong", None).unwrap_err();
            assert_eq!((refused.code, &*refused.state), (code::ACCESS_DENIED, "28000"));
            assert!(refused.message.contains(&format!("'{user}'@'127.0.0.1' (using password: YES)")), "{refused:?}");
        }
    }
    assert_eq!(server.counters.failed_logins.load(Ordering::SeqCst), 12);
}

#[test]
fn unknown_users_look_like_wrong_passwords() {
    let server = running();
    for plugin in [AuthPlugin::MysqlNativePassword, AuthPlugin::CachingSha2Password, AuthPlugin::Sha256Password] {
        let transcript = |user: &str, password: &str| {
            let mut client = server.connect();
            client.plugin = plugin.clone();
            let before = server.counters.read_anew.load(Ordering::SeqCst);
            let result = client.login(user, password, None).unwrap_err();
            let read_anew = server.counters.read_anew.load(Ordering::SeqCst) - before;
            (client.sequence, read_anew, result.code, result.message.replace(user, "USER"))
        };
        assert_eq!(transcript("alice", "wrong"), transcript("nobody", "wrong"));
        assert_eq!(transcript("alice", ""), transcript("nobody", ""));
    }
}

#[test]
fn accounts_are_read_anew_before_a_login_is_refused() {
    let server = running();
    for plugin in [AuthPlugin::MysqlNativePassword, AuthPlugin::CachingSha2Password, AuthPlugin::Sha256Password] {
        for (user, accepted, times) in [("alice", true, 0), ("late", true, 1), ("nobody", false, 1), ("old", true, 0)] {
            let before = server.counters.read_anew.load(Ordering::SeqCst);
            let mut client = server.connect();
            client.plugin = plugin.clone();
            assert_eq!(client.login(user, "secret", None).is_ok(), accepted, "{user}");
            assert_eq!(server.counters.read_anew.load(Ordering::SeqCst) - before, times, "{user}");
        }
    }
}

/// A client that cannot answer the greeting's plugin sends nothing, and takes the next packet for another question.
#[test]
fn a_client_with_another_plugin_is_asked_even_without_password() {
    let server = running();
    for (plugin, asked) in [
        (AuthPlugin::CachingSha2Password, false),
        (AuthPlugin::MysqlNativePassword, true),
        (AuthPlugin::Other(b"dummy_fallback_auth".into()), true),
    ] {
        let mut client = server.connect();
        client.plugin = plugin;
        client.greeting();
        let response = client.response("root", &[], None);
        client.send(&response);
        assert_eq!(client.receive()[0] == 0xfe, asked, "{:?}", client.plugin);
        if asked {
            client.send(&[]);
            assert_eq!(client.receive()[0], 0);
        }
        assert_eq!(client.query("one")[0].rows(), [b"\x011"]);
    }
}

#[test]
fn an_old_client_without_plugins() {
    let server = running();
    let mut client = server.connect();
    client.capabilities = CAPABILITIES & !(capability::PLUGIN_AUTH | capability::PLUGIN_AUTH_LENENC_CLIENT_DATA);
    let nonce = client.greeting();
    let proof = Client::proof(&AuthPlugin::MysqlNativePassword, &nonce, "secret");
    let response = client.response("alice", &proof, None);
    client.send(&response);
    client.finish_login("").unwrap();
    assert_eq!(client.query("one")[0].rows(), [b"\x011"]);
}

#[test]
fn a_missing_database_refuses_the_login() {
    let server = running();
    let refused = server.connect().login("root", "", Some("missing")).unwrap_err();
    assert_eq!((refused.code, &*refused.state), (code::BAD_DB, "42000"));
}

#[test]
fn small_commands() {
    let server = running();
    let mut client = server.root();
    assert_eq!(client.ask(command::PING, b""), [0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(client.ask(command::STATISTICS, b""), b"Uptime: 1  Threads: 1");
    assert_eq!(error(&client.ask(command::INIT_DB, b"missing")).code, code::BAD_DB);
    assert_eq!(client.ask(command::INIT_DB, b"other")[0], 0);
    assert_eq!(client.query("whoami")[0].rows(), [b"\x04root\x05other"]);
    assert_eq!(error(&client.ask(command::DEBUG, b"")).code, code::NOT_SUPPORTED_YET);
    let unknown = error(&client.ask(0x1d, b"what"));
    assert_eq!((unknown.code, &*unknown.state, &*unknown.message), (1047, "08S01", "unknown command 0x1d"));
    client.command(command::FIELD_LIST, b"t\0a%");
    let definition = client.receive();
    assert!(definition.ends_with(&[0, 0, 0xfb]) && definition.windows(2).any(|pair| pair == b"a%"));
    assert_eq!(client.receive(), [0xfe, 0, 0, 2, 0]);
    client.command(command::PROCESS_INFO, b"");
    let list = client.answers(false);
    assert!(String::from_utf8_lossy(&list[0].rows()[0]).contains("SHOW PROCESSLIST"));
    client.command(command::QUIT, b"");
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    eventually(|| server.registry.is_empty() && server.counters.closed.load(Ordering::SeqCst) == 1);
}

#[test]
fn results_and_errors() {
    let server = running();
    let mut client = server.root();
    assert_eq!(client.query("insert"), [Answer::Ok(b"\x00\x03\x07\x02\x00\x02\x00\x0aRecords: 3".to_vec())]);
    assert_eq!(client.query("nothing")[0].error(), code::NO_SUCH_TABLE);
    assert_eq!(client.query("")[0].error(), code::EMPTY_QUERY);
    let rows = client.query("rows 2500");
    assert_eq!(rows[0].rows().len(), 2500);
    assert_eq!(rows[0].rows()[2499], b"\x042499");
    assert_eq!(client.query("rows 0")[0].rows().len(), 0);
    let Answer::Broken(rows, error) = &client.query("late")[0] else { panic!("no late error") };
    assert_eq!((rows.len(), &*error.message), (2, "the second batch is lost"));
    let text = client.query("panic");
    let Answer::Error(error) = &text[0] else { panic!("no error") };
    assert!(error.message.contains("canned panic"), "{error:?}");
    assert_eq!(client.query("one")[0].rows(), [b"\x011"]);
}

#[test]
fn without_eof_packets() {
    let server = running();
    let mut client = server.connect();
    client.capabilities |= capability::DEPRECATE_EOF;
    client.login("root", "", None).unwrap();
    assert_eq!(client.query("rows 3")[0].rows().len(), 3);
    client.command(command::SET_OPTION, &[1, 0]);
    assert_eq!(client.receive(), [0xfe, 0, 0, 2, 0, 0, 0]);
}

#[test]
fn several_statements() {
    let server = running();
    let mut client = server.root();
    let answers = client.query("one; insert; rows 2; ; -- end");
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[2].rows().len(), 2);
    // An error ends the row of statements.
    let answers = client.query("one; nothing; one");
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1].error(), code::NO_SUCH_TABLE);
    let answers = client.query("late; one");
    assert!(matches!(&answers[..], [Answer::Broken(..)]));
    assert_eq!(client.ask(command::SET_OPTION, &[1, 0])[0], 0xfe);
    // A client that does not support several answers gets one: that of the last statement, or the first error.
    let answers = client.query("one; insert; rows 2; ; -- end");
    assert_eq!((answers.len(), answers[0].rows().len()), (1, 2));
    let answers = client.query("one; nothing; one");
    assert_eq!((answers.len(), answers[0].error()), (1, code::NO_SUCH_TABLE));
    assert!(matches!(&client.query("rows 2; insert")[..], [Answer::Ok(_)]));
    assert_eq!(client.query("late; one").len(), 1);
    assert_eq!(client.query("one;")[0].rows().len(), 1);
    assert_eq!(client.ask(command::SET_OPTION, &[0, 0])[0], 0xfe);
    assert_eq!(client.query("one; one").len(), 2);
}

#[test]
fn a_new_database_is_told_to_clients_that_track_it() {
    let server = running();
    let mut client = server.connect();
    client.capabilities |= capability::SESSION_TRACK;
    client.login("root", "", None).unwrap();
    let [Answer::Ok(packet)] = &client.query("use sales")[..] else { panic!("not OK") };
    assert_eq!(ok_status(packet) & status::SESSION_STATE_CHANGED, status::SESSION_STATE_CHANGED);
    assert_eq!(packet[7..], *b"\x00\x08\x01\x06\x05sales");
    let [Answer::Ok(packet)] = &client.query("use sales")[..] else { panic!("not OK") };
    assert_eq!(ok_status(packet) & status::SESSION_STATE_CHANGED, 0);
}

/// Prepares and returns the statement's id, its parameters and columns.
fn prepare(client: &mut Client, sql: &str) -> (u32, u16, u16) {
    let ok = client.ask(command::STMT_PREPARE, sql.as_bytes());
    assert_eq!((ok[0], ok.len()), (0, 12), "{ok:?}");
    let columns = u16::from_le_bytes([ok[5], ok[6]]);
    let params = u16::from_le_bytes([ok[7], ok[8]]);
    for count in [params, columns] {
        let eof = usize::from(count > 0);
        (0..usize::from(count) + eof).for_each(|_| drop(client.receive()));
    }
    (u32::from_le_bytes([ok[1], ok[2], ok[3], ok[4]]), params, columns)
}

fn execute(client: &mut Client, id: u32, cursor: u8, values: &[u8]) {
    let body = [&id.to_le_bytes()[..], &[cursor], &1u32.to_le_bytes(), values].concat();
    client.command(command::STMT_EXECUTE, &body);
}

#[test]
fn prepared_statements() {
    let server = running();
    let mut client = server.root();
    let (id, params, columns) = prepare(&mut client, "echo ?, ?");
    assert_eq!((params, columns), (2, 2));
    for round in 0..3 {
        // Types are bound in the first round only.
        let types: &[u8] = if round == 0 { &[1, 0x08, 0x80, 0xfd, 0] } else { &[0] };
        let values = [&[0][..], types, &[round, 0, 0, 0, 0, 0, 0, 0], b"\x02hi"].concat();
        execute(&mut client, id, 0, &values);
        let answer = client.answers(true);
        let expected = format!("\0\0\x07UInt({round})\x0aText(\"hi\")");
        assert_eq!(answer[0].rows(), [expected.as_bytes()]);
    }
    // Long data takes the place of the second value, once.
    client.command(command::STMT_SEND_LONG_DATA, &[&id.to_le_bytes()[..], &[1, 0], b"long "].concat());
    client.command(command::STMT_SEND_LONG_DATA, &[&id.to_le_bytes()[..], &[1, 0], b"text"].concat());
    execute(&mut client, id, 0, &[1, 0]);
    assert_eq!(client.answers(true)[0].rows(), [b"\0\0\x04Null\x11Text(\"long text\")"]);
    client.command(command::STMT_SEND_LONG_DATA, &[&id.to_le_bytes()[..], &[9, 0], b"x"].concat());
    execute(&mut client, id, 0, &[3, 0]);
    assert_eq!(client.answers(true)[0].error(), code::WRONG_ARGUMENTS);
    execute(&mut client, id, 0, &[3, 0]);
    assert_eq!(client.answers(true)[0].rows(), [b"\0\0\x04Null\x04Null"]);
    client.command(command::STMT_SEND_LONG_DATA, &[&id.to_le_bytes()[..], &[1, 0], b"x"].concat());
    assert_eq!(client.ask(command::STMT_RESET, &id.to_le_bytes())[0], 0);
    execute(&mut client, id, 0, &[3, 0]);
    assert_eq!(client.answers(true)[0].rows(), [b"\0\0\x04Null\x04Null"]);
    // Close has no answer; what follows has.
    client.command(command::STMT_CLOSE, &id.to_le_bytes());
    execute(&mut client, id, 0, &[3, 0]);
    assert_eq!(client.answers(true)[0].error(), code::UNKNOWN_STMT);
    assert_eq!(error(&client.ask(command::STMT_PREPARE, b"wrong")).code, code::PARSE);
    assert_eq!(error(&client.ask(command::STMT_PREPARE, b"one; one")).code, code::PARSE);
    let (id, params, columns) = prepare(&mut client, "insert");
    assert_eq!((params, columns), (0, 0));
    execute(&mut client, id, 0, &[]);
    assert!(matches!(&client.answers(true)[..], [Answer::Ok(packet)] if packet[1] == 3));
    assert_eq!(server.counters.statements_closed.load(Ordering::SeqCst), 1);
}

#[test]
fn cursors_send_rows_piece_by_piece() {
    let server = running();
    let mut client = server.root();
    let (id, ..) = prepare(&mut client, "rows 2500");
    execute(&mut client, id, 1, &[]);
    assert_eq!(client.receive(), [1]);
    client.receive();
    let eof = client.receive();
    assert_eq!(u16::from_le_bytes([eof[3], eof[4]]) & status::CURSOR_EXISTS, status::CURSOR_EXISTS);
    let mut fetched = 0;
    for (count, last) in [(1u32, false), (1_500, false), (5_000, true)] {
        client.command(command::STMT_FETCH, &[id.to_le_bytes(), count.to_le_bytes()].concat());
        let status = loop {
            let packet = client.receive();
            if packet[0] == 0xfe {
                break u16::from_le_bytes([packet[3], packet[4]]);
            }
            assert_eq!(packet[2..], i64::from(fetched).to_le_bytes());
            fetched += 1;
        };
        assert_eq!(status & status::LAST_ROW_SENT != 0, last);
    }
    assert_eq!(fetched, 2500);
    client.command(command::STMT_FETCH, &[id.to_le_bytes(), 1u32.to_le_bytes()].concat());
    assert_eq!(error(&client.receive()).code, code::STMT_HAS_NO_OPEN_CURSOR);
    // Exactly the rows that there are: the end is known at once.
    let (id, ..) = prepare(&mut client, "rows 2");
    execute(&mut client, id, 1, &[]);
    (0..3).for_each(|_| drop(client.receive()));
    client.command(command::STMT_FETCH, &[id.to_le_bytes(), 2u32.to_le_bytes()].concat());
    (0..2).for_each(|_| drop(client.receive()));
    let eof = client.receive();
    assert_eq!(u16::from_le_bytes([eof[3], eof[4]]) & status::LAST_ROW_SENT, status::LAST_ROW_SENT);
}

#[test]
fn large_payloads_in_both_directions() {
    let server = running();
    let mut client = server.root();
    // Around one packet, and above two.
    for length in [0xff_ffff - 9, 0xff_ffff - 8, 0xff_ffff - 7, 2 * 0xff_ffff, 40_000_000] {
        let rows = client.query(&format!("big {length}"));
        let row = &rows[0].rows()[0];
        let prefix = if length < 1 << 24 { 4 } else { 9 };
        assert_eq!(row.len(), length + prefix);
        assert!(row[prefix..].iter().all(|&byte| byte == b'x'));
        let sql = format!("length {}", "y".repeat(length));
        let rows = client.query(&sql);
        assert_eq!(rows[0].rows()[0][1..], *sql.len().to_string().as_bytes());
    }
}

#[test]
fn reset_and_change_of_user() {
    let server = running();
    let mut client = server.root();
    let (id, ..) = prepare(&mut client, "echo ?");
    client.query("use sales");
    assert_eq!(client.ask(command::RESET_CONNECTION, b"")[0], 0);
    assert_eq!(server.counters.resets.load(Ordering::SeqCst), 1);
    assert_eq!(client.query("whoami")[0].rows(), [b"\x04root\xfb"]);
    execute(&mut client, id, 0, &[1, 0]);
    assert_eq!(client.answers(true)[0].error(), code::UNKNOWN_STMT);
    let (id, ..) = prepare(&mut client, "echo ?");
    let change = b"alice\0\0db\0\x2d\0caching_sha2_password\0";
    client.command(command::CHANGE_USER, change);
    client.finish_login("secret").unwrap();
    assert_eq!(client.query("whoami")[0].rows(), [b"\x05alice\x02db"]);
    execute(&mut client, id, 0, &[1, 0]);
    assert_eq!(client.answers(true)[0].error(), code::UNKNOWN_STMT);
    assert_eq!(server.counters.statements_closed.load(Ordering::SeqCst), 2);
    assert_eq!(server.registry.list()[0].activity().user, "alice");
    // A wrong password ends the connection, and never leaves the old session in use.
    client.command(command::CHANGE_USER, change);
    assert_eq!(client.finish_login("wrong").unwrap_err().code, code::ACCESS_DENIED);
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    eventually(|| server.registry.is_empty());
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let server = running();
    let mut client = server.root();
    let mut all = Vec::new();
    for sql in ["one", "insert", "rows 3", "nothing", "one"] {
        client.sequence = 0;
        all.extend(client.frame(&[b"\x03", sql.as_bytes()].concat()));
    }
    client.stream.write_all(&all).unwrap();
    let mut answers = Vec::new();
    for _ in 0..5 {
        client.sequence = 1;
        answers.extend(client.answers(false));
    }
    assert!(matches!(
        &answers[..],
        [Answer::Rows { .. }, Answer::Ok(_), Answer::Rows { .. }, Answer::Error(_), Answer::Rows { .. }]
    ));
    // Again, one byte at a time.
    for &byte in &all {
        client.stream.write_all(&[byte]).unwrap();
    }
    for _ in 0..5 {
        client.sequence = 1;
        client.answers(false);
    }
    assert_eq!(client.ask(command::PING, b"")[0], 0);
}

#[test]
fn work_ends_with_its_client() {
    let server = running();
    for sql in ["sleep", "stall"] {
        for pipelined in [false, true] {
            let mut client = server.root();
            client.command(3, sql.as_bytes());
            eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 1);
            if pipelined {
                client.command(3, b"one");
                std::thread::sleep(Duration::from_millis(50));
                assert_eq!(server.counters.sleeping.load(Ordering::SeqCst), 1);
            }
            let start = Instant::now();
            drop(client);
            eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 0);
            assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
        }
    }
    eventually(|| server.registry.is_empty());
}

#[test]
fn kills() {
    let server = running();
    let mut killer = server.root();
    for sql in ["sleep", "stall"] {
        let mut victim = server.root();
        victim.command(3, sql.as_bytes());
        eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 1);
        killer.query(&format!("kill {}", victim.id));
        match &victim.answers(false)[0] {
            Answer::Error(error) | Answer::Broken(_, error) => assert_eq!(error.code, code::QUERY_INTERRUPTED),
            other => panic!("not interrupted: {other:?}"),
        }
        assert_eq!(server.counters.sleeping.load(Ordering::SeqCst), 0);
        // Killing what does not run leaves nothing behind.
        killer.query(&format!("kill {}", victim.id));
        assert_eq!(victim.query("one")[0].rows().len(), 1);
        victim.command(3, sql.as_bytes());
        eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 1);
        assert_eq!(killer.ask(command::PROCESS_KILL, &victim.id.to_le_bytes())[0], 0);
        eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 0 && server.registry.len() == 1);
        let mut rest = Vec::new();
        victim.stream.read_to_end(&mut rest).unwrap();
    }
    let mut idle = server.root();
    assert_eq!(killer.ask(command::PROCESS_KILL, &idle.id.to_le_bytes())[0], 0);
    assert_eq!(idle.stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(error(&killer.ask(command::PROCESS_KILL, &idle.id.to_le_bytes())).code, code::NO_SUCH_THREAD);
}

#[test]
fn idle_connections_end_after_wait_timeout() {
    let server = running();
    let mut client = server.connect();
    client.login("old", "secret", None).unwrap();
    let start = Instant::now();
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
    eventually(|| server.registry.is_empty());
}

#[test]
fn a_connection_idle_beyond_its_buffers_goes_on() {
    let server = running();
    let mut client = server.root();
    std::thread::sleep(Duration::from_millis(1_300));
    assert_eq!(client.query("rows 5")[0].rows().len(), 5);
}

#[test]
fn shutdown_waits_for_statements_but_not_for_ever() {
    let server = running();
    let mut idle = server.root();
    let mut busy = server.root();
    busy.command(3, b"sleep");
    eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 1);
    let start = Instant::now();
    server.shutdown(Duration::from_millis(300));
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(300) && elapsed < Duration::from_millis(1_300), "{elapsed:?}");
    assert_eq!(idle.stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(busy.stream.read(&mut [0]).unwrap(), 0);
    assert!(server.registry.is_empty());
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn work_is_refused_while_statements_end() {
    let server = running();
    let mut idle = server.root();
    let mut busy = server.root();
    busy.command(3, b"sleep");
    eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 1);
    eventually(|| server.registry.list().iter().any(|c| c.activity().command == "Sleep"));
    server.refuse_work();
    // ER_SERVER_SHUTDOWN, also before the greeting.
    assert_eq!(server.connect().receive()[..3], [0xff, 0x1d, 0x04]);
    assert!(!server.is_idle());
    idle.command(3, b"one");
    assert_eq!(idle.receive()[..3], [0xff, 0x1d, 0x04]);
    assert_eq!(idle.stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(server.counters.sleeping.load(Ordering::SeqCst), 1);
    server.registry.list()[0].kill(dipper_mysql::Kill::Query);
    assert_eq!(busy.receive()[..3], [0xff, 0x25, 0x05]);
    eventually(|| server.is_idle());
    let start = Instant::now();
    server.shutdown(Duration::from_secs(60));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(busy.stream.read(&mut [0]).unwrap(), 0);
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn too_many_connections() {
    let server = Running::new(Settings { connections_max: 2, ..Settings::default() });
    let (_first, second) = (server.root(), server.root());
    let mut third = server.connect();
    let packet = third.receive();
    assert_eq!(packet[..3], [0xff, 0x10, 0x04]);
    drop(second);
    eventually(|| server.registry.len() == 1);
    server.root();
}

#[test]
fn sockets_that_are_not_logged_in_count_too() {
    let sockets = Arc::new(Semaphore::new(2));
    let server = Running::new(Settings { sockets: Arc::clone(&sockets), ..Settings::default() });
    let (mut first, mut silent) = (server.root(), server.connect());
    silent.greeting();
    let refused = server.connect().receive();
    assert_eq!(refused[..3], [0xff, 0x10, 0x04]);
    assert!(String::from_utf8_lossy(&refused).contains("ulimit -n"));
    assert_eq!(first.query("one")[0].rows(), [b"\x011"]);
    drop(silent);
    eventually(|| sockets.available_permits() == 1);
    server.root();
}

#[test]
fn clients_that_never_answer_do_not_keep_all_sockets() {
    let sockets = Arc::new(Semaphore::new(2));
    let server = Running::new(Settings { sockets: Arc::clone(&sockets), ..Settings::default() });
    let (mut first, mut second) = (server.connect(), server.connect());
    first.greeting();
    second.greeting();
    assert_eq!(server.connect().receive()[..3], [0xff, 0x10, 0x04]);
    eventually(|| sockets.available_permits() == 1);
    server.root();
}

#[test]
fn prepared_statements_are_limited() {
    let server = Running::new(Settings { prepared_statements_max: 2, ..Settings::default() });
    let mut client = server.root();
    let (id, ..) = prepare(&mut client, "echo ?");
    prepare(&mut client, "echo ?");
    assert_eq!(error(&client.ask(command::STMT_PREPARE, b"echo ?")).code, code::MAX_PREPARED_STMT_COUNT);
    client.command(command::STMT_CLOSE, &id.to_le_bytes());
    prepare(&mut client, "echo ?");
}
