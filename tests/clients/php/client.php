<?php
// PHP's mysqlnd, through mysqli and PDO.

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);

const NO_SUCH_TABLE = 'select * from information_schema.no_such_table';

$host = getenv('DIPPER_HOST');
$port = (int) getenv('DIPPER_PORT');
$typesSql = getenv('DIPPER_TYPES_SQL');
$table = getenv('DIPPER_LOOKUP_TABLE');
$failed = 0;

function check(string $name, callable $run): void
{
    global $failed;
    try {
        $run();
        echo "ok $name\n";
    } catch (Throwable $error) {
        $failed += 1;
        echo "FAIL $name: ", preg_replace('/\s+/', ' ', $error->getMessage()), "\n";
    }
}

function equal(mixed $found, mixed $expected, string $what = ''): void
{
    if ($found !== $expected) {
        throw new Exception("$what: expected " . var_export($expected, true) . ', found ' . var_export($found, true));
    }
}

function connect(string $password = ''): mysqli
{
    global $host, $port;
    return new mysqli($host, 'root', $password, '', $port);
}

function refused(int $code, ?string $state, callable $run): void
{
    try {
        $run();
    } catch (mysqli_sql_exception $error) {
        equal($error->getCode(), $code);
        // mysqli gives HY000 for whatever goes wrong in a login.
        equal($error->getSqlState(), $state ?? 'HY000');
        return;
    }
    throw new Exception("expected error $code, found none");
}

// What a prepared statement gives: numbers are numbers, the rest is text.
$types = [
    't_tinyint' => 1,
    't_smallint' => -2,
    't_int' => 3,
    't_bigint' => 4,
    't_largeint' => '170141183460469231731687303715884105727',
    't_boolean' => 1,
    't_float' => 1.5,
    't_double' => -2.25,
    't_decimal' => '1.25',
    't_date' => '2020-01-31',
    't_datetime' => '2020-01-31 01:02:03',
    't_micros' => '2020-01-31 01:02:03.500000',
    't_text' => 'ä漢😀',
    't_array' => '[1, 2]',
    't_null' => null,
];
$row = [
    'id' => 1,
    't_boolean' => 1,
    't_tinyint' => -128,
    't_smallint' => 32767,
    't_int' => -2147483648,
    't_bigint' => PHP_INT_MAX,
    't_largeint' => '170141183460469231731687303715884105727',
    't_float' => 1.5,
    't_double' => -2.25,
    't_decimal' => '-1234567890123456.7891',
    't_date' => '2020-01-31',
    't_datetime' => '2020-01-31 01:02:03',
    't_micros' => '2020-01-31 01:02:03.500000',
    't_char' => 'abc',
    't_varchar' => "it's ä",
    't_string' => 'ä漢😀',
];
$nulls = ['id' => 2] + array_fill_keys(array_keys($row), null);

$connection = connect();

check('types', function () use ($connection, $typesSql, $types) {
    $found = $connection->query($typesSql)->fetch_assoc();
    $text = fn ($value) => $value === null ? null : (string) $value;
    equal($found, array_map($text, $types));
});
check('prepared types', function () use ($connection, $typesSql, $types) {
    $statement = $connection->prepare($typesSql);
    for ($round = 0; $round < 3; $round += 1) {
        $statement->execute();
        equal($statement->get_result()->fetch_assoc(), $types);
    }
});
check('parameters', function () use ($connection) {
    $statement = $connection->prepare('select ? + 1, ?, ?');
    $number = 41;
    $text = "it's ä";
    $null = null;
    $statement->bind_param('iss', $number, $text, $null);
    foreach ([41, -1] as $number) {
        $statement->execute();
        $found = $statement->get_result()->fetch_row();
        equal([(int) $found[0], $found[1], $found[2]], [$number + 1, $text, null]);
    }
});
check('set-up of a table', function () use ($connection) {
    foreach (explode(";\n", trim(getenv('DIPPER_LOOKUP_SQL'))) as $sql) {
        $connection->query(rtrim($sql, ';'));
    }
});
check('key look-ups', function () use ($connection, $table, $row, $nulls) {
    $statement = $connection->prepare("select * from $table where id = ?");
    $statement->bind_param('i', $id);
    for ($round = 0; $round < 3; $round += 1) {
        foreach ([1 => $row, 2 => $nulls, 3 => null] as $id => $expected) {
            $statement->execute();
            $result = $statement->get_result();
            equal($result->fetch_assoc(), $expected, "id $id");
            equal($result->fetch_assoc(), null);
        }
    }
});
check('key look-ups with bound results', function () use ($connection, $table) {
    $statement = $connection->prepare("select t_int, t_decimal, t_varchar, t_micros from $table where id = ?");
    $statement->bind_param('i', $id);
    $statement->bind_result($int, $decimal, $varchar, $micros);
    $id = 1;
    $statement->execute();
    equal($statement->fetch(), true);
    equal([$int, $decimal, $varchar, $micros], [-2147483648, '-1234567890123456.7891', "it's ä", '2020-01-31 01:02:03.500000']);
    equal($statement->fetch(), null);
    $id = 2;
    $statement->execute();
    equal($statement->fetch(), true);
    equal([$int, $decimal, $varchar, $micros], [null, null, null, null]);
    $statement->close();
});
check('changes between look-ups', function () use ($connection, $table) {
    $read = $connection->prepare("select t_int, t_varchar from $table where id = 7");
    $insert = $connection->prepare("insert into $table (id, t_int, t_varchar) values (7, ?, ?)");
    $update = $connection->prepare("update $table set t_int = ? where id = ?");
    $delete = $connection->prepare("delete from $table where id = ?");
    $found = function () use ($read) {
        $read->execute();
        return $read->get_result()->fetch_row();
    };
    foreach ([1, 2] as $round) {
        $insert->execute([$round, null]);
        equal($found(), [$round, null]);
        $update->execute([10 + $round, 7]);
        equal($found(), [10 + $round, null]);
        $delete->execute([7]);
        equal($found(), null);
    }
});
// Neither parameters nor columns: the answer to the preparation is nothing but its first packet.
check('statements without parameters and columns', function () use ($connection, $table) {
    foreach (["insert into $table (id) values (8)", "delete from $table where id = 8", 'set @a = 1'] as $sql) {
        $statement = $connection->prepare($sql);
        equal($statement->param_count, 0);
        equal($statement->execute(), true);
        $statement->close();
    }
});
check('error', function () use ($connection) {
    refused(1146, '42S02', fn () => $connection->query(NO_SUCH_TABLE));
    refused(1146, '42S02', fn () => $connection->prepare(NO_SUCH_TABLE)->execute());
    equal($connection->query('select 1')->fetch_row(), ['1']);
});
check('wrong password', function () {
    refused(1045, null, fn () => connect('wrong'));
});
check('multi statements', function () use ($connection) {
    $connection->multi_query('select 1; select 2');
    equal($connection->store_result()->fetch_row(), ['1']);
    $connection->next_result();
    equal($connection->store_result()->fetch_row(), ['2']);
    equal($connection->more_results(), false);
});
check('compression', function () use ($host, $port) {
    $compressed = mysqli_init();
    $compressed->real_connect($host, 'root', '', '', $port, null, MYSQLI_CLIENT_COMPRESS);
    equal(strlen($compressed->query("select repeat('x', 100000)")->fetch_row()[0]), 100000);
});
check('ping, change of database and of user', function () use ($connection) {
    $connection->select_db('information_schema');
    equal($connection->query('select database()')->fetch_row(), ['information_schema']);
    $connection->change_user('root', '', '');
    equal($connection->query('select 1')->fetch_row(), ['1']);
});
foreach ([false, true] as $emulated) {
    check('PDO, ' . ($emulated ? 'text' : 'prepared'), function () use ($host, $port, $table, $row, $nulls, $emulated) {
        $pdo = new PDO("mysql:host=$host;port=$port;charset=utf8mb4", 'root', '', [
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
            PDO::ATTR_EMULATE_PREPARES => $emulated,
        ]);
        $statement = $pdo->prepare("select * from $table where id = :id");
        foreach ([1 => $row, 2 => $nulls, 3 => false] as $id => $expected) {
            $statement->bindValue(':id', $id, PDO::PARAM_INT);
            $statement->execute();
            equal($statement->fetch(PDO::FETCH_ASSOC), $expected, "id $id");
            $statement->closeCursor();
        }
    });
}
$connection->close();
exit($failed ? 1 : 0);
