import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Driver;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;

/**
 * Each method of DatabaseMetaData through drivers of MySQL and MariaDB of several versions, with statements that the driver
 * prepares itself and with those that the server prepares, and what pools and consoles ask a connection for:
 * `Metadata.java DIRECTORY MYSQL_PORT HTTP_PORT` takes the drivers from the jars of a directory.
 */
public class Metadata {
    static final String SERVER_SIDE = "&useServerPrepStmts=true&useCursorFetch=true&rewriteBatchedStatements=true&useInformationSchema=true";

    static final String[] SETUP = {
        "drop database if exists jdbc",
        "create database jdbc",
        "create table jdbc.users (id bigint not null auto_increment, name varchar(50) not null comment 'full name', born date, primary key (id))",
        "create table jdbc.orders (id bigint not null, amount decimal(10,2), note string, at datetime) unique key (id) distributed by hash (id) buckets 2",
        "create table jdbc.events (dt date not null, kind varchar(20), n int, ok boolean, tags array<string>, doc json) duplicate key (dt)",
        "create view jdbc.big as select id, amount from jdbc.orders where amount > 100",
        "insert into jdbc.users (id, name, born) values (1, 'Ann', '1990-05-06'), (2, 'Bob', null)",
        "insert into jdbc.orders values (1, 150.5, 'x', '2024-03-01 10:11:12')",
        "insert into jdbc.events values ('2024-05-01', 'b', 2, true, ['x'], '{\"k\": 1}')",
    };

    interface Work {
        Object run() throws Exception;
    }

    static final List<String> wrong = new ArrayList<>();
    static int right = 0;

    /** Runs a step; reads all rows if it gives some. */
    static void step(String name, Work work) {
        try {
            if (work.run() instanceof ResultSet rows) {
                values(rows, 0);
            }
            right += 1;
        } catch (Throwable error) {
            Throwable cause = error instanceof InvocationTargetException ? error.getCause() : error;
            // Drivers of before Java 9 lack methods of today.
            if (cause instanceof SQLFeatureNotSupportedException || cause instanceof AbstractMethodError) {
                right += 1;
            } else {
                wrong.add(name + ": " + String.valueOf(cause).replaceAll("\\s+", " "));
            }
        }
    }

    /** The values of a column, or of all columns for 0, of all rows. */
    static List<String> values(ResultSet rows, int column) throws Exception {
        List<String> found = new ArrayList<>();
        int columns = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            for (int i = 1; i <= columns; i += 1) {
                rows.getObject(i);
                if (column == 0 || column == i) {
                    found.add(rows.getString(i));
                }
            }
        }
        rows.close();
        return found;
    }

    static void equal(Object found, Object wanted) {
        if (!wanted.equals(found)) {
            throw new AssertionError("expected " + wanted + ", found " + found);
        }
    }

    /** An argument for the parameter of a method: the table itself, patterns, or null for the database. */
    static Object argument(Method method, int place, int variant) {
        Class<?> type = method.getParameterTypes()[place];
        String name = method.getName();
        int first = name.equals("getCrossReference") ? place % 3 : place;
        if (type == String.class) {
            boolean takesNoPattern = name.endsWith("Keys") || name.equals("getIndexInfo") || name.equals("getCrossReference")
                || name.equals("getBestRowIdentifier") || name.equals("getVersionColumns") || name.equals("getColumnPrivileges");
            return switch (first) {
                // Drivers make statements with too few parameters for these two without a database, or with one.
                case 0 -> (variant == 2 && !name.equals("getColumnPrivileges")) || name.equals("getSchemas") ? null : "jdbc";
                case 1 -> null;
                case 2 -> variant == 0 || takesNoPattern ? "users" : "%";
                default -> "%";
            };
        }
        if (type == int.class) {
            return switch (name) {
                case "supportsResultSetConcurrency" -> place == 0 ? ResultSet.TYPE_FORWARD_ONLY : ResultSet.CONCUR_READ_ONLY;
                case "getBestRowIdentifier" -> DatabaseMetaData.bestRowSession;
                case "supportsConvert" -> java.sql.Types.INTEGER;
                case "supportsTransactionIsolationLevel" -> Connection.TRANSACTION_READ_COMMITTED;
                case "supportsResultSetHoldability" -> ResultSet.HOLD_CURSORS_OVER_COMMIT;
                default -> ResultSet.TYPE_FORWARD_ONLY;
            };
        }
        if (type == String[].class) {
            return variant == 0 ? new String[] {"TABLE", "VIEW"} : null;
        }
        return type == boolean.class ? (Object) (variant != 1) : null;
    }

    static void metadata(Connection connection) throws Exception {
        DatabaseMetaData data = connection.getMetaData();
        for (Method method : DatabaseMetaData.class.getMethods()) {
            if (Modifier.isStatic(method.getModifiers()) || method.getName().contains("rap")) {
                continue;
            }
            int count = method.getParameterCount();
            for (int variant = 0; variant < (count == 0 ? 1 : 3); variant += 1) {
                Object[] arguments = new Object[count];
                for (int i = 0; i < count; i += 1) {
                    arguments[i] = argument(method, i, variant);
                }
                step(method.getName() + Arrays.deepToString(arguments), () -> method.invoke(data, arguments));
            }
        }
        step("tables", () -> {
            equal(values(data.getTables("jdbc", null, "%", new String[] {"TABLE"}), 3), List.of("events", "orders", "users"));
            equal(values(data.getTables("jdbc", null, "%", new String[] {"VIEW"}), 3), List.of("big"));
            equal(values(data.getColumns("jdbc", null, "users", "%"), 4), List.of("id", "name", "born"));
            equal(values(data.getColumns("jdbc", null, "users", "%"), 5), List.of("-5", "12", "91"));
            equal(values(data.getPrimaryKeys("jdbc", null, "users"), 4), List.of("id"));
            equal(values(data.getIndexInfo("jdbc", null, "users", true, true), 9), List.of("id"));
            equal(values(data.getBestRowIdentifier("jdbc", null, "users", 1, true), 2), List.of("id"));
            return null;
        });
    }

    static void connection(Connection connection) {
        step("isValid", () -> connection.isValid(5));
        step("catalog", () -> {
            connection.setCatalog("information_schema");
            connection.setCatalog("jdbc");
            equal(connection.getCatalog(), "jdbc");
            return null;
        });
        for (int level : new int[] {1, 2, 4, 8}) {
            step("isolation " + level, () -> {
                connection.setTransactionIsolation(level);
                equal(connection.getTransactionIsolation(), level);
                return null;
            });
        }
        step("read only", () -> {
            connection.setReadOnly(true);
            connection.setReadOnly(false);
            return connection.isReadOnly();
        });
        step("transaction", () -> {
            connection.setAutoCommit(false);
            Savepoint place = connection.setSavepoint("here");
            connection.rollback(place);
            connection.commit();
            connection.rollback();
            connection.setAutoCommit(true);
            return null;
        });
        step("client info", () -> {
            connection.setClientInfo("ApplicationName", "dipper");
            return connection.getClientInfo();
        });
        step("network timeout", () -> {
            connection.setNetworkTimeout(Runnable::run, 10000);
            return connection.getNetworkTimeout();
        });
        step("rows one by one", () -> {
            try (Statement statement = connection.createStatement()) {
                statement.setMaxRows(5);
                statement.setQueryTimeout(60);
                statement.setFetchSize(1);
                equal(values(statement.executeQuery("select id, name from users order by id"), 2), List.of("Ann", "Bob"));
            }
            return null;
        });
        step("generated keys", () -> {
            try (Statement statement = connection.createStatement()) {
                statement.executeUpdate("insert into users (name) values ('gen')", Statement.RETURN_GENERATED_KEYS);
                equal(values(statement.getGeneratedKeys(), 1).size(), 1);
                statement.executeUpdate("delete from users where name = 'gen'");
            }
            return null;
        });
        step("parameters", () -> {
            try (PreparedStatement statement = connection.prepareStatement("select * from users where id = ? and name like ?")) {
                ParameterMetaData parameters = statement.getParameterMetaData();
                equal(parameters.getParameterCount(), 2);
                statement.setInt(1, 1);
                statement.setString(2, "A%");
                equal(values(statement.executeQuery(), 2), List.of("Ann"));
            }
            return null;
        });
        step("batch", () -> {
            try (PreparedStatement statement = connection.prepareStatement("insert into orders (id, note) values (?, ?)")) {
                for (int i = 100; i < 110; i += 1) {
                    statement.setInt(1, i);
                    statement.setString(2, "b" + i);
                    statement.addBatch();
                }
                equal(statement.executeBatch().length, 10);
            }
            try (Statement statement = connection.createStatement()) {
                statement.executeUpdate("delete from orders where id >= 100");
            }
            return null;
        });
        step("columns", () -> {
            try (Statement statement = connection.createStatement()) {
                ResultSetMetaData columns = statement.executeQuery("select e.*, o.* from events e, orders o").getMetaData();
                for (int i = 1; i <= columns.getColumnCount(); i += 1) {
                    columns.getColumnClassName(i);
                    columns.getPrecision(i);
                    columns.getScale(i);
                    columns.getColumnDisplaySize(i);
                    equal(columns.getCatalogName(i), "jdbc");
                    equal(columns.getTableName(i), i <= 6 ? "events" : "orders");
                }
            }
            return null;
        });
        step("types", () -> connection.createStatement().executeQuery("select e.*, o.* from events e, orders o"));
        step("a long statement", () -> {
            try (Statement statement = connection.createStatement()) {
                equal(values(statement.executeQuery("select length('" + "x".repeat(100_000) + "')"), 1), List.of("100000"));
            }
            return null;
        });
        step("several statements", () -> {
            try (Statement statement = connection.createStatement()) {
                equal(statement.execute("select 1; select 2"), true);
                equal(statement.getMoreResults(), true);
            }
            return null;
        });
        step("abort", () -> {
            connection.abort(Runnable::run);
            return null;
        });
    }

    public static void main(String[] arguments) throws Exception {
        File[] jars = new File(arguments[0]).listFiles((directory, name) -> name.endsWith(".jar"));
        Arrays.sort(jars);
        boolean failed = false;
        for (File jar : jars) {
            boolean isMaria = jar.getName().startsWith("mariadb");
            String type = isMaria ? "org.mariadb.jdbc.Driver" : jar.getName().contains("-5.") ? "com.mysql.jdbc.Driver" : "com.mysql.cj.jdbc.Driver";
            URLClassLoader loader = new URLClassLoader(new URL[] {jar.toURI().toURL()}, ClassLoader.getPlatformClassLoader());
            Driver driver = (Driver) loader.loadClass(type).getDeclaredConstructor().newInstance();
            String url = "jdbc:" + (isMaria ? "mariadb" : "mysql") + "://127.0.0.1:" + arguments[1] + "/";
            Properties login = new Properties();
            login.setProperty("user", "root");
            login.setProperty("password", "");
            // Without a database, as the older drivers of MariaDB log in otherwise then.
            try (Connection connection = driver.connect(url + "?useSSL=false", login); Statement statement = connection.createStatement()) {
                for (String sql : SETUP) {
                    statement.execute(sql);
                }
            } catch (SQLException error) {
                System.out.println("FAILED " + jar.getName() + ": " + error);
                failed = true;
                continue;
            }
            for (String options : new String[] {"", SERVER_SIDE}) {
                wrong.clear();
                right = 0;
                try (Connection connection = driver.connect(url + "jdbc?useSSL=false&allowMultiQueries=true" + options, login)) {
                    metadata(connection);
                    connection(connection);
                }
                String name = jar.getName().replace(".jar", "") + (options.isEmpty() ? "" : " prepared by the server");
                wrong.forEach(System.out::println);
                System.out.println((wrong.isEmpty() ? "ok " : "FAILED ") + name + ": " + right + " of " + (right + wrong.size()));
                failed |= !wrong.isEmpty();
            }
        }
        System.exit(failed ? 1 : 0);
    }
}
