#!/usr/bin/env python3
"""Writes the example files: a week in the life of a small web shop. Always the same bytes (needs pyarrow).

page_views/    Hive text, partitioned by day and campaign, as a Hive job leaves it
orders.csv     an export with quotes, commas and newlines in its notes
products.parquet
"""
import csv
import datetime as dt
import decimal
import random
import shutil
import urllib.parse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
random.seed(20240601)

CATEGORIES = {
    "Kitchen": ["Espresso cup", "Chef's knife", "Cutting board", "Cast-iron pan", "Tea kettle", "Salad bowl"],
    "Garden": ["Hand trowel", "Watering can", "Rose shears", "Bird feeder", "Herb planter"],
    "Outdoor": ["Two-person tent", "Head torch", "Wool socks", "Trail map", "Camping stove", "Thermos flask"],
    "Office": ["Desk lamp", "Fountain pen", "Notebook A5", "Standing desk", "Cable tidy"],
    "Music": ["Ukulele", "Metronome", "Guitar strings", "Kalimba"],
}
COLOURS = ["", "", "black", "oak", "navy", "red", "sage"]

products = []
for category, names in CATEGORIES.items():
    for name in names:
        for colour in random.sample(COLOURS, 3):
            price = decimal.Decimal(random.randint(350, 24900)) / 100
            products.append(
                {
                    "product_id": 100 + len(products),
                    "name": f"{name}, {colour}" if colour else name,
                    "category": category,
                    "price": price,
                    "added": dt.date(2023, 1, 1) + dt.timedelta(days=random.randint(0, 500)),
                    "in_stock": random.random() < 0.9,
                }
            )
schema = pa.schema(
    [
        ("product_id", pa.int64()),
        ("name", pa.string()),
        ("category", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("added", pa.date32()),
        ("in_stock", pa.bool_()),
    ]
)
pq.write_table(pa.Table.from_pylist(products, schema), HERE / "products.parquet", compression="snappy")

# Page views. `\N` is NULL; ^A between columns, ^B between items, ^C between a key and its value.
CAMPAIGNS = [None, None, "newsletter", "summer/sale 50%", "search"]
SYSTEMS = [("Windows", "Firefox"), ("Windows", "Chrome"), ("macOS", "Safari"), ("Android", "Chrome"), ("iOS", "Safari")]
COUNTRIES = ["DE", "DE", "DE", "AT", "CH", "FR", "NL", "GB", "US", "JP"]
REFERRERS = ["https://www.google.com/search?q=", "https://duckduckgo.com/?q=", "https://www.example-blog.org/", None, None]
TAGS = ["new", "sale", "gift", "bestseller", "eco", "clearance"]
NULL = "\\N"


def hive_name(value):
    """A partition value as Hive writes it into a path."""
    if value is None:
        return "__HIVE_DEFAULT_PARTITION__"
    special = set('"#%\'*/:=?\\\x7f{[]^')
    return "".join(f"%{ord(c):02X}" if c in special or ord(c) < 32 else c for c in value)


users = [(7000 + i, random.choice(COUNTRIES)) for i in range(400)]
shutil.rmtree(HERE / "page_views", ignore_errors=True)
partitions = {}
views = []
for number in range(3200):
    day = dt.date(2024, 6, 1) + dt.timedelta(days=min(random.randint(0, 7), random.randint(0, 7)))
    campaign = random.choice(CAMPAIGNS)
    user, country = random.choice(users) if random.random() < 0.8 else (None, random.choice(COUNTRIES))
    product = random.choice(products)
    at = dt.datetime.combine(day, dt.time()) + dt.timedelta(seconds=int(random.betavariate(4, 3) * 86399))
    slug = product["name"].lower().replace("'", "").replace(", ", "-").replace(" ", "-")
    url = f"https://shop.example/{product['category'].lower()}/{product['product_id']}-{slug}"
    referrer = random.choice(REFERRERS)
    if referrer and referrer.endswith("q="):
        referrer += urllib.parse.quote_plus(product["name"].split(",")[0].lower())
    tags = random.sample(TAGS, random.randint(0, 3))
    parameters = {}
    if campaign:
        parameters["utm_source"] = random.choice(["mail", "web", "app"])
    if random.random() < 0.15:
        parameters["coupon"] = random.choice(["JUNE10", "WELCOME", "FREESHIP"])
    system, browser = random.choice(SYSTEMS)
    bot = random.random() < 0.04
    row = [
        str(500_000 + number),
        at.strftime("%Y-%m-%d %H:%M:%S"),
        NULL if user is None else str(user),
        country,
        url,
        NULL if referrer is None else referrer,
        "\x02".join(tags) if tags else NULL,
        "\x02".join(f"{k}\x03{v}" for k, v in parameters.items()) if parameters else NULL,
        f"{system}\x02{browser}",
        NULL if bot else str(int(random.lognormvariate(9, 1))),
        "true" if bot else "false",
    ]
    partitions.setdefault((day, campaign), []).append("\x01".join(row))
    if user is not None and not bot:
        views.append((user, product, at))
for (day, campaign), rows in sorted(partitions.items(), key=str):
    directory = HERE / "page_views" / f"dt={day}" / f"campaign={hive_name(campaign)}"
    directory.mkdir(parents=True)
    with open(directory / "000000_0", "w", newline="\n") as file:
        file.write("".join(row + "\n" for row in rows))

# Orders: about every fifth view of a known user becomes one, a little later.
NOTES = [
    "", "", "", "", "please ring twice", "leave with the neighbour, 2nd floor", 'gift card: "Happy birthday, Mia!"',
    "Dear team,\nplease wrap it.\nThank you", "engraving: O'Neill & Söhne", "call before delivery; gate code 4711",
    "ギフト包装をお願いします",
]  # fmt: skip
with open(HERE / "orders.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["order_id", "ordered_at", "user_id", "product_id", "quantity", "amount", "status", "note"])
    for number, (user, product, at) in enumerate(random.sample(views, len(views) // 5)):
        quantity = random.choice([1, 1, 1, 2, 3])
        at += dt.timedelta(seconds=random.randint(60, 3600))
        status = random.choices(["shipped", "paid", "returned", "cancelled"], [80, 10, 6, 4])[0]
        amount = "" if status == "cancelled" else f"{product['price'] * quantity:.2f}"
        writer.writerow(
            [90_000 + number, at.strftime("%Y-%m-%d %H:%M:%S"), user, product["product_id"], quantity, amount, status,
             random.choice(NOTES)]
        )  # fmt: skip
