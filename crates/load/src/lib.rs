//! Rows into tables: parse, route, sort, encode, write.
