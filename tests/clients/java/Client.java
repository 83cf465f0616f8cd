import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.LocalDateTime;
import java.util.Objects;

/** Connector/J, with the ways of its URL: text and server-side prepared statements, cursors, compression. */
public class Client {
    static final String TYPES = System.getenv("DIPPER_TYPES_SQL");
    static final String TABLE = System.getenv("DIPPER_LOOKUP_TABLE");
    static int failed = 0;

    interface Check {
        void run() throws Exception;
    }

    static void check(String name, Check check) {
        try {
            check.run();
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

    static Connection connect(String options) throws SQLException {
        String address = System.getenv("DIPPER_HOST") + ":" + System.getenv("DIPPER_PORT");
        return DriverManager.getConnection("jdbc:mysql://" + address + "/?connectionTimeZone=UTC&" + options, "root", "");
    }

    static void types(ResultSet rows) throws SQLException {
        equal(rows.getMetaData().getColumnLabel(5), "t_largeint");
        equal(rows.next(), true);
        equal(rows.getByte("t_tinyint"), (byte) 1);
        equal(rows.getShort("t_smallint"), (short) -2);
        equal(rows.getInt("t_int"), 3);
        equal(rows.getLong("t_bigint"), 4L);
        equal(rows.getString("t_largeint"), "170141183460469231731687303715884105727");
        equal(rows.getObject("t_boolean"), true);
        equal(rows.getFloat("t_float"), 1.5f);
        equal(rows.getDouble("t_double"), -2.25);
        equal(rows.getBigDecimal("t_decimal"), new BigDecimal("1.25"));
        equal(rows.getDate("t_date"), Date.valueOf("2020-01-31"));
        equal(rows.getObject("t_datetime", LocalDateTime.class), LocalDateTime.of(2020, 1, 31, 1, 2, 3));
        equal(rows.getObject("t_micros", LocalDateTime.class), LocalDateTime.of(2020, 1, 31, 1, 2, 3, 500_000_000));
        equal(rows.getObject("t_text"), "ä漢😀");
        equal(rows.getString("t_array"), "[1, 2]");
        equal(rows.getObject("t_null"), null);
        equal(rows.next(), false);
    }

    static void setUp() throws SQLException {
        try (Connection connection = connect(""); Statement statement = connection.createStatement()) {
            for (String sql : System.getenv("DIPPER_LOOKUP_SQL").split(";\n")) {
                if (!sql.isBlank()) {
                    statement.execute(sql);
                }
            }
        }
    }

    static void lookups(Connection connection) throws SQLException {
        for (int round = 0; round < 3; round += 1) {
            try (PreparedStatement statement = connection.prepareStatement("select * from " + TABLE + " where id = ?")) {
                statement.setLong(1, 1);
                ResultSet rows = statement.executeQuery();
                equal(rows.next(), true);
                equal(rows.getLong("id"), 1L);
                equal(rows.getObject("t_boolean"), true);
                equal(rows.getByte("t_tinyint"), Byte.MIN_VALUE);
                equal(rows.getShort("t_smallint"), Short.MAX_VALUE);
                equal(rows.getObject("t_int"), Integer.MIN_VALUE);
                equal(rows.getObject("t_bigint"), Long.MAX_VALUE);
                equal(rows.getString("t_largeint"), "170141183460469231731687303715884105727");
                equal(rows.getFloat("t_float"), 1.5f);
                equal(rows.getDouble("t_double"), -2.25);
                equal(rows.getBigDecimal("t_decimal"), new BigDecimal("-1234567890123456.7891"));
                equal(rows.getDate("t_date"), Date.valueOf("2020-01-31"));
                equal(rows.getObject("t_datetime", LocalDateTime.class), LocalDateTime.of(2020, 1, 31, 1, 2, 3));
                equal(rows.getObject("t_micros", LocalDateTime.class), LocalDateTime.of(2020, 1, 31, 1, 2, 3, 500_000_000));
                equal(rows.getString("t_char"), "abc");
                equal(rows.getString("t_varchar"), "it's ä");
                equal(rows.getObject("t_string"), "ä漢😀");
                equal(rows.next(), false);
                statement.setLong(1, 2);
                rows = statement.executeQuery();
                equal(rows.next(), true);
                for (int at = 2; at <= rows.getMetaData().getColumnCount(); at += 1) {
                    equal(rows.getObject(at), null);
                }
                equal(rows.next(), false);
                statement.setLong(1, 3);
                equal(statement.executeQuery().next(), false);
            }
        }
    }

    static void changes(Connection connection) throws SQLException {
        try (PreparedStatement read = connection.prepareStatement("select t_int, t_varchar from " + TABLE + " where id = ?");
            PreparedStatement insert = connection.prepareStatement("insert into " + TABLE + " (id, t_int, t_varchar) values (?, ?, ?)");
            PreparedStatement update = connection.prepareStatement("update " + TABLE + " set t_int = ? where id = ?");
            PreparedStatement delete = connection.prepareStatement("delete from " + TABLE + " where id = ?")) {
            read.setInt(1, 7);
            for (int round = 0; round < 2; round += 1) {
                insert.setInt(1, 7);
                insert.setInt(2, round);
                insert.setNull(3, java.sql.Types.VARCHAR);
                equal(insert.executeUpdate(), 1);
                ResultSet rows = read.executeQuery();
                equal(rows.next(), true);
                equal(rows.getInt(1), round);
                equal(rows.getString(2), null);
                update.setInt(1, 10 + round);
                update.setInt(2, 7);
                update.executeUpdate();
                rows = read.executeQuery();
                equal(rows.next(), true);
                equal(rows.getInt(1), 10 + round);
                delete.setInt(1, 7);
                delete.executeUpdate();
                equal(read.executeQuery().next(), false);
            }
        }
    }

    static void refused(int code, String state, Check check) throws Exception {
        try {
            check.run();
        } catch (SQLException error) {
            equal(error.getErrorCode(), code);
            equal(error.getSQLState(), state);
            return;
        }
        throw new AssertionError("expected error " + code + ", found none");
    }

    static void common(String name, String options) throws SQLException {
        try (Connection connection = connect(options)) {
            check(name + ": types", () -> {
                try (Statement statement = connection.createStatement()) {
                    types(statement.executeQuery(TYPES));
                }
            });
            check(name + ": prepared types", () -> {
                for (int round = 0; round < 3; round += 1) {
                    try (PreparedStatement statement = connection.prepareStatement(TYPES)) {
                        types(statement.executeQuery());
                    }
                }
            });
            check(name + ": parameters", () -> {
                try (PreparedStatement statement = connection.prepareStatement("select ? + 1, ?")) {
                    for (int number : new int[] {41, -1}) {
                        statement.setInt(1, number);
                        statement.setString(2, "it's ä");
                        ResultSet rows = statement.executeQuery();
                        equal(rows.next(), true);
                        equal(rows.getInt(1), number + 1);
                        equal(rows.getString(2), "it's ä");
                    }
                }
                try (PreparedStatement statement = connection.prepareStatement("select ?, ?")) {
                    statement.setNull(1, java.sql.Types.VARCHAR);
                    statement.setString(2, "x");
                    ResultSet rows = statement.executeQuery();
                    equal(rows.next(), true);
                    equal(rows.getString(1), null);
                    equal(rows.getString(2), "x");
                }
            });
            check(name + ": key look-ups", () -> lookups(connection));
            check(name + ": changes between look-ups", () -> changes(connection));
            check(name + ": rows and no rows", () -> {
                String three = "select 1 union all select 2 union all select 3 order by 1";
                for (String sql : new String[] {three, "select 1 where 1 = 0"}) {
                    try (PreparedStatement statement = connection.prepareStatement(sql)) {
                        statement.setFetchSize(2);
                        ResultSet rows = statement.executeQuery();
                        int count = 0;
                        while (rows.next()) {
                            count += 1;
                            equal(rows.getInt(1), count);
                        }
                        equal(count, sql == three ? 3 : 0);
                    }
                }
            });
            check(name + ": error", () -> {
                Check wrong = () -> connection.prepareStatement("select * from information_schema.no_such_table").executeQuery();
                refused(1146, "42S02", wrong);
                try (Statement statement = connection.createStatement()) {
                    refused(1146, "42S02", () -> statement.executeQuery("select * from information_schema.no_such_table"));
                    ResultSet rows = statement.executeQuery("select 1");
                    equal(rows.next(), true);
                    equal(rows.getInt(1), 1);
                }
            });
            check(name + ": transaction and validity", () -> {
                connection.setAutoCommit(false);
                connection.rollback();
                connection.setAutoCommit(true);
                equal(connection.isValid(5), true);
            });
        } catch (SQLException error) {
            check(name + ": connect", () -> {
                throw error;
            });
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(new java.io.PrintStream(System.out, true, "UTF-8"));
        check("set-up of a table", Client::setUp);
        common("text", "");
        common("server prepared", "useServerPrepStmts=true&cachePrepStmts=true");
        common("cursor", "useServerPrepStmts=true&useCursorFetch=true&defaultFetchSize=2");
        common("compressed", "useCompression=true&useServerPrepStmts=true");
        common("local session state", "useLocalSessionState=true&rewriteBatchedStatements=true&cacheServerConfiguration=true");
        if (System.getenv("DIPPER_TLS").equals("1")) {
            common("TLS", "sslMode=REQUIRED&useServerPrepStmts=true");
        }
        check("wrong password", () -> refused(1045, "28000", () -> {
            String address = System.getenv("DIPPER_HOST") + ":" + System.getenv("DIPPER_PORT");
            DriverManager.getConnection("jdbc:mysql://" + address + "/", "root", "wrong").close();
        }));
        check("multi statements", () -> {
            try (Connection connection = connect("allowMultiQueries=true"); Statement statement = connection.createStatement()) {
                equal(statement.execute("select 1; select 2"), true);
                for (int expected = 1; expected <= 2; expected += 1) {
                    ResultSet rows = statement.getResultSet();
                    equal(rows.next(), true);
                    equal(rows.getInt(1), expected);
                    equal(statement.getMoreResults(), expected == 1);
                }
            }
        });
        check("long text", () -> {
            try (Connection connection = connect("useCompression=true"); Statement statement = connection.createStatement()) {
                ResultSet rows = statement.executeQuery("select repeat('x', 100000)");
                equal(rows.next(), true);
                equal(rows.getString(1), "x".repeat(100_000));
            }
        });
        System.exit(failed == 0 ? 0 : 1);
    }
}
