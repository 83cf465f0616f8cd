import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;

/** Tries JDBC URLs with a look-up: whether Connector/J takes them, and whether statements are prepared by the server. */
public class Urls {
    public static void main(String[] urls) {
        for (String url : urls) {
            System.out.println(url);
            try (Connection connection = DriverManager.getConnection(url, "root", "")) {
                String sql = "select * from ssb_test.row_part where p_partkey = ? and p_name = ?";
                try (PreparedStatement statement = connection.prepareStatement(sql)) {
                    statement.setInt(1, 5);
                    statement.setString(2, "blush chiffon");
                    ResultSet rows = statement.executeQuery();
                    boolean server = statement.isWrapperFor(com.mysql.cj.jdbc.ServerPreparedStatement.class);
                    System.out.println("    " + (rows.next() ? "found" : "NOT FOUND") + ", prepared by the " + (server ? "server" : "client"));
                }
            } catch (Exception error) {
                System.out.println("    refused: " + String.valueOf(error).replaceAll("\\s+", " "));
            }
        }
    }
}
