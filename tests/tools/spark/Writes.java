import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's Doris and StarRocks connectors write into a dipper server; what they wrote is read back by JDBC, row by row.
 *
 * <p>Arguments: the ports of MySQL and HTTP on 127.0.0.1. Every case prints `ok` or `FAILED` with its name; the exit code is 1
 * where one failed.
 */
public class Writes {
    static final int ROWS = 5_000;

    static int mysql;
    static int http;
    static int failed;

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
        try (Connection connection = DriverManager.getConnection("jdbc:mysql://127.0.0.1:" + mysql + "/spark_writes", "root", "");
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

    static Map<String, String> doris(String table) {
        return Map.of(
                "doris.fenodes", "127.0.0.1:" + http,
                "doris.query.port", "" + mysql,
                "doris.table.identifier", "spark_writes." + table,
                "user", "root",
                "password", "");
    }

    static Map<String, String> starrocks(String table) {
        return Map.of(
                "starrocks.fe.http.url", "127.0.0.1:" + http,
                "starrocks.fe.jdbc.url", "jdbc:mysql://127.0.0.1:" + mysql,
                "starrocks.table.identifier", "spark_writes." + table,
                "starrocks.user", "root",
                "starrocks.password", "");
    }

    static void create(String table, String model) throws Exception {
        query("CREATE TABLE " + table + " (id INT, big BIGINT, name VARCHAR(100), price DECIMAL(12, 3), day DATE, at DATETIME, good BOOLEAN, ratio DOUBLE) "
                + model + "(id) DISTRIBUTED BY HASH(id) BUCKETS 2");
    }

    static Row row(int id) {
        String name = id % 7 == 0 ? null : "row, " + id + "\t\"'\\";
        return RowFactory.create(
                id,
                id * 1_000_000_007L,
                name,
                new BigDecimal(id).movePointLeft(3),
                Date.valueOf("2024-02-29"),
                Timestamp.valueOf("2024-02-29 12:34:56"),
                id % 2 == 0,
                id * 0.5);
    }

    static Dataset<Row> frame(SparkSession spark) {
        List<Row> rows = new ArrayList<>();
        for (int id = 0; id < ROWS; id++) {
            rows.add(row(id));
        }
        StructType type = new StructType()
                .add("id", DataTypes.IntegerType)
                .add("big", DataTypes.LongType)
                .add("name", DataTypes.StringType)
                .add("price", DataTypes.createDecimalType(12, 3))
                .add("day", DataTypes.DateType)
                .add("at", DataTypes.TimestampType)
                .add("good", DataTypes.BooleanType)
                .add("ratio", DataTypes.DoubleType);
        return spark.createDataFrame(rows, type).repartition(3);
    }

    static void written(String table) throws Exception {
        List<List<String>> found =
                query("SELECT id, big, name, price, day, date_format(at, '%Y-%m-%d %H:%i:%s'), cast(good AS INT), ratio FROM " + table + " ORDER BY id");
        expect(ROWS, found.size());
        for (int id = 0; id < ROWS; id++) {
            Row row = row(id);
            List<String> wanted = new ArrayList<>();
            for (Object value : List.of(row.get(0), row.get(1))) {
                wanted.add(value.toString());
            }
            wanted.add(row.getString(2));
            wanted.add(row.getDecimal(3).toPlainString());
            wanted.add("2024-02-29");
            wanted.add("2024-02-29 12:34:56");
            wanted.add(row.getBoolean(6) ? "1" : "0");
            wanted.add("" + row.getDouble(7));
            expect(wanted, found.get(id));
        }
    }

    /** A read of the connectors asks for Doris's binary scan protocol: the job ends with the server's word on what to do instead. */
    static void refused(SparkSession spark, String format, Map<String, String> options) {
        try {
            spark.read().format(format).options(options).load().collectAsList();
        } catch (Throwable thrown) {
            for (Throwable t = thrown; t != null; t = t.getCause()) {
                if (t.getMessage() != null && t.getMessage().contains("JDBC")) {
                    return;
                }
            }
            throw new AssertionError("the read does not say what to do instead", thrown);
        }
        throw new AssertionError("the read gave an answer");
    }

    public static void main(String[] arguments) throws Exception {
        mysql = Integer.parseInt(arguments[0]);
        http = Integer.parseInt(arguments[1]);
        try (Connection connection = DriverManager.getConnection("jdbc:mysql://127.0.0.1:" + mysql + "/", "root", "");
                Statement statement = connection.createStatement()) {
            statement.execute("DROP DATABASE IF EXISTS spark_writes");
            statement.execute("CREATE DATABASE spark_writes");
        }
        for (String table : List.of("doris_json", "doris_csv", "doris_once")) {
            create(table, "UNIQUE KEY");
        }
        create("starrocks_csv", "PRIMARY KEY");
        create("starrocks_json", "PRIMARY KEY");
        SparkSession spark = SparkSession.builder()
                .master("local[2]")
                .config("spark.ui.enabled", "false")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.sql.shuffle.partitions", "2")
                .getOrCreate();
        spark.sparkContext().setLogLevel("OFF");
        Dataset<Row> frame = frame(spark);

        check("Doris: a frame as JSON", () -> {
            frame.write().format("doris").options(doris("doris_json"))
                    .option("doris.sink.properties.format", "json").option("doris.sink.properties.read_json_by_line", "true")
                    .mode(SaveMode.Append).save();
            written("doris_json");
        });
        check("Doris: a frame as CSV, twice into equal keys", () -> {
            for (int time = 0; time < 2; time++) {
                frame.write().format("doris").options(doris("doris_csv"))
                        .option("doris.sink.properties.format", "csv").option("doris.sink.properties.column_separator", "\\x01")
                        .option("doris.sink.properties.line_delimiter", "\\x02")
                        .mode(SaveMode.Append).save();
            }
            written("doris_csv");
        });
        check("Doris: a frame in two phases", () -> {
            frame.write().format("doris").options(doris("doris_once"))
                    .option("doris.sink.enable-2pc", "true").option("doris.sink.properties.format", "json")
                    .mode(SaveMode.Append).save();
            written("doris_once");
        });
        check("StarRocks: a frame as CSV", () -> {
            frame.write().format("starrocks").options(starrocks("starrocks_csv"))
                    .option("starrocks.write.properties.column_separator", "\\x01").option("starrocks.write.properties.row_delimiter", "\\x02")
                    .mode(SaveMode.Append).save();
            written("starrocks_csv");
        });
        check("StarRocks: a frame as JSON", () -> {
            frame.write().format("starrocks").options(starrocks("starrocks_json"))
                    .option("starrocks.write.properties.format", "json").option("starrocks.write.properties.strip_outer_array", "true")
                    .mode(SaveMode.Append).save();
            written("starrocks_json");
        });
        check("Doris: a read says the way round", () -> refused(spark, "doris", doris("doris_json")));
        check("StarRocks: a read says the way round", () -> refused(spark, "starrocks", starrocks("starrocks_csv")));
        spark.stop();
        System.exit(failed == 0 ? 0 : 1);
    }
}
