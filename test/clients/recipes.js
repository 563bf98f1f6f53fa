// Runs the JavaScript recipes of doc/clients.md as they are printed, with the packages that are there. Prints TAP without
// a plan: "ok - name", "not ok - name", or "# skip package".
//
//   recipes.js PAGE PACKAGES HOST PORT USER      each client uses the database of its name
'use strict';
const fs = require('fs');
const os = require('os');
const path = require('path');
const { createRequire } = require('module');

const [page, packages, host, port, user] = process.argv.slice(2);
const text = fs.readFileSync(page, 'utf8');
const load = createRequire(packages + '/');
const AsyncFunction = (async () => {}).constructor;

// The first example below a heading.
function recipe(section) {
  return text.match(new RegExp('^#+ ' + section + '\\n[^]*?^```js\\n([^]*?)^```$', 'm'))[1];
}

function check(ok, name, ...more) {
  console.log((ok ? 'ok - ' : 'not ok - ') + name);
  if (!ok) for (const line of more.map((x) => (typeof x === 'string' ? x : JSON.stringify(x, (_, v) => (typeof v === 'bigint' ? String(v) : v)))).join('\n').split('\n')) console.log('# ' + line);
}

function rise(ids) {
  return ids.length > 1 && ids.every((id, n) => n === 0 || BigInt(id) > BigInt(ids[n - 1]));
}

const items = Array.from({ length: 100 }, (_, n) => ({ item: String(n) }));
const connection = (database) => ({ host, port: Number(port), user, database });
const default_of = "SELECT pg_get_expr(adbin, adrelid) AS text FROM pg_attrdef WHERE adrelid = 'orders'::regclass";

const clients = {
  async pg() {
    const { Client } = load('pg');
    const client = new Client(connection('pg'));
    await client.connect();
    await client.query('CREATE EXTENSION idgen');
    await client.query('CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text)');
    const { rows } = await client.query("INSERT INTO orders (item) SELECT 'x' FROM generate_series(1, 100) RETURNING id");
    check(rise(rows.map((row) => row.id)) && typeof rows[0].id === 'string', 'pg: IDs are strings');
    const decoded = await client.query('SELECT * FROM idgen_decode($1)', [rows[0].id]);
    check(BigInt(decoded.rows[0].tick) === BigInt(rows[0].id) >> 22n, 'pg: idgen_decode($1) takes the string');
    const json = (await client.query('SELECT json_agg(o) AS j FROM orders o')).rows[0].j;
    check(new Set(json.map((o) => o.id)).size < 100, 'pg: IDs in JSON become equal');
    await client.end();
  },

  async postgres() {
    const sql = load('postgres')({ ...connection('postgres_js'), onnotice: () => {} });
    await sql`CREATE EXTENSION idgen`;
    await sql`CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text)`;
    const rows = await sql`INSERT INTO orders ${sql(items)} RETURNING id`;
    check(rise(rows.map((row) => row.id)) && typeof rows[0].id === 'string', 'postgres: IDs are strings');
    await sql.end();
  },

  async 'drizzle-orm'() {
    const { pgTable, bigint, text: textColumn } = load('drizzle-orm/pg-core');
    const { sql } = load('drizzle-orm');
    const { drizzle } = load('drizzle-orm/node-postgres');
    const { migrate } = load('drizzle-orm/node-postgres/migrator');
    const pool = new (load('pg').Pool)(connection('drizzle'));
    const db = drizzle(pool);
    const orders = new Function('pgTable', 'bigint', 'text', 'sql', recipe('Drizzle') + 'return orders;')(pgTable, bigint, textColumn, sql);
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'drizzle'));
    fs.mkdirSync(path.join(folder, 'meta'));
    const tags = ['0000_extension', '0001_orders'];
    fs.writeFileSync(path.join(folder, 'meta', '_journal.json'), JSON.stringify({ version: '7', dialect: 'postgresql',
      entries: tags.map((tag, idx) => ({ idx, version: '7', when: 1700000000000 + idx, tag, breakpoints: true })) }));
    fs.writeFileSync(path.join(folder, `${tags[0]}.sql`), 'CREATE EXTENSION idgen;');
    fs.writeFileSync(path.join(folder, `${tags[1]}.sql`), "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next() NOT NULL, item text);\n--> statement-breakpoint\nINSERT INTO orders (item) VALUES ('seed');");
    await migrate(db, { migrationsFolder: folder });
    fs.rmSync(folder, { recursive: true });
    check(true, 'Drizzle: migrate creates the extension, the table and rows in one transaction');
    const ids = (await db.insert(orders).values(items).returning()).map((row) => row.id);
    check(rise(ids) && typeof ids[0] === 'bigint', 'Drizzle: IDs are BigInt with mode bigint');
    const lossy = pgTable('orders', { id: bigint({ mode: 'number' }), item: textColumn() });
    check(new Set((await db.select().from(lossy)).map((row) => row.id)).size < 100, 'Drizzle: IDs become equal with mode number');
    await pool.end();
  },

  async typeorm() {
    load('reflect-metadata');
    const { DataSource, EntitySchema } = load('typeorm');
    const Order = new Function('EntitySchema', recipe('TypeORM') + 'return Order;')(EntitySchema);
    class Extension1700000000001 {
      async up(runner) { await runner.query('CREATE EXTENSION idgen'); }
    }
    class Orders1700000000002 {
      async up(runner) {
        await runner.query('CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text NOT NULL)');
        await runner.query("INSERT INTO orders (item) VALUES ('seed')");
      }
    }
    const source = new DataSource({ ...connection('typeorm'), username: user, type: 'postgres', entities: [Order], migrations: [Extension1700000000001, Orders1700000000002] });
    await source.initialize();
    await source.runMigrations();
    check(true, 'TypeORM: migrations create the extension, the table and rows in one transaction');
    const repository = source.getRepository('orders');
    const ids = (await repository.save(items.map((item) => ({ ...item })))).map((row) => row.id);
    check(ids.every((id) => typeof id === 'string') && new Set(ids).size === 100, 'TypeORM: IDs are strings');
    await source.query('DROP TABLE orders');
    await source.synchronize();
    const { upQueries } = await source.driver.createSchemaBuilder().log();
    check(upQueries.length === 0, 'TypeORM: synchronize sees no difference', upQueries);
    check((await source.query(default_of))[0].text === 'idgen_next()', 'TypeORM: synchronize creates the default');
    await source.destroy();
  },

  async sequelize() {
    const { Sequelize, DataTypes } = load('sequelize');
    const sequelize = new Sequelize({ dialect: 'postgres', ...connection('sequelize'), username: user, logging: false });
    await sequelize.query('CREATE EXTENSION idgen');
    const Order = new Function('sequelize', 'DataTypes', recipe('Sequelize') + 'return Order;')(sequelize, DataTypes);
    await sequelize.sync();
    await sequelize.sync({ alter: true });
    check((await sequelize.query(default_of))[0][0].text === 'idgen_next()', 'Sequelize: sync, and sync with alter, keep the default');
    const ids = (await Order.bulkCreate(items)).map((row) => row.id);
    check(typeof ids[0] === 'string' && rise(ids), 'Sequelize: IDs are strings');
    check((await sequelize.getQueryInterface().showAllTables()).every((name) => !/idgen/.test(JSON.stringify(name))), 'Sequelize: showAllTables lists no table of idgen');
    await sequelize.close();
  },

  async '@mikro-orm/postgresql'() {
    const { MikroORM, EntitySchema } = load('@mikro-orm/postgresql');
    let options;
    new Function('EntitySchema', 'MikroORM', recipe('MikroORM'))(EntitySchema, { init: (given) => { options = given; } });
    const orm = await MikroORM.init({ ...options, host, port: Number(port), user, password: '', dbName: 'mikroorm', debug: false });
    await orm.em.getConnection().execute('CREATE EXTENSION idgen');
    await orm.schema.updateSchema();
    const orders = items.map((item) => orm.em.fork().create('orders', item));
    const em = orm.em.fork();
    orders.forEach((order) => em.persist(order));
    await em.flush();
    const ids = orders.map((order) => order.id);
    check(new Set(ids).size === 100 && BigInt(ids[0]) > 2n ** 53n, 'MikroORM: objects get IDs of idgen', ids.slice(0, 3));
    check((await orm.schema.getUpdateSchemaSQL()) === '', 'MikroORM: the schema generator sees no difference', await orm.schema.getUpdateSchemaSQL());
    orm.config.set('schemaGenerator', {});
    check(/idgen_namespace/.test(await orm.schema.getUpdateSchemaSQL()), 'MikroORM: without ignoreSchema it would drop the tables of idgen', await orm.schema.getUpdateSchemaSQL());
    await orm.close();
  },

  async knex() {
    const knex = load('knex')({ client: 'pg', connection: connection('knex') });
    const extension = { up: (db) => db.raw('CREATE EXTENSION idgen'), down: () => {} };
    const orders = {
      async up(db) {
        await new AsyncFunction('knex', recipe('Knex'))(db);
        await db('orders').insert({ item: 'seed' });
      },
      down() {},
    };
    const migrations = { '1_extension': extension, '2_orders': orders };
    await knex.migrate.latest({
      migrationSource: { getMigrations: async () => Object.keys(migrations), getMigrationName: (name) => name, getMigration: async (name) => migrations[name] },
    });
    check(true, 'Knex: migrations create the extension, the table and rows');
    const ids = (await knex('orders').insert(items).returning('id')).map((row) => row.id);
    check(rise(ids) && typeof ids[0] === 'string', 'Knex: IDs are strings');
    check((await knex.raw(default_of)).rows[0].text === 'idgen_next()', 'Knex: the table has the default');
    await knex.destroy();
  },

  async kysely() {
    const { Kysely, Migrator, PostgresDialect, sql } = load('kysely');
    const db = new Kysely({ dialect: new PostgresDialect({ pool: new (load('pg').Pool)(connection('kysely')) }) });
    const migrations = {
      '1_extension': { up: (one) => sql`CREATE EXTENSION idgen`.execute(one) },
      '2_orders': {
        async up(one) {
          await new AsyncFunction('db', 'sql', recipe('Kysely'))(one, sql);
          await one.insertInto('orders').values({ item: 'seed' }).execute();
        },
      },
    };
    const { error } = await new Migrator({ db, provider: { getMigrations: async () => migrations } }).migrateToLatest();
    check(!error, 'Kysely: migrations create the extension, the table and rows in one transaction', String(error));
    const ids = (await db.insertInto('orders').values(items).returning('id').execute()).map((row) => row.id);
    check(rise(ids) && typeof ids[0] === 'string', 'Kysely: IDs are strings');
    check((await db.introspection.getTables()).map((table) => `${table.schema}.${table.name}`).filter((name) => /^public\.idgen_(?!stat)/.test(name)).length === 0,
      'Kysely: introspection finds no table of idgen in the schema of the application');
    await db.destroy();
  },
};

(async () => {
  for (const [name, run] of Object.entries(clients)) {
    try {
      load.resolve(name);
    } catch (error) {
      console.log(`# skip ${name}`);
      continue;
    }
    try {
      await run();
    } catch (error) {
      check(false, `${name} runs`, String(error && error.stack));
    }
  }
  process.exit(0);
})();
