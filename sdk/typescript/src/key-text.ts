// Texts that programs have for keys, and what to do with those that aren't usable.

import { KeyError } from "./errors.js";
import type { PublicKey } from "./key.js";
import { fromPem, MAKE_KEY, privateKeyAlgorithm, publicKeyOf } from "./key.js";

const EXPORT_PUBLIC =
  "`openssl pkey -in client.key -pubout` writes the public half of a private key";

// What to do with PEMs of other labels.
const PRIVATE_ADVICE: Readonly<Record<string, string>> = {
  "EC PARAMETERS": "convert it with `openssl pkcs8 -topk8 -nocrypt -in client.key`",
  "EC PRIVATE KEY": "convert it with `openssl pkcs8 -topk8 -nocrypt -in client.key`",
  "RSA PRIVATE KEY": "convert it with `openssl pkcs8 -topk8 -nocrypt -in client.key`",
  "ENCRYPTED PRIVATE KEY":
    "decrypt it with `openssl pkcs8 -in client.key`, or give its passphrase on Node",
};
const PUBLIC_ADVICE: Readonly<Record<string, string>> = {
  "RSA PUBLIC KEY": "convert it with `openssl rsa -RSAPublicKey_in -in public.key -pubout`",
  CERTIFICATE: "`openssl x509 -pubkey -noout -in certificate.pem` writes its key",
};

/** Return a PEM with line ends: environment variables may have `\n` written for them. */
export function unescaped(pem: string): string {
  return pem.includes("\n") ? pem : pem.replace(/(?:\\r)?\\n/g, "\n");
}

/** Return the DER of a private key in PKCS#8 PEM. Throws `KeyError`, which says what to do. */
export function privateKeyDer(pem: string): Uint8Array {
  return withAdvice(pem, "PRIVATE KEY", PRIVATE_ADVICE, MAKE_KEY, (text) => {
    const der = fromPem(text, "PRIVATE KEY");
    privateKeyAlgorithm(der);
    return der;
  });
}

/** Return the error for a private key that can't be imported. OpenSSL's texts explain nothing. */
export function unusablePrivateKey(cause: unknown): KeyError {
  return new KeyError(`the private key can't be read, or isn't PKCS#8: ${MAKE_KEY}`, { cause });
}

/** Return the public key of a signer elsewhere. Throws `KeyError`, which says what to do. */
export function signersPublicKey(pem: string): PublicKey {
  return withAdvice(pem, "PUBLIC KEY", PUBLIC_ADVICE, EXPORT_PUBLIC, publicKeyOf);
}

function withAdvice<T>(
  pem: string,
  wanted: string,
  advice: Readonly<Record<string, string>>,
  otherwise: string,
  read: (text: string) => T,
): T {
  const text = typeof pem === "string" ? unescaped(pem).trim() : "";
  const label = /^-----BEGIN ([A-Z0-9 ]+)-----/.exec(text)?.[1] ?? "";
  if (label && label !== wanted) {
    throw new KeyError(`the key is a ${label}, not a ${wanted}: ${advice[label] ?? otherwise}`);
  }
  try {
    return read(text);
  } catch (error) {
    if (!(error instanceof KeyError) || error.message.includes("openssl")) throw error;
    throw new KeyError(`${error.message}: ${otherwise}`, { cause: error });
  }
}
