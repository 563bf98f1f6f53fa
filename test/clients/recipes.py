# Runs the Python recipes of doc/clients.md as they are printed, with the packages that are there. Prints TAP without a
# plan: "ok - name", "not ok - name", or "# skip package".
#
#   recipes.py PAGE DIRECTORY HOST PORT USER
import importlib
import os
import re
import subprocess
import sys
import traceback

page, directory, host, port, user = sys.argv[1:]
text = open(page, encoding='utf-8').read()


def recipe(section):
    """The first example below a heading."""
    return re.search(r'^#+ %s\n.*?^```python\n(.*?)^```$' % re.escape(section), text, re.M | re.S).group(1)


def check(ok, name, *more):
    print(('ok - ' if ok else 'not ok - ') + name, flush=True)
    if not ok:
        for line in '\n'.join(map(str, more)).split('\n'):
            print('# ' + line)


def have(*packages):
    try:
        for package in packages:
            importlib.import_module(package)
        return True
    except ImportError as error:
        print('# skip %s: %s' % (packages[0], error))
        return False


def in_order(ids):
    return len(ids) > 1 and ids == sorted(set(ids))


def try_asyncpg():
    import asyncio
    import asyncpg

    async def run():
        connection = await asyncpg.connect(host=host, port=int(port), user=user, database='asyncpg')
        await connection.execute('CREATE EXTENSION idgen')
        await connection.execute('CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text)')
        key = await connection.fetchval('INSERT INTO orders (item) VALUES ($1) RETURNING id', 'book')
        check(isinstance(key, int) and key > 2**53, 'asyncpg: an ID is an int')
        row = await connection.fetchrow('SELECT * FROM idgen_decode($1)', key)
        check(row['tick'] == key >> 22, 'asyncpg: idgen_decode($1) takes an int')
        row = await connection.fetchrow('SELECT * FROM idgen_decode_text($1, $2)', str(key), 'default')
        check(row['tick'] == key >> 22, 'asyncpg: idgen_decode_text($1, $2) takes a string')
        check(await connection.fetchval('SELECT idgen_timestamp($1)', key) == row['timestamp'], 'asyncpg: idgen_timestamp($1) takes an int')
        check(await connection.fetchval('SELECT count(*) FROM orders WHERE id >= idgen_lower_bound($1)', row['timestamp']) == 1,
              'asyncpg: idgen_lower_bound($1) takes a time')
        await connection.close()

    asyncio.run(run())


def try_sqlalchemy():
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from sqlalchemy import BigInteger, Column, Text, create_engine, func, select, text as sql
    from sqlalchemy.orm import Session, declarative_base

    engine = create_engine('postgresql+psycopg2://%s@/sqlalchemy?host=%s&port=%s' % (user, host, port))
    scope = {'Base': declarative_base(), 'BigInteger': BigInteger, 'Column': Column, 'Text': Text, 'text': sql}
    exec(recipe('SQLAlchemy and Alembic'), scope)
    Order = scope['Order']

    # All migrations of one run, in one transaction, as Alembic does by default.
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        scope['op'] = op = Operations(context)
        with context.begin_transaction():
            scope['upgrade']()
            Order.__table__.create(op.get_bind())
            op.execute("INSERT INTO orders (item) VALUES ('seed')")
    with Session(engine) as session:
        orders = [Order(item=str(n)) for n in range(100)]
        session.add_all(orders)
        session.commit()
        check(in_order([order.id for order in orders]), 'SQLAlchemy: 100 objects get IDs in order')
        check(session.scalar(select(func.count()).where(Order.id >= func.idgen_lower_bound(func.now() - sql("interval '1 hour'"), 'inv'))) == 101,
              'SQLAlchemy: idgen_lower_bound() finds the rows')
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={'compare_server_default': True, 'compare_type': True})
        found = compare_metadata(context, scope['Base'].metadata)
        check(found == [], 'Alembic: autogenerate sees no difference', found)


def try_django():
    import django

    project = os.path.join(directory, 'project')
    os.makedirs(os.path.join(project, 'shop', 'migrations'))

    def write(name, content):
        with open(os.path.join(project, name), 'w', encoding='utf-8') as file:
            file.write(content)

    write('shop/__init__.py', '')
    write('shop/migrations/__init__.py', '')
    write('shop/models.py', 'from django.db import models\n\n\n' + recipe('Django') +
          "\n\nclass Line(models.Model):\n    id = IdgenField(primary_key=True)\n    order = models.ForeignKey(Order, models.CASCADE)\n")
    operations = re.search(r'`operations = (\[CreateExtension.*?\])`', text).group(1)
    write('shop/migrations/0001_extension.py', 'from django.contrib.postgres.operations import CreateExtension\nfrom django.db import migrations\n\n\n'
          'class Migration(migrations.Migration):\n    operations = %s\n' % operations)
    write('shop/tests.py', '''
from django.test import TestCase, TransactionTestCase
from shop.models import Order

class Rolled(TestCase):
    def test_one(self):
        self.assertGreater(Order.objects.create(item="a").id, 2 ** 53)

class Truncated(TransactionTestCase):
    reset_sequences = True
    def test_one(self):
        self.assertGreater(Order.objects.create(item="a").id, 2 ** 53)
    def test_two(self):
        self.assertEqual(Order.objects.count(), 0)
''')
    write('settings.py', '''
SECRET_KEY = 'none'
INSTALLED_APPS = ['shop']
USE_TZ = True
DEFAULT_AUTO_FIELD = 'django.db.models.BigAutoField'
DATABASES = {'default': {'ENGINE': 'django.db.backends.postgresql', 'NAME': 'django', 'HOST': %r, 'PORT': %r, 'USER': %r}}
''' % (host, port, user))
    write('use.py', '''
import datetime, django
django.setup()
from django.db import models
from django.utils import timezone
from shop.models import Line, LowerBound, Order
orders = Order.objects.bulk_create(Order(item=str(n)) for n in range(100))
ids = [order.id for order in orders]
assert ids == sorted(set(ids)), ids
line = Line.objects.create(order=orders[0])
assert line.order_id == ids[0]
found = Order.objects.filter(id__gte=LowerBound(models.Value(timezone.now() - datetime.timedelta(minutes=1))))
assert found.count() == 101, found.count()
''')
    environment = dict(os.environ, DJANGO_SETTINGS_MODULE='settings', PYTHONPATH=project + ':' + os.environ.get('PYTHONPATH', ''))

    def run(name, *command):
        result = subprocess.run([sys.executable, *command], cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(result.returncode == 0, 'Django: ' + name, result.stdout)
        return result.stdout

    run('makemigrations', '-m', 'django', 'makemigrations', 'shop')
    write('shop/migrations/0003_seed.py', 'from django.db import migrations\n\n\nclass Migration(migrations.Migration):\n'
          "    dependencies = [('shop', %r)]\n    operations = [migrations.RunSQL(\"INSERT INTO shop_order (item) VALUES ('seed')\")]\n"
          % [name[:-3] for name in os.listdir(os.path.join(project, 'shop', 'migrations')) if name.startswith('0002')][0])
    run('migrate, with rows in a migration', '-m', 'django', 'migrate')
    run('objects, foreign keys and idgen_lower_bound()', 'use.py')
    run('makemigrations --check sees no difference', '-m', 'django', 'makemigrations', '--check', '--dry-run')
    models = run('inspectdb', '-m', 'django', 'inspectdb')
    check('Idgen' not in models and 'ShopOrder' in models, 'Django: inspectdb lists no table of idgen', models)
    run('the test runner', '-m', 'django', 'test')
    run('the test runner with databases in parallel', '-m', 'django', 'test', '--parallel', '2')


for packages, function in ((('asyncpg',), try_asyncpg), (('sqlalchemy', 'alembic', 'psycopg2'), try_sqlalchemy), (('django', 'psycopg2'), try_django)):
    if not have(*packages):
        continue
    try:
        function()
    except Exception:
        check(False, packages[0] + ' runs', traceback.format_exc())
