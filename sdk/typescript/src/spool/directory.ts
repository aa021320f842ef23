import { open } from "node:fs/promises";

/** Flush a directory's entries to the disk. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Return the code of a file system's error, such as `ENOENT`. */
export function errorCode(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
