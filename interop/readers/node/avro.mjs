// Rewrites an Avro file without compression.
//
// hyparquet-compressors, up to 1.1.2, restarts at the beginning of a raw deflate stream when it has reached the end, until
// the output is full. A stored block then ends in "offset is out of bounds". Go's deflate ends every stream with a stored
// block, so icebird cannot read what Go compressed; node's zlib can.
import { inflateRawSync } from 'node:zlib'

export function uncompressed(file) {
  let at = 4 // magic
  const long = () => {
    let n = 0n, shift = 0n, byte
    do {
      byte = file[at++]
      n |= BigInt(byte & 0x7f) << shift
      shift += 7n
    } while (byte & 0x80)
    return Number(n >> 1n ^ -(n & 1n))
  }
  const bytes = () => {
    const length = long()
    at += length
    return file.subarray(at - length, at)
  }
  const members = []
  for (let count = long(); count !== 0; count = long()) {
    if (count < 0) {
      long() // size of the block
      count = -count
    }
    for (; count > 0; count--) members.push([bytes().toString(), bytes()])
  }
  const codec = members.find(([name]) => name === 'avro.codec')
  if (!codec || codec[1].toString() === 'null') return file
  if (codec[1].toString() !== 'deflate') throw new Error(`avro codec ${codec[1]}`)
  codec[1] = Buffer.from('null')
  const sync = file.subarray(at, at + 16)
  at += 16
  const out = [file.subarray(0, 4), zigzag(members.length)]
  for (const [name, value] of members) out.push(zigzag(Buffer.byteLength(name)), Buffer.from(name), zigzag(value.length), value)
  out.push(zigzag(0), sync)
  while (at < file.length) {
    const count = long()
    const data = inflateRawSync(bytes())
    at += 16 // sync
    out.push(zigzag(count), zigzag(data.length), data, sync)
  }
  return Buffer.concat(out)
}

function zigzag(n) {
  const out = []
  let rest = n >= 0 ? n * 2 : -n * 2 - 1
  for (; rest >= 0x80; rest = Math.floor(rest / 128)) out.push(rest % 128 | 0x80)
  out.push(rest)
  return Buffer.from(out)
}
