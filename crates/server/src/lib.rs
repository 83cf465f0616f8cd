//! The server: MySQL port, HTTP port, admission, process.
