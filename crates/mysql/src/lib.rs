//! The MySQL client/server protocol, server side.
