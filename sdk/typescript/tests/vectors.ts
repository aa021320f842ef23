import { readFileSync } from "node:fs";

const folder = new URL("../../../conformance/vectors/", import.meta.url);

/** Read a file of conformance/vectors. */
export function vectors<T>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`${name}.json`, folder), "utf8")) as T[];
}

/** Read a private key of the vectors. */
export function keyPem(name: string): string {
  return readFileSync(new URL(`keys/${name}.pem`, folder), "utf8");
}

export const KEY_NAMES = ["ed25519", "rsa-2048", "ecdsa-p256"] as const;
