#!/usr/bin/env bash
# pglite-socket runs the SQL of one client with the parameters of another one.
#
# The server of PGlite's socket takes several clients with --max-connections, and says that it queues their queries. A
# good guess says: one session for all, so settings and names are shared, but a query with its parameters is one step.
# It queues the messages of the protocol instead. A query with parameters is several: Parse, Bind, Execute. If they come
# in more than one piece of TCP, as those of 300 kB do, the Parse of another client gets in between. Then Bind and
# Execute use the statement of the other client: an answer to a question that nobody asked, and no error. With other
# numbers of parameters it is error 08P01, and after an end of a transaction 34000, portal "" does not exist. Inside of
# a transaction, begun by a BEGIN without parameters, all is well.
#
# Seen with @electric-sql/pglite 0.5.14, @electric-sql/pglite-socket 0.2.17 and pg 8.16.3 on Node 20, four clients:
#
#     asked for large, got small            (2 to 4 of 800)
#     in transactions: every answer is right
#
# Needs Node 20, npm and its registry. Fails if the behaviour has changed.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-fund --no-audit --ignore-scripts \
  @electric-sql/pglite@0.5.14 @electric-sql/pglite-socket@0.2.17 pg@8.16.3 >/dev/null

cat >mixed.mjs <<'JS'
import net from 'node:net'
import { PGlite } from '@electric-sql/pglite'
import { PGLiteSocketServer } from '@electric-sql/pglite-socket'
import pg from 'pg'

const port = await new Promise((done) => {
  const probe = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = probe.address()
    probe.close(() => done(port))
  })
})
const server = new PGLiteSocketServer({ db: await PGlite.create(), port, host: '127.0.0.1', maxConnections: 10 })
await server.start()
const clients = []
for (let i = 0; i < 4; i++) {
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' })
  await client.connect()
  clients.push(client)
}

/** How many answers have the SQL of another client. */
async function wrong(inTransaction) {
  let others = 0
  await Promise.all(clients.map(async (client, number) => {
    const kind = number % 2 ? 'small' : 'large'
    const size = number % 2 ? 1 : 300000
    for (let i = 0; i < 200; i++) {
      const who = `client ${number}, query ${i}`
      if (inTransaction) await client.query('BEGIN')
      const { rows } = await client.query(`SELECT '${kind}' AS kind, $1::text AS who, length($2::text) AS size`,
        [who, 'x'.repeat(size)])
      if (inTransaction) await client.query('COMMIT')
      if (rows[0].who !== who || rows[0].size !== size) throw new Error('a parameter of another client')
      if (rows[0].kind !== kind) others++
    }
  }))
  return others
}

const alone = await wrong(false)
const together = await wrong(true)
console.log(`asked for large, got small: ${alone} of 800; in transactions: ${together} of 800`)
process.exit(alone > 0 && together === 0 ? 0 : 1)
JS
if ! node mixed.mjs; then
  echo "the behaviour has changed" >&2
  exit 1
fi
