//! Commands that clients send after login, and their parameters.

use crate::backend::Param;
use crate::column::ColumnType;
use crate::constants::{capability, command};
use crate::error::ProtocolError;
use crate::wire::{Fields, utf8};

/// A decoded command packet, except for the parameters of COM_STMT_EXECUTE, whose shape only its statement knows. For
/// COM_CHANGE_USER see [`ChangeUser`]. `NotText` is a statement or a name that is not UTF-8 from byte `at` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command<'a> {
    Quit,
    InitDb(&'a str),
    Query(&'a str),
    FieldList { table: &'a str, pattern: &'a str },
    Statistics,
    ProcessInfo,
    ProcessKill(u32),
    Debug,
    Ping,
    Prepare(&'a str),
    Execute { statement: u32, cursor: bool, values: &'a [u8] },
    LongData { statement: u32, param: u16, data: &'a [u8] },
    Close(u32),
    ResetStatement(u32),
    SetOption { multi_statements: bool },
    Fetch { statement: u32, rows: u32 },
    ResetConnection,
    NotText { what: &'static str, at: usize },
    Unknown(u8),
}

impl<'a> Command<'a> {
    pub fn decode(payload: &'a [u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::new(payload);
        let code = fields.u8("command")?;
        let text = |bytes: &'a [u8], what, command: fn(&'a str) -> Self| match std::str::from_utf8(bytes) {
            Ok(text) => command(text),
            Err(error) => Self::NotText { what, at: error.valid_up_to() },
        };
        Ok(match code {
            command::QUIT => Self::Quit,
            command::INIT_DB => text(fields.rest(), "database name", Self::InitDb),
            command::QUERY => text(fields.rest(), "statement text", Self::Query),
            command::FIELD_LIST => {
                let table = utf8(fields.nul_or_rest(), "table name", 1)?;
                let at = fields.at();
                Self::FieldList { table, pattern: utf8(fields.rest(), "column pattern", at)? }
            }
            command::STATISTICS => Self::Statistics,
            command::PROCESS_INFO => Self::ProcessInfo,
            command::PROCESS_KILL => Self::ProcessKill(fields.u32("connection id")?),
            command::DEBUG => Self::Debug,
            command::PING => Self::Ping,
            command::STMT_PREPARE => text(fields.rest(), "statement text", Self::Prepare),
            command::STMT_EXECUTE => {
                let statement = fields.u32("statement id")?;
                let flags = fields.u8("cursor type")?;
                // The iteration count is always 1.
                fields.u32("iteration count")?;
                Self::Execute { statement, cursor: flags & 1 != 0, values: fields.rest() }
            }
            command::STMT_SEND_LONG_DATA => Self::LongData {
                statement: fields.u32("statement id")?,
                param: fields.u16("parameter number")?,
                data: fields.rest(),
            },
            command::STMT_CLOSE => Self::Close(fields.u32("statement id")?),
            command::STMT_RESET => Self::ResetStatement(fields.u32("statement id")?),
            command::SET_OPTION => match fields.u16("option")? {
                0 => Self::SetOption { multi_statements: true },
                1 => Self::SetOption { multi_statements: false },
                _ => return Err(ProtocolError::Malformed { what: "option that is neither 0 nor 1", at: 1 }),
            },
            command::STMT_FETCH => {
                Self::Fetch { statement: fields.u32("statement id")?, rows: fields.u32("number of rows")? }
            }
            command::RESET_CONNECTION => Self::ResetConnection,
            other => Self::Unknown(other),
        })
    }
}

/// Fields of COM_CHANGE_USER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangeUser<'a> {
    pub user: &'a str,
    pub proof: &'a [u8],
    pub database: Option<&'a str>,
    pub collation: Option<u16>,
    pub plugin: Option<&'a [u8]>,
    pub attributes: Vec<(String, String)>,
}

impl<'a> ChangeUser<'a> {
    pub fn decode(bytes: &'a [u8], capabilities: u32) -> Result<Self, ProtocolError> {
        let mut fields = Fields::new(bytes);
        let user = utf8(fields.nul_bytes("user name")?, "user name", 0)?;
        let proof = if capabilities & capability::SECURE_CONNECTION != 0 {
            let len = fields.u8("length of the authentication data")?;
            fields.bytes(usize::from(len), "authentication data")?
        } else {
            fields.nul_bytes("authentication data")?
        };
        let at = fields.at();
        let database = utf8(fields.nul_or_rest(), "database name", at)?;
        let mut change = Self {
            user,
            proof,
            database: (!database.is_empty()).then_some(database),
            collation: None,
            plugin: None,
            attributes: Vec::new(),
        };
        // Old clients end here, others after the collation.
        if !fields.is_empty() {
            change.collation = Some(fields.u16("collation")?);
        }
        if capabilities & capability::PLUGIN_AUTH != 0 && !fields.is_empty() {
            change.plugin = Some(fields.nul_or_rest());
        }
        if capabilities & capability::CONNECT_ATTRS != 0 && !fields.is_empty() {
            change.attributes = attributes(&mut fields)?;
        }
        Ok(change)
    }
}

/// Decodes connection attributes. Names and values that are not UTF-8 are converted lossily; they are for people to
/// read. As in MySQL, those from the first malformed one on are left out: MariaDB's driver for Java 1 sends the name of
/// its plugin before them if it names no database.
pub(crate) fn attributes(fields: &mut Fields<'_>) -> Result<Vec<(String, String)>, ProtocolError> {
    let mut pairs = Fields::new(fields.length_bytes("connection attributes")?);
    let mut attributes = Vec::new();
    while let (Ok(name), Ok(value)) = (pairs.length_bytes("attribute name"), pairs.length_bytes("attribute value")) {
        attributes.push((String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned()));
    }
    Ok(attributes)
}

/// Type of a parameter as bound by COM_STMT_EXECUTE, kept for executions that do not bind again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParamType {
    ty: ColumnType,
    unsigned: bool,
}

/// Decodes the values of COM_STMT_EXECUTE: a bitmap of NULLs, the types if they are bound anew, the values.
///
/// `types` holds the types bound before, and is replaced. `long` holds the values sent by COM_STMT_SEND_LONG_DATA;
/// their parameters have no value in the packet.
pub(crate) fn decode_params<'a>(
    values: &'a [u8],
    count: usize,
    types: &mut Vec<ParamType>,
    long: &'a [Option<Vec<u8>>],
    params: &mut Vec<Param<'a>>,
) -> Result<(), ProtocolError> {
    params.clear();
    if count == 0 {
        return Ok(());
    }
    let mut fields = Fields::new(values);
    let nulls = fields.bytes(count.div_ceil(8), "bitmap of NULL parameters")?;
    match fields.u8("new-parameters flag")? {
        0 => {}
        1 => {
            types.clear();
            for _ in 0..count {
                let code = fields.u8("parameter type")?;
                let ty = ColumnType::from_code(code).ok_or_else(|| fields.malformed("unknown parameter type"))?;
                types.push(ParamType { ty, unsigned: fields.u8("parameter flags")? & 0x80 != 0 });
            }
        }
        _ => return Err(fields.malformed("new-parameters flag that is neither 0 nor 1")),
    }
    if types.len() != count {
        return Err(fields.malformed("parameters without types"));
    }
    params.reserve(count);
    for (index, bound) in types.iter().enumerate() {
        let param = if let Some(Some(data)) = long.get(index) {
            text_or_bytes(data, bound.ty)
        } else if nulls[index / 8] & (1 << (index % 8)) != 0 {
            Param::Null
        } else {
            value(&mut fields, *bound)?
        };
        params.push(param);
    }
    Ok(())
}

fn text_or_bytes(bytes: &[u8], ty: ColumnType) -> Param<'_> {
    let binary = matches!(
        ty,
        ColumnType::TinyBlob
            | ColumnType::MediumBlob
            | ColumnType::LongBlob
            | ColumnType::Blob
            | ColumnType::Bit
            | ColumnType::Geometry
    );
    match std::str::from_utf8(bytes) {
        Ok(text) if !binary => Param::Text(text),
        _ => Param::Bytes(bytes),
    }
}

fn value<'a>(fields: &mut Fields<'a>, bound: ParamType) -> Result<Param<'a>, ProtocolError> {
    const WHAT: &str = "parameter value";
    let int = |signed: i64, unsigned: u64| if bound.unsigned { Param::UInt(unsigned) } else { Param::Int(signed) };
    Ok(match bound.ty {
        ColumnType::Null => Param::Null,
        ColumnType::Tiny => {
            let byte = fields.u8(WHAT)?;
            int(i64::from(byte as i8), u64::from(byte))
        }
        ColumnType::Short | ColumnType::Year => {
            let short = fields.u16(WHAT)?;
            int(i64::from(short as i16), u64::from(short))
        }
        ColumnType::Long | ColumnType::Int24 => {
            let long = fields.u32(WHAT)?;
            int(i64::from(long as i32), u64::from(long))
        }
        ColumnType::LongLong => {
            let long = fields.u64(WHAT)?;
            int(long as i64, long)
        }
        ColumnType::Float => Param::Float(f32::from_bits(fields.u32(WHAT)?)),
        ColumnType::Double => Param::Double(f64::from_bits(fields.u64(WHAT)?)),
        ColumnType::Decimal | ColumnType::NewDecimal => {
            let at = fields.at();
            Param::Decimal(utf8(fields.length_bytes(WHAT)?, "decimal parameter", at)?)
        }
        ColumnType::Date | ColumnType::DateTime | ColumnType::Timestamp => date_time(fields, bound.ty)?,
        ColumnType::Time => time(fields)?,
        ColumnType::VarChar
        | ColumnType::VarString
        | ColumnType::String
        | ColumnType::Json
        | ColumnType::Enum
        | ColumnType::Set
        | ColumnType::TinyBlob
        | ColumnType::MediumBlob
        | ColumnType::LongBlob
        | ColumnType::Blob
        | ColumnType::Bit
        | ColumnType::Geometry => text_or_bytes(fields.length_bytes(WHAT)?, bound.ty),
    })
}

/// Decodes one length byte (0, 4, 7 or 11), then year (2), month, day, hour, minute, second, microseconds (4); omitted
/// parts are zero.
fn date_time<'a>(fields: &mut Fields<'a>, ty: ColumnType) -> Result<Param<'a>, ProtocolError> {
    const WHAT: &str = "date parameter";
    let len = fields.u8(WHAT)?;
    if !matches!(len, 0 | 4 | 7 | 11) {
        return Err(fields.malformed("length of a date parameter"));
    }
    let (mut year, mut month, mut day) = (0, 0, 0);
    if len >= 4 {
        (year, month, day) = (fields.u16(WHAT)?, fields.u8(WHAT)?, fields.u8(WHAT)?);
    }
    let (mut hour, mut minute, mut second) = (0, 0, 0);
    if len >= 7 {
        (hour, minute, second) = (fields.u8(WHAT)?, fields.u8(WHAT)?, fields.u8(WHAT)?);
    }
    let micros = if len == 11 { fields.u32(WHAT)? } else { 0 };
    // libmariadb and others send a DATE with a time part.
    if ty == ColumnType::Date {
        return Ok(Param::Date { year, month, day });
    }
    Ok(Param::DateTime { year, month, day, hour, minute, second, micros })
}

/// Decodes one length byte (0, 8 or 12), then sign, days (4), hours, minutes, seconds, microseconds (4).
fn time<'a>(fields: &mut Fields<'a>) -> Result<Param<'a>, ProtocolError> {
    const WHAT: &str = "time parameter";
    let len = fields.u8(WHAT)?;
    if !matches!(len, 0 | 8 | 12) {
        return Err(fields.malformed("length of a time parameter"));
    }
    let (mut negative, mut days, mut hours, mut minutes, mut seconds) = (false, 0, 0, 0, 0);
    if len >= 8 {
        negative = fields.u8(WHAT)? != 0;
        days = fields.u32(WHAT)?;
        (hours, minutes, seconds) = (fields.u8(WHAT)?, fields.u8(WHAT)?, fields.u8(WHAT)?);
    }
    let micros = if len == 12 { fields.u32(WHAT)? } else { 0 };
    Ok(Param::Time { negative, days, hours, minutes, seconds, micros })
}

/// Runs every decoder that this payload can reach; for fuzzing.
pub(crate) fn decode_anything(payload: &[u8]) {
    let _ = crate::handshake::Response::decode(payload);
    let _ = ChangeUser::decode(payload, u32::MAX);
    let _ = ChangeUser::decode(payload, 0);
    match Command::decode(payload) {
        Ok(Command::Execute { statement, values, .. }) => {
            // The statement's number of parameters is not in the packet: any number will do.
            let count = statement as usize % 70;
            let long = [None, Some(vec![1, 2, 3])];
            let (mut types, mut params) = (Vec::new(), Vec::new());
            if decode_params(values, count, &mut types, &long, &mut params).is_ok() {
                assert_eq!(params.len(), count);
            }
        }
        Ok(Command::Query(sql) | Command::Prepare(sql)) => {
            let (statement, tail) = crate::split::split_statement(sql, true);
            assert!(statement.len() + tail.map_or(0, |tail| tail.len() + 1) <= sql.len());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use mysql_common::packets::{ComStmtExecuteRequestBuilder, ComStmtSendLongData};
    use mysql_common::proto::MySerialize;
    use mysql_common::value::Value;

    use super::*;

    fn params<'a>(packet: &'a [u8], count: usize) -> Vec<Param<'a>> {
        let Command::Execute { statement: 7, cursor: false, values } = Command::decode(packet).unwrap() else {
            panic!("not an execute packet");
        };
        let (mut types, mut params) = (Vec::new(), Vec::new());
        decode_params(values, count, &mut types, &[], &mut params).unwrap();
        params
    }

    #[test]
    fn values_encoded_by_another_implementation_are_read() {
        let values = [
            Value::NULL,
            Value::Int(-5),
            Value::UInt(u64::MAX),
            Value::Float(1.5),
            Value::Double(-2.25),
            Value::Bytes("text".into()),
            Value::Bytes(vec![0xff, 0xfe]),
            Value::Date(2020, 1, 31, 0, 0, 0, 0),
            Value::Date(2020, 1, 31, 1, 2, 3, 500_000),
            Value::Time(true, 34, 1, 2, 3, 4),
            Value::Bytes(vec![b'x'; 70_000]),
        ];
        let (body, _) = ComStmtExecuteRequestBuilder::new(7).build(&values);
        let mut packet = Vec::new();
        body.serialize(&mut packet);
        let read = params(&packet, values.len());
        let long = "x".repeat(70_000);
        assert_eq!(read[..4], [Param::Null, Param::Int(-5), Param::UInt(u64::MAX), Param::Float(1.5)]);
        assert_eq!(read[4..7], [Param::Double(-2.25), Param::Text("text"), Param::Bytes(&[0xff, 0xfe])]);
        let midnight = Param::DateTime { year: 2020, month: 1, day: 31, hour: 0, minute: 0, second: 0, micros: 0 };
        let later = Param::DateTime { year: 2020, month: 1, day: 31, hour: 1, minute: 2, second: 3, micros: 500_000 };
        let span = Param::Time { negative: true, days: 34, hours: 1, minutes: 2, seconds: 3, micros: 4 };
        assert!(matches!(read[7], Param::Date { year: 2020, month: 1, day: 31 }) || read[7] == midnight);
        assert_eq!(read[8..], [later, span, Param::Text(&long)]);
    }

    #[test]
    fn types_are_remembered_and_long_data_replaces_values() {
        let first = [0, 1, 0x01, 0x80, 0xfd, 0, 200, 2, b'h', b'i'];
        let (mut types, mut params) = (Vec::new(), Vec::new());
        decode_params(&first, 2, &mut types, &[], &mut params).unwrap();
        assert_eq!(params, [Param::UInt(200), Param::Text("hi")]);
        let mut params = Vec::new();
        let long = [None, Some(b"long".to_vec())];
        decode_params(&[0, 0, 9], 2, &mut types, &long, &mut params).unwrap();
        assert_eq!(params, [Param::UInt(9), Param::Text("long")]);
        let mut params = Vec::new();
        assert!(decode_params(&[0, 0, 9], 2, &mut Vec::new(), &[], &mut params).is_err());
        assert!(decode_params(&[0, 2, 9], 1, &mut types, &[], &mut params).is_err());
        assert!(decode_params(&[0, 1, 77, 0, 9], 1, &mut types, &[], &mut params).is_err());
    }

    #[test]
    fn long_data_of_another_implementation_is_read() {
        let mut packet = Vec::new();
        ComStmtSendLongData::new(3, 4, &b"data"[..]).serialize(&mut packet);
        assert_eq!(Command::decode(&packet).unwrap(), Command::LongData { statement: 3, param: 4, data: b"data" });
    }

    #[test]
    fn short_and_strange_commands() {
        assert!(Command::decode(&[]).is_err());
        assert!(Command::decode(&[command::STMT_EXECUTE, 1, 0]).is_err());
        let not_text = Command::NotText { what: "statement text", at: 1 };
        assert_eq!(Command::decode(&[command::QUERY, b'a', 0xff]).unwrap(), not_text);
        assert_eq!(Command::decode(&[0x7f]).unwrap(), Command::Unknown(0x7f));
        assert_eq!(Command::decode(b"\x04t\0").unwrap(), Command::FieldList { table: "t", pattern: "" });
        assert_eq!(Command::decode(b"\x04t\0a%").unwrap(), Command::FieldList { table: "t", pattern: "a%" });
    }

    #[test]
    fn change_user_of_old_and_new_clients() {
        let old = ChangeUser::decode(b"bob\0\x02abdb\0", capability::SECURE_CONNECTION).unwrap();
        assert_eq!((old.user, old.proof, old.database, old.collation), ("bob", &b"ab"[..], Some("db"), None));
        let all = b"bob\0\x00\0\x2d\0mysql_native_password\0\x04\x01k\x01v";
        let new = ChangeUser::decode(all, u32::MAX).unwrap();
        assert_eq!((new.database, new.collation), (None, Some(45)));
        assert_eq!(new.plugin, Some(&b"mysql_native_password"[..]));
        assert_eq!(new.attributes, [("k".to_owned(), "v".to_owned())]);
    }
}
