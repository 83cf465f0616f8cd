"""Django over its MySQL backend: what its ORM asks and writes, inspectdb. The backend wants a server of version 8.0.11."""

import io
import os

import django
import MySQLdb
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.mysql",
            "HOST": "127.0.0.1",
            "PORT": os.environ["DIPPER_PORT"],
            "USER": "root",
            "NAME": "django",
            "OPTIONS": {"ssl_mode": "DISABLED"},
        }
    },
    USE_TZ=False,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)

with MySQLdb.connect(host="127.0.0.1", port=int(os.environ["DIPPER_PORT"]), user="root", ssl_mode="DISABLED") as c:
    cursor = c.cursor()
    cursor.execute("set global version = '8.0.33'")
    cursor.execute("drop database if exists django")
    cursor.execute("create database django")

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection, models  # noqa: E402


class Person(models.Model):
    name = models.CharField(max_length=50)
    age = models.IntegerField(null=True)
    active = models.BooleanField(default=True)
    born = models.DateField(null=True)
    weight = models.DecimalField(max_digits=6, decimal_places=2, null=True)

    class Meta:
        app_label = "people"
        db_table = "person"


with connection.cursor() as cursor:
    cursor.execute("create table person (id bigint not null auto_increment primary key, name varchar(50) not null, age int, "
                   "active boolean not null, born date, weight decimal(6, 2))")
assert connection.introspection.table_names() == ["person"]
Person.objects.bulk_create([Person(id=n, name=f"p{n}", age=n * 10, active=n % 2 == 0) for n in range(1, 6)])
assert Person.objects.count() == 5
assert [p.name for p in Person.objects.filter(age__gte=20, active=True).order_by("-age")] == ["p4", "p2"]
assert Person.objects.aggregate(models.Sum("age"), models.Max("name")) == {"age__sum": 150, "name__max": "p5"}
assert Person.objects.filter(id=3).update(age=33) == 1
assert Person.objects.get(id=3).age == 33
# Text is compared as bytes, as in Doris.
assert Person.objects.filter(name__contains="p1").exists() and not Person.objects.filter(name__contains="P1").exists()
assert Person.objects.filter(id=1).delete()[0] == 1
person, made = Person.objects.get_or_create(name="p9", defaults={"age": 1})
assert made and Person.objects.get(name="p9").pk == person.pk
text = io.StringIO()
call_command("inspectdb", stdout=text)
for word in ("class Person(models.Model)", "CharField(max_length=50)", "DecimalField(max_digits=6, decimal_places=2"):
    assert word in text.getvalue(), text.getvalue()
with connection.cursor() as cursor:
    cursor.execute("set global version = default")
print("  ok", django.get_version())
