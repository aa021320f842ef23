// An identity provider on a port of its own, by HTTPS, and a person who signs in there.
//   node provider.mjs KEY CERTIFICATE REDIRECT_URI CLIENT_SECRET
// Writes its issuer. Then each line of standard input is the URL of an authorization request: it
// signs in as anna, agrees, and writes the URL to which the provider sends the browser back. The
// provider keeps anna signed in, as far as a request allows. Ends with its standard input.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

// What it says of settings for production.
console.info = console.warn = () => {};

const [key, certificate, redirectUri, secret] = process.argv.slice(2);
let answer = null;
const server = createServer({ key: readFileSync(key), cert: readFileSync(certificate) }, (request, response) =>
  answer(request, response),
);
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const issuer = `https://127.0.0.1:${server.address().port}`;

const person = { email: 'anna@news.example', email_verified: true, name: 'Anna' };
const client = {
  client_id: 'receipts',
  client_secret: secret,
  redirect_uris: [redirectUri],
  // Of a native one, a loopback redirect may have any port (RFC 8252, section 7.3).
  application_type: redirectUri.startsWith('http:') ? 'native' : 'web',
  response_types: ['code'],
  grant_types: ['authorization_code'],
};
const provider = new Provider(issuer, {
  clients: [client],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  conformIdTokenClaims: false,
  cookies: { keys: ['a key of tests'] },
  features: { devInteractions: { enabled: true } },
  findAccount: (_context, sub) => ({ accountId: sub, claims: async () => ({ sub, ...person }) }),
  pkce: { required: () => true, methods: ['S256'] },
});
answer = provider.callback();

const cookies = new Map();

async function signIn(start) {
  let [url, form] = [start, null];
  for (let steps = 0; steps < 20; steps++) {
    if (!url.startsWith(`${issuer}/`)) return url;
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, {
      method: form ? 'POST' : 'GET',
      body: form,
      headers: { cookie, accept: 'text/html' },
      redirect: 'manual',
    });
    for (const line of response.headers.getSetCookie()) {
      const [name, value] = line.split(';')[0].split(/=(.*)/s);
      if (value) cookies.set(name, value);
      else cookies.delete(name);
    }
    const location = response.headers.get('location');
    if (location) {
      [url, form] = [new URL(location, url).href, null];
      continue;
    }
    const page = await response.text();
    const action = /<form[^>]* action="([^"]+)"/.exec(page);
    if (!action) return `error: ${response.status} ${page.replaceAll(/\s+/g, ' ').slice(0, 500)}`;
    const isLogin = page.includes('name="login"');
    url = new URL(action[1], url).href;
    form = new URLSearchParams(isLogin ? { prompt: 'login', login: 'anna', password: 'any' } : { prompt: 'consent' });
  }
  return 'error: it has no end';
}

console.log(issuer);
for await (const line of createInterface({ input: process.stdin })) console.log(await signIn(line));
process.exit();
