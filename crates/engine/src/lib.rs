//! Sessions, catalogs, plans, scans: where DataFusion meets files and tables.
