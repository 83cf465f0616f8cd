//! Thrift's binary protocol over TCP, as far as a client of the Hive metastore needs it.
//!
//! ```text
//! message   80 01 00 k | name: string | sequence: i32 | arguments or result: struct     k: 1 call, 2 reply, 3 error
//! struct    (kind: u8 | id: i16 | value)* 00
//! string    length: i32 | bytes
//! list      kind: u8 | count: i32 | values
//! map       kind: u8 | kind: u8 | count: i32 | pairs
//! ```
//!
//! Numbers are big-endian. Fields that a struct here lacks are skipped, so a newer metastore may send more. No
//! allocation is sized by a length that the other side claims, and an answer has at most [`ANSWER_BYTES_MAX`] bytes.

use std::collections::BTreeMap;
use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Limit of one answer in bytes: enough for several million names of partitions.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// Limit of the nesting of values that are skipped.
const DEPTH_MAX: usize = 64;

const STOP: u8 = 0;
const BOOL: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 4;
const I16: u8 = 6;
const I32: u8 = 8;
const I64: u8 = 10;
const STRING: u8 = 11;
pub(super) const STRUCT: u8 = 12;
const MAP: u8 = 13;
const SET: u8 = 14;
const LIST: u8 = 15;

/// The first bytes of a message, without its kind.
const VERSION: u32 = 0x8001_0000;
const CALL: u32 = 1;
const REPLY: u32 = 2;
const EXCEPTION: u32 = 3;

/// The kind of protocol error that says that there is no such method.
const UNKNOWN_METHOD: i32 = 1;

/// Failures of a call.
#[derive(Debug, thiserror::Error)]
pub(super) enum ThriftError {
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The answer is invalid or incomplete.
    #[error("the answer is no Thrift of the binary protocol: {0}")]
    Damaged(String),
    /// The metastore has no such method.
    #[error("the metastore has no method '{0}'")]
    UnknownMethod(&'static str),
    /// The metastore reported an error.
    #[error("the metastore's own error: {0}")]
    Application(String),
}

pub(super) type Result<T> = std::result::Result<T, ThriftError>;

fn damaged<T>(reason: impl Into<String>) -> Result<T> {
    Err(ThriftError::Damaged(reason.into()))
}

/// The encoded arguments of a call.
#[derive(Debug, Default)]
pub(super) struct Arguments(Vec<u8>);

impl Arguments {
    fn head(mut self, kind: u8, id: i16) -> Self {
        self.0.push(kind);
        self.0.extend(id.to_be_bytes());
        self
    }

    fn bytes(&mut self, text: &str) {
        // The length fits: names come from statements, which are shorter.
        self.0.extend(i32::try_from(text.len()).unwrap_or(i32::MAX).to_be_bytes());
        self.0.extend(text.as_bytes());
    }

    pub(super) fn text(self, id: i16, text: &str) -> Self {
        let mut made = self.head(STRING, id);
        made.bytes(text);
        made
    }

    pub(super) fn i16(self, id: i16, value: i16) -> Self {
        let mut made = self.head(I16, id);
        made.0.extend(value.to_be_bytes());
        made
    }

    pub(super) fn texts(self, id: i16, texts: &[String]) -> Self {
        let mut made = self.head(LIST, id);
        made.0.push(STRING);
        made.0.extend(i32::try_from(texts.len()).unwrap_or(i32::MAX).to_be_bytes());
        texts.iter().for_each(|text| made.bytes(text));
        made
    }

    /// Adds a struct with these fields.
    pub(super) fn nested(self, id: i16, fields: Arguments) -> Self {
        let mut made = self.head(STRUCT, id);
        made.0.extend(fields.0);
        made.0.push(STOP);
        made
    }
}

/// A value that can be decoded.
pub(super) trait Wire: Sized + Send {
    /// The type code that announces the value.
    const KIND: u8;

    /// Reads the value, after its type code.
    fn read(from: &mut Connection) -> impl Future<Output = Result<Self>> + Send;
}

impl Wire for String {
    const KIND: u8 = STRING;

    async fn read(from: &mut Connection) -> Result<String> {
        let length = from.count().await?;
        from.spend(length)?;
        let mut bytes = Vec::new();
        let read = (&mut from.stream).take(length).read_to_end(&mut bytes).await?;
        if (read as u64) < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        // A name in another encoding is shown with replacement characters, and cannot be found.
        Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }
}

impl<T: Wire> Wire for Vec<T> {
    const KIND: u8 = LIST;

    async fn read(from: &mut Connection) -> Result<Vec<T>> {
        let (kind, count) = (from.u8().await?, from.count().await?);
        if kind != T::KIND && count > 0 {
            return damaged(format!("a list of kind {kind}, expected {}", T::KIND));
        }
        let mut made = Vec::new();
        for _ in 0..count {
            made.push(T::read(from).await?);
        }
        Ok(made)
    }
}

impl Wire for BTreeMap<String, String> {
    const KIND: u8 = MAP;

    async fn read(from: &mut Connection) -> Result<Self> {
        let (key, value, count) = (from.u8().await?, from.u8().await?, from.count().await?);
        if (key, value) != (STRING, STRING) && count > 0 {
            return damaged(format!("a map of kinds {key} and {value}, expected texts"));
        }
        let mut made = BTreeMap::new();
        for _ in 0..count {
            let key = String::read(from).await?;
            made.insert(key, String::read(from).await?);
        }
        Ok(made)
    }
}

/// A struct whose fields are skipped; only its presence matters.
#[derive(Debug)]
pub(super) struct Ignored;

impl Wire for Ignored {
    const KIND: u8 = STRUCT;

    async fn read(from: &mut Connection) -> Result<Ignored> {
        from.skip(STRUCT).await?;
        Ok(Ignored)
    }
}

/// Declares structs whose fields are all optional: `id name: type`.
macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident { $($id:literal $field:ident: $type:ty,)* })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub(in crate::catalogs) struct $name { $(pub(in crate::catalogs) $field: Option<$type>,)* }

        impl Wire for $name {
            const KIND: u8 = STRUCT;

            async fn read(from: &mut Connection) -> Result<Self> {
                let mut made = Self::default();
                while let Some((kind, id)) = from.field().await? {
                    match id {
                        $($id if kind == <$type as Wire>::KIND => made.$field = Some(<$type as Wire>::read(from).await?),)*
                        _ => from.skip(kind).await?,
                    }
                }
                Ok(made)
            }
        }
    )* };
}
pub(super) use structs;

structs! {
    /// An exception that a method declares.
    Declared { 1 message: String, }
}

/// The result of a method.
#[derive(Debug)]
pub(super) enum Returned<T> {
    /// The return value.
    Value(T),
    /// One of the exceptions that the method declares, by its number in the declaration, with its message.
    Exception(i16, String),
}

/// A part of a value that is still to be skipped.
enum Open {
    Value(u8),
    Struct,
    Values(u8, u64),
    Pairs(u8, u8, u64),
}

/// A connection, for one call at a time.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    sequence: i32,
    /// Bytes that the answer may still have.
    left: u64,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Connection {
        Connection { stream: BufReader::with_capacity(64 << 10, stream), sequence: 0, left: 0 }
    }

    /// Calls a method.
    ///
    /// # Errors
    /// `Io` if the connection fails, `Damaged` if the answer is invalid; the connection cannot be used afterwards.
    /// `UnknownMethod` or `Application` if the metastore reports an error.
    pub(super) async fn call<T: Wire>(&mut self, method: &'static str, arguments: &Arguments) -> Result<Returned<T>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = (VERSION | CALL).to_be_bytes().to_vec();
        message.extend((method.len() as u32).to_be_bytes());
        message.extend(method.as_bytes());
        message.extend(self.sequence.to_be_bytes());
        message.extend(&arguments.0);
        message.push(STOP);
        self.stream.write_all(&message).await?;
        self.stream.flush().await?;
        self.left = ANSWER_BYTES_MAX;
        let head = self.i32().await?.cast_unsigned();
        if head & 0xffff_ff00 != VERSION {
            return damaged(format!("it begins with {head:08x}"));
        }
        let name = String::read(self).await?;
        let sequence = self.i32().await?;
        if sequence != self.sequence || name != method {
            return damaged(format!(
                "an answer to call {sequence} of '{name}', expected {} of '{method}'",
                self.sequence
            ));
        }
        match head & 0xff {
            REPLY => self.result(method).await,
            EXCEPTION => Err(self.error(method).await?),
            other => damaged(format!("a message of kind {other}")),
        }
    }

    /// Reads the result of a method: field 0 is the value, any other an exception.
    async fn result<T: Wire>(&mut self, method: &str) -> Result<Returned<T>> {
        let mut returned = None;
        while let Some((kind, id)) = self.field().await? {
            if id == 0 && kind == T::KIND {
                returned = Some(Returned::Value(T::read(self).await?));
            } else if id > 0 && kind == STRUCT {
                let exception = Declared::read(self).await?;
                returned = Some(Returned::Exception(id, exception.message.unwrap_or_default()));
            } else {
                self.skip(kind).await?;
            }
        }
        returned.map_or_else(|| damaged(format!("'{method}' returned nothing")), Ok)
    }

    /// Reads an error of the protocol: field 1 is its message, 2 its kind.
    async fn error(&mut self, method: &'static str) -> Result<ThriftError> {
        let (mut message, mut of_kind) = (String::new(), 0);
        while let Some((kind, id)) = self.field().await? {
            match (id, kind) {
                (1, STRING) => message = String::read(self).await?,
                (2, I32) => of_kind = self.i32().await?,
                _ => self.skip(kind).await?,
            }
        }
        Ok(match of_kind {
            UNKNOWN_METHOD => ThriftError::UnknownMethod(method),
            _ => ThriftError::Application(message),
        })
    }

    /// Reads type code and id of the next field; `None` after the last one.
    pub(super) async fn field(&mut self) -> Result<Option<(u8, i16)>> {
        match self.u8().await? {
            STOP => Ok(None),
            kind => {
                self.spend(2)?;
                Ok(Some((kind, self.stream.read_i16().await?)))
            }
        }
    }

    /// Subtracts bytes from those that the answer may still have.
    fn spend(&mut self, bytes: u64) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => return damaged(format!("it has more than {ANSWER_BYTES_MAX} bytes")),
        }
        Ok(())
    }

    async fn u8(&mut self) -> Result<u8> {
        self.spend(1)?;
        Ok(self.stream.read_u8().await?)
    }

    async fn i32(&mut self) -> Result<i32> {
        self.spend(4)?;
        Ok(self.stream.read_i32().await?)
    }

    /// Reads a length or a number of elements.
    async fn count(&mut self) -> Result<u64> {
        let count = self.i32().await?;
        u64::try_from(count).or_else(|_| damaged(format!("a length of {count}")))
    }

    /// Skips bytes.
    async fn pass(&mut self, bytes: u64) -> Result<()> {
        self.spend(bytes)?;
        let passed = tokio::io::copy(&mut (&mut self.stream).take(bytes), &mut tokio::io::sink()).await?;
        if passed < bytes { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) } else { Ok(()) }
    }

    /// Skips a value.
    pub(super) async fn skip(&mut self, kind: u8) -> Result<()> {
        let mut open = vec![Open::Value(kind)];
        while let Some(next) = open.pop() {
            match next {
                Open::Value(BOOL | BYTE) => self.pass(1).await?,
                Open::Value(I16) => self.pass(2).await?,
                Open::Value(I32) => self.pass(4).await?,
                Open::Value(I64 | DOUBLE) => self.pass(8).await?,
                Open::Value(STRING) => {
                    let length = self.count().await?;
                    self.pass(length).await?;
                }
                Open::Value(STRUCT) => open.push(Open::Struct),
                Open::Value(LIST | SET) => open.push(Open::Values(self.u8().await?, self.count().await?)),
                Open::Value(MAP) => {
                    open.push(Open::Pairs(self.u8().await?, self.u8().await?, self.count().await?));
                }
                Open::Value(other) => return damaged(format!("a value of kind {other}")),
                Open::Struct => {
                    if let Some((kind, _)) = self.field().await? {
                        open.extend([Open::Struct, Open::Value(kind)]);
                    }
                }
                Open::Values(_, 0) | Open::Pairs(_, _, 0) => {}
                Open::Values(kind, left) => open.extend([Open::Values(kind, left - 1), Open::Value(kind)]),
                Open::Pairs(key, value, left) => {
                    open.extend([Open::Pairs(key, value, left - 1), Open::Value(value), Open::Value(key)]);
                }
            }
            if open.len() > DEPTH_MAX {
                return damaged(format!("values in each other more than {DEPTH_MAX} deep"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    structs! {
        /// A struct for the tests.
        Thing { 1 name: String, 2 tags: Vec<String>, 3 more: BTreeMap<String, String>, 4 inner: Declared, }
    }

    /// Returns the answer to one call of `get`, to which the other side sends `answer` and closes the connection.
    async fn answered<T: Wire>(answer: Vec<u8>) -> Result<Returned<T>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let other = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut asked = vec![0; 1000];
            let read = stream.read(&mut asked).await.expect("a call");
            stream.write_all(&answer).await.expect("sent");
            asked.truncate(read);
            asked
        });
        let mut connection = Connection::new(TcpStream::connect(address).await.expect("connects"));
        let arguments =
            Arguments::default().text(1, "a").i16(2, -1).texts(3, &["b".into()]).nested(4, Arguments::default());
        let returned = connection.call("get", &arguments).await;
        let asked = other.await.expect("asked");
        let expected = b"\x80\x01\0\x01\0\0\0\x03get\0\0\0\x01\x0b\0\x01\0\0\0\x01a\x06\0\x02\xff\xff\x0f\0\x03\x0b\0\0\0\x01\0\0\0\x01b\x0c\0\x04\0\0";
        assert_eq!(asked.escape_ascii().to_string(), expected.escape_ascii().to_string());
        returned
    }

    fn message(kind: u8, rest: &[u8]) -> Vec<u8> {
        [b"\x80\x01\0", &[kind][..], b"\0\0\0\x03get\0\0\0\x01", rest].concat()
    }

    #[tokio::test]
    async fn fields_are_read_and_others_passed_over() {
        let inner = b"\x0c\0\x04\x0b\0\x01\0\0\0\x02no\x02\0\x09\x01\0";
        let thing = [
            &b"\x0c\0\0"[..],
            // An unknown field: a map of lists of structs.
            b"\x0d\0\x63\x08\x0f\0\0\0\x01\0\0\0\x07\x0c\0\0\0\x02\x0a\0\x01\0\0\0\0\0\0\0\x01\0\x04\0\x02\0\0\0\0\0\0\0\0\0",
            b"\x0b\0\x01\0\0\0\x02ab\x0f\0\x02\x0b\0\0\0\x02\0\0\0\x01x\0\0\0\0",
            b"\x0d\0\x03\x0b\x0b\0\0\0\x01\0\0\0\x01k\0\0\0\x01v",
            inner,
            // The name once more, with another type code.
            b"\x08\0\x01\0\0\0\x05\0\0",
        ]
        .concat();
        let Ok(Returned::Value(thing)) = answered::<Thing>(message(2, &thing)).await else { panic!("no thing") };
        assert_eq!(thing.name.as_deref(), Some("ab"));
        assert_eq!(thing.tags, Some(vec!["x".to_string(), String::new()]));
        assert_eq!(thing.more, Some(BTreeMap::from([("k".to_string(), "v".to_string())])));
        assert_eq!(thing.inner.and_then(|inner| inner.message).as_deref(), Some("no"));
    }

    #[tokio::test]
    async fn errors_say_what_is_wrong() {
        let declared = answered::<Thing>(message(2, b"\x0c\0\x02\x0b\0\x01\0\0\0\x04gone\0\0")).await;
        assert!(matches!(declared, Ok(Returned::Exception(2, text)) if text == "gone"));
        let unknown = answered::<Thing>(message(3, b"\x0b\0\x01\0\0\0\x01m\x08\0\x02\0\0\0\x01\0")).await;
        assert!(matches!(unknown, Err(ThriftError::UnknownMethod("get"))));
        let internal = answered::<Thing>(message(3, b"\x0b\0\x01\0\0\0\x01m\x08\0\x02\0\0\0\x06\0")).await;
        assert!(matches!(internal, Err(ThriftError::Application(text)) if text == "m"));
        for (bytes, reason) in [
            (b"HTTP/1.1 400 Bad".to_vec(), "begins with 48545450"),
            (message(2, b"\0"), "returned nothing"),
            (message(7, b"\0"), "kind 7"),
            (message(2, b"\x0b\0\0\xff\xff\xff\xff"), "a length of -1"),
            (message(2, b"\x0c\0\0\x63\0\x01"), "a value of kind 99"),
            (message(2, b"\x0c\0\0\x0f\0\x02\x08\0\0\0\x01"), "a list of kind 8"),
            (message(2, &b"\x0c\0\x00\x0c\0\x09".repeat(40)), "64 deep"),
            (b"\x80\x01\0\x02\0\0\0\x03put\0\0\0\x01".to_vec(), "'put'"),
        ] {
            let told = answered::<Thing>(bytes).await.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(told.contains(reason), "{told}: expected {reason}");
        }
        // A length that is claimed, but not sent, allocates nothing.
        let cut = answered::<Thing>(message(2, b"\x0c\0\0\x0b\0\x01\x2f\xff\xff\xffab")).await;
        assert!(matches!(cut, Err(ThriftError::Io(e)) if e.kind() == io::ErrorKind::UnexpectedEof));
    }
}
