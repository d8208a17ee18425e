// Reads tables with hyparquet (Parquet, by column name) and icebird (Iceberg, from the version hint down).
//
// stdin: one JSON object: {"base": address that serves files by their path,
//                          "tables": {name: {"files": [paths], "table": path of an Iceberg table, or absent}},
//                          "catalog": {"url": of an Iceberg REST catalog, "token": of a reader, or absent}, or absent}
// stdout: one JSON object a line:
//   {"reader", "table", "file", "row": {...}}        one row; a null column is left out
//   {"reader", "table", "file", "footer": {...}}     what hyparquet finds in a footer
//   {"reader", "table", "file", "error": "..."}      the file or the table cannot be read
//   {"reader", "catalog": {...}}                     what iceberg-js finds in a catalog
// Bytes are {"hex"}, times {"micros"}; numbers are written so that every bit survives.
import { writeSync } from 'node:fs'
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { IcebergError, IcebergRestCatalog } from 'iceberg-js'
import { icebergRead } from 'icebird'
import { uncompressed } from './avro.mjs'

let pending = []

function print(line) {
  pending.push(line)
  if (pending.length > 500) flush()
}

function flush() {
  let rest = Buffer.from(pending.map(line => line + '\n').join(''))
  pending = []
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest))
    } catch (err) {
      if (err.code !== 'EAGAIN') throw err
    }
  }
}

// encode is JSON.stringify that loses nothing: JSON.stringify writes -0 as 0 and cannot write a bigint.
function encode(value) {
  if (value === undefined || value === null) return 'null'
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'number') return Object.is(value, -0) ? '-0.0' : Number.isFinite(value) ? String(value) : JSON.stringify(String(value))
  if (value instanceof Date) return `{"micros":${value.getTime() * 1000}}`
  if (value instanceof Uint8Array) return `{"hex":"${Buffer.from(value).toString('hex')}"}`
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return '[' + Array.from(value, encode).join(',') + ']'
  if (typeof value === 'object') {
    const members = Object.entries(value).filter(([, v]) => v !== undefined && v !== null)
    return '{' + members.map(([k, v]) => JSON.stringify(k) + ':' + encode(v)).join(',') + '}'
  }
  return JSON.stringify(value)
}

// Times of microseconds keep them all: the parsers that come with the library cut them to milliseconds.
const parsers = { timestampFromMicroseconds: micros => ({ micros }) }

async function parquet(table, file) {
  const where = { reader: 'hyparquet', table, file }
  try {
    const buffer = await asyncBufferFromFile(file)
    const metadata = await parquetMetadataAsync(buffer)
    print(encode({ ...where, footer: footer(metadata) }))
    for (const row of await parquetReadObjects({ file: buffer, metadata, compressors, parsers })) print(encode({ ...where, row }))
  } catch (err) {
    print(encode({ ...where, error: String(err.message) }))
  }
}

function footer(metadata) {
  return {
    rows: metadata.num_rows,
    schema: metadata.schema.map(e => ({ name: e.name, id: e.field_id })),
    columns: metadata.row_groups.flatMap(g => g.columns.map(c => ({
      path: (c.meta_data.path_in_schema ?? []).join('.'),
      values: c.meta_data.num_values,
      bytes: c.meta_data.total_compressed_size,
      nulls: c.meta_data.statistics?.null_count,
    }))),
  }
}

async function iceberg(table, tableUrl, metadata) {
  const where = { reader: 'icebird', table }
  try {
    for (const row of await icebergRead({ tableUrl, metadata })) print(encode({ ...where, row }))
  } catch (err) {
    // A table without a row is an error to icebird.
    if (!/^No (current snapshot id|data manifest files) found/.test(err.message)) print(encode({ ...where, error: String(err.message) }))
  }
}

const chunks = []
for await (const chunk of process.stdin) chunks.push(chunk)
const { base, tables, catalog } = JSON.parse(Buffer.concat(chunks).toString())

// icebird fetches addresses; the tables name files.
const fetchAddress = globalThis.fetch
globalThis.fetch = async (url, init) => {
  const answer = await fetchAddress(base + encodeURI(String(url).replace(/^file:(\/\/)?/, '')), init)
  if (!answer.ok || !String(url).endsWith('.avro')) return answer
  return new Response(uncompressed(Buffer.from(await answer.arrayBuffer())))
}

// attach lists a catalog with iceberg-js, and reads its tables with icebird from the metadata that the catalog hands out.
async function attach({ url, token }) {
  const client = new IcebergRestCatalog({
    baseUrl: url, auth: token ? { type: 'bearer', token } : { type: 'none' }, fetch: fetchAddress, accessDelegation: ['vended-credentials'],
  })
  const namespaces = await client.listNamespaces()
  const names = await client.listTables({ namespace: ['sluice'] })
  const rejected = await client.createNamespace({ namespace: ['other'] }).then(() => 'nothing', err => err instanceof IcebergError ? err.status : String(err))
  print(encode({
    reader: 'iceberg-js', catalog: {
      namespaces: namespaces.map(n => n.namespace.join('.')), tables: names.map(n => n.name), rejected,
      exists: await client.tableExists({ namespace: ['sluice'], name: 'events' }), missing: await client.tableExists({ namespace: ['sluice'], name: 'nothing' }),
    },
  }))
  for (const { name } of names) {
    const metadata = await client.loadTable({ namespace: ['sluice'], name })
    await iceberg(name, metadata.location, metadata)
  }
}

if (catalog) await attach(catalog)
for (const [name, { files, table }] of Object.entries(tables ?? {})) {
  for (const file of files ?? []) await parquet(name, file)
  if (table) await iceberg(name, table)
}
flush()
