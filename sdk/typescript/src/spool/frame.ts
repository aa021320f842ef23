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

/** Return the data of the frames up to the first that is damaged, and whether all were whole. */
export function framesOf(bytes: Buffer): { frames: Uint8Array[]; isWhole: boolean } {
  const frames: Uint8Array[] = [];
  let position = 0;
  while (position + HEAD_BYTES <= bytes.length) {
    const end = position + HEAD_BYTES + bytes.readUInt32BE(position);
    const data = bytes.subarray(position + HEAD_BYTES, end);
    if (end > bytes.length || crc32(data) !== bytes.readUInt32BE(position + 4)) break;
    frames.push(data);
    position = end;
  }
  return { frames, isWhole: position === bytes.length };
}
