import static org.jooq.impl.DSL.count;
import static org.jooq.impl.DSL.field;
import static org.jooq.impl.DSL.table;

import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import org.jooq.DSLContext;
import org.jooq.SQLDialect;
import org.jooq.codegen.GenerationTool;
import org.jooq.impl.DSL;
import org.jooq.meta.jaxb.Configuration;
import org.jooq.meta.jaxb.Database;
import org.jooq.meta.jaxb.Generator;
import org.jooq.meta.jaxb.Jdbc;
import org.jooq.meta.jaxb.Logging;
import org.jooq.meta.jaxb.Target;

/** jOOQ's generator reads tables, and its statements run: `Jooq MYSQL_PORT HTTP_PORT`. */
public class Jooq {
    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:mysql://127.0.0.1:" + arguments[0] + "/?allowPublicKeyRetrieval=true&sslMode=DISABLED";
        boolean good = true;
        try (Connection c = DriverManager.getConnection(url, "root", "")) {
            try (Statement s = c.createStatement()) {
                s.execute("drop database if exists jooq");
                s.execute("create database jooq");
                s.execute("create table jooq.orders (id bigint not null, city varchar(32) comment 'where', amount decimal(10, 2), "
                    + "paid boolean, at datetime) unique key(id) comment 'all orders' distributed by hash(id) buckets 1");
                s.execute("create table jooq.people (id bigint not null auto_increment primary key, name varchar(50) not null)");
                s.execute("create view jooq.cities as select city, count(*) as n from jooq.orders group by city");
            }
            good &= check("generator", () -> generator(url));
            good &= check("statements", () -> statements(c));
        }
        System.exit(good ? 0 : 1);
    }

    interface Work {
        void run() throws Exception;
    }

    static boolean check(String name, Work work) {
        try {
            work.run();
            System.out.println("ok " + name);
            return true;
        } catch (Throwable e) {
            e.printStackTrace(System.out);
            System.out.println("FAILED " + name);
            return false;
        }
    }

    static void generator(String url) throws Exception {
        GenerationTool.generate(new Configuration()
            .withLogging(Logging.WARN)
            .withJdbc(new Jdbc().withDriver("com.mysql.cj.jdbc.Driver").withUrl(url).withUser("root").withPassword(""))
            .withGenerator(new Generator()
                .withDatabase(new Database().withName("org.jooq.meta.mysql.MySQLDatabase").withInputSchema("jooq"))
                .withTarget(new Target().withPackageName("made").withDirectory("made"))));
        contains("made/made/tables/Orders.java", "createField(DSL.name(\"id\"), SQLDataType.BIGINT.nullable(false)", "SQLDataType.VARCHAR(32)",
            "SQLDataType.DECIMAL(10, 2)", "LOCALDATETIME", "all orders", "where");
        contains("made/made/tables/People.java", "identity(true)", "KEY_PEOPLE_PRIMARY");
        contains("made/made/tables/Cities.java", "\"n\"");
    }

    static void contains(String file, String... words) throws Exception {
        String text = Files.readString(Path.of(file));
        for (String word : words) {
            if (!text.contains(word)) {
                throw new IllegalStateException(file + " has no " + word + ":\n" + text);
            }
        }
    }

    static void statements(Connection connection) {
        DSLContext jooq = DSL.using(connection, SQLDialect.MYSQL);
        var orders = table(DSL.name("jooq", "orders"));
        var id = field(DSL.name("id"), Long.class);
        var city = field(DSL.name("city"), String.class);
        jooq.insertInto(orders, id, city).values(1L, "Rome").values(2L, "Oslo").values(3L, "Rome").execute();
        var found = jooq.select(city, count()).from(orders).groupBy(city).orderBy(city).fetch();
        equal(found.getValues(1, Integer.class), java.util.List.of(1, 2));
        equal(jooq.update(orders).set(city, "Bonn").where(id.eq(2L)).execute(), 1);
        equal(jooq.deleteFrom(orders).where(id.in(1L, 3L)).execute(), 2);
        equal(jooq.select(city).from(orders).fetch(city), java.util.List.of("Bonn"));
    }

    static void equal(Object found, Object expected) {
        if (!found.equals(expected)) {
            throw new IllegalStateException("expected " + expected + ", found " + found);
        }
    }
}
