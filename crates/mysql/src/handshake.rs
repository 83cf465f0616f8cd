//! The first packets of a connection, and the packets that report results.

use crate::auth::{NONCE_BYTES, Plugin};
use crate::command::attributes;
use crate::constants::{COLLATION_UTF8MB4, capability};
use crate::error::{ProtocolError, SqlError};
use crate::wire::{Fields, put_bytes, put_length, utf8};

/// MySQL's own bit for "not MariaDB": without it, MariaDB's clients look for MariaDB's extensions.
const CLIENT_MYSQL: u32 = 1;
const FOUND_ROWS: u32 = 1 << 1;
const IGNORE_SPACE: u32 = 1 << 8;
const INTERACTIVE: u32 = 1 << 10;

/// Capabilities of this server; TLS and compression are added if they are enabled.
pub(crate) const SERVER_CAPABILITIES: u32 = CLIENT_MYSQL
    | FOUND_ROWS
    | capability::LONG_FLAG
    | capability::CONNECT_WITH_DB
    | capability::LOCAL_FILES
    | IGNORE_SPACE
    | capability::PROTOCOL_41
    | INTERACTIVE
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::MULTI_STATEMENTS
    | capability::MULTI_RESULTS
    | capability::PS_MULTI_RESULTS
    | capability::PLUGIN_AUTH
    | capability::CONNECT_ATTRS
    | capability::PLUGIN_AUTH_LENENC_CLIENT_DATA
    | capability::SESSION_TRACK
    | capability::DEPRECATE_EOF
    | capability::OPTIONAL_RESULTSET_METADATA;

/// Appends the greeting (Protocol::HandshakeV10).
pub(crate) fn greeting(
    out: &mut Vec<u8>,
    version: &str,
    id: u32,
    nonce: &[u8; NONCE_BYTES],
    capabilities: u32,
    status: u16,
    plugin: Plugin,
) {
    let [low, high] = [capabilities as u16, (capabilities >> 16) as u16];
    out.push(10);
    // A zero byte would end the version early.
    out.extend(version.bytes().filter(|&byte| byte != 0));
    out.push(0);
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&nonce[..8]);
    out.push(0);
    out.extend_from_slice(&low.to_le_bytes());
    out.push(COLLATION_UTF8MB4 as u8);
    out.extend_from_slice(&status.to_le_bytes());
    out.extend_from_slice(&high.to_le_bytes());
    out.push(NONCE_BYTES as u8 + 1);
    out.extend_from_slice(&[0; 10]);
    out.extend_from_slice(&nonce[8..]);
    out.push(0);
    out.extend_from_slice(plugin.name().as_bytes());
    out.push(0);
}

/// The client's answer to the greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Response<'a> {
    /// The client continues under TLS, and answers again there.
    Tls {
        capabilities: u32,
    },
    Login(Answer<'a>),
    /// A client from before 4.1.
    TooOld,
}

/// Protocol::HandshakeResponse41.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer<'a> {
    pub capabilities: u32,
    pub collation: u16,
    pub user: &'a str,
    pub proof: &'a [u8],
    pub database: Option<&'a str>,
    pub plugin: Option<&'a [u8]>,
    pub attributes: Vec<(String, String)>,
    pub zstd_level: u8,
}

impl<'a> Response<'a> {
    pub fn decode(payload: &'a [u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::new(payload);
        let low = fields.u16("capabilities")?;
        if u32::from(low) & capability::PROTOCOL_41 == 0 {
            return Ok(Self::TooOld);
        }
        let capabilities = u32::from(low) | u32::from(fields.u16("capabilities")?) << 16;
        fields.u32("largest packet")?;
        let collation = u16::from(fields.u8("collation")?);
        fields.bytes(23, "filler")?;
        if capabilities & capability::SSL != 0 && fields.is_empty() {
            return Ok(Self::Tls { capabilities });
        }
        let at = fields.at();
        let user = utf8(fields.nul_bytes("user name")?, "user name", at)?;
        let proof = if capabilities & capability::PLUGIN_AUTH_LENENC_CLIENT_DATA != 0 {
            fields.length_bytes("authentication data")?
        } else if capabilities & capability::SECURE_CONNECTION != 0 {
            let len = fields.u8("length of the authentication data")?;
            fields.bytes(usize::from(len), "authentication data")?
        } else {
            fields.nul_or_rest()
        };
        let mut answer = Answer {
            capabilities,
            collation,
            user,
            proof,
            database: None,
            plugin: None,
            attributes: Vec::new(),
            zstd_level: 3,
        };
        if capabilities & capability::CONNECT_WITH_DB != 0 && !fields.is_empty() {
            let at = fields.at();
            let database = utf8(fields.nul_or_rest(), "database name", at)?;
            answer.database = (!database.is_empty()).then_some(database);
        }
        if capabilities & capability::PLUGIN_AUTH != 0 && !fields.is_empty() {
            answer.plugin = Some(fields.nul_or_rest());
        }
        if capabilities & capability::CONNECT_ATTRS != 0 && !fields.is_empty() {
            answer.attributes = attributes(&mut fields)?;
        }
        if capabilities & capability::ZSTD_COMPRESSION_ALGORITHM != 0 && !fields.is_empty() {
            answer.zstd_level = fields.u8("zstd level")?;
        }
        Ok(Self::Login(answer))
    }
}

/// Appends AuthSwitchRequest.
pub(crate) fn auth_switch(out: &mut Vec<u8>, plugin: Plugin, nonce: &[u8; NONCE_BYTES]) {
    out.push(0xfe);
    out.extend_from_slice(plugin.name().as_bytes());
    out.push(0);
    out.extend_from_slice(nonce);
    out.push(0);
}

/// Appends AuthMoreData "fast authentication succeeded" of caching_sha2_password.
pub(crate) fn fast_auth_success(out: &mut Vec<u8>) {
    out.extend_from_slice(&[1, 3]);
}

/// Contents of an OK packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ok<'a> {
    pub affected_rows: u64,
    pub last_insert_id: u64,
    pub status: u16,
    pub warnings: u16,
    pub info: &'a str,
    /// The new default database, if it changed.
    pub schema: Option<&'a str>,
}

/// Appends an OK packet; `header` is 0, or 0xfe if it stands for EOF.
pub(crate) fn ok(out: &mut Vec<u8>, header: u8, ok: Ok<'_>, capabilities: u32) {
    out.push(header);
    put_length(out, ok.affected_rows);
    put_length(out, ok.last_insert_id);
    let changed = ok.schema.filter(|_| capabilities & capability::SESSION_TRACK != 0);
    let flag = if changed.is_some() { crate::constants::status::SESSION_STATE_CHANGED } else { 0 };
    out.extend_from_slice(&(ok.status | flag).to_le_bytes());
    out.extend_from_slice(&ok.warnings.to_le_bytes());
    // The text is sent with its length to every client: the protocol's description says otherwise for old ones, MySQL's
    // code does not.
    if !ok.info.is_empty() || changed.is_some() {
        put_bytes(out, ok.info.as_bytes());
    }
    if let Some(schema) = changed {
        // SESSION_TRACK_SCHEMA: type 1, and the name inside a string of its own.
        let mut name = Vec::with_capacity(schema.len() + 9);
        put_bytes(&mut name, schema.as_bytes());
        put_length(out, name.len() as u64 + 1 + length_size(name.len()));
        out.push(1);
        put_bytes(out, &name);
    }
}

fn length_size(len: usize) -> u64 {
    match len {
        0..=250 => 1,
        251..=0xffff => 3,
        0x1_0000..=0xff_ffff => 4,
        _ => 9,
    }
}

/// Appends an EOF packet of clients without DEPRECATE_EOF.
pub(crate) fn eof(out: &mut Vec<u8>, status: u16, warnings: u16) {
    out.push(0xfe);
    out.extend_from_slice(&warnings.to_le_bytes());
    out.extend_from_slice(&status.to_le_bytes());
}

/// Appends an ERR packet. Before the client has sent its capabilities, the SQLSTATE is left out, as in MySQL.
pub(crate) fn err(out: &mut Vec<u8>, error: &SqlError, with_state: bool) {
    out.push(0xff);
    out.extend_from_slice(&error.code.to_le_bytes());
    if with_state {
        out.push(b'#');
        out.extend_from_slice(&error.sqlstate);
    }
    out.extend_from_slice(error.message.as_bytes());
}

#[cfg(test)]
mod tests {
    use mysql_common::constants::CapabilityFlags;
    use mysql_common::io::ParseBuf;
    use mysql_common::packets::{
        CommonOkPacket, ErrPacket, HandshakePacket, HandshakeResponse, OkPacket, OkPacketDeserializer, SslRequest,
    };
    use mysql_common::proto::{MyDeserialize, MySerialize};

    use super::*;

    #[test]
    fn another_implementation_reads_the_greeting() {
        let nonce = crate::auth::nonce();
        let mut out = Vec::new();
        greeting(&mut out, "5.7.99", 77, &nonce, SERVER_CAPABILITIES, 2, Plugin::CachingSha2);
        let packet = HandshakePacket::deserialize((), &mut ParseBuf(&out)).unwrap();
        assert_eq!(packet.server_version_ref(), b"5.7.99");
        assert_eq!((packet.connection_id(), packet.protocol_version()), (77, 10));
        assert_eq!(packet.nonce(), nonce);
        assert_eq!(packet.capabilities().bits(), SERVER_CAPABILITIES);
        assert_eq!(packet.auth_plugin_name_ref(), Some(&b"caching_sha2_password"[..]));
    }

    #[test]
    fn answers_of_another_implementation_are_read() {
        let capabilities = CapabilityFlags::from_bits_truncate(SERVER_CAPABILITIES);
        let attributes = [("_client_name".to_owned(), "test".to_owned())].into_iter().collect();
        let response = HandshakeResponse::new(
            Some(&b"proof"[..]),
            (5, 7, 99),
            Some(&b"bob"[..]),
            Some(&b"db"[..]),
            Some(mysql_common::packets::AuthPlugin::MysqlNativePassword),
            capabilities,
            Some(attributes),
            1 << 24,
        );
        let mut packet = Vec::new();
        response.serialize(&mut packet);
        let Response::Login(answer) = Response::decode(&packet).unwrap() else { panic!("not a login") };
        assert_eq!((answer.user, answer.proof, answer.database), ("bob", &b"proof"[..], Some("db")));
        assert_eq!(answer.plugin, Some(&b"mysql_native_password"[..]));
        assert_eq!(answer.attributes, [("_client_name".to_owned(), "test".to_owned())]);
        // What MariaDB's driver for Java 1.8.0 sends without a database: an empty name of a plugin, then the plugin's.
        let mut packet = b"\x82\xa3\xbe\x01\0\0\0\x40\x2d".to_vec();
        packet.extend_from_slice(&[0; 23]);
        packet.extend_from_slice(
            b"root\0\0\0caching_sha2_password\0\x1b\x0c_client_name\x13MariaDB Connector/J\x0c_server_host\x091",
        );
        packet.extend_from_slice(&[b'x'; 60]);
        let Response::Login(answer) = Response::decode(&packet).unwrap() else { panic!("not a login") };
        assert_eq!((answer.user, answer.proof, answer.database), ("root", &b""[..], None));
        assert_eq!(answer.plugin, Some(&b""[..]));
        let mut packet = Vec::new();
        SslRequest::new(capabilities | CapabilityFlags::CLIENT_SSL, 1 << 24, 45).serialize(&mut packet);
        assert!(matches!(Response::decode(&packet).unwrap(), Response::Tls { .. }));
    }

    #[test]
    fn another_implementation_reads_ok_and_err() {
        for capabilities in [SERVER_CAPABILITIES, SERVER_CAPABILITIES & !capability::SESSION_TRACK] {
            for (info, schema) in [("", None), ("rows matched", None), ("", Some("db")), ("x", Some("y"))] {
                let mut out = Vec::new();
                let said = Ok { affected_rows: 300, last_insert_id: 70_000, status: 2, warnings: 5, info, schema };
                ok(&mut out, 0, said, capabilities);
                let flags = CapabilityFlags::from_bits_truncate(capabilities);
                let read = OkPacketDeserializer::<CommonOkPacket>::deserialize(flags, &mut ParseBuf(&out)).unwrap();
                let read: OkPacket = read.into_inner();
                assert_eq!((read.affected_rows(), read.last_insert_id()), (300, Some(70_000)));
                assert_eq!(read.warnings(), 5);
                assert_eq!(read.info_ref().unwrap_or_default(), info.as_bytes());
                let track = capabilities & capability::SESSION_TRACK != 0;
                assert_eq!(read.session_state_info_ref().is_some(), track && schema.is_some());
            }
        }
        let mut out = Vec::new();
        err(&mut out, &SqlError::new(1146, "no such table"), true);
        let packet = ErrPacket::deserialize(CapabilityFlags::CLIENT_PROTOCOL_41, &mut ParseBuf(&out)).unwrap();
        let error = packet.server_error();
        assert_eq!((error.error_code(), error.message_str().as_ref()), (1146, "no such table"));
        assert_eq!(error.sql_state_ref().unwrap().as_str(), "42S02");
    }
}
