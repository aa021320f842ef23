// Frames: a length and a CRC-32, both of four bytes and big-endian, and the data.

import { crc32 } from "node:zlib";

const HEAD_BYTES = 8;

/** Return data as a frame. */
export function frame(data: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + data.length);
  bytes.writeUInt32BE(data.length, 0);
  bytes.writeUInt32BE(crc32(data), 4);
  bytes.set(data, HEAD_BYTES);
  return bytes;
}

/** Return the data of all whole frames, and the runs of bytes between them that are none. */
export function framesOf(bytes: Buffer): { frames: Uint8Array[]; damaged: Uint8Array[] } {
  const frames: Uint8Array[] = [];
  const damaged: Uint8Array[] = [];
  let runStart = 0;
  for (let position = 0; position < bytes.length; ) {
    const data = dataAt(bytes, position);
    if (!data) {
      position++;
      continue;
    }
    if (runStart < position) damaged.push(bytes.subarray(runStart, position));
    frames.push(data);
    position += HEAD_BYTES + data.length;
    runStart = position;
  }
  if (runStart < bytes.length) damaged.push(bytes.subarray(runStart));
  return { frames, damaged };
}

function dataAt(bytes: Buffer, position: number): Uint8Array | undefined {
  const start = position + HEAD_BYTES;
  if (start > bytes.length) return undefined;
  const end = start + bytes.readUInt32BE(position);
  // A file system may fill a file with zeros that a crash cut off: that is no empty frame.
  if (end === start || end > bytes.length) return undefined;
  const data = bytes.subarray(start, end);
  return crc32(data) === bytes.readUInt32BE(position + 4) ? data : undefined;
}
