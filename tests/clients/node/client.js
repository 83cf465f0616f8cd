// mysql2 for Node.js.
'use strict';

const assert = require('node:assert');
const mysql = require('mysql2/promise');

const typesSql = process.env.DIPPER_TYPES_SQL;
const base = {
  host: process.env.DIPPER_HOST,
  port: Number(process.env.DIPPER_PORT),
  user: 'root',
  dateStrings: true,
};
const expected = {
  t_tinyint: 1,
  t_smallint: -2,
  t_int: 3,
  t_bigint: 4,
  t_largeint: '170141183460469231731687303715884105727',
  t_boolean: 1,
  t_float: 1.5,
  t_double: -2.25,
  t_decimal: '1.25',
  t_date: '2020-01-31',
  t_datetime: '2020-01-31 01:02:03',
  t_micros: '2020-01-31 01:02:03.500000',
  t_text: 'ä漢😀',
  t_array: '[1, 2]',
  t_null: null,
};
const table = process.env.DIPPER_LOOKUP_TABLE;
const lookup = {
  id: 1,
  t_boolean: 1,
  t_tinyint: -128,
  t_smallint: 32767,
  t_int: -2147483648,
  t_bigint: '9223372036854775807',
  t_largeint: '170141183460469231731687303715884105727',
  t_float: 1.5,
  t_double: -2.25,
  t_decimal: '-1234567890123456.7891',
  t_date: '2020-01-31',
  t_datetime: '2020-01-31 01:02:03',
  t_micros: '2020-01-31 01:02:03.500000',
  t_char: 'abc',
  t_varchar: "it's ä",
  t_string: 'ä漢😀',
};
let failed = 0;

async function check(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${String(error.message).replace(/\s+/g, ' ')}`);
  }
}

// The result of `work` with a connection of its own.
async function withConnection(options, work) {
  const connection = await mysql.createConnection({ ...base, ...options });
  try {
    return await work(connection);
  } finally {
    await connection.end();
  }
}

async function main() {
  const connection = await mysql.createConnection(base);
  await check('types', async () => {
    const [rows] = await connection.query(typesSql);
    assert.deepStrictEqual({ ...rows[0] }, expected);
  });
  await check('prepared types', async () => {
    for (let round = 0; round < 3; round += 1) {
      const [rows] = await connection.execute(typesSql);
      // The driver leaves out fractions of binary times as far as they are zeros.
      assert.deepStrictEqual({ ...rows[0], t_micros: rows[0].t_micros.padEnd(26, '0') }, expected);
    }
  });
  await check('prepared parameters', async () => {
    for (const number of [41, -1]) {
      const [rows] = await connection.execute({ sql: 'select ? + 1, ?', rowsAsArray: true }, [number, "it's ä"]);
      assert.deepStrictEqual([Number(rows[0][0]), rows[0][1]], [number + 1, "it's ä"]);
    }
    const [rows] = await connection.execute({ sql: 'select ?, ?', rowsAsArray: true }, [null, 'x']);
    assert.deepStrictEqual(rows[0], [null, 'x']);
  });
  await check('set-up of a table', async () => {
    for (const sql of process.env.DIPPER_LOOKUP_SQL.split(';\n')) {
      if (sql.trim()) await connection.query(sql);
    }
  });
  for (const [way, ask] of [['text', 'query'], ['prepared', 'execute']]) {
    await check(`key look-ups, ${way}`, () =>
      withConnection({ supportBigNumbers: true }, async (client) => {
        for (let round = 0; round < 3; round += 1) {
          const found = async (id) => (await client[ask](`select * from ${table} where id = ?`, [id]))[0].map((row) => ({ ...row }));
          const [row] = await found(1);
          assert.deepStrictEqual({ ...row, t_micros: row.t_micros.padEnd(26, '0') }, lookup);
          const nulls = Object.fromEntries(Object.keys(lookup).map((name) => [name, name === 'id' ? 2 : null]));
          assert.deepStrictEqual(await found(2), [nulls]);
          assert.deepStrictEqual(await found(3), []);
        }
      }));
  }
  await check('parameters of LIMIT', async () => {
    // Numbers are sent as DOUBLE.
    const ids = async (sql, values) => (await connection.execute({ sql, rowsAsArray: true }, values))[0].flat().map(Number);
    for (const one of [1, '1']) {
      assert.deepStrictEqual(await ids(`select id from ${table} where id = ? limit ?`, [1, one]), [1]);
      assert.deepStrictEqual(await ids(`select id from ${table} where id < ? order by id limit ?, ?`, [3, one, one]), [2]);
    }
  });
  await check('changes between look-ups', async () => {
    const read = async () => (await connection.execute({ sql: `select t_int, t_varchar from ${table} where id = ?`, rowsAsArray: true }, [7]))[0];
    for (const round of [1, 2]) {
      await connection.execute(`insert into ${table} (id, t_int, t_varchar) values (?, ?, ?)`, [7, round, null]);
      assert.deepStrictEqual(await read(), [[round, null]]);
      await connection.execute(`update ${table} set t_int = ? where id = ?`, [10 + round, 7]);
      assert.deepStrictEqual(await read(), [[10 + round, null]]);
      await connection.execute(`delete from ${table} where id = ?`, [7]);
      assert.deepStrictEqual(await read(), []);
    }
  });
  await check('error', async () => {
    const wrong = { code: 'ER_NO_SUCH_TABLE', errno: 1146, sqlState: '42S02' };
    await assert.rejects(connection.query('select * from information_schema.no_such_table'), wrong);
    await assert.rejects(connection.execute('select * from information_schema.no_such_table'), wrong);
    const [rows] = await connection.query({ sql: 'select 1', rowsAsArray: true });
    assert.deepStrictEqual(rows, [[1]]);
  });
  await check('wrong password', async () => {
    await assert.rejects(mysql.createConnection({ ...base, password: 'wrong' }), { errno: 1045 });
  });
  await check('multi statements', () =>
    withConnection({ multipleStatements: true, rowsAsArray: true }, async (multi) => {
      const [results] = await multi.query('select 1; select 2');
      assert.deepStrictEqual(results, [[[1]], [[2]]]);
    }));
  await check('one answer unless several are asked for', async () => {
    // As in Doris: all statements run, and the answer is that of the last one, or the first error.
    const [rows] = await connection.query('select 1; select 2');
    assert.deepStrictEqual(rows, [{ 2: 2 }]);
    await assert.rejects(connection.query('select 1; select nowhere; select 2'), { errno: 1054 });
    const [after] = await connection.query('select 3');
    assert.deepStrictEqual(after, [{ 3: 3 }]);
  });
  await check('compression', () =>
    withConnection({ compress: true, rowsAsArray: true }, async (compressed) => {
      const [rows] = await compressed.query("select repeat('x', 100000)");
      assert.strictEqual(rows[0][0], 'x'.repeat(100000));
      const [one] = await compressed.execute('select 1');
      assert.deepStrictEqual(one, [[1]]);
    }));
  if (process.env.DIPPER_TLS === '1') {
    await check('TLS', () =>
      withConnection({ ssl: { rejectUnauthorized: false }, rowsAsArray: true }, async (secure) => {
        const [rows] = await secure.execute('select 1');
        assert.deepStrictEqual(rows, [[1]]);
      }));
  }
  await check('ping and change of user', async () => {
    await connection.ping();
    await connection.changeUser({ user: 'root', password: '', database: 'information_schema' });
    const [rows] = await connection.query({ sql: 'select database()', rowsAsArray: true });
    assert.deepStrictEqual(rows, [['information_schema']]);
  });
  await connection.end();
  process.exitCode = failed ? 1 : 0;
}

main().catch((error) => {
  console.log(`FAIL connect: ${error.message}`);
  process.exitCode = 1;
});
