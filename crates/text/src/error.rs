//! Errors of reading text, with their place in the file.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Class of an error; it tells the caller what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The options contradict each other or name something that does not exist: fix the request.
    Options,
    /// The source could not be read.
    Io,
    /// The file has changed since the scan began: run the statement again.
    Changed,
    /// A value does not fit the type of its column.
    BadValue,
    /// A record has too few or too many fields, or a quote is never closed.
    BadRecord,
    /// Bytes that are not UTF-8 where text is wanted.
    InvalidUtf8,
    /// A record is longer than the reader accepts, or there is no memory for it.
    Limit,
    /// More records were rejected than the scan allows.
    Rejected,
    /// A compressed file is damaged or ends early.
    Compression,
    /// A filter supplied by the caller failed.
    Filter,
    /// The scan was cancelled.
    Cancelled,
}

/// Error of a filter, as the [source](TextError::source) of a [`TextError`], so that the caller finds its own error
/// again.
#[derive(Debug, Clone)]
pub struct FilterError(pub Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for FilterError {}

/// An error with everything that is known about its place.
///
/// Shown as `sales.csv: line 1042, byte 88213, column ts: "2024-13-01" is not a DATETIME (month 13); read bad values as
/// NULL or fix the row`.
#[derive(Debug)]
pub struct TextError {
    /// Class of the error.
    pub kind: ErrorKind,
    /// Name of the file, empty when no file is concerned.
    pub file: String,
    /// Line in the file, counted from 1 by line ends as they stand in the file (lines inside quotes count too).
    pub line: Option<u64>,
    /// Bytes from the start of the (decompressed) file to the start of the record.
    pub byte: Option<u64>,
    /// Name of the column.
    pub column: Option<String>,
    /// The field's text, cut at 100 bytes.
    pub value: Option<String>,
    /// The expected and the actual content; follows the value in the message.
    pub reason: String,
    /// A way to avoid the error.
    pub hint: Option<String>,
    /// The error of the layer below.
    pub source: Option<io::Error>,
}

impl TextError {
    /// Creates an error that names no file, or whose file is filled in later.
    pub fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        TextError {
            kind,
            file: String::new(),
            line: None,
            byte: None,
            column: None,
            value: None,
            reason: reason.into(),
            hint: None,
            source: None,
        }
    }

    /// Creates the error for a failed read of `file`. The kind is `Compression` for `InvalidData` and `UnexpectedEof`,
    /// `Changed` for a [`FileChanged`](crate::source::FileChanged), else `Io`.
    pub fn io(file: &str, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => ErrorKind::Compression,
            _ if source.get_ref().is_some_and(|e| e.is::<crate::source::FileChanged>()) => ErrorKind::Changed,
            _ => ErrorKind::Io,
        };
        let mut error = TextError::new(kind, source.to_string()).in_file(file);
        error.source = Some(source);
        error
    }

    /// Creates the error for a filter that failed with `error`.
    pub(crate) fn filter(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        let mut failed = TextError::new(ErrorKind::Filter, error.to_string());
        failed.source = Some(io::Error::other(FilterError(error.into())));
        failed
    }

    /// Returns the filter's own error if a filter failed.
    pub fn of_filter(&self) -> Option<&FilterError> {
        self.source.as_ref()?.get_ref()?.downcast_ref()
    }

    /// Copies the error for another worker. Of the error of the layer below, only its kind and text are kept, and a
    /// filter's error.
    pub(crate) fn copy(&self) -> Self {
        TextError {
            kind: self.kind,
            file: self.file.clone(),
            line: self.line,
            byte: self.byte,
            column: self.column.clone(),
            value: self.value.clone(),
            reason: self.reason.clone(),
            hint: self.hint.clone(),
            source: self.source.as_ref().map(|e| match self.of_filter() {
                Some(filter) => io::Error::other(filter.clone()),
                None => io::Error::new(e.kind(), e.to_string()),
            }),
        }
    }

    /// Sets the file.
    pub fn in_file(mut self, file: &str) -> Self {
        self.file = file.to_string();
        self
    }

    /// Sets the column.
    pub fn in_column(mut self, column: &str) -> Self {
        self.column = Some(column.to_string());
        self
    }

    /// Sets the value to this field's bytes, cut at 100 bytes; invalid UTF-8 is shown as U+FFFD.
    pub fn with_value(mut self, value: &[u8]) -> Self {
        self.value = Some(cut(value, 100));
        self
    }

    /// Sets the hint: what would work.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Returns the text of `bytes` for a message: at most `max` bytes of it, then `...`.
pub(crate) fn cut(bytes: &[u8], max: usize) -> String {
    if bytes.len() <= max {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut text = String::from_utf8_lossy(&bytes[..max]).into_owned();
    while text.ends_with('\u{FFFD}') {
        text.pop();
    }
    text.push_str("...");
    text
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places = Vec::new();
        if let Some(line) = self.line {
            places.push(format!("line {line}"));
        }
        if let Some(byte) = self.byte {
            places.push(format!("byte {byte}"));
        }
        if let Some(column) = &self.column {
            places.push(format!("column {column}"));
        }
        if !self.file.is_empty() {
            write!(f, "{}: ", self.file)?;
        }
        if !places.is_empty() {
            write!(f, "{}: ", places.join(", "))?;
        }
        if let Some(value) = &self.value {
            write!(f, "{value:?} ")?;
        }
        write!(f, "{}", self.reason)?;
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TextError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}
