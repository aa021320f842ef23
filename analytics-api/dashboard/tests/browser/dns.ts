// A DNS server with the TXT records that a test publishes.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

const HEAD_BYTES = 12;

export interface Dns {
  address: string;
  /** TXT records by their names. */
  records: Map<string, string>;
  close: () => void;
}

export async function dns(): Promise<Dns> {
  const records = new Map<string, string>();
  const socket = createSocket('udp4');
  socket.on('message', (query, from) => socket.send(answer(query, records), from.port, from.address));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const { address, port } = socket.address() as AddressInfo;
  return { address: `${address}:${port}`, records, close: () => socket.close() };
}

/** The answer to a query with one question (RFC 1035): the record, or that no such name is. */
function answer(query: Buffer, records: Map<string, string>): Buffer {
  const labels: string[] = [];
  let at = HEAD_BYTES;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  const question = query.subarray(HEAD_BYTES, at + 5);
  const text = records.get(labels.join('.').toLowerCase());
  const head = Buffer.alloc(HEAD_BYTES);
  query.copy(head, 0, 0, 2);
  // A response, recursion available; NXDOMAIN without a record.
  head.writeUInt16BE(0x8180 | (text === undefined ? 3 : 0), 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(text === undefined ? 0 : 1, 6);
  if (text === undefined) return Buffer.concat([head, question]);
  const data = Buffer.concat([Buffer.from([text.length]), Buffer.from(text, 'latin1')]);
  // The question's name, TXT, IN, no time to live.
  const record = Buffer.from([0xc0, HEAD_BYTES, 0, 16, 0, 1, 0, 0, 0, 0, 0, data.length]);
  return Buffer.concat([head, question, record, data]);
}
