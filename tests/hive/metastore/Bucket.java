import java.io.File;
import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** What a metastore asks of s3:// places, answered from the directory in which the gateway keeps its buckets. */
public class Bucket extends RawLocalFileSystem {
    private URI bucket;
    private File root;

    @Override
    public void initialize(URI uri, Configuration configuration) throws IOException {
        super.initialize(URI.create("file:///"), configuration);
        bucket = URI.create(uri.getScheme() + "://" + uri.getAuthority());
        root = new File(configuration.get("fs.s3.root"), uri.getAuthority());
    }

    @Override
    public URI getUri() {
        return bucket == null ? super.getUri() : bucket;
    }

    @Override
    public String getScheme() {
        return "s3";
    }

    @Override
    protected void checkPath(Path path) {}

    @Override
    public File pathToFile(Path path) {
        return new File(root, path.toUri().getPath());
    }
}
