import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * Flink's Doris and StarRocks connectors write into a dipper server, in a MiniCluster of this process.
 *
 * <p>Arguments: the ports of MySQL and HTTP on 127.0.0.1. Every case prints `ok` or `FAILED` with its name; the exit code is 1
 * where one failed.
 */
public class Sinks {
    /** Rows of the job that is killed in the middle; the rate makes it last several checkpoints. */
    static final long ROWS = 60_000;

    static final int ROWS_PER_SECOND = 10_000;

    static int mysql;
    static int http;
    static int failed;

    /** Lets the job fail once, after the first completed checkpoint: rows behind the checkpoint come again. */
    static class FailsOnce extends RichMapFunction<Row, Row> implements CheckpointListener {
        static final AtomicBoolean FAILED = new AtomicBoolean();
        private transient boolean checkpointed;
        private transient int rowsSince;

        @Override
        public Row map(Row row) {
            if (checkpointed && ++rowsSince > 1_000 && FAILED.compareAndSet(false, true)) {
                throw new IllegalStateException("the job is killed in the middle");
            }
            return row;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            checkpointed = true;
        }
    }

    interface Case {
        void run() throws Exception;
    }

    static void check(String name, Case body) {
        try {
            body.run();
            System.out.println("ok      " + name);
        } catch (Throwable thrown) {
            failed++;
            StringBuilder text = new StringBuilder();
            for (Throwable t = thrown; t != null; t = t.getCause()) {
                text.append("\n        ").append(t.getClass().getSimpleName()).append(": ").append(t.getMessage());
            }
            System.out.println("FAILED  " + name + text);
        }
    }

    static void expect(Object wanted, Object found) {
        if (!wanted.equals(found)) {
            throw new AssertionError("expected " + wanted + ", found " + found);
        }
    }

    static List<List<String>> query(String sql) throws Exception {
        try (Connection connection = DriverManager.getConnection("jdbc:mysql://127.0.0.1:" + mysql + "/flink_sinks", "root", "");
                Statement statement = connection.createStatement()) {
            List<List<String>> rows = new ArrayList<>();
            if (statement.execute(sql)) {
                ResultSet result = statement.getResultSet();
                while (result.next()) {
                    List<String> row = new ArrayList<>();
                    for (int column = 1; column <= result.getMetaData().getColumnCount(); column++) {
                        row.add(result.getString(column));
                    }
                    rows.add(row);
                }
            }
            return rows;
        }
    }

    static StreamTableEnvironment tables(StreamExecutionEnvironment environment) {
        return StreamTableEnvironment.create(environment);
    }

    /** A MiniCluster of one slot with a checkpoint each half second, which starts a failed job again without a pause. */
    static StreamExecutionEnvironment environment() {
        Configuration configuration = new Configuration();
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "3");
        configuration.setString("restart-strategy.fixed-delay.delay", "100 ms");
        configuration.setString("execution.checkpointing.interval", "500 ms");
        configuration.setString("rest.port", "0");
        return StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
    }

    static String doris(String table, String more) {
        return "('connector' = 'doris', 'fenodes' = '127.0.0.1:" + http + "', 'table.identifier' = 'flink_sinks." + table
                + "', 'username' = 'root', 'password' = '', 'sink.label-prefix' = '" + table + System.nanoTime() + "'" + more + ")";
    }

    static String starrocks(String table, String more) {
        return "('connector' = 'starrocks', 'jdbc-url' = 'jdbc:mysql://127.0.0.1:" + mysql + "', 'load-url' = '127.0.0.1:" + http
                + "', 'database-name' = 'flink_sinks', 'table-name' = '" + table + "', 'username' = 'root', 'password' = ''" + more + ")";
    }

    /** Inserts, updates and deletes of 1,000 keys: what must be left is computed here, too, and compared row by row. */
    static void changes(String table, String options) throws Exception {
        List<Row> changes = new ArrayList<>();
        TreeMap<Integer, String> left = new TreeMap<>();
        for (int key = 0; key < 1_000; key++) {
            changes.add(Row.ofKind(RowKind.INSERT, key, "new " + key, key * 1.5));
            left.put(key, "new " + key);
        }
        for (int key = 0; key < 1_000; key += 3) {
            changes.add(Row.ofKind(RowKind.UPDATE_BEFORE, key, "new " + key, key * 1.5));
            changes.add(Row.ofKind(RowKind.UPDATE_AFTER, key, "changed, \"" + key + "\"\t\n|", key * 1.5));
            left.put(key, "changed, \"" + key + "\"\t\n|");
        }
        for (int key = 0; key < 1_000; key += 5) {
            changes.add(Row.ofKind(RowKind.DELETE, key, left.remove(key), key * 1.5));
        }
        StreamExecutionEnvironment environment = environment();
        StreamTableEnvironment tables = tables(environment);
        DataStream<Row> stream = environment.fromCollection(changes, Types.ROW_NAMED(new String[] {"id", "name", "amount"}, Types.INT, Types.STRING, Types.DOUBLE));
        Schema schema = Schema.newBuilder()
                .column("id", DataTypes.INT().notNull())
                .column("name", DataTypes.STRING())
                .column("amount", DataTypes.DOUBLE())
                .primaryKey("id")
                .build();
        tables.createTemporaryView("changes", tables.fromChangelogStream(stream, schema));
        tables.executeSql("CREATE TABLE target (id INT, name STRING, amount DOUBLE, PRIMARY KEY (id) NOT ENFORCED) WITH " + options);
        tables.executeSql("INSERT INTO target SELECT * FROM changes").await();
        List<List<String>> found = query("SELECT id, name FROM " + table + " ORDER BY id");
        expect(left.size(), found.size());
        for (List<String> row : found) {
            expect(left.get(Integer.parseInt(row.get(0))), row.get(1));
        }
    }

    /** A job that is killed once in the middle writes each of its rows exactly once. */
    static void once(String table, String options) throws Exception {
        FailsOnce.FAILED.set(false);
        StreamExecutionEnvironment environment = environment();
        StreamTableEnvironment tables = tables(environment);
        TypeInformation<Row> type = Types.ROW_NAMED(new String[] {"id", "name", "amount"}, Types.INT, Types.STRING, Types.DOUBLE);
        GeneratorFunction<Long, Row> generator = index -> Row.of(index.intValue(), "row " + index, index * 0.5);
        DataGeneratorSource<Row> source = new DataGeneratorSource<>(generator, ROWS, RateLimiterStrategy.perSecond(ROWS_PER_SECOND), type);
        DataStream<Row> stream = environment.fromSource(source, WatermarkStrategy.noWatermarks(), "rows").map(new FailsOnce()).returns(type);
        tables.createTemporaryView("generated", tables.fromDataStream(stream));
        tables.executeSql("CREATE TABLE target (id INT, name STRING, amount DOUBLE) WITH " + options);
        tables.executeSql("INSERT INTO target SELECT id, name, amount FROM generated").await();
        expect(true, FailsOnce.FAILED.get());
        expect(
                List.of(List.of("" + ROWS, "" + ROWS, "0", "" + (ROWS - 1), "0")),
                query("SELECT count(*), count(DISTINCT id), min(id), max(id), sum(if(name = concat('row ', id) AND amount = id * 0.5, 0, 1)) FROM "
                        + table));
    }

    /** A source of the connectors asks for Doris's binary scan protocol: the job ends with the server's word on what to do instead. */
    static void refused(String options) throws Exception {
        StreamTableEnvironment tables = tables(environment());
        tables.executeSql("CREATE TABLE source (id INT, name STRING, amount DOUBLE) WITH " + options);
        try {
            tables.executeSql("SELECT * FROM source").collect().hasNext();
        } catch (Throwable thrown) {
            for (Throwable t = thrown; t != null; t = t.getCause()) {
                if (t.getMessage() != null && t.getMessage().contains("JDBC")) {
                    return;
                }
            }
            throw thrown;
        }
        throw new AssertionError("the source gave an answer");
    }

    static void create(String table, String model) throws Exception {
        query("CREATE TABLE " + table + " (id INT, name VARCHAR(100), amount DOUBLE) " + model + "(id) DISTRIBUTED BY HASH(id) BUCKETS 2");
    }

    public static void main(String[] arguments) throws Exception {
        mysql = Integer.parseInt(arguments[0]);
        http = Integer.parseInt(arguments[1]);
        try (Connection connection = DriverManager.getConnection("jdbc:mysql://127.0.0.1:" + mysql + "/", "root", "");
                Statement statement = connection.createStatement()) {
            statement.execute("DROP DATABASE IF EXISTS flink_sinks");
            statement.execute("CREATE DATABASE flink_sinks");
        }
        create("doris_json", "UNIQUE KEY");
        create("doris_csv", "UNIQUE KEY");
        create("doris_batch", "UNIQUE KEY");
        create("doris_once", "DUPLICATE KEY");
        create("starrocks_csv", "PRIMARY KEY");
        create("starrocks_json", "PRIMARY KEY");
        create("starrocks_once", "DUPLICATE KEY");

        String json = ", 'sink.properties.format' = 'json', 'sink.properties.read_json_by_line' = 'true'";
        check("Doris: upserts and deletes, JSON", () -> changes("doris_json", doris("doris_json", json + ", 'sink.enable-delete' = 'true'")));
        String csv = ", 'sink.properties.column_separator' = '\\x01', 'sink.properties.line_delimiter' = '\\x02'";
        check("Doris: upserts and deletes, CSV", () -> changes("doris_csv", doris("doris_csv", csv + ", 'sink.enable-delete' = 'true'")));
        check(
                "Doris: upserts and deletes in batches without a second phase",
                () -> changes("doris_batch", doris("doris_batch", json + ", 'sink.enable-delete' = 'true', 'sink.enable.batch-mode' = 'true'")));
        check("Doris: each row once, the job killed in the middle", () -> once("doris_once", doris("doris_once", json)));
        String exactly = ", 'sink.semantic' = 'exactly-once', 'sink.label-prefix' = 'once" + System.nanoTime() + "'";
        String lines = ", 'sink.properties.column_separator' = '\\x01', 'sink.properties.row_delimiter' = '\\x02'";
        check("StarRocks: upserts and deletes, CSV", () -> changes("starrocks_csv", starrocks("starrocks_csv", lines)));
        String array = ", 'sink.properties.format' = 'json', 'sink.properties.strip_outer_array' = 'true'";
        check("StarRocks: upserts and deletes, JSON", () -> changes("starrocks_json", starrocks("starrocks_json", array)));
        check("StarRocks: each row once, the job killed in the middle", () -> once("starrocks_once", starrocks("starrocks_once", array + exactly)));

        check("Doris: a source says the way round", () -> refused(doris("doris_once", "").replaceAll(", 'sink.label-prefix' = '[^']*'", "")));
        check(
                "StarRocks: a source says the way round",
                () -> refused(starrocks("starrocks_once", ", 'scan-url' = '127.0.0.1:" + http + "'").replaceAll("'load-url' = '[^']*', ", "")));
        System.exit(failed == 0 ? 0 : 1);
    }
}
