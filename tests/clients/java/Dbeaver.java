import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.TreeMap;

/**
 * What DBeaver sends through Connector/J when it connects, opens the tree of a database down to a table's columns and keys, and shows
 * and edits data: the statements of its MySQL plug-in, and the driver's own for the metadata it asks for.
 */
public class Dbeaver {
    static int failed = 0;
    static String database;
    static String table;

    interface Check {
        void run(Connection connection) throws Exception;
    }

    static void check(Connection connection, String name, Check check) {
        try {
            check.run(connection);
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failed += 1;
            System.out.println("FAIL " + name + ": " + String.valueOf(error).replaceAll("\\s+", " "));
        }
    }

    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    /** The values of a column of all rows; null values as "null". */
    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) {
            values.add(String.valueOf(rows.getString(name)));
        }
        return values;
    }

    static List<String> column(Connection connection, String name, String sql, String... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < parameters.length; i += 1) {
                statement.setString(i + 1, parameters[i]);
            }
            return column(statement.executeQuery(), name);
        }
    }

    static void has(List<String> found, String expected) {
        if (!found.contains(expected)) {
            throw new AssertionError("expected " + expected + " among " + found);
        }
    }

    /** The columns that the plug-in reads by name from each answer. */
    static void answers(Connection connection, String sql, String... columns) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql); ResultSet rows = statement.executeQuery()) {
            while (rows.next()) {
                for (String column : columns) {
                    rows.getString(column);
                }
            }
            for (String column : columns) {
                rows.findColumn(column);
            }
        }
    }

    static void session(Connection connection) {
        check(connection, "server", c -> {
            DatabaseMetaData meta = c.getMetaData();
            equal(meta.getDatabaseProductName(), "MySQL");
            equal(meta.getDatabaseMajorVersion() >= 5, true);
            equal(meta.getTypeInfo().next(), true);
            equal(c.getTransactionIsolation() != Connection.TRANSACTION_NONE, true);
            c.setReadOnly(false);
            c.setAutoCommit(true);
        });
        check(connection, "engines, charsets, collations, plugins", c -> {
            answers(c, "SHOW ENGINES", "Engine", "Support", "Comment", "Transactions", "XA", "Savepoints");
            answers(c, "SHOW CHARSET", "Charset", "Default collation", "Description", "Maxlen");
            answers(c, "SHOW COLLATION", "Collation", "Charset", "Id", "Default", "Compiled", "Sortlen");
            has(column(c, "Charset", "SHOW CHARSET"), "utf8mb4");
            answers(c, "SHOW PLUGINS", "Name", "Status", "Type", "Library", "License");
        });
        check(connection, "variables and status", c -> {
            TreeMap<String, String> variables = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
            try (Statement statement = c.createStatement(); ResultSet rows = statement.executeQuery("SHOW VARIABLES")) {
                while (rows.next()) {
                    variables.put(rows.getString("variable_name"), rows.getString("value"));
                }
            }
            equal(variables.containsKey("version"), true);
            equal(column(c, "value", "SHOW VARIABLES LIKE 'lower_case_table_names'").size(), 1);
            answers(c, "SHOW GLOBAL VARIABLES", "variable_name", "value");
            answers(c, "SHOW STATUS", "variable_name", "value");
            answers(c, "SHOW GLOBAL STATUS", "variable_name", "value");
            equal(column(c, "v", "SELECT @@GLOBAL.character_set_server AS v").size(), 1);
            answers(c, "SELECT @@GLOBAL.character_set_server,@@GLOBAL.collation_server");
        });
        check(connection, "accounts", c -> {
            answers(c, "SHOW PRIVILEGES", "Privilege", "Context", "Comment");
            equal(column(c, "g", "SELECT CURRENT_USER() AS g").size(), 1);
            try (Statement statement = c.createStatement(); ResultSet rows = statement.executeQuery("SHOW GRANTS")) {
                equal(rows.next(), true);
            }
            answers(c, "SHOW FULL PROCESSLIST", "Id", "User", "Host", "db", "Command", "Time", "State", "Info");
        });
        check(connection, "current database", c -> {
            try (Statement statement = c.createStatement()) {
                statement.execute("use `" + database + "`");
            }
            has(column(c, "d", "SELECT DATABASE() AS d"), database);
        });
    }

    static void tree(Connection connection) {
        check(connection, "databases", c -> {
            String sql = "SELECT * FROM information_schema.SCHEMATA";
            has(column(c, "SCHEMA_NAME", sql), database);
            answers(c, sql, "DEFAULT_CHARACTER_SET_NAME", "DEFAULT_COLLATION_NAME", "SQL_PATH");
            has(column(c.getMetaData().getCatalogs(), "TABLE_CAT"), database);
            answers(c, "SELECT table_schema, SUM(data_length + index_length) AS bytes FROM information_schema.tables "
                + "GROUP BY table_schema", "table_schema", "bytes");
        });
        check(connection, "tables", c -> {
            String sql = "SHOW FULL TABLES FROM `" + database + "`";
            has(column(c, "Tables_in_" + database, sql), table);
            answers(c, sql, "Table_type");
            String status = "SHOW TABLE STATUS FROM `" + database + "`";
            equal(column(c, "Name", status + " LIKE '" + table + "'"), List.of(table));
            answers(c, status, "Engine", "Rows", "Auto_increment", "Create_time", "Update_time", "Check_time", "Collation",
                "Avg_row_length", "Data_length", "Max_data_length", "Data_free", "Index_length", "Row_format", "Comment");
            String[] types = {"TABLE", "VIEW"};
            has(column(c.getMetaData().getTables(database, null, "%", types), "TABLE_NAME"), table);
            answers(c, "SELECT * FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA='" + database + "' AND t.TABLE_NAME LIKE '"
                + table + "%' ORDER BY t.TABLE_NAME", "TABLE_TYPE", "TABLE_COMMENT");
        });
        check(connection, "columns", c -> {
            String sql = "SELECT * FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=? AND TABLE_NAME=? ORDER BY ORDINAL_POSITION";
            equal(column(c, "COLUMN_NAME", sql, database, table), List.of("id", "name"));
            equal(column(c, "DATA_TYPE", sql, database, table), List.of("int", "varchar"));
            equal(column(c, "IS_NULLABLE", sql, database, table), List.of("NO", "YES"));
            for (String name : new String[] {"COLUMN_DEFAULT", "CHARACTER_MAXIMUM_LENGTH", "NUMERIC_PRECISION", "NUMERIC_SCALE",
                    "CHARACTER_SET_NAME", "COLLATION_NAME", "COLUMN_TYPE", "COLUMN_KEY", "EXTRA", "COLUMN_COMMENT",
                    "GENERATION_EXPRESSION"}) {
                equal(column(c, name, sql, database, table).size(), 2);
            }
            equal(column(c.getMetaData().getColumns(database, null, table, "%"), "COLUMN_NAME"), List.of("id", "name"));
        });
        check(connection, "keys and indexes", c -> {
            DatabaseMetaData meta = c.getMetaData();
            equal(column(meta.getPrimaryKeys(database, null, table), "COLUMN_NAME"), List.of("id"));
            meta.getIndexInfo(database, null, table, false, true).close();
            equal(meta.getImportedKeys(database, null, table).next(), false);
            equal(meta.getExportedKeys(database, null, table).next(), false);
            column(c, "INDEX_NAME", "SELECT * FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=? AND TABLE_NAME=? "
                + "ORDER BY INDEX_NAME,SEQ_IN_INDEX", database, table);
            column(c, "CONSTRAINT_NAME", "SELECT kc.CONSTRAINT_NAME,kc.TABLE_NAME,kc.COLUMN_NAME,kc.ORDINAL_POSITION\n"
                + "FROM information_schema.KEY_COLUMN_USAGE kc WHERE kc.TABLE_SCHEMA=? AND kc.REFERENCED_TABLE_NAME IS NULL "
                + "AND kc.TABLE_NAME=?\nORDER BY kc.CONSTRAINT_NAME,kc.ORDINAL_POSITION", database, table);
            column(c, "CONSTRAINT_NAME", "SELECT cc.CONSTRAINT_NAME, cc.CHECK_CLAUSE, tc.TABLE_NAME FROM "
                + "information_schema.CHECK_CONSTRAINTS cc, information_schema.TABLE_CONSTRAINTS tc "
                + "WHERE cc.CONSTRAINT_SCHEMA=? AND tc.TABLE_SCHEMA=? AND tc.CONSTRAINT_TYPE='CHECK' "
                + "AND cc.CONSTRAINT_NAME=tc.CONSTRAINT_NAME", database, database);
            column(c, "PARTITION_NAME", "SELECT * FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA=? AND TABLE_NAME=? "
                + "ORDER BY PARTITION_ORDINAL_POSITION,SUBPARTITION_ORDINAL_POSITION", database, table);
        });
        check(connection, "routines, triggers, events", c -> {
            column(c, "ROUTINE_NAME", "SELECT * FROM information_schema.ROUTINES\nWHERE ROUTINE_SCHEMA=?\nORDER BY ROUTINE_NAME",
                database);
            answers(c, "SHOW FULL TRIGGERS FROM `" + database + "`", "Trigger", "Event", "Table", "Statement", "Timing");
            column(c, "EVENT_NAME", "SELECT * FROM information_schema.EVENTS WHERE EVENT_SCHEMA=?", database);
            c.getMetaData().getProcedures(database, null, "%").close();
            c.getMetaData().getFunctions(database, null, "%").close();
        });
        check(connection, "definition", c -> {
            List<String> ddl = column(c, "Create Table", "SHOW CREATE TABLE `" + database + "`.`" + table + "`");
            equal(ddl.size(), 1);
            equal(ddl.get(0).contains("UNIQUE KEY"), true);
        });
    }

    static void data(Connection connection) {
        check(connection, "two rows of a page", c -> {
            // The driver says SET SQL_SELECT_LIMIT.
            try (Statement statement = c.createStatement()) {
                statement.setMaxRows(2);
                ResultSet rows = statement.executeQuery("SELECT * FROM `" + database + "`.`" + table + "` ORDER BY id");
                equal(column(rows, "name"), List.of("one", "null"));
                statement.setMaxRows(0);
                rows = statement.executeQuery("SELECT x.* FROM " + database + "." + table + " x ORDER BY id\nLIMIT 0, 200");
                equal(column(rows, "id"), List.of("1", "2", "3"));
                equal(statement.getWarnings() == null, true);
            }
        });
        check(connection, "number of rows", c -> {
            equal(column(c, "n", "SELECT count(*) AS n FROM " + database + "." + table), List.of("3"));
        });
        check(connection, "an edited cell", c -> {
            try (Statement statement = c.createStatement()) {
                String update = "UPDATE " + database + "." + table + "\n\tSET name='two'\n\tWHERE id=2";
                equal(statement.executeUpdate(update), 1);
            }
            equal(column(c, "name", "SELECT name FROM " + database + "." + table + " WHERE id=?", "2"), List.of("two"));
        });
        check(connection, "plan", c -> {
            try (Statement statement = c.createStatement(); ResultSet rows = statement.executeQuery(
                    "EXPLAIN SELECT * FROM " + database + "." + table)) {
                equal(rows.next(), true);
            }
        });
        check(connection, "an error, and on", c -> {
            try (Statement statement = c.createStatement()) {
                statement.executeQuery("SELECT * FROM " + database + ".nothing");
                throw new AssertionError("expected an error");
            } catch (SQLException error) {
                equal(error.getErrorCode(), 1146);
            }
            equal(c.isValid(5), true);
        });
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(new java.io.PrintStream(System.out, true, "UTF-8"));
        String address = System.getenv("DIPPER_HOST") + ":" + System.getenv("DIPPER_PORT");
        database = System.getenv("DIPPER_LOOKUP_TABLE").split("\\.")[0];
        table = "people";
        String options = "?connectTimeout=20000&rewriteBatchedStatements=true&useSSL=false&allowPublicKeyRetrieval=true"
            + "&connectionAttributes=program_name:DBeaver";
        try (Connection connection = DriverManager.getConnection("jdbc:mysql://" + address + "/" + options, "root", "")) {
            // The driver puts this as a comment before each statement.
            connection.setClientInfo("ApplicationName", "DBeaver 25.2.3 - Main");
            try (Statement statement = connection.createStatement()) {
                statement.execute("create database if not exists " + database);
                statement.execute("drop table if exists " + database + "." + table);
                statement.execute("create table " + database + "." + table + " (id int not null, name varchar(20)) unique key(id) "
                    + "distributed by hash(id) buckets 1");
                statement.execute("insert into " + database + "." + table + " values (1, 'one'), (2, null), (3, 'three')");
            }
            session(connection);
            tree(connection);
            data(connection);
        }
        System.exit(failed == 0 ? 0 : 1);
    }
}
