"""What the examples of some pages find: a bucket, a warehouse of Iceberg tables."""

import sys

import pages

sys.path.insert(0, str(pages.ROOT / "tests/faults"))


def prepare(page, world):
    """Sets a page's world up; gives what takes it down again, or nothing."""
    make = {"docs/buckets.md": bucket, "docs/catalogs.md": warehouse}.get(page)
    return make(world) if make else None


def bucket(world):
    """An S3 server in memory, which pages know as http://127.0.0.1:9000, and its keys in the environment."""
    import memory

    store = memory.Store()
    world.environment |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    world.names.append(("127.0.0.1:9000", f"127.0.0.1:{store.port}"))
    return store.stop


def warehouse(world):
    """The directory `warehouse` with the Iceberg table `db.items` of two files."""
    import stores

    made = stores.Warehouse(world.work / "warehouse")
    made.root.mkdir()
    at = f"{made.root}/db/items"
    rows = [([1, 2, 3], ["lamp", "chair", "table"]), ([4, 5], ["clock", "shelf"])]
    files = [(f"{at}/data/{n}.parquet", stores.parquet([1, 2], item_id=ids, name=names), {})
             for n, (ids, names) in enumerate(rows)]
    columns = [stores.column(1, "item_id", "long"), stores.column(2, "name", "string")]
    made.write("items", stores.table(columns), files)
