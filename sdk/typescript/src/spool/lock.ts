// The lock of a slot: a socket that a process listens at, so that it ends with the process.
//
// Node has no flock. A process number in a file would be ambiguous between containers, and between
// two clients of one process.

import type { Server } from "node:net";
import { connect, createServer } from "node:net";

import { SpoolError } from "../errors.js";
import { errorCode } from "./directory.js";

const NAME = "lock";
// The least that systems take in sun_path, without its last zero.
const PATH_BYTES_MAX = 103;

/** Lock a slot until the server is closed, or the process ends. */
export async function lock(slot: string): Promise<Server> {
  const path = `${slot}/${NAME}`;
  const bytes = Buffer.byteLength(path);
  if (bytes > PATH_BYTES_MAX) {
    throw new SpoolError(
      `spoolDir is ${bytes - PATH_BYTES_MAX} bytes too long for the path of a socket`,
    );
  }
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    // Exclusive, or the primary process of a cluster would listen, and outlive this one.
    server.listen({ path, exclusive: true }, resolve);
  });
  server.on("error", () => {});
  return server.unref();
}

/** Return whether a process has the lock of a slot. */
export async function isLocked(slot: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(`${slot}/${NAME}`);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    // Any other error, such as a lack of rights, isn't a proof that nobody listens.
    socket.once("error", (error) =>
      resolve(!["ECONNREFUSED", "ENOENT"].includes(errorCode(error) ?? "")),
    );
  });
}
